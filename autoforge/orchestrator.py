"""The loop: start what is ready, wait for the first that ends, record it, until nothing is left."""

import asyncio
from datetime import datetime
from typing import Any

from autoforge import lane, slot, upkeep
from autoforge.attempt import Outcome
from autoforge.budget import settle
from autoforge.build import Build
from autoforge.events import Event, EventKind
from autoforge.slot import Start
from autoforge.state import State
from autoforge.upkeep import Pass
from db.feature import Batch, Result
from git_workflow.errors import GitWorkflowError


async def run(build: Build, state: State) -> None:
    """Run the build to its end. The state says afterwards why it ended, the store what became of everything."""
    async with asyncio.TaskGroup() as group:
        recorder = group.create_task(lane.record_events(build))
        while True:
            if state.due and state.upkeep is None:
                state.due, state.upkeep = False, group.create_task(_upkeep(build, state))
            if state.looked:  # nothing is based on what has not been looked at
                await _start(build, state, group)
            if not (state.working or state.upkeep) and (state.ending or not _wakes_at(state)):
                break
            for task in await _first(build, state):
                await _finish(build, state, task)
        build.events.put_nowait(lane.LAST)
        await recorder


async def _upkeep(build: Build, state: State) -> Pass:
    try:
        return await upkeep.run(build, state.to_publish)
    except GitWorkflowError as error:
        return Pass([f"the remote could not be read or written: {error}"])


async def _start(build: Build, state: State, group: asyncio.TaskGroup) -> None:
    """Fill the free slots. Each start is recorded before it happens."""
    now = build.now()
    if build.stop.draining.is_set() and not state.ending:
        state.ending, state.why = Result.INTERRUPTED, "it was interrupted"
    if state.ending or (state.pause and state.pause.until > now):
        return
    state.pause = None
    taken = {start.slot for start in state.working.values()}
    free = [number for number in range(build.project.settings.concurrency) if number not in taken]
    async for start in lane.starts(build, state, free):
        state.working[group.create_task(slot.work(build, start))] = start


def _wakes_at(state: State) -> datetime | None:
    """When something can be started that cannot be started now."""
    times = [state.pause.until] if state.pause else list(state.not_before.values())
    return min(times, default=None)


async def _first(build: Build, state: State) -> "set[asyncio.Task[Any]]":
    """Wait until a task has ended, a pause is over or a person wants to stop."""
    stops = [build.stop.draining, build.stop.now]
    signals = [asyncio.ensure_future(stop.wait()) for stop in stops if not stop.is_set()]
    tasks: set[asyncio.Task[Any]] = {*state.working, *([state.upkeep] if state.upkeep else [])}
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


async def _finish(build: Build, state: State, task: "asyncio.Task[Any]") -> None:
    if task is state.upkeep:
        state.upkeep, state.looked = None, True
        state.waiting.clear()  # a parent moved on: its children may start now
        _learn(build, state, task.result())
        return
    start = state.working.pop(task)
    outcome: Outcome = task.result()
    state.budget = settle(state.budget, start.batch.key, outcome.ended.cost_usd)
    batch = await lane.record(build, start, outcome)
    _react(build, state, start, batch, outcome)
    state.due = state.due or start.conflict is not None or lane.to_publish(batch)


def _learn(build: Build, state: State, found: Pass) -> None:
    busy = {start.batch.key for start in state.working.values()}
    state.conflicts = {key: conflict for key, conflict in found.conflicts.items() if key not in busy}
    for note in found.notes:
        if note not in state.told:
            state.told.add(note)
            build.events.put_nowait(Event(EventKind.WARNING, "", note))


def _react(build: Build, state: State, start: Start, batch: Batch, outcome: Outcome) -> None:
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
        if start.conflict is None:
            state.not_before[batch.key] = lane.retry_at(build, batch)
        build.events.put_nowait(Event(EventKind.WARNING, batch.key, f"attempt ended ({result}): {reason}"))
