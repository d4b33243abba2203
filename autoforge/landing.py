"""Merges verified batches into the local target, parents first, each verified together with what is there."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoforge import adoption, landed, landing_order, preflight, pull_request, restack, trial, verify
from autoforge.build import Build, unless
from autoforge.errors import AutoforgeError, UsageError
from autoforge.events import Event, EventKind
from autoforge.landing_order import NOT_LANDED
from autoforge.leading import Options, Seams, leading
from autoforge.process import Finished
from autoforge.project import Project, target_branch
from db.feature import Batch, BatchStatus, Feature, FeatureStatus
from db.store import FeatureStore
from git_workflow import beginning, landing
from git_workflow.errors import GitWorkflowError, JoinConflict, UnusableRepository
from git_workflow.repository import head_sha

INTERRUPTED = "it was interrupted."
TRIES = 3  # when the target moves meanwhile


@dataclass(frozen=True)
class Landed:
    """What came into the target, and what did not: key and why."""

    batches: tuple[Batch, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.left else 0


async def run(
    project_: Project,
    store: FeatureStore,
    options: Options,
    show: Callable[[Event], None],
    *,
    asked: Collection[str] | None,
) -> Landed:
    """Lead, and land the asked batches (None: all). Raises UsageError when one of them cannot, and then lands nothing."""
    if landing_order.verified(store.batches()):
        check(project_, options)
    async with leading(project_, store, options, show, Seams()) as build:
        for told in await asyncio.to_thread(preflight.recover, build):
            _warn(build, "", told)
        for told in await asyncio.to_thread(adoption.run, build):
            _warn(build, "", told)
        return await land(build, asked, by_name=asked is not None)


def check(project_: Project, options: Options) -> None:
    """What makes landing pointless. Raises UsageError, and UnusableRepository when the target cannot be moved."""
    if not (project_.settings.verify.commands or options.no_verify):
        raise UsageError(
            "No verify command is configured, so nothing could show that what lands works. Set `verify.commands` in "
            "autoforge.toml, or land with --no-verify."
        )
    git, target = project_.repo.git, target_branch(project_)
    if not beginning.is_empty(git):
        landing.tip(git, target)


async def land_selected(build: Build) -> dict[str, str]:
    """What a build was to make, as far as it has passed; answers what has not landed, in words."""
    batches = {b.key: b for b in build.store.batches()}
    wanted = landing_order.verified(list(batches.values()))
    if build.selected is not None:
        wanted = frozenset(key for key in wanted if build.selected & set(batches[key].feature_ids))
    ended = await land(build, wanted)
    return {
        key: f"{batches[key].branch} has not landed in {build.target_branch}: {why}"
        for key, why in ended.left.items()
    }


async def land(build: Build, asked: Collection[str] | None, *, by_name: bool = False) -> Landed:
    """As `run`, in a build that leads."""
    before = {b.key for b in build.store.batches() if b.status is BatchStatus.MERGED}
    await asyncio.to_thread(landed.recognise, build)
    batches = build.store.batches()
    keys = landing_order.verified(batches) if asked is None else asked
    order = landing_order.order(batches, keys, by_name=by_name)
    if by_name and order.left:
        key, obstacle = next(iter(order.left.items()))
        raise UsageError(f"{build.store.batch(key).branch} cannot land: {obstacle} Nothing has landed.")
    for batch in order.added:
        _tell(build, batch.key, f"{batch.branch} lands as well: others are built on it")
    left = dict(order.left)
    for batch in order.batches:
        if why := await _one(build, batch, left):
            left[batch.key] = why
            _warn(build, batch.key, f"{batch.branch} has not landed: {why}")
    now = [b for b in build.store.batches() if b.status is BatchStatus.MERGED and b.key not in before]
    return Landed(tuple(now), left, interrupted=build.stop.draining.is_set() and bool(left))


async def _one(build: Build, batch: Batch, left: Mapping[str, str]) -> str | None:
    """Why it has not landed, None when it has; recorded where it is the batch's own doing."""
    by_key = {b.key: b for b in build.store.batches()}
    if build.stop.draining.is_set():
        return INTERRUPTED
    why = landing_order.stacked_on_left(batch, by_key, left)
    if why:
        return why
    try:
        why = await _merge(build, by_key[batch.key])
    except JoinConflict as error:
        why = (
            f"it conflicts with {build.target_branch}: {error}. Merge {build.target_branch} into {batch.branch}, "
            "resolve that there, and land it again."
        )
    except UnusableRepository as error:  # the target's checkout, not the batch
        return str(error)
    except (AutoforgeError, GitWorkflowError) as error:
        why = str(error)
    if why and why is not INTERRUPTED:
        build.store.save_batch(replace(build.store.batch(batch.key), last_error=f"{NOT_LANDED}{why}"))
    return why


async def _merge(build: Build, batch: Batch) -> str | None:
    """Merge, verify the result, move the target to exactly that; again where it has moved meanwhile."""
    git, target, head = build.project.repo.git, build.target_branch, batch.head_sha
    assert head is not None
    features = _passed(build, batch)
    if not features:
        return "all that passed in it was reset."
    for _ in range(TRIES):
        old = await asyncio.to_thread(landing.tip, git, target)
        if (there := head_sha(git, f"refs/heads/{batch.branch}")) != head:
            return (
                f"its branch is at {(there or 'no commit')[:10]} and not at {head[:10]}, as the table has it."
            )
        made = await asyncio.to_thread(
            landing.merge,
            git,
            old,
            head,
            message=_message(build, batch, features),
            kept=landed.kept(batch),
            sign=build.project.settings.commit.sign,
        )
        _tell(build, batch.key, f"verifying {batch.branch} merged into {target} ({old[:10]})")
        red = await unless(build.stop.draining, _verify(build, batch, old=old, made=made))
        if red != "":
            return INTERRUPTED if red is None else red
        if await asyncio.to_thread(landing.advance, git, target, old=old, new=made):
            await asyncio.to_thread(landed.recognise, build)
            _tell(build, batch.key, f"landed {batch.branch} in {target} ({made[:10]})")
            return None
    return f"{target} moved while it was verified, {TRIES} times. Land it when nobody commits there."


async def _verify(build: Build, batch: Batch, *, old: str, made: str) -> str:
    """What is red on the merge, empty when all is green on exactly that commit."""
    commands = await asyncio.to_thread(restack.commands_of, build, batch)
    tried = await trial.run(build, made, commands, slot=0)
    red, known = await trial.caused(build, tried, by=old, slot=0)
    for command in known:
        _warn(
            build, "", f"`{command}` is red on {build.target_branch} already and was not asked of what lands"
        )
    if not (red or tried.left):
        return ""
    output = build.run_dir / f"land-{batch.key}.txt"
    output.write_text("\n".join(map(_as_text, tried.ran)), "utf-8", "replace")
    where = f"merged into {build.target_branch} ({old[:10]})"
    if red:
        how = f"Mend it on its branch and land it again; the whole output is in {output}."
        return f"{where} it is red. {how}\n{verify.failure_text(red)}"
    return f"{where} the commands leave files that git does not ignore:\n{tried.left}"


def _as_text(one: Finished) -> str:
    how = "timed out" if one.timed_out else f"exit code {one.exit_code}"
    return f"$ {one.command}\n{one.output.rstrip()}\n({how}, {one.duration_s:.1f} s)\n"


def _passed(build: Build, batch: Batch) -> list[Feature]:
    return [
        f for f in build.store.features() if f.batch_key == batch.key and f.status is FeatureStatus.PASSED
    ]


def _message(build: Build, batch: Batch, features: Sequence[Feature]) -> str:
    rows = [f"- {pull_request.harmless(f.name)} (feature {f.id})" for f in features]
    notes = [*build.notes, ""] if build.notes else []
    head = f"Merge branch '{batch.branch}'"
    return "\n".join([head, "", *rows, "", *notes, f"Autoforge-Batch: {batch.key}", ""])


def _warn(build: Build, key: str, text: str) -> None:
    build.show(Event(EventKind.WARNING, key, text))


def _tell(build: Build, key: str, text: str) -> None:
    build.show(Event(EventKind.STAGE, key, text))
