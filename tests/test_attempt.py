"""One attempt inside a build: what the agent is given, and how each ending is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.agent.session import SessionEnd
from autoforge.errors import AutoforgeError
from autoforge.events import Event, EventKind
from autoforge.project import Project, table
from db.feature import Attempt, BatchStatus, FeatureStatus, NewFeature, Result
from tests.agents import Agent, Crew, diligent
from tests.builds import add, batches, build, features
from tests.conftest import commit, run

Opened = Callable[..., Project]


def attempts(project: Project) -> list[Attempt]:
    with table(project) as store:
        return store.attempts()


def log_of(project: Project) -> str:
    return "".join(path.read_text() for path in (project.repo.state_dir / "runs").glob("*/log"))


def test_a_failed_setup_command_is_the_reason_and_no_agent_starts(opened: Opened) -> None:
    """The baseline's worktree is set up as well: this command works there only."""
    project = opened(
        worktree__setup=["test $AUTOFORGE_BATCH = trial || { echo no npm; exit 3; }"], max_attempts=1
    )
    add(project, NewFeature("A"))
    crew = Crew(diligent)
    report = build(project, crew)
    assert report.exit_code == 1
    assert crew.sessions == []
    assert "no npm" in report.open[1]
    assert "worktree.setup" in report.open[1]
    assert "Traceback" not in log_of(project)


def test_w7_ignored_files_that_the_build_needs_are_there_and_not_committed(
    opened: Opened, clone: Path
) -> None:
    commit(clone, {".gitignore": ".env\nlocal.cfg\ninstalled\n", ".worktreeinclude": "local.cfg\n"})
    run("git", "push", "-q", "origin", "main", cwd=clone)
    (clone / ".env").write_text("A=1\n")
    (clone / "local.cfg").write_text("b\n")
    project = opened(worktree__copy=[".env"], worktree__setup=["cp local.cfg installed"])
    add(project, NewFeature("A"))

    async def look(agent: Agent) -> None:
        assert (agent.session.cwd / ".env").read_text() == "A=1\n"
        assert (agent.session.cwd / "installed").read_text() == "b\n"
        await diligent(agent)

    assert build(project, Crew(look)).exit_code == 0
    [batch] = batches(project)
    assert run("git", "diff", "--name-only", f"main..{batch.branch}", cwd=clone) == "src/f1.txt"


def test_the_next_try_finds_the_work_and_is_told_what_was_wrong(opened: Opened, clone: Path) -> None:
    project = opened(max_attempts=2)
    add(project, NewFeature("A"))

    async def twice(agent: Agent) -> None:
        if "did not pass" not in agent.session.prompt:
            assert "earlier try" not in agent.session.prompt
            agent.write("half", "done\n")
            assert (await agent.passed(1, "echo it hurts here; false")).is_error
            return
        assert "it hurts here" in agent.session.prompt
        assert "An earlier try" in agent.session.prompt
        assert (agent.session.cwd / "half").read_text() == "done\n"
        assert not (await agent.passed(1, "true")).is_error

    assert build(project, Crew(twice)).exit_code == 0
    [batch] = batches(project)
    assert run("git", "show", f"refs/autoforge/saved/{batch.key}/1:half", cwd=clone) == "done"
    assert [(a.number, a.outcome) for a in attempts(project)] == [(1, Result.FAILED), (2, Result.PASSED)]


def test_work_that_was_set_aside_is_named_to_the_next_agent_also_in_another_batch(
    opened: Opened, clone: Path
) -> None:
    project = opened(max_attempts=2, concurrency=1)
    add(project, NewFeature("A"), NewFeature("B"))

    async def leaves_a(agent: Agent) -> None:
        if len(agent.features) == 2:
            agent.write("a", "half\n")
            assert not (await agent.call("feature_failed", id=1, reason="too hard")).is_error
            agent.write("b", "whole\n")
            assert not (await agent.passed(2, "test -e b")).is_error
            return
        assert "too hard" in agent.session.prompt
        kept = agent.session.prompt.split("is kept in commit ")[1].split(":")[0]
        assert run("git", "show", f"{kept}:a", cwd=agent.session.cwd) == "half"
        assert not (agent.session.cwd / "a").exists()
        agent.write("a", "whole\n")
        assert not (await agent.passed(1, "test -e a")).is_error

    assert build(project, Crew(leaves_a)).exit_code == 0
    first, second = batches(project)
    assert run("git", "diff", "--name-only", f"main..{first.branch}", cwd=clone) == "b"
    assert run("git", "diff", "--name-only", f"{first.branch}..{second.branch}", cwd=clone) == "a"


def test_a_persons_answer_is_in_the_prompt(opened: Opened) -> None:
    project = opened()
    add(project, NewFeature("A"))

    async def asks(agent: Agent) -> None:
        if "blue" in agent.session.prompt:
            assert "which colour?" in agent.session.prompt
            await diligent(agent)
        else:
            await agent.call("ask_human", id=1, question="which colour?")

    assert build(project, Crew(asks)).exit_code == 1
    with table(project) as store:
        store.answer(1, "blue")
    assert build(project, Crew(asks)).exit_code == 0


def test_a_bug_below_the_seam_ends_one_attempt_with_a_traceback_and_others_go_on(opened: Opened) -> None:
    project = opened(batch_size=1, max_attempts=1)
    add(project, NewFeature("A"), NewFeature("B"))

    async def one_breaks(agent: Agent) -> None:
        if agent.features[0][0] == 1:
            raise ZeroDivisionError("nobody thought of this")
        await diligent(agent)

    report = build(project, Crew(one_breaks))
    assert report.exit_code == 1
    assert [f.status for f in features(project)] == [FeatureStatus.FAILED, FeatureStatus.PASSED]
    assert "nobody thought of this" in report.open[1]
    assert {a.outcome for a in attempts(project)} == {Result.CRASHED, Result.PASSED}
    assert "ZeroDivisionError" in log_of(project)


def test_an_error_of_ours_is_a_reason_without_a_traceback_and_keeps_what_had_passed(opened: Opened) -> None:
    project = opened(max_attempts=1)
    add(project, NewFeature("A"), NewFeature("B", depends_on=(0,)))

    async def breaks(agent: Agent) -> None:
        agent.write("a", "x")
        assert not (await agent.passed(1, "test -e a")).is_error
        raise AutoforgeError("the licence has run out")

    report = build(project, Crew(breaks))
    assert "licence" in report.open[2]
    assert features(project)[0].status is FeatureStatus.PASSED
    assert batches(project)[0].status is BatchStatus.BUILT
    assert "Traceback" not in log_of(project)


def test_work_that_cannot_be_saved_is_said(opened: Opened) -> None:
    project = opened(max_attempts=1)
    add(project, NewFeature("A"))
    shown: list[Event] = []

    async def breaks_git(agent: Agent) -> None:
        agent.write("half", "x")
        (agent.session.cwd / ".git").write_text("broken")

    report = build(project, Crew(breaks_git), show=shown.append)
    assert report.exit_code == 1
    assert any(e.kind is EventKind.WARNING and "could not be saved" in e.text for e in shown)


@pytest.mark.parametrize(
    ("result", "status", "tries", "exit_code"),
    [
        (Result.TURNS, FeatureStatus.FAILED, 1, 1),
        (Result.TIMEOUT, FeatureStatus.FAILED, 1, 1),
        (Result.MONEY, FeatureStatus.FAILED, 1, 1),
        (Result.CRASHED, FeatureStatus.FAILED, 1, 1),
        (Result.UNAVAILABLE, FeatureStatus.PENDING, 0, 2),
    ],
)
def test_a2_an_ending_is_recorded_with_its_reason_and_the_work_is_kept(
    opened: Opened, clone: Path, result: Result, status: FeatureStatus, tries: int, exit_code: int
) -> None:
    project = opened(max_attempts=1)
    add(project, NewFeature("A"))

    async def ends(agent: Agent) -> SessionEnd:
        agent.write("half", "done\n")
        return SessionEnd(result, f"because of {result}", cost_usd=0.25, turns=7)

    report = build(project, Crew(ends))
    [feature], [attempt], [batch] = features(project), attempts(project), batches(project)
    assert (report.exit_code, feature.status, feature.attempts) == (exit_code, status, tries)
    assert (attempt.outcome, attempt.reason, attempt.cost_usd, attempt.turns) == (
        result,
        f"because of {result}",
        0.25,
        7,
    )
    assert run("git", "show", f"refs/autoforge/saved/{batch.key}/1:half", cwd=clone) == "done"
