"""What the loop does around one batch's work: choose it, claim it, record how it ended."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from autoforge import budget, plan, restack
from autoforge.attempt import Outcome
from autoforge.build import Build
from autoforge.events import Event, EventKind, Passed
from autoforge.landing_order import NOT_LANDED
from autoforge.slot import MINIMUM_USD, Start
from autoforge.state import State
from db.feature import (
    FREE_RESULTS,
    UNFINISHED,
    Batch,
    BatchStatus,
    FeatureStatus,
    Kind,
    Result,
)
from git_workflow import worktree
from git_workflow.errors import JoinConflict
from git_workflow.naming import saved_ref

LAST = Event(EventKind.STAGE, "", "")


async def record_events(build: Build) -> None:
    """Write what must last as it happens; the progress reads the same queue through `shown`."""
    while (event := await build.events.get()) is not LAST:
        if event.passed:
            await asyncio.to_thread(_record_pass, build, event.batch, event.passed)
        if event.kind in (EventKind.DENIED, EventKind.WARNING, EventKind.STAGE):
            await asyncio.to_thread(
                build.store.record_event,
                build_id=build.id,
                batch_key=event.batch or None,
                name=str(event.kind),
                data={"text": event.text},
            )
        build.show(event)


def _record_pass(build: Build, key: str, passed: Passed) -> None:
    build.store.record_pass(
        batch_key=key,
        feature_id=passed.feature_id,
        commit_sha=passed.commit_sha,
        evidence=passed.evidence,
        checks=passed.checks,
    )


def to_publish(batch: Batch) -> bool:
    return batch.status in (BatchStatus.BUILT, BatchStatus.PUSHED)


def was_tried(batch: Batch) -> bool:
    """Publishing it has begun and not ended."""
    why = batch.last_error if batch.status is BatchStatus.BUILT else None
    return batch.status is BatchStatus.PUSHED or bool(why and not why.startswith(NOT_LANDED))


async def next_batches(
    build: Build, held: Collection[str], slots: int
) -> list[tuple[Batch, tuple[int, ...]]]:
    """What to start in the free slots, with the features to work on: begun batches first."""
    if slots <= 0:
        return []
    standing = await asyncio.to_thread(build.store.standing)
    ready = plan.available(standing.features, standing.batches, publish=build.publish)
    wanted = [
        f
        for f in standing.features
        if build.selected is None or f.id in build.selected or f.status is FeatureStatus.PASSED
    ]
    unfinished = plan.unfinished(wanted, standing.unfinished, ready)
    begun = [(batch, ids) for batch, ids in unfinished if batch.key not in held][:slots]
    settings = build.project.settings
    new = plan.new_batches(
        wanted,
        standing.unfinished,
        ready_to_use=ready,
        size=settings.batch_size,
        slots=slots - len(begun),
        prefix=settings.branch_prefix,
    )
    return begun + [(batch, batch.feature_ids) for batch in new]


async def starts(build: Build, state: State, free: list[int]) -> AsyncIterator[Start]:
    """What is in the way of others first: conflicts, then begun batches, then new ones."""
    for key in [*state.conflicts][: len(free)]:
        if (cap_usd := _reserve(build, state, key)) is None:
            return
        conflict = state.conflicts.pop(key)
        yield await begin_repair(build, key, conflict, slot=free.pop(0), cap_usd=cap_usd)
    held = {key for key, until in state.not_before.items() if until > build.now()} | set(state.waiting)
    held |= {start.batch.key for start in state.working.values()}
    for batch, feature_ids in await next_batches(build, held, len(free)):
        before = state.budget
        if (cap_usd := _reserve(build, state, batch.key)) is None:
            return
        start = await begin(build, batch, feature_ids, slot=free.pop(0), cap_usd=cap_usd)
        if start is None:  # a person changed its features meanwhile
            state.budget = before
            continue
        yield start


def _reserve(build: Build, state: State, key: str) -> float | None:
    agent = build.project.settings.agent
    caps = {"cap_usd": agent.max_cost_usd, "turn_usd": agent.turn_cost_usd, "minimum_usd": MINIMUM_USD}
    reserved = budget.reserve(state.budget, key, **caps)
    if reserved is None:
        state.ending, state.why = Result.MONEY, "the budget has no room for another attempt"
        return None
    state.budget = reserved[0]
    return reserved[1]


async def begin(
    build: Build, batch: Batch, feature_ids: tuple[int, ...], *, slot: int, cap_usd: float
) -> Start | None:
    """Claim the batch and record the attempt; None when a person changed its features meanwhile."""
    return await asyncio.to_thread(_begin, build, batch, feature_ids, slot, cap_usd)


def _begin(
    build: Build, batch: Batch, feature_ids: tuple[int, ...], slot: int, cap_usd: float
) -> Start | None:
    if batch.created_at is None and not build.store.plan_batch(replace(batch, notes=build.notes)):
        return None
    tried = build.store.start_attempt(
        batch_key=batch.key,
        feature_ids=feature_ids,
        kind=Kind.CODE,
        build_id=build.id,
        session_id=str(uuid.uuid4()),
    )
    if tried is None:
        if batch.created_at is None:
            build.store.drop_planned(batch.key)
        return None
    features = tuple(
        f for f in map(build.store.feature, tried.feature_ids) if f.status is FeatureStatus.RUNNING
    )
    return Start(build.store.batch(batch.key), features, tried, slot, cap_usd)


async def begin_repair(build: Build, key: str, conflict: JoinConflict, *, slot: int, cap_usd: float) -> Start:
    """Record the attempt at what git could not merge; the batch and its features stay as they are."""
    batch = await asyncio.to_thread(build.store.batch, key)
    features = await asyncio.to_thread(build.store.features)
    passed = [f for f in features if f.batch_key == key and f.status is FeatureStatus.PASSED]
    tried = await asyncio.to_thread(
        build.store.start_repair,
        batch_key=key,
        feature_ids=[f.id for f in passed],
        kind=Kind.RESTACK,
        build_id=build.id,
        session_id=str(uuid.uuid4()),
    )
    return Start(batch, tuple(passed), tried, slot, cap_usd, conflict)


async def record(build: Build, start: Start, outcome: Outcome) -> Batch:
    """Write the outcome and the batch's next status; answers the batch as it is now."""
    return await asyncio.to_thread(_record, build, start, outcome)


def _record(build: Build, start: Start, outcome: Outcome) -> Batch:
    key = start.batch.key
    for passed in outcome.passed:
        _record_pass(build, key, passed)
    build.store.end_attempt(start.attempt.id, outcome.ended, max_attempts=build.project.settings.max_attempts)
    if start.conflict:
        return _record_repair(build, key, start.conflict, outcome)
    return settle(build, key, outcome)


def _record_repair(build: Build, key: str, conflict: JoinConflict, outcome: Outcome) -> Batch:
    """One try at a conflict; then it waits for a person. What costs no attempt was no try."""
    batch, ended = build.store.batch(key), outcome.ended
    if ended.result is not Result.PASSED and ended.result not in FREE_RESULTS:
        batch = replace(
            batch,
            last_error=restack.how_to_resolve(build, batch, conflict, ended.reason),
            check_signature=restack.conflict_signature(conflict),
        )
        build.store.save_batch(batch)
    return batch


def settle(build: Build, key: str, outcome: Outcome | None) -> Batch:
    """Decide a working batch's next status from its features. `outcome` None: its build was killed."""
    batch, features = build.store.batch(key), build.store.nodes()
    over = outcome is not None and outcome.ended.result not in FREE_RESULTS
    status = plan.next_status(batch, features, over=over)
    path = str(outcome.worktree) if outcome and outcome.worktree else batch.worktree_path
    reason = outcome.ended.reason if outcome else batch.last_error
    reason = None if status is BatchStatus.BUILT else reason
    if status not in UNFINISHED and path:
        worktree.park(build.project.repo, Path(path), saved_ref(key, "left-over"))
        path = None
    batch = replace(batch, status=status, worktree_path=path, last_error=reason or None)
    build.store.save_batch(batch)
    return batch


def retry_at(build: Build, batch: Batch) -> datetime:
    tries = [f.attempts for f in build.store.nodes() if f.id in batch.feature_ids]
    return build.now() + timedelta(seconds=build.back_off_s(max(tries, default=1)))
