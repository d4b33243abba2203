"""Runs commands on a commit in a throw-away worktree."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoforge import attempt, plan, verify
from autoforge.build import Build
from autoforge.environment import Place, for_commands
from autoforge.process import Finished
from git_workflow import worktree
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha


@dataclass(frozen=True)
class Tried:
    """`left`: what the commands left in the worktree that git does not ignore, as lines of `git status`."""

    ran: tuple[Finished, ...]
    left: str

    @property
    def red(self) -> tuple[Finished, ...]:
        return tuple(one for one in self.ran if verify.failed(one))


async def run(build: Build, sha: str, commands: Sequence[str], *, slot: int) -> Tried:
    """Each command alone, so that every red one is named. `slot`: whose ports they get. Raises AutoforgeError."""
    branch = f"{prefix(build)}{build.id}-{slot}"
    path = await asyncio.to_thread(_checkout, build, branch, sha)
    settings, surroundings = build.project.settings, build.project.surroundings
    try:
        with tempfile.TemporaryDirectory(prefix="autoforge-", ignore_cleanup_errors=True) as scratch:
            place = _place(build, path, slot, Path(scratch).resolve())
            await attempt.set_up(
                build.project.repo, path, place, settings=settings, surroundings=surroundings
            )
            env = for_commands(surroundings, place, settings.environment.keep)
            ran: list[Finished] = []
            for command in commands:
                ran += await verify.run_commands(
                    [command], cwd=place.project, env=env, timeout_s=settings.verify.timeout_s
                )
            git = build.project.repo.git.at(path)
            left = await asyncio.to_thread(git.run, "status", "--porcelain", "--untracked-files=all")
    finally:
        await asyncio.to_thread(_put_away, build, path, branch)
    return Tried(tuple(ran), left)


async def caused(build: Build, tried: Tried, *, by: str, slot: int) -> tuple[list[Finished], list[str]]:
    """What is red because of the work on top of `by`, and the commands that are red on `by` itself.

    Only `verify.allow_red` makes a difference between the two.
    """
    if not tried.red or not build.project.settings.verify.allow_red:
        return list(tried.red), []
    before = await run(build, by, [one.command for one in tried.red], slot=slot)
    known = [one.command for one in before.red]
    return [one for one in tried.red if one.command not in known], known


def prefix(build: Build) -> str:
    """Of the branches that the worktrees stand on meanwhile."""
    return f"{build.project.settings.branch_prefix}/trial-"


def forget(build: Build) -> list[str]:
    """Put away what a build that was killed meanwhile left behind; answers what was done."""
    told = []
    for entry in worktree.registered(build.project.repo.git):
        if entry.branch and entry.branch.startswith(prefix(build)):
            _put_away(build, entry.path, entry.branch)
            told.append(f"put {entry.path} away, in which a killed build had verified a commit")
    return told


def _checkout(build: Build, branch: str, sha: str) -> Path:
    return worktree.acquire(
        build.project.repo,
        root=build.project.worktrees,
        branch=branch,
        base_sha=sha,
        recorded=None,
        busy=plan.worktrees_in_use(build.store.batches()),
    )


def _put_away(build: Build, path: Path, branch: str) -> None:
    """The commit may be on no ref: a worktree that stands on it could never be removed."""
    if anchor := head_sha(build.project.repo.git):
        build.project.repo.git.at(path).attempt("reset", "--quiet", "--hard", anchor)
    if worktree.park(build.project.repo, path, saved_ref("trial", build.id)):
        build.project.repo.git.run("branch", "--quiet", "-D", branch)


def _place(build: Build, path: Path, slot: int, scratch: Path) -> Place:
    return Place(
        build_id=build.id,
        repo=str(build.project.repo.common_dir),
        batch="trial",
        slot=slot,
        first_port=build.project.settings.worktree.first_port,
        worktree=path,
        project=path / build.project.repo.prefix,
        scratch=scratch,
    )
