"""Runs whole builds in a test, without the CLI and without waiting."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from autoforge import lead
from autoforge.attempt import AgentRun
from autoforge.events import Event
from autoforge.lead import Options, Seams
from autoforge.project import Project, table
from autoforge.report import Report
from db.feature import Batch, Feature, NewFeature


class Clock:
    """A time that only moves when somebody waits for it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def add(project: Project, *features: NewFeature) -> list[int]:
    with table(project) as store:
        return store.add_features(features)


def chain(*names: str) -> list[NewFeature]:
    """Each feature depends on the one before."""
    return [NewFeature(name, depends_on=(n - 1,) if n else ()) for n, name in enumerate(names)]


def build(
    project: Project, agent: AgentRun, *, show: Callable[[Event], None] = lambda _: None, **options: object
) -> Report:
    seams = Seams(agent=agent, now=lambda: datetime.now(UTC), back_off_s=lambda _: 0.0)
    with table(project) as store:
        chosen = replace(Options(), **options)  # type: ignore[arg-type]
        lead.check(project, store, chosen)
        return asyncio.run(lead.run(project, store, chosen, show, seams))


def features(project: Project) -> list[Feature]:
    with table(project) as store:
        return store.features()


def batches(project: Project) -> list[Batch]:
    with table(project) as store:
        return store.batches()
