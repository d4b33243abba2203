"""The loop: start what is ready, wait for the first that ends, record it, until nothing is left."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from autoforge import lane, publishing
from autoforge.attempt import Outcome
from autoforge.budget import Budget, Pause, settle
from autoforge.build import Build
from autoforge.events import Event, EventKind
from autoforge.lane import Start
from db.feature import Batch, Result


@dataclass
class State:
    """What the loop remembers while it runs; nothing that a restart needs."""

    budget: Budget
    working: dict["asyncio.Task[Outcome]", Start] = field(default_factory=dict)
    publishing: set["asyncio.Task[None]"] = field(default_factory=set)
    not_before: dict[str, datetime] = field(default_factory=dict)  # batch that backs off
    waiting: dict[str, str] = field(default_factory=dict)  # batch that cannot start now, and why
    pause: Pause | None = None
    limited: int = 0  # limits in a row
    ending: Result | None = None  # why nothing more is started
    why: str = ""


async def run(build: Build, state: State) -> None:
    """Run the build to its end. The state says afterwards why it ended, the store what became of everything."""
    async with asyncio.TaskGroup() as group:
        recorder = group.create_task(lane.record_events(build))
        await lane.publish_built(build)
        while True:
            await _start(build, state, group)
            if not (state.working or state.publishing) and (state.ending or not _wakes_at(state)):
                break
            for task in await _first(build, state):
                await _finish(build, state, group, task)
        build.events.put_nowait(lane.LAST)
        await recorder


async def _start(build: Build, state: State, group: asyncio.TaskGroup) -> None:
    """Fill the free slots. Each start is recorded before it happens."""
    now = build.now()
    if build.stop.draining.is_set() and not state.ending:
        state.ending, state.why = Result.INTERRUPTED, "it was interrupted"
    if state.ending or (state.pause and state.pause.until > now):
        return
    state.pause = None
    held = {key for key, until in state.not_before.items() if until > now} | set(state.waiting)
    held |= {start.batch.key for start in state.working.values()}
    taken = {start.slot for start in state.working.values()}
    free = [slot for slot in range(build.project.settings.concurrency) if slot not in taken]
    for batch, feature_ids in await lane.next_batches(build, held, len(free)):
        reserved = lane.reserve(build, state.budget, batch.key)
        if reserved is None:
            state.ending, state.why = Result.MONEY, "the budget has no room for another attempt"
            return
        start = await lane.begin(build, batch, feature_ids, slot=free.pop(0), cap_usd=reserved[1])
        if start is None:  # a person changed its features meanwhile
            continue
        state.budget = reserved[0]
        state.working[group.create_task(lane.work(build, start))] = start


def _wakes_at(state: State) -> datetime | None:
    """When something can be started that cannot be started now."""
    times = [state.pause.until] if state.pause else list(state.not_before.values())
    return min(times, default=None)


async def _first(build: Build, state: State) -> "set[asyncio.Task[Any]]":
    """Wait until a task has ended, a pause is over or a person wants to stop."""
    stops = [build.stop.draining, build.stop.now]
    signals = [asyncio.ensure_future(stop.wait()) for stop in stops if not stop.is_set()]
    tasks: set[asyncio.Task[Any]] = {*state.working, *state.publishing}
    wakes = _wakes_at(state)
    timeout_s = (
        max(0.0, (wakes - build.now()).total_seconds())
        if wakes and not build.stop.draining.is_set()
        else None
    )
    try:
        if not tasks and not signals:
            return set()
        await asyncio.wait({*tasks, *signals}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for signal in signals:
            signal.cancel()
    state.not_before = {key: until for key, until in state.not_before.items() if until > build.now()}
    return {task for task in tasks if task.done()}


async def _finish(build: Build, state: State, group: asyncio.TaskGroup, task: "asyncio.Task[Any]") -> None:
    if task in state.publishing:
        state.publishing.discard(task)
        state.waiting.clear()  # a parent moved on: its children may start now
        return
    start = state.working.pop(task)
    outcome: Outcome = task.result()
    state.budget = settle(state.budget, start.batch.key, outcome.ended.cost_usd)
    batch = await lane.record(build, start, outcome)
    _react(build, state, batch, outcome)
    if lane.to_publish(batch):
        state.publishing.add(group.create_task(publishing.run(build, batch)))


def _react(build: Build, state: State, batch: Batch, outcome: Outcome) -> None:
    """What an outcome means for the rest of the build."""
    result, reason = outcome.ended.result, outcome.ended.reason
    state.limited = state.limited + 1 if result is Result.LIMITED else 0
    if result is Result.LIMITED:
        state.pause = build.pause_until(build.now(), resets_at=outcome.resets_at, tries=state.limited)
        text = f"paused until {state.pause.until:%Y-%m-%d %H:%M:%S} UTC: {reason}"
        build.events.put_nowait(Event(EventKind.WARNING, "", text))
    elif result is Result.UNAVAILABLE:
        state.ending, state.why = result, reason
    elif result is Result.WAITING:
        state.waiting[batch.key] = reason
        build.events.put_nowait(Event(EventKind.WARNING, batch.key, reason))
    elif result is not Result.PASSED:
        state.not_before[batch.key] = lane.retry_at(build, batch)
        build.events.put_nowait(Event(EventKind.WARNING, batch.key, f"attempt ended ({result}): {reason}"))
