"""What the local target contains, into the table: landed by us or merged by hand."""

from dataclasses import replace

from autoforge import landing_order
from autoforge.build import Build
from autoforge.errors import UsageError
from autoforge.landing_order import LANDABLE
from db.feature import Batch, BatchStatus
from git_workflow import landing, restack, worktree
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha, is_ancestor


def recognise(build: Build) -> None:
    """Record what the local target contains, however it got there; put away what such batches leave behind."""
    git = build.project.repo.git
    target = head_sha(git, f"refs/heads/{build.target_branch}")
    if target is None:
        return
    for batch in build.store.batches():
        ready = batch.status in LANDABLE or batch.status is BatchStatus.CLOSED
        if ready and batch.head_sha and is_ancestor(git, batch.head_sha, target):
            _record(build, batch, landing.merge_of(git, batch.head_sha, target))
    for batch in landing_order.landed(build.store.batches()):
        assert batch.head_sha is not None
        _park(build, batch)
        if is_ancestor(git, batch.head_sha, target):
            restack.drop(git, batch.branch, batch.head_sha)
        git.run("update-ref", "-d", kept(batch))


def kept(batch: Batch) -> str:
    """Where the merge is while it is verified, and afterwards when it has not landed."""
    return saved_ref(batch.key, "landing")


def _record(build: Build, batch: Batch, merge_sha: str) -> None:
    """What was built on it stands on the target from now on."""
    merged = replace(
        batch, status=BatchStatus.MERGED, merge_sha=merge_sha, worktree_path=None, last_error=None
    )
    build.store.save_batch(merged)
    batches = build.store.batches()
    done = {b.key for b in batches if b.status is BatchStatus.MERGED}
    for child in batches:
        below = {parent.key for parent in child.parents}
        if batch.key in below and below <= done and child.key not in done:
            build.store.save_batch(replace(child, base_branch=build.target_branch, parents=()))


def _park(build: Build, batch: Batch) -> None:
    """A worktree of ours that still stands on its branch can be used by others."""
    repo, root = build.project.repo, build.project.worktrees
    for entry in worktree.registered(repo.git):
        if entry.branch == batch.branch and entry.path.parent == root:
            worktree.park(repo, entry.path, saved_ref(batch.key, "left-over"))


async def check_base(build: Build) -> None:
    """What has landed must be in what agents start from. Raises UsageError."""
    git, target = build.project.repo.git, await build.fetch_target()
    missing = [
        b.branch
        for b in landing_order.landed(build.store.batches())
        if not is_ancestor(git, b.merge_sha or "", target.sha)
    ]
    if missing and build.project.remote:
        remote = build.project.remote.name
        raise UsageError(
            f"{', '.join(missing)} landed in {target.branch}, but {remote} does not have that: "
            f"git push {remote} {target.branch} (after a git pull, where both have moved), then build again."
        )
    if missing:
        raise UsageError(
            f"{', '.join(missing)} had landed in {target.branch}, which does not contain it any more."
        )
