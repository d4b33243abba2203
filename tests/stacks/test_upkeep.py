"""Stacks after their pull requests are open: whatever happens below, each branch follows and shows its own change."""

from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from db.feature import BatchStatus, NewFeature
from tests.agents import Agent, Crew, diligent
from tests.builds import add, build, chain
from tests.conftest import run
from tests.reviews import Reviewer, sync
from tests.stacks.conftest import Opened, Stack
from tests.stacks.scene import Person, by_feature, check

DIAMOND = (
    NewFeature("Top"),
    NewFeature("Left", depends_on=(0,)),
    NewFeature("Right", depends_on=(0,)),
    NewFeature("Bottom", depends_on=(1, 2)),
)


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_s3_a_chain_of_five_follows_when_its_first_is_merged(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path, how: str
) -> None:
    project = stack(*chain("One", "Two", "Three", "Four", "Five"))
    before = by_feature(project)
    sha = reviewer.merge(before[1].pr_number, how)
    left, _ = sync(project)
    assert left == 0
    check(project, forged, origin)
    after = by_feature(project)
    assert (after[1].status, after[1].merge_sha) == (BatchStatus.MERGED, sha)
    assert [after[n].base_branch for n in (2, 3, 4, 5)] == ["main", *(after[n].branch for n in (2, 3, 4))]
    assert [after[n].parents[0].tip for n in (3, 4, 5)] == [after[n].head_sha for n in (2, 3, 4)]
    assert (after[2].parents, after[2].head_sha == before[2].head_sha) == ((), how == "merge")
    assert len(forged.pulls) == 5
    for n in (2, 3, 4, 5):
        body = forged.pulls[after[n].pr_number or 0].body or ""
        assert f"Last verified on commit {(after[n].head_sha or '')[:10]}." in body
    assert sync(project) == (0, [])
    assert by_feature(project) == after


def test_s4_an_amended_parent_is_followed_through_the_whole_tree(
    stack: Stack, forged: Repository, person: Person, origin: Path
) -> None:
    project = stack(*DIAMOND)
    top = by_feature(project)[1]
    sha = person.amends(top.branch, {"src/f1.txt": "better\n"})
    left, notes = sync(project)
    assert left == 0
    assert any(f"#{top.pr_number} ({top.branch}) was changed to {sha[:10]}" in note for note in notes)
    after = by_feature(project)
    assert after[1].head_sha == sha
    assert run("git", "show", f"{after[4].branch}:src/f1.txt", cwd=origin) == "better"
    for number in (2, 3, 4):
        assert top.head_sha not in run("git", "rev-list", after[number].branch, cwd=origin).split()
        assert after[number].checks
    joins = run("git", "for-each-ref", "--format=%(refname:short)", "refs/heads/autoforge/join-*", cwd=origin)
    assert joins == after[4].base_branch
    for number in (2, 3, 4):
        assert forged.pulls[after[number].pr_number or 0].base == after[number].base_branch


def test_a_persons_commits_on_the_branch_are_kept(
    stack: Stack, forged: Repository, person: Person, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(*chain("One", "Two", "Three"))
    two = by_feature(project)[2]
    by_hand = person.adds(two.branch, {"src/by-hand.txt": "x\n"})
    reviewer.merge(by_feature(project)[1].pr_number, "squash")
    assert sync(project)[0] == 0
    after = by_feature(project)
    check(project, forged, origin, besides={two.branch: ["src/by-hand.txt"]})
    assert by_hand in run("git", "rev-list", after[2].branch, cwd=origin).split()
    assert (
        "src/by-hand.txt" in run("git", "ls-tree", "-r", "--name-only", after[3].branch, cwd=origin).split()
    )


def test_half_a_merged_diamond_stands_on_a_join_with_the_target_and_the_last_merge_makes_it_ready(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(*DIAMOND)
    batch = by_feature(project)
    number = batch[4].pr_number or 0
    for merged, base_is_join in ((1, True), (2, True), (3, False)):
        reviewer.merge(batch[merged].pr_number, "squash")
        assert sync(project)[0] == 0
        check(project, forged, origin)
        bottom = by_feature(project)[4]
        assert (bottom.base_branch or "").startswith("autoforge/join-") == base_is_join
        assert forged.pulls[number].draft == base_is_join
    assert by_feature(project)[4].base_branch == "main"
    assert run("git", "for-each-ref", "refs/heads/autoforge/join-*", cwd=origin) == ""
    assert len(forged.pulls) == 4


def test_two_diamonds_and_a_fan_of_ten_follow_one_merge(
    stack: Stack, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = stack(
        *DIAMOND,
        NewFeature("Left again", depends_on=(3,)),
        NewFeature("Right again", depends_on=(3,)),
        NewFeature("Last", depends_on=(4, 5)),
        *(NewFeature(f"Fan {n}", depends_on=(0,)) for n in range(10)),
        concurrency=6,
    )
    reviewer.merge(by_feature(project)[1].pr_number, "squash")
    assert sync(project)[0] == 0
    check(project, forged, origin)
    after = by_feature(project)
    assert {after[n].base_branch for n in range(8, 18)} == {"main"}
    assert after[2].base_branch == after[3].base_branch == "main"
    assert after[5].base_branch == after[6].base_branch == after[4].branch
    assert len(forged.pulls) == 17


def test_a_parent_that_is_squashed_while_the_childs_agent_runs_is_left_behind_before_it_is_published(
    online: Opened, forged: Repository, reviewer: Reviewer, origin: Path
) -> None:
    project = online()
    add(project, *chain("One", "Two"))

    async def merged_meanwhile(agent: Agent) -> None:
        await diligent(agent)
        if agent.features[0][0] == 2:
            reviewer.merge(by_feature(project)[1].pr_number, "squash")

    assert build(project, Crew(merged_meanwhile), auto_pr=True).exit_code == 0
    check(project, forged, origin)
    after = by_feature(project)
    assert (after[2].base_branch, after[2].parents) == ("main", ())
    assert [pull.base for pull in forged.pulls.values()] == ["main", "main"]
