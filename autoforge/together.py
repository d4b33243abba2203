"""Verifies open branches together, and finds the two that are red only with each other."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoforge import restack, trial, verify
from autoforge.build import Build
from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.process import Finished
from autoforge.upkeep import bottom_first
from db.feature import Batch
from git_workflow import base
from git_workflow.errors import JoinConflict
from git_workflow.repository import is_ancestor

NAME = "together"


@dataclass(frozen=True)
class Together:
    """What was verified, on which commit; `red` is empty where all is green.

    `culprits`: the smallest set of batches, by key, that was found to be red on the target. `left`: batches that could not
    be part of it, and why.
    """

    sha: str
    keys: tuple[str, ...]
    red: tuple[Finished, ...] = ()
    culprits: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None

    @property
    def exit_code(self) -> int:
        return 1 if self.red or self.left else 0


async def run(build: Build, wanted: Collection[str]) -> Together:
    """`wanted`: keys of batches; none: all that are unmerged. Raises UsageError, AutoforgeError and GitWorkflowError."""
    target = (await build.fetch_target(fresh=True)).sha
    batches = await asyncio.to_thread(_chosen, build, wanted)
    sha, keys, left = await asyncio.to_thread(_join, build, target, batches)
    if not keys:
        raise UsageError(
            "None of these branches can be merged into the target, so there is nothing to verify."
        )
    inside = [b for b in batches if b.key in keys]
    commands = await asyncio.to_thread(_commands, build, inside)
    if not commands:
        raise UsageError(
            "There is no verify command: nothing could show that they work. Set `verify.commands`."
        )
    build.show(Event(EventKind.STAGE, "", f"verifying {len(inside)} branches together on {sha[:10]}"))
    tried = await _try(build, sha, commands)
    if not tried.red:
        return Together(sha, keys, left=left)
    output = build.run_dir / f"{NAME}.txt"
    output.write_text(verify.failure_text(tried.red, limit=100_000), "utf-8", "replace")
    culprits = await _culprits(build, target, inside, [one.command for one in tried.red])
    return Together(sha, keys, tried.red, culprits, left, output)


def _chosen(build: Build, wanted: Collection[str]) -> list[Batch]:
    """Bottom first, with what they are built on."""
    by_key = {b.key: b for b in build.store.batches()}
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


def _join(build: Build, target: str, batches: Sequence[Batch]) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The target with one after the other merged into it, and what could not be."""
    git, sha = build.project.repo.git, target
    inside, left = [], {}
    for batch in batches:
        assert batch.head_sha is not None
        if outside := [parent.key for parent in batch.parents if parent.key in left]:
            left[batch.key] = f"it is built on {outside[0]}, which is left out"
            continue
        try:
            if not is_ancestor(git, batch.head_sha, sha):
                sha = base.join(git, [sha, batch.head_sha])
            inside.append(batch.key)
        except JoinConflict as error:
            left[batch.key] = f"it conflicts with the others in {', '.join(error.paths[:5])}"
    return sha, tuple(inside), left


def _commands(build: Build, batches: Sequence[Batch]) -> list[str]:
    return list(dict.fromkeys(command for batch in batches for command in restack.commands_of(build, batch)))


async def _try(build: Build, sha: str, commands: Sequence[str]) -> trial.Tried:
    return await trial.run(build, sha, commands, slot=0)


async def _culprits(
    build: Build, target: str, batches: Sequence[Batch], commands: Sequence[str]
) -> tuple[str, ...]:
    """Bisected: the first that makes it red, then the first of those before that makes it red with that one."""

    async def red(some: Sequence[Batch]) -> bool:
        sha, _, _ = await asyncio.to_thread(_join, build, target, some)
        return bool((await _try(build, sha, commands)).red)

    if await red([]):
        return ()  # the target itself
    last = await _first(len(batches), lambda n: red(batches[:n]))
    late = batches[last - 1]
    if await red([late]):
        return (late.key,)
    early = await _first(last - 1, lambda n: red([*batches[:n], late]))
    pair = [batches[early - 1], late]
    if await red(pair):
        return tuple(b.key for b in pair)
    return tuple(b.key for b in (*batches[:early], late))


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
