"""Verifies open branches together, and finds the fewest of them that are red with each other."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from autoforge import restack, trial, verify
from autoforge.build import Build, unless
from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.process import Finished
from autoforge.upkeep import bottom_first
from db.feature import UNMERGED, Batch
from git_workflow import base, overlap, publish
from git_workflow.errors import JoinConflict
from git_workflow.repository import is_ancestor

T = TypeVar("T")


@dataclass(frozen=True)
class Together:
    """What was verified: `sha`, made of the target and these. `left`: keys of what could not be part of it, and why.

    `dirt`: files that the commands left. `culprits`: the smallest set that was found to be red on the target, empty when
    the target is red by itself; None where nothing is red, or it was not looked for to the end.
    """

    target: str
    sha: str
    batches: tuple[Batch, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    red: tuple[Finished, ...] = ()
    dirt: str = ""
    culprits: tuple[Batch, ...] | None = None
    output: Path | None = None
    interrupted: bool = False

    @property
    def green(self) -> bool:
        return bool(self.batches) and not (self.red or self.dirt or self.interrupted)

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 0 if self.green and not self.left else 1


@dataclass(frozen=True)
class _Join:
    sha: str
    batches: tuple[Batch, ...]
    left: Mapping[str, str]


async def run(build: Build, wanted: Collection[str]) -> Together:
    """`wanted`: keys of batches; none: all that are unmerged. Raises UsageError, AutoforgeError and GitWorkflowError."""
    for told in await asyncio.to_thread(trial.forget, build):
        build.show(Event(EventKind.WARNING, "", told))
    target = (await build.fetch_target(fresh=True)).sha
    batches = await asyncio.to_thread(_chosen, build, wanted)
    known = await asyncio.to_thread(_changed_elsewhere, build, batches)
    made = await asyncio.to_thread(_join, build, target, batches, known)
    commands = await asyncio.to_thread(_commands, build, made.batches)
    if not made.batches:
        return Together(target, target, (), made.left)
    if not commands:
        raise UsageError(
            "There is no verify command, so nothing could show that they work. Set `verify.commands` in autoforge.toml."
        )
    tried = await _try(build, made, commands)
    found = Together(target, made.sha, made.batches, made.left)
    if tried is None:
        return replace(found, interrupted=True)
    if not tried.red:
        return replace(found, dirt=tried.left)
    culprits = await _culprits(build, target, made.batches, [one.command for one in tried.red])
    return replace(
        found,
        red=tried.red,
        culprits=culprits,
        output=_keep(build, tried.red),
        interrupted=culprits is None,
    )


def _keep(build: Build, red: Sequence[Finished]) -> Path:
    path = build.run_dir / "together.txt"
    texts = (verify.failure_text([one], limit=100_000) for one in red)
    path.write_text("\n\n".join(texts) + "\n", "utf-8", "replace")
    return path


def _chosen(build: Build, wanted: Collection[str]) -> list[Batch]:
    """Bottom first, with what they are built on. Raises UsageError."""
    by_key = {b.key: b for b in build.store.batches()}
    for key in wanted:
        if by_key[key].status not in UNMERGED:
            raise UsageError(
                f"{by_key[key].branch} is {by_key[key].status}: only what waits to be merged can be verified together."
            )
    chosen, todo = set(), [*wanted]
    while todo:
        key = todo.pop()
        if key not in chosen and key in by_key:
            chosen.add(key)
            todo += [parent.key for parent in by_key[key].parents]
    found = [by_key[key] for key in bottom_first(build) if not wanted or key in chosen]
    if not found:
        raise UsageError("No branch is waiting to be merged: `autoforge status` shows what there is.")
    return found


def _changed_elsewhere(build: Build, batches: Sequence[Batch]) -> dict[str, str]:
    """What is not on the remote as the table has it. Raises GitFailed."""
    remote = build.project.remote
    if remote is None or not any(b.pushed_sha for b in batches):
        return {}
    pattern = f"{build.project.settings.branch_prefix}/*"
    there = publish.remote_branches(build.project.repo.git, remote, pattern)
    return {
        b.key: "somebody changed or deleted it on the remote: `autoforge sync` takes that over"
        for b in batches
        if b.pushed_sha and there.get(b.branch) != b.pushed_sha
    }


def _join(
    build: Build, target: str, batches: Sequence[Batch], left_before: Mapping[str, str] | None = None
) -> _Join:
    """The target with one after the other merged into it, and what could not be."""
    git, sha = build.project.repo.git, target
    inside: list[Batch] = []
    left = dict(left_before or {})
    names = {b.key: b.branch for b in batches}
    for batch in batches:
        if batch.key in left:
            continue
        assert batch.head_sha is not None
        if outside := [parent.key for parent in batch.parents if parent.key in left]:
            left[batch.key] = f"it is built on {names[outside[0]]}, which is left out"
            continue
        try:
            if not is_ancestor(git, batch.head_sha, sha):
                sha = base.join(git, [sha, batch.head_sha])
            inside.append(batch)
        except JoinConflict as error:
            left[batch.key] = _conflict(build, target, inside, batch) or (
                f"it conflicts with the others together in {', '.join(error.paths[:5])}"
            )
    return _Join(sha, tuple(inside), left)


def _conflict(build: Build, target: str, inside: Sequence[Batch], batch: Batch) -> str:
    heads = {b.branch: b.head_sha for b in (*inside, batch) if b.head_sha}
    found = overlap.conflicts(
        build.project.repo.git, heads, target=(build.target_branch, target), only=[batch.branch]
    )
    return " and ".join(f"it conflicts with {c.left} in {', '.join(c.paths[:5])}" for c in found)


def _commands(build: Build, batches: Sequence[Batch]) -> list[str]:
    """The project's, and what the features in these are verified by."""
    own = (command for batch in batches for command in restack.commands_of(build, batch))
    return list(dict.fromkeys((*build.verify, *own)))


async def _try(build: Build, made: _Join, commands: Sequence[str]) -> trial.Tried | None:
    """None when it was interrupted."""
    names = ", ".join(b.branch for b in made.batches) or build.target_branch
    build.show(Event(EventKind.STAGE, "", f"verifying {made.sha[:10]}: {names}"))
    return await unless(build.stop.draining, trial.run(build, made.sha, commands, slot=0))


async def _culprits(
    build: Build, target: str, batches: Sequence[Batch], failing: Collection[str]
) -> tuple[Batch, ...] | None:
    """None when it was interrupted."""

    async def red(some: Sequence[Batch]) -> bool:
        """What cannot be merged, or asked, without the others is not red."""
        made = await asyncio.to_thread(_join, build, target, some)
        commands = [c for c in await asyncio.to_thread(_commands, build, some) if c in failing]
        if made.left or not commands or build.stop.draining.is_set():
            return False
        tried = await _try(build, made, commands)
        return bool(tried and tried.red)

    found = await fewest(batches, red)
    return None if build.stop.draining.is_set() else found


async def fewest(all_: Sequence[T], red: Callable[[Sequence[T]], Awaitable[bool]]) -> tuple[T, ...]:
    """All are red together: as few of them as are, each found by bisection of what may still be left out."""
    kept: list[T] = []
    count = len(all_)

    async def with_kept(first: int) -> bool:
        return await red([*all_[:first], *kept])

    while count and not await red(kept):
        count = await _first(count, with_kept) - 1
        kept.insert(0, all_[count])
    return tuple(kept)


async def _first(count: int, is_red: Callable[[int], Awaitable[bool]]) -> int:
    """The smallest n up to `count` for which it is red; it is red for `count`."""
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        if await is_red(middle):
            high = middle
        else:
            low = middle + 1
    return low
