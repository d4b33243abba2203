"""Brings back a pull request that was closed because the branch it targets was deleted."""

from collections.abc import Sequence

from db.feature import Batch, BatchStatus
from git_workflow import publish
from git_workflow.command import Git
from git_workflow.forge import Forge, PullRequest
from git_workflow.naming import is_join
from git_workflow.publish import Remote
from git_workflow.repository import head_sha

PUT_BACK = "refs/autoforge/put-back/"
"""Branches that are on the remote again until nothing targets them."""


def heal(
    batch: Batch, pull: PullRequest, batches: Sequence[Batch], *, git: Git, remote: Remote, forge: Forge
) -> PullRequest | None:
    """The pull request, open again; None when somebody closed it.

    Nothing may be pushed to its head before: that would keep it from being reopened. Raises ForgeFailed, also when the
    forge does not open it again, and GitFailed.
    """
    sha = _base(batch, pull, batches, git, remote)
    if sha is None or publish.remote_branch(git, remote, pull.base_branch) is not None:
        return None
    if not is_join(pull.base_branch):
        git.run("update-ref", PUT_BACK + pull.base_branch, sha)
    publish.ensure_pushed(git, remote, branch=pull.base_branch, sha=sha, known=None)
    return forge.reopen(pull.number)


def _base(batch: Batch, pull: PullRequest, batches: Sequence[Batch], git: Git, remote: Remote) -> str | None:
    """The commit of a branch that is done with: merged, or a join of ours."""
    if is_join(pull.base_branch):
        return batch.base_sha
    done = (BatchStatus.MERGED, BatchStatus.FOLDED)
    into = next((b for b in batches if b.branch == pull.base_branch and b.status in done), None)
    if into is None or into.head_sha is None:
        return None
    if head_sha(git, into.head_sha) is None and into.pr_number:
        return publish.fetch_pull(git, remote, into.pr_number)
    return into.head_sha
