"""`autoforge verify --together` on real branches: what is green, what is red, and because of which."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge.demo.github import Repository
from autoforge.together import fewest
from db.feature import Batch, NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, build
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import Ended, invoke, refused
from tests.reviews import Reviewer
from tests.stacks.conftest import Opened
from tests.stacks.scene import Person, by_feature
from tests.stacks.world import START, World, fill

Verify = Callable[..., Ended]


@pytest.fixture
def world(online: Opened, origin: Path, clone: Path, forged: Repository, reviewer: Reviewer) -> World:
    commit(clone, START)
    run("git", "push", "-q", str(origin), "main", cwd=clone)
    return World(online(), origin, forged, reviewer)


@pytest.fixture
def verify(clone: Path, github: ValidatingGitHub) -> Verify:
    def verify_(*pulls: str, command: str = "sh check.sh") -> Ended:
        (clone / "autoforge.toml").write_text(f"[verify]\ncommands = [{json.dumps(command)}]\n")
        (clone / ".git/info/exclude").write_text("autoforge.toml\n")
        before = run("git", "worktree", "list", cwd=clone) + run("git", "branch", cwd=clone)
        ended = invoke(clone, "verify", "--together", *pulls, GITHUB_TOKEN=TOKEN, GITHUB_API_URL=github.url)
        assert run("git", "worktree", "list", cwd=clone) + run("git", "branch", cwd=clone) == before
        assert not clone.with_name(f"{clone.name}.worktrees").exists()
        assert run("git", "status", "--porcelain", cwd=clone) == ""
        return ended

    return verify_


def named(batch: Batch) -> str:
    return f"#{batch.pr_number} ({batch.branch})"


def without(*numbers: int) -> str:
    """A command that is red where all of these features are."""
    return " || ".join(f"! test -e src/f{number - 1}.txt" for number in numbers)


def test_green_is_said_of_a_commit_and_the_heads_in_it(world: World, verify: Verify) -> None:
    fill(world, [(), (0,), ()], 0)
    ended = verify(command="test -e src/f0.txt && test -e src/f1.txt")
    assert ended.code == 0
    assert f"on {world.heads()['main'][:10]}:" in ended.out
    for batch in world.batches():
        assert f"  {named(batch)} at {str(batch.head_sha)[:10]}" in ended.out
    ended = verify("#2", command="test -e src/f0.txt && ! test -e src/f2.txt")
    assert ended.code == 0, "what it is built on belongs to it, and nothing else"


def test_the_fewest_that_are_red_are_named(world: World, verify: Verify) -> None:
    fill(world, [(), (), (), (), ()], 0)
    batches = by_feature(world.project)
    for fault in ((2, 4), (1, 2, 5), (3,)):
        ended = verify(command=without(*fault))
        who = " and ".join(named(batches[number]) for number in fault)
        alone = f"\n{who} is red on the target without the others.\n"
        assert (alone if len(fault) == 1 else f"\nRed only together: {who}\n") in ended.out
        assert (ended.code, "failed with exit code 1" in ended.out) == (1, True)
        log = Path(ended.out.split("The output of all that failed is in ")[1].splitlines()[0].rstrip("."))
        assert without(*fault) in log.read_text()


def test_a_red_target_is_nobodys_fault(world: World, verify: Verify, person: Person) -> None:
    fill(world, [(), ()], 0)
    person.adds("main", {"broken": ""})
    ended = verify()
    assert ended.code == 1
    assert "The target is red without any of them." in ended.out


def test_a_features_own_command_is_not_asked_of_what_lacks_the_feature(
    online: Opened, forged: Repository, verify: Verify
) -> None:
    project = online()
    add(project, NewFeature("Sets", verify=("test -e Sets && ! test -e Reads",)), NewFeature("Reads"))

    async def writes(agent: Agent) -> None:
        for number, name in agent.features:
            agent.write(name, "x\n")
            assert not (await agent.passed(number, "ls")).is_error

    assert build(project, Crew(writes), auto_pr=True).exit_code == 0
    ended = verify()
    sets, reads = by_feature(project).values()
    assert f"Red only together: {named(sets)} and {named(reads)}" in ended.out


def test_what_conflicts_is_left_out_and_that_is_no_green(
    world: World, verify: Verify, person: Person
) -> None:
    fill(world, [(), (), (1,), ()], 0)
    person.adds("main", {"src/f0.txt": "x\n"})
    low, high = world.batches()[1:3]
    with_main = f"{named(world.batches()[0])} is left out: it conflicts with main in src/f0.txt"
    ended = verify()
    assert (ended.code, ended.out.count("left out")) == (1, 1)
    assert "Green together" in ended.out
    assert with_main in ended.out
    person.adds(low.branch, {"new.txt": "x\n"})
    ended = verify()
    assert ended.code == 1
    assert (
        f"{named(low)} is left out: somebody changed or deleted it on the remote: `autoforge sync`"
        in ended.out
    )
    assert f"{named(high)} is left out: it is built on {low.branch}, which is left out" in ended.out
    ended = verify("#1")
    assert (ended.code, "Nothing was verified." in ended.out) == (1, True)
    assert with_main in ended.out


def test_two_that_conflict_are_named(world: World, verify: Verify) -> None:
    run("git", "rm", "-q", "shared.txt", cwd=world.project.repo.root)
    commit(world.project.repo.root, {})
    run("git", "push", "-q", str(world.origin), "main", cwd=world.project.repo.root)
    fill(world, [(), (), (), ()], 0)
    second, fourth = world.batches()[1::2]
    ended = verify()
    assert ended.code == 1
    assert f"{named(fourth)} is left out: it conflicts with {second.branch} in shared.txt" in ended.out


def test_files_that_the_commands_leave_are_no_green(world: World, verify: Verify) -> None:
    fill(world, [()], 0)
    ended = verify(command="touch left.txt")
    assert (ended.code, "Green" in ended.out) == (1, False)
    assert "?? left.txt" in ended.out


@pytest.mark.parametrize("when", ["always", "second"])
def test_an_interrupt_ends_it_and_nothing_is_left_behind(
    world: World, verify: Verify, tmp_path: Path, when: str
) -> None:
    fill(world, [()], 0)
    stop = f"kill -INT {os.getpid()}; sleep 60"
    once = tmp_path / "once"
    ended = verify(
        command=stop if when == "always" else f"test -e {once} && {{ {stop}; }}; touch {once}; false"
    )
    assert (ended.code, "Green" in ended.out) == (130, False)
    said = {
        "always": "Interrupted before it was verified.",
        "second": "Interrupted before the cause was found.",
    }
    assert said[when] in ended.out


def test_only_what_waits_to_be_merged_can_be_named(
    world: World, verify: Verify, clone: Path, github: ValidatingGitHub
) -> None:
    env = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}
    assert "Say --together" in refused(clone, "verify", **env)
    assert "No branch is waiting" in refused(clone, "verify", "--together", **env)
    assert "There is no pull request or batch 99" in refused(clone, "verify", "--together", "99", **env)
    fill(world, [(), ()], 0)
    world.reviewer.edit(1, state="closed")
    assert invoke(clone, "sync", **env).code in (0, 1)
    assert "is closed: only what waits to be merged" in refused(clone, "verify", "--together", "1", **env)
    assert "There is no verify command" in refused(clone, "verify", "--together", **env)


@given(st.data())
def test_fewest_is_exactly_what_it_takes(data: st.DataObject) -> None:
    items = range(data.draw(st.integers(1, 12)))
    needed = data.draw(st.sets(st.sampled_from(items)))
    asked = []

    async def red(some: Sequence[int]) -> bool:
        asked.append(some)
        assert list(some) == sorted(some)
        return needed <= set(some)

    assert asyncio.run(fewest(items, red)) == tuple(sorted(needed))
    assert len(asked) <= 1 + 5 * max(1, len(needed))
