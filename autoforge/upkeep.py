"""One pass over what is built: learn what happened, move what stands wrong, publish what is to be published."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoforge import adoption, publishing, reconcile, restack, tidy
from autoforge.build import Build
from autoforge.events import Event, EventKind
from autoforge.plan import Row
from autoforge.reconcile import Learnt
from autoforge.restack import Red, Step
from db.feature import UNMERGED, Batch
from git_workflow.base import Target
from git_workflow.errors import GitWorkflowError, JoinConflict
from git_workflow.forge import PullRequest


@dataclass
class Pass:
    """What a pass found. `waiting`: batches that stay as they are, and why; `conflicts`: what an agent could resolve."""

    notes: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    conflicts: dict[str, JoinConflict] = field(default_factory=dict)


async def run(build: Build, to_publish: Callable[[Batch], bool]) -> Pass:
    """One at a time, parents before children. Raises GitWorkflowError when remote or forge cannot be reached."""
    async with build.upkeep:
        learnt = await learn(build)
        found = Pass(list(learnt.notes))
        target = await build.fetch_target()
        for key in await asyncio.to_thread(bottom_first, build):
            if build.stop.now.is_set():
                return found
            try:
                await _one(build, target, key, pulls=learnt.pulls, to_publish=to_publish, found=found)
            except JoinConflict as conflict:
                await asyncio.to_thread(_conflict, build, key, conflict, found)
            except GitWorkflowError as error:
                await asyncio.to_thread(_mark, build, key, str(error), None, found)
        await asyncio.to_thread(tidy.run, build)
    return found


async def learn(build: Build) -> Learnt:
    """What people did to pull requests and branches, into the table. Raises GitWorkflowError."""
    learnt = Learnt({}, [])
    if build.forge and build.project.remote:
        target = await build.fetch_target(fresh=True)
        git, remote = build.project.repo.git, build.project.remote
        learnt = await asyncio.to_thread(reconcile.sync, build.store, build.forge, git, remote, target)
    notes = await asyncio.to_thread(adoption.run, build)
    return Learnt(learnt.pulls, learnt.notes + notes)


def bottom_first(build: Build) -> list[str]:
    """Unmerged batches, after those that they stand on and those that they are to stand on."""
    features = {f.id: f for f in build.store.nodes()}
    batches = {b.key: b for b in build.store.batches() if b.status in UNMERGED}
    graph = {
        key: [p.key for p in batch.parents]
        + [str(features[d].batch_key) for i in batch.feature_ids for d in features[i].dependencies]
        for key, batch in batches.items()
    }
    ordered: dict[str, None] = {}
    begun: set[str] = set()
    todo = list(reversed(graph))
    while todo:
        key = todo[-1]
        below = [k for k in graph[key] if k in graph and k not in ordered and k not in begun]
        begun.add(key)
        if below:
            todo += below
        else:
            ordered.setdefault(todo.pop())
    return list(ordered)


async def _one(
    build: Build,
    target: Target,
    key: str,
    *,
    pulls: Mapping[int, PullRequest],
    to_publish: Callable[[Batch], bool],
    found: Pass,
) -> None:
    features, batches = (
        await asyncio.to_thread(build.store.nodes),
        await asyncio.to_thread(build.store.batches),
    )
    batch = next(b for b in batches if b.key == key)
    if batch.pushed_sha and not build.publish:
        return
    why = restack.waits(build, batch, features, batches)
    if why:
        found.waiting[key] = why
        found.notes.append(f"{_name(batch)} {why}")
    elif not await _follow(build, target, batch, features, batches, found=found):
        return
    moved = await asyncio.to_thread(build.store.batch, key)
    if moved.pushed_sha and build.publish:
        moved = await publishing.keep_up(build, moved, pulls.get(moved.pr_number or 0))
    if to_publish(batch) and not why:
        await publishing.run(build, moved)


async def _follow(
    build: Build,
    target: Target,
    batch: Batch,
    features: Sequence[Row],
    batches: Sequence[Batch],
    *,
    found: Pass,
) -> bool:
    """Whether it stands where it should, after a move where one is needed."""
    if told := await asyncio.to_thread(restack.merged_with_others, build, target, batch, batches):
        found.notes.append(told)
    step = await asyncio.to_thread(restack.step, build, target, batch, features, batches)
    return step is None or await _move(build, step, found)


async def _move(build: Build, step: Step, found: Pass) -> bool:
    """Whether the batch is now what the step makes of it."""
    key = step.batch.key
    made = await restack.verified(build, step)
    if made is None:
        found.waiting[key] = "its verification was interrupted"
        return False
    if isinstance(made, Red):
        await asyncio.to_thread(_mark, build, key, made.reason, made.signature, found)
        return False
    found.notes += await asyncio.to_thread(restack.store, build, made)
    build.events.put_nowait(Event(EventKind.STAGE, key, f"moved onto {made.batch.base_branch}"))
    return True


def _mark(build: Build, key: str, reason: str, signature: str | None, found: Pass) -> None:
    """It stays as it is; a person is told once, and `status` says why."""
    batch = build.store.batch(key)
    found.waiting[key] = reason
    if (batch.last_error, batch.check_signature) != (reason, signature):
        build.store.save_batch(replace(batch, last_error=reason, check_signature=signature))
        found.notes.append(f"{_name(batch)}: {reason}")


def _conflict(build: Build, key: str, conflict: JoinConflict, found: Pass) -> None:
    """For an agent, unless one has tried this very conflict."""
    signature = restack.conflict_signature(conflict)
    batch = build.store.batch(key)
    if batch.check_signature == signature:
        found.waiting[key] = batch.last_error or str(conflict)
    else:
        found.conflicts[key] = conflict
        agents = "`autoforge restack` and `autoforge build` give that to an agent, once"
        reason = f"it cannot be moved yet, a conflict: {restack.clash(conflict)}. {agents}"
        _mark(build, key, reason, None, found)


def _name(batch: Batch) -> str:
    return f"#{batch.pr_number} ({batch.branch})" if batch.pr_number else batch.branch
