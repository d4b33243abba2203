"""What people did to pull requests, learnt from the forge, and what is built on it afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from autoforge.project import Project
from autoforge.reconcile import Merge, Verdict, judge, next_name
from db.feature import Batch, BatchStatus, NewFeature, PrStatus
from git_workflow import github as forge_client
from git_workflow.errors import GitWorkflowError
from git_workflow.forge import PullRequest
from tests.agents import Crew, diligent
from tests.builds import add, batches, build, chain
from tests.conftest import TOKEN, run
from tests.harness.github import Fault, ValidatingGitHub
from tests.reviews import Reviewer, sync
from tests.values import batch

Opened = Callable[..., Project]
OPEN, MERGED, FOLDED, CLOSED = BatchStatus.OPENED, BatchStatus.MERGED, BatchStatus.FOLDED, BatchStatus.CLOSED


@pytest.fixture
def online(
    opened: Opened, forged: Repository, github: ValidatingGitHub, monkeypatch: pytest.MonkeyPatch
) -> Opened:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)

    def open_(**flags: object) -> Project:
        return opened(token=TOKEN, api_url=github.url, **{"batch_size": 1, **flags})

    return open_


@pytest.fixture
def reviewer(github: ValidatingGitHub) -> Reviewer:
    return Reviewer(github)


def by_feature(project: Project) -> dict[int, Batch]:
    return {b.feature_ids[0]: b for b in batches(project)}


def files(branch: str | None, folder: Path) -> list[str]:
    return run("git", "ls-tree", "-r", "--name-only", branch or "", "src/", cwd=folder).split()


TARGET, PARENT, OURS, ELSEWHERE = (
    Merge(in_target=True),
    Merge(in_parent=True, ours=True),
    Merge(ours=True),
    Merge(),
)


@pytest.mark.parametrize(
    ("state", "draft", "merged", "merge", "status", "pr_status", "noted"),
    [
        ("open", False, False, ELSEWHERE, OPEN, PrStatus.OPEN, False),
        ("open", True, False, ELSEWHERE, OPEN, PrStatus.DRAFT, False),
        ("closed", False, False, ELSEWHERE, CLOSED, PrStatus.CLOSED, True),
        ("closed", False, True, TARGET, MERGED, PrStatus.MERGED, False),
        ("closed", False, True, PARENT, FOLDED, PrStatus.MERGED, True),
        ("closed", False, True, OURS, BatchStatus.BUILT, PrStatus.MERGED, True),
        ("closed", False, True, ELSEWHERE, OPEN, PrStatus.MERGED, True),
    ],
)
def test_the_decision_table(
    state: str,
    draft: bool,
    merged: bool,
    merge: Merge,
    status: BatchStatus,
    pr_status: PrStatus,
    noted: bool,
) -> None:
    sha = "m" * 40 if merged else None
    pull = PullRequest(3, "url", state, draft, merged, "autoforge/k", "h", "base", "t", "b", sha)
    for before in (OPEN, CLOSED):
        verdict = judge(batch("k", 1, status=before), pull, merge)
        repeated = before is status is CLOSED
        again = status is BatchStatus.BUILT
        assert verdict == Verdict(status, pr_status, None if again else sha, verdict.note, again)
        assert bool(verdict.note) == (noted and not repeated)


@pytest.mark.parametrize(
    ("branch", "next_one"),
    [
        ("autoforge/add-k3y9ab", "autoforge/add-k3y9ab-2"),
        ("autoforge/add-k3y9ab-2", "autoforge/add-k3y9ab-3"),
        ("autoforge/add-2-k3y9ab", "autoforge/add-2-k3y9ab-2"),
    ],
)
def test_what_is_published_again_gets_a_name_of_its_own(branch: str, next_one: str) -> None:
    assert next_name(branch) == next_one


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_s7_a_merge_of_any_kind_is_recorded_and_what_comes_next_starts_from_the_target(
    online: Opened, forged: Repository, reviewer: Reviewer, origin: Path, how: str
) -> None:
    project = online()
    add(project, NewFeature("First"))
    build(project, Crew(diligent), auto_pr=True)
    sha = reviewer.merge(batches(project)[0].pr_number, how)
    add(project, NewFeature("Second", existing=(1,)))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    first, second = by_feature(project)[1], by_feature(project)[2]
    assert (first.status, first.pr_status, first.merge_sha) == (MERGED, PrStatus.MERGED, sha)
    assert (second.base_branch, second.base_sha, second.parents) == ("main", sha, ())
    assert forged.pulls[second.pr_number or 0].base == "main"
    assert files(second.branch, origin) == ["src/f1.txt", "src/f2.txt"]


def test_half_a_merged_diamond_is_built_on_a_join_of_the_target_and_the_other_half(
    online: Opened, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = online()
    add(project, NewFeature("Left"), NewFeature("Right"))
    build(project, Crew(diligent), auto_pr=True)
    left, right = by_feature(project)[1], by_feature(project)[2]
    sha = reviewer.merge(left.pr_number, "squash")
    add(project, NewFeature("Bottom", existing=(1, 2)))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    bottom = by_feature(project)[3]
    assert [p.key for p in bottom.parents] == [right.key]
    parents = run("git", "log", "-1", "--format=%P", bottom.base_branch or "", cwd=origin).split()
    assert set(parents) == {sha, right.head_sha}
    assert files(bottom.branch, origin) == ["src/f1.txt", "src/f2.txt", "src/f3.txt"]
    assert forged.pulls[bottom.pr_number or 0].draft


def test_s5_a_closed_parent_makes_its_children_wait_until_it_is_reopened(
    online: Opened, forged: Repository, reviewer: Reviewer
) -> None:
    project = online()
    add(project, *chain("First", "Second"))
    build(project, Crew(diligent), auto_pr=True)
    first, second = by_feature(project)[1], by_feature(project)[2]
    reviewer.edit(first.pr_number, state="closed")
    add(project, NewFeature("Third", existing=(1,)))
    crew = Crew(diligent)
    shown: list[str] = []
    ended = build(project, crew, auto_pr=True, show=lambda event: shown.append(event.text))
    assert ended.exit_code == 1
    assert "closed unmerged" in ended.blocked[3]
    assert any(f"#{first.pr_number}" in text and "closed unmerged" in text for text in shown)
    waits = (
        f"#{second.pr_number} ({second.branch}) waits for #1, which passed, but its pull request was closed"
    )
    assert any(waits in text for text in shown)
    assert not any("baseline" in text for text in shown)
    assert crew.sessions == []
    assert [waits in text for text in sync(project)[1]] == [True]
    reviewer.edit(first.pr_number, state="open")
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    assert by_feature(project)[3].base_branch == first.branch


def test_a_child_merged_into_its_parents_branch_lives_on_there(
    online: Opened, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    """On the forge the parent's branch has moved: what depends on the child is built on that."""
    project = online()
    add(project, *chain("First", "Second"))
    build(project, Crew(diligent), auto_pr=True)
    first, second = by_feature(project)[1], by_feature(project)[2]
    sha = reviewer.merge(second.pr_number, "squash")
    add(project, NewFeature("Third", existing=(2,)))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    third = by_feature(project)[3]
    assert by_feature(project)[2].status is FOLDED
    assert (third.base_branch, third.base_sha) == (first.branch, sha)
    assert files(third.branch, origin) == ["src/f1.txt", "src/f2.txt", "src/f3.txt"]
    reviewer.merge(first.pr_number)
    sync(project)
    assert by_feature(project)[1].status is MERGED
    assert forged.pulls[third.pr_number or 0].base == by_feature(project)[3].base_branch == "main"


def test_one_pull_request_that_is_gone_does_not_hide_the_others(
    online: Opened, forged: Repository, reviewer: Reviewer, github: ValidatingGitHub
) -> None:
    project = online()
    add(project, NewFeature("First"), NewFeature("Second"))
    build(project, Crew(diligent), auto_pr=True)
    first, second = batches(project)
    reviewer.merge(second.pr_number)
    reviewer.edit(first.pr_number, state="closed")
    github.faults.append(Fault("GET", f"/repos/octo/app/pulls/{first.pr_number}", 404))
    left, notes = sync(project)
    assert left == 0
    assert any(f"#{first.pr_number}" in note and "404" in note for note in notes)
    assert [b.status for b in batches(project)] == [OPEN, MERGED]


def test_a_forge_that_cannot_be_reached_is_a_clear_error_where_it_is_needed(
    online: Opened, forged: Repository, github: ValidatingGitHub
) -> None:
    project = online()
    add(project, NewFeature("First"))
    build(project, Crew(diligent), auto_pr=True)
    github.faults.append(Fault("GET", "/repos/.*", 503, times=9))
    with pytest.raises(GitWorkflowError, match="GitHub has trouble"):
        sync(project)
