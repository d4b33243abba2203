"""Brings a commit into a local branch: merged without a checkout, and moved to without losing anybody's work."""

from collections.abc import Sequence
from pathlib import Path

from git_workflow.base import SAME_EVERYWHERE, Target, merge_tree
from git_workflow.command import Git
from git_workflow.errors import GitFailed, UnusableRepository
from git_workflow.repository import head_sha, in_progress, is_ancestor
from git_workflow.worktree import registered

OURS = ("-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false")
"""No hook runs in a checkout of the user's: agents can write them."""

SAFELY = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-squash", "--no-verify-signatures")
REBASED = ("rebase-merge/head-name", "rebase-apply/head-name")


def merge(git: Git, target: str, head: str, *, message: str, kept: str, sign: bool) -> str:
    """A merge commit by whoever is git's committer, on the ref `kept`; no branch moves. Raises JoinConflict."""
    tree = merge_tree(git, target, head)
    flags = ("-S",) if sign and git.maybe("config", "--type=bool", "commit.gpgsign") == "true" else ()
    parents = ("-p", target, "-p", head)
    sha = git.run(*SAME_EVERYWHERE, "commit-tree", tree, *parents, *flags, "-F", "-", stdin=message)
    git.run("update-ref", kept, sha)
    return sha


def merge_of(git: Git, head: str, target: str) -> str:
    """The commit that brought `head` into the branch that ends at `target`; `head` itself after a fast-forward."""
    after = set(git.lines("rev-list", "--ancestry-path", f"{head}..{target}"))
    main = git.lines("rev-list", "--reverse", "--first-parent", f"{head}..{target}")
    first = next((sha for sha in main if sha in after), head)
    return head if first == head or head_sha(git, f"{first}^1") == head else first


def tip(git: Git, branch: str) -> str:
    """The local branch's commit. Raises UnusableRepository when it is not there or cannot be moved now."""
    sha = head_sha(git, f"refs/heads/{branch}")
    if sha is None:
        raise UnusableRepository(
            f"There is no local branch {branch} to land in. Make it: git branch {branch} COMMIT"
        )
    checkout_of(git, branch)
    return sha


def checkout_of(git: Git, branch: str) -> Path | None:
    """The worktree that has the branch checked out. Raises UnusableRepository when it cannot be moved there now."""
    entries = [entry for entry in registered(git) if entry.path.is_dir()]
    for entry in entries:
        if _rebased(git.at(entry.path)) == f"refs/heads/{branch}":
            raise _busy(branch, entry.path, "is being rebased there: finish that or abort it")
    here = [entry.path for entry in entries if entry.branch == branch]
    if len(here) > 1:
        raise _busy(branch, here[1], f"is checked out in {here[0]} as well: leave it in one of them")
    if not here:
        return None
    there = git.at(here[0])
    if in_progress(there):
        raise _busy(branch, here[0], "is in the middle of a merge or the like: finish that or abort it")
    if there.run("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"):
        raise _busy(branch, here[0], "has uncommitted changes there: commit or stash them")
    return here[0]


def _busy(branch: str, path: Path, why: str) -> UnusableRepository:
    return UnusableRepository(f"{branch} is checked out in {path} and {why}. Nothing was changed.")


def _rebased(git: Git) -> str | None:
    """The branch that a rebase in this worktree will move when it is finished."""
    for name in REBASED:
        file = Path(git.run("rev-parse", "--path-format=absolute", "--git-path", name))
        if file.is_file():
            return file.read_text("utf-8", "replace").strip()
    return None


def advance(git: Git, branch: str, *, old: str, new: str) -> bool:
    """Move a branch from `old` to its descendant `new`, with its checkout if there is one.

    False when it is not at `old` any more. Raises UnusableRepository and GitFailed; then nothing has changed.
    """
    ref, where = f"refs/heads/{branch}", checkout_of(git, branch)
    if head_sha(git, ref) != old:
        return False
    if where is None:
        code, _, err = git.attempt(*OURS, "update-ref", "-m", "autoforge land", ref, new, old)
    else:
        code, _, err = git.at(where).attempt(*OURS, "merge", "--quiet", *SAFELY, new)
    if head_sha(git, ref) == new:
        return True
    if head_sha(git, ref) != old:
        return False
    if "would be overwritten" in err:
        raise UnusableRepository(
            f"{branch} is checked out in {where}, and {err.removeprefix('error: ').strip()}"
        )
    raise GitFailed(("update", branch), code, err)


def with_landed(git: Git, target: Target, merges: Sequence[str]) -> Target:
    """The local branch, where it is ahead of the fetched one by what has landed in it."""
    if all(is_ancestor(git, sha, target.sha) for sha in merges):
        return target
    local = head_sha(git, f"refs/heads/{target.branch}")
    ahead = local and all(is_ancestor(git, sha, local) for sha in (target.sha, *merges))
    return Target(target.branch, local) if local and ahead else target
