"""Moves that cannot be made: red ones are not pushed, conflicts go to an agent once, then to a person."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoforge import lead
from autoforge.agent.session import SessionEnd
from autoforge.demo.github import Repository
from autoforge.leading import Seams
from autoforge.project import Project, table
from db.feature import BatchStatus, FeatureStatus, Kind, NewFeature, Result
from tests.agents import Agent, Crew, diligent
from tests.builds import add, attempts, build, chain, features
from tests.conftest import commit, run
from tests.invoke import invoke
from tests.reviews import sync
from tests.stacks.conftest import Opened, Stack
from tests.stacks.scene import Person, by_feature, check

Work = Callable[[Agent], object]


def test_a_branch_that_is_red_on_what_its_parent_has_become_is_not_pushed(
    stack: Stack, forged: Repository, person: Person, origin: Path
) -> None:
    project = stack(
        *chain("One", "Two", "Three"),
        verify__commands=["sh check.sh", "! test -e src/f2.txt || grep -q One src/f1.txt"],
    )
    before = by_feature(project)
    person.amends(before[1].branch, {"src/f1.txt": "something else\n"})
    left, notes = sync(project)
    assert left == 1
    after = by_feature(project)
    assert "it is red" in (after[2].last_error or "")
    assert "grep -q One" in (after[2].last_error or "")
    for number in (2, 3):
        assert run("git", "rev-parse", before[number].branch, cwd=origin) == before[number].head_sha
        assert after[number].head_sha == after[number].pushed_sha == before[number].head_sha
    assert [f.status for f in features(project)] == [FeatureStatus.PASSED] * 3
    left, again = sync(project)
    assert (left, [note for note in again if "red" in note]) == (1, [])
    assert by_feature(project)[2] == after[2]
    assert any("it is red" in note for note in notes)
    assert "it is red" in invoke(project.repo.root, "status").out
    person.amends(before[1].branch, {"src/f1.txt": "One more\n"})
    assert sync(project)[0] == 0
    check(project, forged, origin, rewritten=[before[1].branch])


def test_what_is_red_after_a_move_is_mended_on_its_branch(
    stack: Stack, forged: Repository, person: Person, origin: Path
) -> None:
    project = stack(
        *chain("One", "Two"),
        verify__commands=["test ! -e src/f2.txt || cmp src/f1.txt src/copy.txt || grep -q One src/f1.txt"],
    )
    one, two = by_feature(project)[1], by_feature(project)[2]
    person.amends(one.branch, {"src/f1.txt": "something else\n"})
    assert sync(project)[0] == 1
    person.adds(two.branch, {"src/copy.txt": "something else\n"})
    assert sync(project)[0] == 0
    check(project, forged, origin, besides={two.branch: ["src/copy.txt"]}, rewritten=[one.branch])


async def same_file(agent: Agent) -> None:
    """Everybody writes the first line of one file, or resolves what that leads to."""
    if "conflict_resolved" in agent.tools:
        text = "\n".join(
            line
            for line in (agent.session.cwd / "shared.txt").read_text().splitlines()
            if line[:3] not in ("<<<", "===", ">>>")
        )
        agent.write("shared.txt", text + "\n")
        answer = await agent.call("conflict_resolved")
        assert not answer.is_error, answer.text
        return
    for number, name in agent.features:
        agent.write("shared.txt", f"{name}\n")
        answer = await agent.passed(number, "test -s shared.txt")
        assert not answer.is_error, answer.text


@pytest.fixture
def clashing(online: Opened) -> Project:
    """A chain of two that write the same line; the first was amended there."""
    project = online()
    add(project, *chain("One", "Two"))
    assert build(project, Crew(same_file), auto_pr=True).exit_code == 0
    return project


def test_a_conflict_is_resolved_by_an_agent_and_the_move_goes_on(
    clashing: Project, forged: Repository, person: Person, origin: Path
) -> None:
    one, two = by_feature(clashing)[1], by_feature(clashing)[2]
    sha = person.amends(one.branch, {"shared.txt": "Won\n"})
    left, notes = sync(clashing)
    assert left == 1
    assert any("autoforge restack" in note and "shared.txt" in note for note in notes), notes
    crew = Crew(same_file)
    ended = build(clashing, crew, auto_pr=True)
    assert (ended.exit_code, len(crew.sessions)) == (0, 1)
    assert "One" in crew.sessions[0].prompt
    assert "Two" in crew.sessions[0].prompt
    after = by_feature(clashing)[2]
    assert run("git", "log", "-1", "--format=%P", after.branch, cwd=origin) == sha
    assert run("git", "show", f"{after.branch}:shared.txt", cwd=origin).split() == ["Won", "Two"]
    assert (after.pushed_sha, after.last_error) == (after.head_sha, None)
    repair = attempts(clashing)[-1]
    assert (repair.kind, repair.outcome, repair.batch_key, repair.cost_usd) == (
        Kind.RESTACK,
        Result.PASSED,
        two.key,
        0.5,
    )
    assert ended.cost_usd == 1.5


def test_an_agent_tries_a_conflict_once_then_it_waits_for_a_person_with_instructions(
    clashing: Project, forged: Repository, person: Person, origin: Path
) -> None:
    one, two = by_feature(clashing)[1], by_feature(clashing)[2]
    person.amends(one.branch, {"shared.txt": "Won\n"})

    async def gives_up(agent: Agent) -> SessionEnd:
        return SessionEnd(Result.PASSED, cost_usd=0.5, turns=1, text="I cannot.")

    crew = Crew(gives_up)
    first = build(clashing, crew, auto_pr=True)
    again = build(clashing, crew, auto_pr=True)
    assert (first.exit_code, again.exit_code, len(crew.sessions)) == (1, 1, 1)
    [why] = again.unpublished.values()
    for part in (two.branch, "shared.txt", "git rebase --onto", "autoforge sync", "ended without resolving"):
        assert part in why
    assert run("git", "rev-parse", two.branch, cwd=origin) == two.head_sha
    assert by_feature(clashing)[2].status is BatchStatus.OPENED
    person.git("fetch", "-q", "origin")
    person.git("checkout", "-q", "-B", "mine", f"origin/{one.branch}")
    commit(person.folder, {"shared.txt": "Won Two\n"}, "by hand")
    person.git("push", "-q", "--force", "origin", f"mine:refs/heads/{two.branch}")
    assert sync(clashing)[0] == 0
    after = by_feature(clashing)[2]
    assert (after.last_error, after.parents[0].tip) == (None, by_feature(clashing)[1].head_sha)


def test_a_conflict_is_not_started_without_money_for_it(
    clashing: Project, forged: Repository, person: Person
) -> None:
    person.amends(by_feature(clashing)[1].branch, {"shared.txt": "Won\n"})
    crew = Crew(same_file)
    poor = clashing.settings.model_copy(
        update={"limits": clashing.settings.limits.model_copy(update={"budget_usd": 0.1})}
    )
    ended = build(replace(clashing, settings=poor), crew, auto_pr=True)
    assert (ended.exit_code, crew.sessions) == (4, [])
    assert "conflict" in next(iter(ended.unpublished.values()))


def test_a_limit_in_a_repair_counts_as_no_try(clashing: Project, forged: Repository, person: Person) -> None:
    person.amends(by_feature(clashing)[1].branch, {"shared.txt": "Won\n"})
    calls = []

    async def limited_first(agent: Agent) -> SessionEnd | None:
        calls.append(agent)
        if len(calls) == 1:
            return SessionEnd(Result.LIMITED, "a limit", cost_usd=0.0, turns=0)
        await same_file(agent)
        return None

    assert build(clashing, Crew(limited_first), auto_pr=True).exit_code == 0
    assert len(calls) == 2


def test_local_branches_are_restacked_without_a_remote(
    opened: Callable[..., Project], clone: Path, origin: Path
) -> None:
    project = opened(batch_size=1)
    add(project, *chain("One", "Two"), NewFeature("Three"))
    assert build(project, Crew(diligent)).exit_code == 0
    one, two, three = (by_feature(project)[n] for n in (1, 2, 3))
    run("git", "checkout", "-q", one.branch, cwd=clone)
    (clone / "src/f1.txt").write_text("better\n")
    run("git", "commit", "-qa", "--amend", "--no-edit", cwd=clone)
    run("git", "checkout", "-q", "main", cwd=clone)
    assert build(project, Crew(diligent)).exit_code == 0
    after = by_feature(project)
    assert run("git", "rev-parse", one.branch, two.branch, three.branch, cwd=clone).split() == [
        after[1].head_sha,
        after[2].head_sha,
        three.head_sha,
    ]
    assert run("git", "show", f"{two.branch}:src/f1.txt", cwd=clone) == "better"
    assert run("git", "branch", cwd=origin).split() == ["*", "main"]


def test_a_verification_that_was_interrupted_says_nothing_about_the_branch(
    stack: Stack, forged: Repository, person: Person, origin: Path, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    project = stack(
        *chain("One", "Two"),
        verify__commands=[f"! grep -q slow src/f1.txt || {{ touch {started}; sleep 60; }}"],
    )
    before = by_feature(project)[2]
    person.amends(by_feature(project)[1].branch, {"src/f1.txt": "slow\n"})

    async def stopped() -> None:
        with table(project) as store:
            running = asyncio.ensure_future(
                lead.restack(project, store, lambda _: None, Seams(agent=Crew(diligent)))
            )
            while not started.exists():
                await asyncio.wait({running}, timeout=0.02)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(running, 20)

    asyncio.run(stopped())
    after = by_feature(project)[2]
    assert (after.head_sha, after.last_error, after.check_signature) == (before.head_sha, None, None)
    assert not project.worktrees.exists()
    person.amends(by_feature(project)[1].branch, {"src/f1.txt": "fast\n"})
    assert sync(project)[0] == 0
    check(project, forged, origin, rewritten=[by_feature(project)[1].branch])
