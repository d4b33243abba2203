"""Before a build's first agent: mend what a crash left, learn what happened on the forge, test the target."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoforge import attempt, lane, plan, process, reconcile, verify
from autoforge.build import Build
from autoforge.environment import Place, for_commands
from autoforge.errors import BaselineRed, UsageError
from autoforge.events import Event, EventKind
from autoforge.project import Project
from db.feature import UNFINISHED, UNMERGED, BatchStatus, Ended, FeatureStatus, Result
from git_workflow import publish, worktree
from git_workflow.base import Target
from git_workflow.errors import GitFailed, GitWorkflowError
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
    told = [*_forget_baselines(build)]
    repo = str(build.project.repo.common_dir)
    if ended := process.reap(repo=repo, except_build=build.id):
        told.append(f"ended {len(ended)} processes that an earlier build had left")
    for left in build.store.running_attempts():
        why = Ended(Result.CRASHED, "the build was killed")
        build.store.end_attempt(left.id, why, max_attempts=build.project.settings.max_attempts)
        told.append(f"batch {left.batch_key} goes on: its build was killed in attempt {left.number}")
    for batch in build.store.batches():
        if batch.status in UNFINISHED:
            lane.settle(build, batch.key, None)
    return told


async def sync(build: Build) -> list[str]:
    """The forge's state into the table, before anything is based on it. Raises GitWorkflowError."""
    if build.forge is None:
        return []
    target = await build.fetch_target()
    git = build.project.repo.git
    notes = await asyncio.to_thread(reconcile.sync, build.store, build.forge, git, target)
    await asyncio.to_thread(_fetch_folded, build)
    return notes


async def learn(build: Build) -> list[str]:
    """As `sync`, but a build that needs no forge does not fail because of it."""
    try:
        return await sync(build)
    except GitWorkflowError as error:
        if anything_to_do(build) or any(
            b.status in (BatchStatus.BUILT, BatchStatus.PUSHED) for b in build.store.batches()
        ):
            raise
        return [f"the state of the pull requests was not read: {error}"]


def _fetch_folded(build: Build) -> None:
    """What was merged into a parent's branch on the forge is what others are built on."""
    git, remote = build.project.repo.git, build.project.remote
    batches = build.store.batches()
    unmerged = {b.branch for b in batches if b.status in UNMERGED}
    for batch in batches:
        into = batch.base_branch if batch.status is BatchStatus.FOLDED else None
        if remote and into in unmerged and not git.ok("cat-file", "-e", f"{batch.merge_sha}^{{commit}}"):
            publish.fetch(git, remote, into)


async def baseline(build: Build) -> Build:
    """Run the verify commands on the target. Raises BaselineRed unless a red one is allowed, which every PR will say.

    A build that is stopped meanwhile is answered as it was: nothing starts in it.
    """
    if not build.verify:
        return build
    target = await build.fetch_target()
    if build.project.repo.git.run("ls-tree", target.sha) == "":  # there is nothing to verify yet
        return build
    build.show(Event(EventKind.STAGE, "", f"baseline: verifying {target.branch} at {target.sha[:10]}"))
    testing = asyncio.ensure_future(_test(build, target))
    stopped = asyncio.ensure_future(build.stop.draining.wait())
    try:
        await asyncio.wait({testing, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        testing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await testing
    return build if testing.cancelled() else testing.result()


async def _test(build: Build, target: Target) -> Build:
    branch = f"{_baseline_prefix(build)}{build.id}"
    path = await asyncio.to_thread(_checkout, build, branch, target.sha)
    settings, surroundings = build.project.settings, build.project.surroundings
    try:
        place = _place(build, path)
        await attempt.set_up(build.project.repo, path, place, settings=settings, surroundings=surroundings)
        env = for_commands(surroundings, place, settings.environment.keep)
        ran = [await _run_alone(c, place.project, env, settings.verify.timeout_s) for c in build.verify]
        left = await asyncio.to_thread(
            build.project.repo.git.at(path).run, "status", "--porcelain", "--untracked-files=all"
        )
    finally:
        await asyncio.to_thread(_put_away, build, path, branch)
    _check_leftovers(target, left)
    return _judge(build, target, [one for one in ran if verify.failed(one)])


async def _run_alone(command: str, cwd: Path, env: Mapping[str, str], timeout_s: float) -> process.Finished:
    """Every red command is named, not only the first."""
    [one] = await verify.run_commands([command], cwd=cwd, env=env, timeout_s=timeout_s)
    return one


def _check_leftovers(target: Target, left: str) -> None:
    if left:
        raise BaselineRed(
            f"On {target.branch}, worktree.setup or the verify commands leave files that git does not ignore, so no "
            "feature could be verified on exactly its commit. Add them to .gitignore, commit it and build again:\n"
            + "\n".join(left.splitlines()[:20])
        )


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
        build.project.repo,
        root=build.project.worktrees,
        branch=branch,
        base_sha=sha,
        recorded=None,
        busy=plan.worktrees_in_use(build.store.batches()),
    )


def _baseline_prefix(build: Build) -> str:
    return f"{build.project.settings.branch_prefix}/baseline-"


def _forget_baselines(build: Build) -> list[str]:
    """What a build that was killed in its baseline left behind."""
    told = []
    for entry in worktree.registered(build.project.repo.git):
        if entry.branch and entry.branch.startswith(_baseline_prefix(build)):
            _put_away(build, entry.path, entry.branch)
            told.append(f"put {entry.path} away, in which a killed build had verified the target")
    return told


def _put_away(build: Build, path: Path, branch: str) -> None:
    if worktree.park(build.project.repo, path, saved_ref("baseline", build.id)):
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
    """Whether an agent could be started, now or when what is built has been published."""
    batches = build.store.batches()
    features = [
        f
        for f in build.store.features()
        if build.selected is None or f.id in build.selected or f.status is FeatureStatus.PASSED
    ]
    usable = plan.available(features, batches, publish=False)
    prefix = build.project.settings.branch_prefix
    return bool(
        plan.unfinished(features, batches, usable)
        or plan.new_batches(features, batches, ready_to_use=usable, size=1, slots=1, prefix=prefix)
    )
