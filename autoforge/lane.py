"""What the loop does to one batch: choose it, claim it, give it a base, run it, record how it ended."""

import asyncio
import contextlib
import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from autoforge import attempt, budget, joining, plan, publishing
from autoforge.attempt import Job, Outcome
from autoforge.build import Build
from autoforge.events import Event, EventKind, Passed
from autoforge.joining import Side
from db.feature import (
    FREE_RESULTS,
    UNFINISHED,
    Attempt,
    Batch,
    BatchStatus,
    Ended,
    Feature,
    FeatureStatus,
    Kind,
    Parent,
    Result,
)
from git_workflow import base, worktree
from git_workflow.errors import GitWorkflowError, JoinConflict
from git_workflow.naming import saved_ref

LAST = Event(EventKind.STAGE, "", "")
STOP_S = 5.0  # for an attempt to end by itself after it was told to
MINIMUM_USD = 0.25  # with less an agent cannot do anything


@dataclass(frozen=True)
class Start:
    """A claimed batch: its attempt is recorded, its features are running."""

    batch: Batch
    features: tuple[Feature, ...]
    attempt: Attempt
    slot: int
    cap_usd: float


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


async def publish_built(build: Build) -> None:
    """Finish what an earlier build left between commit and pull request, parents first."""
    for batch in await asyncio.to_thread(build.store.batches):
        if to_publish(batch):
            await publishing.run(build, batch)


def to_publish(batch: Batch) -> bool:
    return batch.status in (BatchStatus.BUILT, BatchStatus.PUSHED)


async def next_batches(
    build: Build, held: Collection[str], slots: int
) -> list[tuple[Batch, tuple[int, ...]]]:
    """What to start in the free slots, with the features to work on: begun batches first."""
    if slots <= 0:
        return []
    features = await asyncio.to_thread(build.store.features)
    batches = await asyncio.to_thread(build.store.batches)
    ready = plan.available(features, batches, publish=build.publish)
    wanted = [
        f
        for f in features
        if build.selected is None or f.id in build.selected or f.status is FeatureStatus.PASSED
    ]
    begun = [(b, ids) for b, ids in plan.unfinished(wanted, batches, ready) if b.key not in held][:slots]
    settings = build.project.settings
    new = plan.new_batches(
        wanted,
        batches,
        ready_to_use=ready,
        size=settings.batch_size,
        slots=slots - len(begun),
        prefix=settings.branch_prefix,
    )
    return begun + [(batch, batch.feature_ids) for batch in new]


def reserve(build: Build, money: budget.Budget, key: str) -> tuple[budget.Budget, float] | None:
    agent = build.project.settings.agent
    return budget.reserve(
        money, key, cap_usd=agent.max_cost_usd, turn_usd=agent.turn_cost_usd, minimum_usd=MINIMUM_USD
    )


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
    by_id = {f.id: f for f in build.store.features()}
    features = tuple(by_id[i] for i in tried.feature_ids if by_id[i].status is FeatureStatus.RUNNING)
    return Start(build.store.batch(batch.key), features, tried, slot, cap_usd)


async def work(build: Build, start: Start) -> Outcome:
    """Base, then the attempt. Told to stop, it has STOP_S to end by itself before it is cancelled."""
    running = asyncio.ensure_future(_work(build, start))
    stopped = asyncio.ensure_future(build.stop.now.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait({running}, timeout=STOP_S)
    finally:
        stopped.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    if running.cancelled():
        return Outcome(Ended(Result.INTERRUPTED, "it was interrupted"))
    return running.result()


async def _work(build: Build, start: Start) -> Outcome:
    try:
        job = await _prepare(build, start)
    except JoinConflict as conflict:
        return await _resolve(build, start, conflict)
    except GitWorkflowError as error:
        return Outcome(Ended(Result.CRASHED, str(error)))
    return await attempt.run(job, build.events, build.stop.now)


async def _resolve(build: Build, start: Start, conflict: JoinConflict) -> Outcome:
    """Let an agent make the join that git could not, then go on with what is left of the attempt's money."""
    job = await _job(build, replace(start, cap_usd=start.cap_usd / 2), start.batch)
    sides = await asyncio.to_thread(_sides, build, start.batch)
    end = await attempt.guarded(
        joining.resolve(job, conflict, sides, events=build.events, stop=build.stop.now)
    )
    if end.result is not Result.PASSED or end.cost_usd is None:
        return Outcome(Ended(end.result, end.reason, end.cost_usd, end.turns), resets_at=end.resets_at)
    outcome = await _work(build, replace(start, cap_usd=max(start.cap_usd - end.cost_usd, MINIMUM_USD)))
    cost_usd = None if outcome.ended.cost_usd is None else outcome.ended.cost_usd + end.cost_usd
    return replace(outcome, ended=replace(outcome.ended, cost_usd=cost_usd))


def _sides(build: Build, batch: Batch) -> list[Side]:
    features, batches = build.store.features(), build.store.batches()
    keys = {tip.key for tip in plan.parents(batch, features, batches).tips}
    return [
        Side(f.name, f.description)
        for f in features
        if f.batch_key in keys and f.status is FeatureStatus.PASSED
    ]


async def _prepare(build: Build, start: Start) -> Job:
    features = await asyncio.to_thread(build.store.features)
    batches = await asyncio.to_thread(build.store.batches)
    batch = start.batch
    if batch.base_sha is None:
        target = await build.fetch_target()
        batch = await asyncio.to_thread(
            _give_base, build, batch, target, plan.parents(batch, features, batches)
        )
    return await _job(build, start, batch)


async def _job(build: Build, start: Start, batch: Batch) -> Job:
    features = await asyncio.to_thread(build.store.features)
    batches = await asyncio.to_thread(build.store.batches)
    below = {parent.key for parent in batch.parents}
    titles = [f.name for f in features if f.batch_key in below and f.status is FeatureStatus.PASSED]
    others = [b.worktree_path for b in batches if b.key != batch.key and b.worktree_path]
    return Job(
        build_id=build.id,
        batch=batch,
        features=start.features,
        number=start.attempt.number,
        session_id=start.attempt.session_id,
        slot=start.slot,
        cap_usd=start.cap_usd,
        repo=build.project.repo,
        root=build.project.worktrees,
        busy=frozenset(map(Path, others)),
        run_dir=build.run_dir,
        cli_path=build.cli_path,
        verify=build.verify,
        parents=tuple(titles),
        settings=build.project.settings,
        surroundings=build.project.surroundings,
        agent=build.agent,
    )


def _give_base(build: Build, batch: Batch, target: base.Target, below: plan.Parents) -> Batch:
    """Decide where the batch starts and record it before anything is made. Raises JoinConflict and GitFailed."""
    chosen = base.choose(
        build.project.repo.git,
        target=target,
        tips=below.tips,
        merged=below.merged,
        prefix=build.project.settings.branch_prefix,
    )
    based = replace(
        build.store.batch(batch.key),
        base_sha=chosen.sha,
        base_branch=chosen.branch,
        parents=tuple(Parent(tip.key, tip.sha) for tip in chosen.parents),
    )
    build.store.save_batch(based)
    return based


async def record(build: Build, start: Start, outcome: Outcome) -> Batch:
    """Write the outcome and the batch's next status; answers the batch as it is now."""
    return await asyncio.to_thread(_record, build, start, outcome)


def _record(build: Build, start: Start, outcome: Outcome) -> Batch:
    key = start.batch.key
    for passed in outcome.passed:
        _record_pass(build, key, passed)
    build.store.end_attempt(start.attempt.id, outcome.ended, max_attempts=build.project.settings.max_attempts)
    return settle(build, key, outcome)


def settle(build: Build, key: str, outcome: Outcome | None) -> Batch:
    """Decide a working batch's next status from its features. `outcome` None: its build was killed."""
    batch, features = build.store.batch(key), build.store.features()
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
    tries = [f.attempts for f in build.store.features() if f.id in batch.feature_ids]
    return build.now() + timedelta(seconds=build.back_off_s(max(tries, default=1)))
