"""The first commit of a repository that has none: empty, so that there is something to start from."""

import time

from git_workflow.base import commit_tree
from git_workflow.command import Git
from git_workflow.publish import Remote, ensure_pushed, remote_branch
from git_workflow.repository import head_sha
from git_workflow.standing import branch_ref


def is_empty(git: Git) -> bool:
    """Whether nothing was ever committed or fetched here."""
    return head_sha(git) is None and not git.lines("for-each-ref", "--count=1", "refs/heads", "refs/remotes")


def ensure_first_commit(git: Git, remote: Remote | None, branch: str, *, push: bool) -> str | None:
    """Make `branch` in an empty repository, on the remote first with `push`; None when it is not empty.

    Without `push` only where HEAD stands on it already. Index and files stay as they are. Raises GitFailed and
    PushRejected.
    """
    if not is_empty(git) or (remote and remote_branch(git, remote, branch)):
        return None
    if not push and branch_ref(git) != f"refs/heads/{branch}":
        return None
    tree = git.run("hash-object", "-t", "tree", "-w", "--stdin", stdin="")
    sha = commit_tree(git, tree, (), "chore: start", str(int(time.time())))
    if remote and push:
        ensure_pushed(git, remote, branch=branch, sha=sha, known=None)
    git.run("update-ref", f"refs/heads/{branch}", sha, "0" * len(sha))
    return sha
