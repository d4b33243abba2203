"""Keeps an agent's work where it belongs: on its batch's branch, and aside when the agent leaves it."""

from git_workflow.command import Git
from git_workflow.content import save_work
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha


def branch_ref(git: Git) -> str | None:
    """The branch that HEAD stands on, None when it is detached."""
    return git.maybe("symbolic-ref", "--quiet", "HEAD") or None


def stand_on(git: Git, ref: str | None, *, key: str) -> None:
    """Bring HEAD back to `ref` (None: detached) without touching index or files.

    Whatever a script switched to is then out of our commits' way; its commits stay on a saved ref.
    """
    if branch_ref(git) == ref:
        return
    keep_head(git, key)
    if ref:
        git.run("symbolic-ref", "HEAD", ref)
    else:
        git.run("update-ref", "--no-deref", "HEAD", git.run("rev-parse", "HEAD"))


def keep_head(git: Git, key: str) -> None:
    """Commits that are about to leave their branch stay reachable."""
    if head := head_sha(git):
        git.run("update-ref", saved_ref(key, f"agent-{head[:12]}"), head)


def set_aside(git: Git, *, since: str, ref: str, message: str) -> bool:
    """Keep everything after `since` on `ref` and make the tree as it was then; False when there was nothing.

    Ignored files stay. Raises GitFailed, and then nothing is taken away.
    """
    head = head_sha(git)
    kept = save_work(git, ref, message)
    if kept is None and head == since:
        return False
    if kept is None and head:
        git.run("update-ref", ref, head)
    git.run("reset", "--quiet", "--hard", since)
    git.run("clean", "--quiet", "-fd")  # once: a repository inside is not in what was kept
    return True


def kept_for(git: Git, pattern: str) -> str | None:
    """The newest commit that was set aside on a ref of this pattern."""
    found = git.lines("for-each-ref", "--sort=-committerdate", "--count=1", "--format=%(objectname)", pattern)
    return found[0] if found else None
