"""Lands what a test has built, without the command line."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from autoforge import landing, landing_order
from autoforge.events import Event
from autoforge.landing import Landed
from autoforge.leading import Options
from autoforge.project import Project, table
from db.feature import Batch, NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, batches, build
from tests.conftest import run


def land(
    project: Project, *words: str, no_verify: bool = False, show: Callable[[Event], None] = lambda _: None
) -> Landed:
    with table(project) as store:
        asked = landing_order.named(store.features(), store.batches(), words) if words else None
        return asyncio.run(landing.run(project, store, Options(no_verify=no_verify), show, asked=asked))


def sha(clone: Path, ref: str) -> str:
    return run("git", "rev-parse", ref, cwd=clone)


def merges(clone: Path) -> list[str]:
    return run(
        "git", "log", "--first-parent", "--merges", "--reverse", "--format=%s", "main", cwd=clone
    ).split("\n")


async def by_name(agent: Agent) -> None:
    """A feature "file=text" writes that file."""
    for feature_id, name in agent.features:
        file, _, text = name.partition("=")
        agent.write(file, f"{text}\n")
        assert not (await agent.passed(feature_id, "true")).is_error


def built(project: Project, *new: NewFeature) -> list[Batch]:
    add(project, *new)
    assert build(project, Crew(by_name)).exit_code == 0
    return batches(project)
