"""Removes branches that nothing needs any more; no commit goes before it is merged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoforge.build import Build
from autoforge.healing import PUT_BACK
from autoforge.restack import before_ref, pushed_base_ref
from db.feature import Batch, BatchStatus
from git_workflow import publish, restack
from git_workflow.command import Git
from git_workflow.naming import is_join, saved_ref
from git_workflow.publish import Remote

DONE = (BatchStatus.MERGED, BatchStatus.FOLDED)
JOINS = "refs/autoforge/joins/"


@dataclass(frozen=True)
class _Spare:
    """A branch of the remote that may go while it is `sha`; `ref` is where we remember it."""

    branch: str
    sha: str
    ref: str | None = None


def run(build: Build) -> None:
    """Local branches of merged batches; on the remote joins, what was put back for a while, and what settings say.

    Raises GitWorkflowError.
    """
    git, batches = build.project.repo.git, build.store.batches()
    for batch in batches:
        if batch.status in DONE and batch.head_sha:
            restack.drop(git, batch.branch, batch.head_sha)
            git.run("update-ref", "-d", pushed_base_ref(batch.key))
            git.run("update-ref", "-d", before_ref(batch.key))
    if not build.publish or build.project.remote is None:
        return
    used = {
        b.base_branch
        for b in batches
        if b.status not in DONE and (b.status is not BatchStatus.CLOSED or is_join(b.base_branch or ""))
    }
    spare = [each for each in _spare(build, git, batches) if each.branch not in used]
    if spare and build.forge:
        targeted = {pull.base_branch for pull in build.forge.open_pulls()}
        spare = [each for each in spare if each.branch not in targeted]
    for each in spare:
        known = _kept(git, build.project.remote, each) if is_join(each.branch) else each.sha
        publish.ensure_deleted(git, build.project.remote, branch=each.branch, known=known)
        if each.ref:
            git.run("update-ref", "-d", each.ref)


def _kept(git: Git, remote: Remote, join: _Spare) -> str:
    """The join's commit on the remote; what somebody has merged into it is kept on a ref here."""
    there = publish.remote_branch(git, remote, join.branch)
    if there in (None, join.sha):
        return join.sha
    found = publish.fetch(git, remote, join.branch)
    git.run("update-ref", saved_ref("joins", join.branch.rsplit("/", 1)[-1]), found)
    return found


def _spare(build: Build, git: Git, batches: Sequence[Batch]) -> Iterator[_Spare]:
    for row in git.lines("for-each-ref", "--format=%(objectname) %(refname)", JOINS, PUT_BACK):
        sha, ref = row.split(" ", 1)
        name = ref.removeprefix(JOINS)
        yield _Spare(
            ref.removeprefix(PUT_BACK) if name == ref else f"{build.project.settings.branch_prefix}/{name}",
            sha,
            ref,
        )
    if build.project.settings.pr.delete_branch:
        merged = [b for b in batches if b.status in DONE and b.pushed_sha]
        there = (
            publish.remote_branches(git, build.project.remote, f"{build.project.settings.branch_prefix}/*")
            if merged and build.project.remote
            else {}
        )
        yield from (_Spare(b.branch, there[b.branch]) for b in merged if there.get(b.branch) == b.pushed_sha)
