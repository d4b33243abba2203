"""Runs whole builds in a test, without the CLI and without waiting."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from autoforge import lead
from autoforge.attempt import AgentRun
from autoforge.budget import Pause
from autoforge.events import Event
from autoforge.leading import Options, Seams
from autoforge.project import Project, table
from autoforge.report import Report
from db.feature import Attempt, Batch, Feature, NewFeature


def no_pause(now: datetime, *, resets_at: datetime | None, tries: int) -> Pause:
    return Pause(now, "a limit")


def add(project: Project, *features: NewFeature) -> list[int]:
    with table(project) as store:
        return store.add_features(features)


def chain(*names: str) -> list[NewFeature]:
    """Each feature depends on the one before."""
    return [NewFeature(name, depends_on=(n - 1,) if n else ()) for n, name in enumerate(names)]


def build(
    project: Project, agent: AgentRun, *, show: Callable[[Event], None] = lambda _: None, **options: object
) -> Report:
    seams = Seams(agent=agent, back_off_s=lambda _: 0.0, pause_until=no_pause)
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


def attempts(project: Project) -> list[Attempt]:
    with table(project) as store:
        return store.attempts()
