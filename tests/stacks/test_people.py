"""What people do to branches and pull requests: nothing of theirs is overwritten, nothing of ours is stranded."""

from dataclasses import replace
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from db.feature import BatchStatus, FeatureStatus
from tests.agents import Crew, diligent
from tests.builds import batches, build, chain, features
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke
from tests.reviews import Reviewer, sync
from tests.stacks.conftest import Stack
from tests.stacks.scene import Person, by_feature, check


def test_s5_children_of_a_closed_parent_wait_and_follow_the_next_try_without_its_commits(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path, clone: Path
) -> None:
    project = stack(*chain("One", "Two"))
    before = by_feature(project)
    reviewer.edit(before[1].pr_number, state="closed")
    notes = sync(project)[1]
    assert any(f"#{before[2].pr_number} ({before[2].branch}) waits for #1" in note for note in notes)
    assert by_feature(project)[2] == before[2]
    assert invoke(clone, "features", "retry", "1").code == 0
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    check(project, forged, origin)
    after = by_feature(project)
    assert after[1].branch != before[1].branch
    assert after[2].base_branch == after[1].branch
    assert before[1].head_sha not in run("git", "rev-list", after[2].branch, cwd=origin).split()
    assert run("git", "rev-parse", before[1].branch, cwd=origin) == before[1].head_sha


def test_what_was_merged_into_a_join_gets_a_pull_request_of_its_own(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    from tests.stacks.test_upkeep import DIAMOND

    project = stack(*DIAMOND)
    before = by_feature(project)
    number = before[4].pr_number or 0
    forged.pulls[number] = replace(forged.pulls[number], draft=False)
    reviewer.merge(number)
    left, notes = sync(project)
    assert left == 0, notes
    assert any("its commits get a new pull request" in note for note in notes)
    check(project, forged, origin)
    after = by_feature(project)[4]
    assert (after.branch, after.status) == (f"{before[4].branch}-2", BatchStatus.OPENED)
    assert after.pr_number != before[4].pr_number
    assert [f.branch_name for f in features(project)][3] == after.branch
    assert sync(project) == (0, [])


@pytest.mark.parametrize("deleted", [False, True])
def test_what_was_merged_into_the_branch_of_a_parent_that_was_merged_before_is_not_stranded(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path, deleted: bool
) -> None:
    project = stack(*chain("One", "Two"))
    one, two = by_feature(project)[1], by_feature(project)[2]
    reviewer.merge(one.pr_number, "squash")
    reviewer.merge(two.pr_number, "squash")
    if deleted:
        reviewer.delete_branch(one.branch)
    assert sync(project)[0] == 0
    check(project, forged, origin)
    assert [by_feature(project)[n].status for n in (1, 2)] == [BatchStatus.MERGED, BatchStatus.OPENED]
    assert by_feature(project)[2].base_branch == "main"


@pytest.mark.parametrize("by_itself", [False, True])
@pytest.mark.parametrize("retargets", [False, True])
def test_a_child_whose_base_was_deleted_comes_back(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path, retargets: bool, by_itself: bool
) -> None:
    """The repository retargets the children of a deleted branch, or closes them; it or a person has deleted it."""
    forged.retarget_on_base_delete, forged.delete_branch_on_merge = retargets, by_itself
    project = stack(*chain("One", "Two", "Three"))
    before = by_feature(project)
    reviewer.merge(before[1].pr_number, "squash")
    if not by_itself:
        reviewer.delete_branch(before[1].branch)
    assert forged.pulls[before[2].pr_number or 0].state == ("open" if retargets else "closed")
    left, notes = sync(project)
    assert left == 0
    assert any("it is open again" in note for note in notes) == (not retargets)
    check(project, forged, origin)
    after = by_feature(project)
    assert [after[n].pr_number for n in (2, 3)] == [before[n].pr_number for n in (2, 3)]
    assert forged.pulls[after[2].pr_number or 0].base == "main"
    there = run("git", "branch", "--format=%(refname:short)", cwd=origin).split()
    assert sorted(there) == sorted(["main", after[2].branch, after[3].branch])
    assert sync(project) == (0, [])


def test_a_join_that_was_deleted_is_put_back(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    from tests.stacks.test_upkeep import DIAMOND

    project = stack(*DIAMOND)
    bottom = by_feature(project)[4]
    reviewer.delete_branch(bottom.base_branch or "")
    assert forged.pulls[bottom.pr_number or 0].state == "closed"
    assert sync(project)[0] == 0
    check(project, forged, origin)
    assert by_feature(project)[4].pr_number == bottom.pr_number


def test_a_child_that_cannot_be_reopened_stays_closed_and_says_why(
    stack: Stack, forged: Repository, reviewer: Reviewer, person: Person, origin: Path
) -> None:
    project = stack(*chain("One", "Two"))
    one, two = by_feature(project)[1], by_feature(project)[2]
    reviewer.merge(one.pr_number, "squash")
    reviewer.delete_branch(one.branch)
    theirs = person.adds(two.branch, {"src/by-hand.txt": "x\n"})
    notes = sync(project)[1]
    assert any(f"#{two.pr_number}" in note and "not opened again" in note for note in notes)
    assert by_feature(project)[2].status is BatchStatus.CLOSED
    assert run("git", "rev-parse", two.branch, cwd=origin) == theirs
    assert one.branch not in run("git", "branch", cwd=origin)


def test_what_was_merged_into_its_parents_branch_gets_to_the_target_with_it(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(*chain("One", "Two", "Three"))
    before = by_feature(project)
    sha = reviewer.merge(before[2].pr_number, "squash")
    assert sync(project)[0] == 0
    after = by_feature(project)
    assert (after[2].status, after[1].head_sha, after[3].base_branch) == (
        BatchStatus.FOLDED,
        sha,
        before[1].branch,
    )
    check(project, forged, origin, besides={before[1].branch: ["src/f2.txt"]})
    reviewer.merge(before[1].pr_number, "squash")
    assert sync(project)[0] == 0
    check(project, forged, origin)
    assert by_feature(project)[3].base_branch == "main"


def test_a_child_that_is_merged_before_its_parent_takes_it_along_and_the_reviewer_is_told(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(*chain("One", "Two", "Three"))
    one, two = by_feature(project)[1], by_feature(project)[2]
    reviewer.edit(two.pr_number, base="main")
    reviewer.merge(two.pr_number, "squash")
    left, notes = sync(project)
    assert left == 0
    assert any(f"everything in {one.branch} is in main already, with {two.branch}" in note for note in notes)
    after = by_feature(project)
    assert [after[n].status for n in (1, 2, 3)] == [
        BatchStatus.OPENED,
        BatchStatus.MERGED,
        BatchStatus.OPENED,
    ]
    assert after[3].base_branch == "main"
    check(project, forged, origin)


def test_a_branch_that_is_pushed_to_at_the_same_moment_is_not_overwritten(
    stack: Stack, reviewer: Reviewer, person: Person, forged: Repository, origin: Path, clone: Path
) -> None:
    """A hook of the checkout pushes a person's commit just before ours arrives."""
    project = stack(*chain("One", "Two"))
    two = by_feature(project)[2]
    reviewer.merge(by_feature(project)[1].pr_number, "squash")
    theirs = person.adds(two.branch, {"src/by-hand.txt": "x\n"})
    run("git", "update-ref", f"refs/heads/{two.branch}", str(two.head_sha), cwd=origin)
    hook = clone / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\nexec git -C {origin} update-ref refs/heads/{two.branch} {theirs}\n")
    hook.chmod(0o755)
    left, notes = sync(project)
    assert left == 1
    assert any("Somebody else pushed to it" in note for note in notes), notes
    assert run("git", "rev-parse", two.branch, cwd=origin) == theirs
    hook.unlink()
    assert sync(project)[0] == 0
    check(project, forged, origin, besides={two.branch: ["src/by-hand.txt"]})


def test_a_parent_without_work_on_the_forge_comes_back_when_it_is_reopened(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(*chain("One", "Two"))
    one = by_feature(project)[1]
    reviewer.edit(one.pr_number, state="closed")
    sync(project)
    reviewer.edit(one.pr_number, state="open")
    assert sync(project) == (0, [])
    check(project, forged, origin)
    assert all(f.status is FeatureStatus.PASSED for f in features(project))


def test_local_branches_go_only_with_what_is_merged(
    stack: Stack, forged: Repository, reviewer: Reviewer, clone: Path
) -> None:
    project = stack(*chain("One", "Two"))
    one, two = by_feature(project)[1], by_feature(project)[2]
    run("git", "checkout", "-q", two.branch, cwd=clone)
    reviewer.merge(one.pr_number, "squash")
    notes = sync(project)[1]
    assert any(f"{two.branch} is checked out in {clone}" in note for note in notes)
    here = run("git", "branch", "--format=%(refname:short)", cwd=clone).split()
    assert set(here) == {"main", two.branch}
    assert run("git", "rev-parse", "HEAD", cwd=clone) == two.head_sha
    assert run("git", "status", "--porcelain", cwd=clone) == ""
    assert all(b.worktree_path is None for b in batches(project))


@pytest.mark.parametrize("wanted", [False, True])
def test_a_merged_branch_is_deleted_on_the_remote_when_that_is_wanted(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path, github: ValidatingGitHub, wanted: bool
) -> None:
    project = stack(*chain("One", "Two"), pr__delete_branch=wanted)
    reviewer.merge(by_feature(project)[1].pr_number, "squash")
    assert sync(project)[0] == 0
    check(project, forged, origin)
    there = run("git", "branch", "--format=%(refname:short)", cwd=origin).split()
    assert (by_feature(project)[1].branch in there) == (not wanted)
    assert TOKEN not in str(github.violations)
