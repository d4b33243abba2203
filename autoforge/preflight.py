"""Before a build's first agent: mend what a crash left, learn what happened on the forge, test the target."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autoforge import landing_order, lane, plan, process, publishing, trial, upkeep, verify
from autoforge.build import Build, unless
from autoforge.errors import BaselineRed, UsageError
from autoforge.events import Event, EventKind
from autoforge.project import Project
from db.feature import UNFINISHED, BatchStatus, Ended, FeatureStatus, Result
from db.store import FeatureStore
from git_workflow import landing, publish
from git_workflow.base import Target
from git_workflow.errors import GitFailed, GitWorkflowError
from git_workflow.repository import head_sha

FRESH_S = 60.0  # a fetched target is used this long


@dataclass
class TargetFetcher:
    """The one fetcher of a repository: parallel fetches of a moving branch fail on its lock."""

    project: Project
    branch: str
    store: FeatureStore | None = None  # of a build whose results stay here
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _target: Target | None = None
    _at: float = 0.0

    async def __call__(self, *, fresh: bool = False) -> Target:
        async with self._lock:
            if fresh or self._target is None or time.monotonic() - self._at > FRESH_S:
                self._target = await asyncio.to_thread(self._fetch)
                self._at = time.monotonic()
            return self._target

    def _fetch(self) -> Target:
        landed = landing_order.merges(self.store.batches()) if self.store else None
        return fetch_target(self.project, self.branch, landed)


def fetch_target(project: Project, branch: str, landed: Sequence[str] | None = None) -> Target:
    """The target as the remote has it now, or the local branch where there is no remote. Raises GitFailed.

    With `landed`, the merges in the local branch, that one counts where it is ahead by them or the remote has none.
    """
    git, remote = project.repo.git, project.remote
    sha = head_sha(git, f"refs/heads/{branch}")
    if remote:
        try:
            return landing.with_landed(git, Target(branch, publish.fetch(git, remote, branch)), landed or ())
        except GitFailed as error:
            if "couldn't find remote ref" not in error.stderr:
                raise
            if landed is None or sha is None:
                raise UsageError(
                    f"{remote.name} has no branch {branch}. Push it first (git push {remote.name} {branch}), or set "
                    "another `target` in autoforge.toml."
                ) from error
    if sha is None:
        raise UsageError(f"There is no branch {branch}. Set `target` in autoforge.toml to one that exists.")
    return Target(branch, sha)


def recover(build: Build) -> list[str]:
    """End what an earlier build left running and settle the attempts that it could not. Answers what was done."""
    told = trial.forget(build)
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
        publishing.close_reset(build, batch)
    return told


async def learn(build: Build) -> list[str]:
    """The forge's state into the table, before anything is based on it. Raises GitWorkflowError.

    A build that needs no forge does not fail because of it.
    """
    try:
        return (await upkeep.learn(build)).notes
    except GitWorkflowError as error:
        if anything_to_do(build) or any(
            b.status in (BatchStatus.BUILT, BatchStatus.PUSHED) for b in build.store.batches()
        ):
            raise
        return [f"the state of the pull requests was not read: {error}"]


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
    return await unless(build.stop.draining, _test(build, target)) or build


async def _test(build: Build, target: Target) -> Build:
    tried = await trial.run(build, target.sha, build.verify, slot=0)
    _check_leftovers(target, tried.left)
    return _judge(build, target, tried.red)


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
