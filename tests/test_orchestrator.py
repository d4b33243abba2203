"""The loop: money, limits, failures and stops, with several agents at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from autoforge.agent.session import SessionEnd
from autoforge.events import Event, EventKind
from autoforge.project import Project, table
from db.feature import FeatureStatus, NewFeature, Result
from tests.agents import Agent, Crew, diligent
from tests.builds import add, batches, build, features

Opened = Callable[..., Project]


def many(count: int) -> list[NewFeature]:
    return [NewFeature(f"Feature {n}") for n in range(count)]


def test_b4_the_budget_is_never_overshot_by_agents_that_use_their_whole_cap(opened: Opened) -> None:
    project = opened(
        concurrency=8, batch_size=1, limits__budget_usd=6.0, agent__max_cost_usd=1.0, agent__turn_cost_usd=0.5
    )
    add(project, *many(12))

    async def expensive(agent: Agent) -> SessionEnd:
        await diligent(agent)
        return SessionEnd(Result.PASSED, cost_usd=agent.session.max_cost_usd + 0.5, text="Built it.")

    crew = Crew(expensive)
    report = build(project, crew)
    assert report.exit_code == 4
    assert "budget" in report.why
    assert report.cost_usd <= 6.0
    assert report.count(FeatureStatus.PASSED) == len(crew.sessions) == 4


def test_an_unknown_cost_counts_as_the_whole_reservation(opened: Opened) -> None:
    project = opened(
        concurrency=1, batch_size=1, limits__budget_usd=3.2, agent__max_cost_usd=1.0, agent__turn_cost_usd=0.5
    )
    add(project, *many(4))

    async def crashes_after_passing(agent: Agent) -> SessionEnd:
        await diligent(agent)
        return SessionEnd(Result.CRASHED, "the CLI ended", None)

    crew = Crew(crashes_after_passing)
    assert build(project, crew).exit_code == 4
    assert len(crew.sessions) == 2


def test_a3_a_limit_pauses_the_whole_build_and_costs_no_attempt(opened: Opened) -> None:
    project = opened(concurrency=2, batch_size=1)
    add(project, *many(2))
    shown: list[Event] = []

    async def limited_once(agent: Agent) -> SessionEnd | None:
        if len(crew.sessions) <= 2:
            reset = datetime.now(UTC) - timedelta(seconds=5)
            return SessionEnd(Result.LIMITED, "usage limit", 0.1, resets_at=reset)
        await diligent(agent)
        return None

    crew = Crew(limited_once)
    report = build(project, crew, show=shown.append)
    assert report.exit_code == 0
    assert [f.attempts for f in features(project)] == [1, 1]
    assert [e for e in shown if e.kind is EventKind.WARNING and "paused until" in e.text]


def test_a4_no_credentials_stops_the_build_at_once(opened: Opened) -> None:
    project = opened(concurrency=1, batch_size=1)
    add(project, *many(3))

    async def refused(agent: Agent) -> SessionEnd:
        return SessionEnd(Result.UNAVAILABLE, "Not logged in: run `claude` once", 0.0)

    crew = Crew(refused)
    report = build(project, crew)
    assert report.exit_code == 2
    assert "Not logged in" in report.why
    assert len(crew.sessions) == 1
    assert [f.attempts for f in features(project)] == [0, 0, 0]


def test_a2_a_bug_in_one_attempt_does_not_touch_the_others(opened: Opened) -> None:
    project = opened(concurrency=3, batch_size=1, max_attempts=1)
    add(project, *many(3))
    all_there = asyncio.Barrier(3)

    async def one_breaks(agent: Agent) -> None:
        await all_there.wait()
        if agent.features[0][0] == 2:
            raise RuntimeError("a bug")
        await diligent(agent)

    report = build(project, Crew(one_breaks))
    assert report.exit_code == 1
    assert [f.status for f in features(project)] == [
        FeatureStatus.PASSED,
        FeatureStatus.FAILED,
        FeatureStatus.PASSED,
    ]
    assert "a bug" in report.open[2]


def test_the_first_interrupt_lets_the_agent_finish_and_starts_nothing_new(opened: Opened) -> None:
    project = opened(concurrency=1, batch_size=1)
    add(project, *many(2))

    async def interrupted(agent: Agent) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        await diligent(agent)

    crew = Crew(interrupted)
    report = build(project, crew)
    assert report.exit_code == 130
    assert len(crew.sessions) == 1
    assert [f.status for f in features(project)] == [FeatureStatus.PASSED, FeatureStatus.PENDING]
    assert build(project, Crew(diligent)).exit_code == 0


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]], ids=["twice", "term"])
def test_a_stop_saves_the_agents_work_and_the_next_build_goes_on_with_it(
    opened: Opened, signals: list[signal.Signals]
) -> None:
    project = opened(batch_size=1)
    add(project, NewFeature("Half done"))

    async def stopped(agent: Agent) -> SessionEnd:
        agent.write("half.txt", "half\n")
        for number in signals:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
        await agent.stop.wait()
        return SessionEnd(Result.INTERRUPTED, "the session was interrupted", 0.1)

    assert build(project, Crew(stopped)).exit_code == 130
    [feature], [batch] = features(project), batches(project)
    assert (feature.status, feature.attempts) == (FeatureStatus.PENDING, 0)
    git = project.repo.git
    assert git.run("show", f"refs/autoforge/saved/{batch.key}/1:half.txt") == "half"

    async def goes_on(agent: Agent) -> None:
        assert (agent.session.cwd / "half.txt").read_text() == "half\n"
        assert "still in this worktree" in agent.session.prompt
        assert not (await agent.passed(1, "test -e half.txt")).is_error

    assert build(project, Crew(goes_on)).exit_code == 0
    assert [b.key for b in batches(project)] == [batch.key]


def test_b5_a_user_skips_a_feature_while_another_is_built(opened: Opened) -> None:
    project = opened(concurrency=1, batch_size=1)
    add(project, *many(2))

    async def person_changes_mind(agent: Agent) -> None:
        with table(project) as store, store._database.write() as session:
            from db.models import FeatureRow

            row = session.get(FeatureRow, 2)
            assert row is not None
            row.status = FeatureStatus.SKIPPED
        await diligent(agent)

    crew = Crew(person_changes_mind)
    assert build(project, crew).exit_code == 0
    assert len(crew.sessions) == 1
