"""One build: what it was started with, and how it is told to stop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from autoforge.attempt import AgentRun, Events
from autoforge.budget import Pause
from autoforge.events import Event
from autoforge.project import Project
from db.store import FeatureStore
from git_workflow.base import Target
from git_workflow.forge import Forge

T = TypeVar("T")


class PauseUntil(Protocol):
    """`budget.pause_until`, or what a test puts in its place."""

    def __call__(self, now: datetime, *, resets_at: datetime | None, tries: int) -> Pause: ...


class FetchTarget(Protocol):
    """`preflight.TargetFetcher`. `fresh`: one that was fetched a moment ago will not do."""

    async def __call__(self, *, fresh: bool = False) -> Target: ...


@dataclass(frozen=True)
class Stop:
    """First Ctrl-C: `draining`, start nothing new. Second, or SIGTERM: `now`, end the agents and save their work."""

    draining: asyncio.Event = field(default_factory=asyncio.Event)
    now: asyncio.Event = field(default_factory=asyncio.Event)


async def unless(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """Its result, which is never None; None when it was cancelled because of the stop."""
    running, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return None if running.cancelled() else running.result()


@dataclass(frozen=True)
class Build:
    """`publish` says whether branches and PRs leave this machine; `selected` None: every feature."""

    id: str
    project: Project
    store: FeatureStore
    forge: Forge | None
    target_branch: str
    publish: bool
    verify: tuple[str, ...]
    notes: tuple[str, ...]
    selected: frozenset[int] | None
    run_dir: Path
    cli_path: Path
    agent: AgentRun
    fetch_target: FetchTarget
    now: Callable[[], datetime]
    back_off_s: Callable[[int], float]
    pause_until: PauseUntil
    show: Callable[[Event], None]
    events: Events = field(default_factory=Events)
    stop: Stop = field(default_factory=Stop)
    upkeep: asyncio.Lock = field(default_factory=asyncio.Lock)  # one pass over what is built at a time
