"""Before a build's first agent: mend what a crash left, learn what happened on the forge, test the target."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoforge import attempt, lane, process, reconcile, verify
from autoforge.build import Build
from autoforge.environment import Place, for_commands
from autoforge.errors import BaselineRed, UsageError
from autoforge.events import Event, EventKind
from autoforge.project import Project
from db.feature import BatchStatus, Ended, FeatureStatus, Result
from git_workflow import publish, worktree
from git_workflow.base import Target
from git_workflow.errors import GitFailed
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha

FRESH_S = 60.0  # a fetched target is used this long


@dataclass
class TargetFetcher:
    """The one fetcher of a repository: parallel fetches of a moving branch fail on its lock."""

    project: Project
    branch: str
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _target: Target | None = None
    _at: float = 0.0

    async def __call__(self) -> Target:
        async with self._lock:
            if self._target is None or time.monotonic() - self._at > FRESH_S:
                self._target = await asyncio.to_thread(fetch_target, self.project, self.branch)
                self._at = time.monotonic()
            return self._target


def fetch_target(project: Project, branch: str) -> Target:
    """The target as the remote has it now, or the local branch where there is no remote. Raises GitFailed."""
    if project.remote:
        try:
            return Target(branch, publish.fetch(project.repo.git, project.remote, branch))
        except GitFailed as error:
            if "couldn't find remote ref" in error.stderr:
                raise UsageError(
                    f"{project.remote.name} has no branch {branch}. Push it first (git push {project.remote.name} "
                    f"{branch}), or set another `target` in autoforge.toml."
                ) from error
            raise
    sha = head_sha(project.repo.git, f"refs/heads/{branch}")
    if sha is None:
        raise UsageError(f"There is no branch {branch}. Set `target` in autoforge.toml to one that exists.")
    return Target(branch, sha)


def recover(build: Build) -> list[str]:
    """End what an earlier build left running and settle the attempts that it could not. Answers what was done."""
    told = []
    repo = str(build.project.repo.common_dir)
    if ended := process.reap(repo=repo, except_build=build.id):
        told.append(f"ended {len(ended)} processes that an earlier build had left")
    for left in build.store.running_attempts():
        why = Ended(Result.CRASHED, "the build was killed")
        build.store.end_attempt(left.id, why, max_attempts=build.project.settings.max_attempts)
        told.append(f"batch {left.batch_key} goes on: its build was killed in attempt {left.number}")
    for batch in build.store.batches():
        if batch.status is BatchStatus.WORKING:
            lane.settle(build, batch.key, None)
    return told


async def sync(build: Build) -> list[str]:
    """The forge's state into the table, before anything is based on it."""
    if build.forge is None:
        return []
    target = await build.fetch_target()
    return await asyncio.to_thread(reconcile.sync, build.store, build.forge, build.project.repo.git, target)


async def baseline(build: Build) -> Build:
    """Run the verify commands on the target. Raises BaselineRed unless a red one is allowed, which every PR will say."""
    if not build.verify:
        return build
    target = await build.fetch_target()
    build.show(Event(EventKind.STAGE, "", f"baseline: verifying {target.branch} at {target.sha[:10]}"))
    branch = f"{build.project.settings.branch_prefix}/baseline-{build.id}"
    path = await asyncio.to_thread(_checkout, build, branch, target.sha)
    try:
        place = _place(build, path)
        await attempt.set_up(
            build.project.repo,
            path,
            place,
            settings=build.project.settings,
            surroundings=build.project.surroundings,
        )
        env = for_commands(build.project.surroundings, place, build.project.settings.environment.keep)
        timeout_s = build.project.settings.verify.timeout_s
        ran = [
            (await verify.run_commands([command], cwd=place.project, env=env, timeout_s=timeout_s))[0]
            for command in build.verify
        ]
    finally:
        await asyncio.to_thread(_put_away, build, path, branch)
    return _judge(build, target, [one for one in ran if verify.failed(one)])


def _judge(build: Build, target: Target, red: Sequence[process.Finished]) -> Build:
    """A red command cannot show anything: either nothing starts, or it does not count and every PR says so."""
    if not red:
        return build
    if not build.project.settings.verify.allow_red:
        raise BaselineRed(
            f"The verify commands fail on {target.branch} already, so no feature could pass. Mend it, or set "
            f"`verify.allow_red = true` to build without them.\n{verify.failure_text(red)}"
        )
    notes = [
        f"`{one.command}` failed on {target.branch} ({target.sha[:10]}) before this work and was not asked of it"
        for one in red
    ]
    green = tuple(command for command in build.verify if command not in {one.command for one in red})
    return replace(build, verify=green, notes=(*build.notes, *notes))


def _checkout(build: Build, branch: str, sha: str) -> Path:
    return worktree.acquire(
        build.project.repo, root=build.project.worktrees, branch=branch, base_sha=sha, recorded=None, busy=()
    )


def _put_away(build: Build, path: Path, branch: str) -> None:
    worktree.park(build.project.repo, path, saved_ref("baseline", build.id))
    build.project.repo.git.run("branch", "--quiet", "-D", branch)


def _place(build: Build, path: Path) -> Place:
    return Place(
        build_id=build.id,
        repo=str(build.project.repo.common_dir),
        batch="baseline",
        slot=0,
        first_port=build.project.settings.worktree.first_port,
        worktree=path,
        project=path / build.project.repo.prefix,
        scratch=build.run_dir / "baseline",
    )


def anything_to_do(build: Build) -> bool:
    """Whether an agent may be needed at all."""
    return any(
        f.status is FeatureStatus.PENDING
        for f in build.store.features()
        if build.selected is None or f.id in build.selected
    )
