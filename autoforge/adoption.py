"""What people did to branches of ours becomes what the table builds on; it is never overwritten."""

from dataclasses import replace

from autoforge import restack
from autoforge.build import Build
from db.feature import UNMERGED, Batch, BatchStatus, Moved, Parent
from git_workflow import publish
from git_workflow.command import Git
from git_workflow.repository import head_sha, is_ancestor
from git_workflow.restack import follow


def run(build: Build) -> list[str]:
    """Take over heads that somebody has pushed, or committed here where nothing is pushed; answers what was found.

    Raises GitFailed when the remote cannot be reached.
    """
    remote, git = build.project.remote if build.publish else None, build.project.repo.git
    batches = [b for b in build.store.batches() if b.status in UNMERGED]
    pattern = f"{build.project.settings.branch_prefix}/*"
    pushed = any(b.pushed_sha for b in batches)
    there = publish.remote_branches(git, remote, pattern) if remote and pushed else {}
    notes = []
    for batch in batches:
        found = there.get(batch.branch) if batch.pushed_sha else _here(build, batch)
        if found is None or found == batch.pushed_sha:
            continue
        if found == batch.head_sha:  # a push whose record was lost
            if batch.pushed_sha:
                build.store.save_batch(replace(batch, pushed_sha=found))
            continue
        if remote and batch.pushed_sha:
            publish.fetch(git, remote, batch.branch)
        notes.append(_adopt(build, batch, found))
    return notes


def _here(build: Build, batch: Batch) -> str | None:
    """The local branch of a batch that has been nowhere else; None when nobody has touched it."""
    git = build.project.repo.git
    if batch.status is not BatchStatus.BUILT or batch.head_sha is None:
        return None
    found = head_sha(git, f"refs/heads/{batch.branch}")
    if found and found == head_sha(git, restack.before_ref(batch.key)):  # our last move has not reached it
        follow(git, batch.branch, old=found, new=batch.head_sha)
        return None
    return found


def _adopt(build: Build, batch: Batch, found: str) -> str:
    git = build.project.repo.git
    assert batch.base_sha is not None
    base, parents = batch.base_sha, batch.parents
    commits: dict[str, str] = {}
    if not is_ancestor(git, base, found):
        base, commits = _before_the_move(git, batch, found)
        parents = tuple(Parent(parent.key, base) for parent in parents)
    taken = replace(
        batch,
        head_sha=found,
        base_sha=base,
        parents=parents,
        pushed_sha=found if batch.pushed_sha else None,
        checks=(),
        last_error=None
        if batch.pushed_sha or not build.publish
        else batch.last_error,  # it tells: begun, not ended
        check_signature=None,
    )
    build.store.move_batches([Moved(taken, commits)])
    name = f"#{batch.pr_number} ({batch.branch})" if batch.pr_number else batch.branch
    return f"{name} was changed to {found[:10]} by somebody: that is what the table and the stack go on from"


def _before_the_move(git: Git, batch: Batch, found: str) -> tuple[str, dict[str, str]]:
    """The base of what was found, and the features' commits there: a move of ours has not arrived, or a person's has."""
    pushed_on = head_sha(git, restack.pushed_base_ref(batch.key))
    if pushed_on is None or not is_ancestor(git, pushed_on, found):
        return git.run("merge-base", str(batch.base_sha), found), {}
    if batch.pushed_sha is None:
        return pushed_on, {}
    ours = git.lines("rev-list", f"{batch.base_sha}..{batch.head_sha}")
    there = git.lines("rev-list", f"{pushed_on}..{batch.pushed_sha}")
    return pushed_on, dict(zip(ours, there, strict=True)) if len(ours) == len(there) else {}
