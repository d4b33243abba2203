"""What happens in a slot: the batch gets its base, then an agent works on it, or on what git could not merge."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from autoforge import attempt, joining, plan
from autoforge.attempt import Job, Outcome
from autoforge.build import Build
from autoforge.joining import Side
from db.feature import Attempt, Batch, Ended, Feature, FeatureStatus, Parent, Result
from git_workflow import base
from git_workflow.errors import GitWorkflowError, JoinConflict

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
    conflict: JoinConflict | None = (
        None  # what to resolve before the branch can be moved; the features have passed
    )


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
    if start.conflict:
        return await _repair(build, start, start.conflict)
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


async def _repair(build: Build, start: Start, conflict: JoinConflict) -> Outcome:
    """One session with both sides; the next pass over what is built goes on with what it resolved."""
    job = await _job(build, start, start.batch)
    sides = await asyncio.to_thread(_sides, build, start.batch)
    mine = [Side(f.name, f.description) for f in start.features]
    work = joining.resolve(job, conflict, [*sides, *mine], events=build.events, stop=build.stop.now)
    end = await attempt.guarded(work)
    return Outcome(Ended(end.result, end.reason, end.cost_usd, end.turns), resets_at=end.resets_at)


def _sides(build: Build, batch: Batch) -> list[Side]:
    """What the parents are about: those that it was built on, and those that it is to stand on."""
    features, batches = build.store.features(), build.store.batches()
    keys = {tip.key for tip in plan.parents(batch, features, batches).tips} | {p.key for p in batch.parents}
    return [
        Side(f.name, f.description)
        for f in features
        if f.batch_key in keys and f.status is FeatureStatus.PASSED
    ]


async def _prepare(build: Build, start: Start) -> Job:
    features = await asyncio.to_thread(build.store.nodes)
    batches = await asyncio.to_thread(build.store.batches)
    batch = start.batch
    if batch.base_sha is None:
        target = await build.fetch_target()
        batch = await asyncio.to_thread(
            _give_base, build, batch, target, plan.parents(batch, features, batches)
        )
    return await _job(build, start, batch)


async def _job(build: Build, start: Start, batch: Batch) -> Job:
    features = await asyncio.to_thread(build.store.nodes)
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
