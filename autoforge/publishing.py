"""Brings a built batch onto the remote and into one pull request, recording each step."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from autoforge import pull_request, stack
from autoforge.build import Build
from autoforge.events import Event, EventKind
from autoforge.project import known_target
from autoforge.pull_request import Clash, Facts, StackEntry
from db.feature import UNMERGED, Attempt, Batch, BatchStatus, Feature, FeatureStatus, PrStatus
from git_workflow import diff, publish
from git_workflow.errors import ForgeFailed, GitWorkflowError, PushRejected
from git_workflow.forge import Forge, PullRequest
from git_workflow.naming import is_join, saved_ref
from git_workflow.repository import head_sha

log = logging.getLogger("autoforge.publishing")


async def run(build: Build, batch: Batch) -> None:
    """Publish as far as it was asked for and is possible. What fails is recorded with its reason and can be retried."""
    try:
        if await asyncio.to_thread(close_reset, build, batch):
            return
        batch = await asyncio.to_thread(_settle_empty, build, batch)
        if build.publish and batch.status is BatchStatus.BUILT:
            batch = await asyncio.to_thread(_push, build, batch)
            _tell(build, batch, f"pushed {batch.branch}")
        if build.publish and build.forge and batch.status is BatchStatus.PUSHED:
            batch = await asyncio.to_thread(_open, build, build.forge, batch)
            if batch.status is BatchStatus.OPENED:
                _tell(build, batch, f"pull request #{batch.pr_number} {batch.pr_url}")
                await asyncio.to_thread(_update_neighbours, build, build.forge, batch)
    except GitWorkflowError as error:
        _warn(build, batch, f"not published: {error}")
        failed = await asyncio.to_thread(build.store.batch, batch.key)
        await asyncio.to_thread(build.store.save_batch, replace(failed, last_error=str(error)))


def close_reset(build: Build, batch: Batch) -> bool:
    """Whether a person has reset all that passed in it: then it counts as closed, and its branch stays."""
    if batch.status not in (BatchStatus.BUILT, BatchStatus.PUSHED):
        return False
    if any(n.batch_key == batch.key and n.status is FeatureStatus.PASSED for n in build.store.nodes()):
        return False
    _close(build, batch)
    return True


def _close(build: Build, batch: Batch) -> Batch:
    closed = replace(batch, status=BatchStatus.CLOSED, last_error=None)
    build.store.save_batch(closed)
    _tell(
        build, batch, f"{batch.branch} is not published: all that passed in it was reset. The branch stays."
    )
    return closed


def _settle_empty(build: Build, batch: Batch) -> Batch:
    """A batch that changed nothing (it was all there already) is part of what it was based on."""
    if batch.status is not BatchStatus.BUILT or batch.head_sha != batch.base_sha:
        return batch
    status = BatchStatus.FOLDED if batch.parents else BatchStatus.MERGED
    done = replace(batch, status=status, merge_sha=batch.head_sha)
    build.store.save_batch(done)
    return done


def _push(build: Build, batch: Batch) -> Batch:
    if build.forge and (found := build.forge.find(batch.branch)) and found.state == "closed":
        raise PushRejected(
            f"pull request #{found.number} of {batch.branch} is {'merged' if found.merged else 'closed'}: "
            "pushing would bring its branch back. Run `autoforge sync`."
        )
    pushed = _put(build, batch)
    pushed = replace(pushed, status=BatchStatus.PUSHED, last_error=None)
    build.store.save_batch(pushed)
    return pushed


def _put(build: Build, batch: Batch) -> Batch:
    """The branch, and the join below it, as the table has them. Raises PushRejected and GitFailed."""
    git, remote = build.project.repo.git, build.project.remote
    assert remote is not None
    assert batch.head_sha is not None
    if head_sha(git, batch.head_sha) is None:
        raise PushRejected(
            f"{batch.head_sha[:10]} of {batch.branch} is not in this clone, but in the one where it was built: run "
            "`autoforge build --auto-pr` there, or `autoforge features reset` what passed in it to build it again."
        )
    build.store.ensure_leading()
    if is_join(batch.base_branch or ""):
        assert batch.base_branch is not None
        assert batch.base_sha is not None
        saved = saved_ref(batch.key, batch.base_branch.rsplit("/", 1)[-1])
        publish.ensure_join(git, remote, branch=batch.base_branch, sha=batch.base_sha, saved=saved)
    publish.ensure_pushed(git, remote, branch=batch.branch, sha=batch.head_sha, known=batch.pushed_sha)
    put = replace(batch, pushed_sha=batch.head_sha)
    build.store.save_batch(put)
    return put


async def keep_up(build: Build, batch: Batch, pull: PullRequest | None) -> Batch:
    """Bring a move of the branch to the remote and to its open pull request. Raises GitWorkflowError."""
    moved = batch.head_sha != batch.pushed_sha
    if moved:
        batch = await asyncio.to_thread(_put, build, batch)
        _tell(build, batch, f"pushed {batch.branch}")
    if pull and build.forge and pull.state == "open":
        retargeted = await asyncio.to_thread(_retarget, build, build.forge, batch, pull)
        if moved or retargeted:
            await asyncio.to_thread(_update_neighbours, build, build.forge, batch)
    return batch


def _retarget(build: Build, forge: Forge, batch: Batch, pull: PullRequest) -> bool:
    """Only what stands on a join is a draft because of that."""
    if pull.base_branch == batch.base_branch or batch.base_branch is None:
        return False
    if is_join(batch.base_branch):
        _put(build, batch)
    elif _is_gone(build, batch.base_branch):  # what it waits for comes back under another name
        build.store.save_batch(replace(batch, base_branch=pull.base_branch))
        return False
    off_the_join = is_join(pull.base_branch) and not is_join(batch.base_branch)
    if pull.draft and off_the_join and not build.project.settings.pr.draft:
        forge.ready(
            pull.number
        )  # before the base is changed: afterwards nothing tells that it is still to be done
        status, opened = PrStatus.OPEN, BatchStatus.OPENED
        build.store.set_pull_request(
            batch.key, number=pull.number, url=pull.url, status=status, batch_status=opened
        )
    forge.edit(pull.number, base=batch.base_branch)
    _tell(build, batch, f"#{pull.number} now targets {batch.base_branch}")
    return True


def _is_gone(build: Build, branch: str) -> bool:
    git, remote = build.project.repo.git, build.project.remote
    return remote is not None and publish.remote_branch(git, remote, branch) is None


def _open(build: Build, forge: Forge, batch: Batch) -> Batch:
    features, batches, attempts = build.store.features(), build.store.batches(), build.store.attempts()
    mine = [f for f in features if f.id in batch.feature_ids]
    passed = [f for f in mine if f.status is FeatureStatus.PASSED and f.batch_key == batch.key]
    if not passed:  # a person has reset it while it was pushed
        return _close(build, batch)
    waiting = [f for f in mine if f not in passed]
    facts = _facts(build, batch, features, batches, attempts)
    assert batch.base_branch is not None
    assert batch.head_sha is not None
    build.store.ensure_leading()
    pull = publish.ensure_opened(
        forge,
        head=batch.branch,
        sha=batch.head_sha,
        base=batch.base_branch,
        title=pull_request.title(passed),
        body=pull_request.body(batch, passed, waiting, facts),
        draft=build.project.settings.pr.draft or facts.is_join,
    )
    build.store.set_pull_request(
        batch.key, number=pull.number, url=pull.url, status=_status(pull), batch_status=BatchStatus.OPENED
    )
    opened = build.store.batch(batch.key)
    build.store.save_batch(replace(opened, last_error=None))
    return opened


def _status(pull: PullRequest) -> PrStatus:
    if pull.merged:
        return PrStatus.MERGED
    if pull.state == "closed":
        return PrStatus.CLOSED
    return PrStatus.DRAFT if pull.draft else PrStatus.OPEN


def _update_neighbours(build: Build, forge: Forge, batch: Batch) -> None:
    """This pull request, those below and above and those that it clashes with; what a person wrote there stays."""
    features, batches, attempts = build.store.features(), build.store.batches(), build.store.attempts()
    below = {parent.key for parent in batch.parents}
    clashing = {clash.name for clash in _clashes(build, batch, batches)}
    for other in batches:
        near = other.key in below or batch.key in {parent.key for parent in other.parents}
        near = near or other.key == batch.key or f"#{other.pr_number}" in clashing
        if not near or other.pr_number is None or other.status is not BatchStatus.OPENED:
            continue
        try:
            body = forge.get(other.pr_number).body
            updated = pull_request.with_stack(body, _facts(build, other, features, batches, attempts))
            if updated != body:
                forge.edit(other.pr_number, body=updated)
        except ForgeFailed as error:  # the pull request itself is open: nothing is left to publish
            _warn(build, batch, f"#{other.pr_number} does not name #{batch.pr_number} yet: {error}")


def _facts(
    build: Build,
    batch: Batch,
    features: Sequence[Feature],
    batches: Sequence[Batch],
    attempts: Sequence[Attempt],
) -> Facts:
    mine = [a for a in attempts if a.batch_key == batch.key]
    costs = [a.cost_usd for a in mine if a.outcome]
    known = [cost for cost in costs if cost is not None]
    assert batch.base_sha is not None
    assert batch.head_sha is not None
    by_key = {b.key: b for b in batches}
    children = [b for b in batches if b.status in UNMERGED and batch.key in {p.key for p in b.parents}]
    return Facts(
        diff=diff.read(build.project.repo.git, batch.base_sha, batch.head_sha),
        target=build.target_branch,
        parents=tuple(_entry(by_key[p.key], features) for p in batch.parents if p.key in by_key),
        children=tuple(_entry(b, features) for b in children),
        is_join=is_join(batch.base_branch or ""),
        conflicts=_clashes(build, batch, batches),
        verified_on=batch.head_sha if batch.checks else None,
        cost_usd=sum(known) if len(known) == len(costs) else None,
        minutes=sum((a.ended_at - a.started_at).total_seconds() for a in mine if a.ended_at) / 60,
        tries=len(mine),
    )


def _clashes(build: Build, batch: Batch, batches: Sequence[Batch]) -> tuple[Clash, ...]:
    """What it will conflict with when one of them is merged."""
    target = known_target(build.project, build.target_branch)
    if target is None:
        return ()
    names = {b.branch: f"#{b.pr_number}" if b.pr_number else b.branch for b in batches}
    found = stack.clashes(build.project.repo.git, batches, target, only=[batch.branch])
    return tuple(
        Clash(names.get(other, other), conflict.paths)
        for conflict in found
        for other in (conflict.left, conflict.right)
        if other != batch.branch
    )


def _entry(batch: Batch, features: Sequence[Feature]) -> StackEntry:
    passed = [f for f in features if f.batch_key == batch.key and f.status is FeatureStatus.PASSED]
    title = pull_request.title(passed) if passed else batch.branch
    return StackEntry(batch.branch, title, batch.pr_number, batch.pr_url)


def _warn(build: Build, batch: Batch, text: str) -> None:
    log.warning("batch=%s %s", batch.key, text)
    build.events.put_nowait(Event(EventKind.WARNING, batch.key, text))


def _tell(build: Build, batch: Batch, text: str) -> None:
    build.events.put_nowait(Event(EventKind.STAGE, batch.key, text))
