"""Moves a branch onto a new base without a checkout, the way `rebase --onto` and `merge` would."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from git_workflow.base import commit_tree, merge_tree, newest, resolution
from git_workflow.command import Git
from git_workflow.repository import is_ancestor

GRAFT_MESSAGE = "The new base, as if it had been made on the old one"


@dataclass(frozen=True)
class Moved:
    """The branch's new head, and what became of its commits: old SHA to new."""

    head: str
    commits: Mapping[str, str] = field(default_factory=dict)


def move(git: Git, *, head: str, old_base: str, onto: str, own: Collection[str], sign: bool = False) -> Moved:
    """Put `old_base..head` on `onto`. Raises JoinConflict.

    A linear branch of commits that are all in `own` is rewritten; a branch with anybody else's commits, or with
    merges, keeps its commits and gets the base merged in. The same branch and base give the same commits.
    """
    if is_ancestor(git, old_base, onto) and is_ancestor(git, onto, head):  # somebody brought it there already
        return Moved(head)
    commits = git.lines("rev-list", "--reverse", "--topo-order", f"{old_base}..{head}")
    if set(commits) <= set(own) and _linear(git, old_base, commits):
        return _replay(git, commits, old_base, onto, sign)
    return Moved(_merge_in(git, head, old_base, onto))


def _linear(git: Git, base: str, commits: Sequence[str]) -> bool:
    parents = (
        git.lines("log", "--no-walk=unsorted", "--no-show-signature", "--format=%P", *commits)
        if commits
        else []
    )
    return parents == [base, *commits[:-1]]


def _replay(git: Git, commits: Sequence[str], old_base: str, onto: str, sign: bool) -> Moved:
    new, below, made = onto, old_base, {}
    for old in commits:
        tree = _merged(git, _graft(git, new, below), old)
        new = made[old] = _copy(git, old, tree, new, sign)
        below = old
    return Moved(new, made)


def _graft(git: Git, onto: str, old_base: str) -> str:
    """What `onto` contains as one commit on `old_base`, so that git merges from there.

    Squash merges share no history with what they squashed: the common ancestor that git would find is too old.
    """
    date = newest(git, (onto, old_base))
    return commit_tree(git, git.run("rev-parse", f"{onto}^{{tree}}"), (old_base,), GRAFT_MESSAGE, date)


def _merged(git: Git, left: str, right: str) -> str:
    """The tree of the merge: as somebody has resolved it, else as git makes it. Raises JoinConflict."""
    kept = resolution(git, left, right)
    return git.run("rev-parse", f"{kept}^{{tree}}") if kept else merge_tree(git, left, right)


def _copy(git: Git, old: str, tree: str, parent: str, sign: bool) -> str:
    """The commit with its message, author and dates, on another parent."""
    form = "%an%x00%ae%x00%ad%x00%cd%x00%B"
    show = (
        "-c",
        "i18n.logOutputEncoding=UTF-8",
        "log",
        "-1",
        "--no-show-signature",
        "--date=raw",
        f"--format={form}",
    )
    name, email, written, committed, message = git.run(*show, old).split("\0", 4)
    env = {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_AUTHOR_DATE": written,
        "GIT_COMMITTER_DATE": committed,
    }
    flags = ("-S",) if sign and git.maybe("config", "--type=bool", "commit.gpgsign") == "true" else ()
    return git.with_env(**env).run(
        "-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree, "-p", parent, *flags, "-m", message
    )


def _merge_in(git: Git, head: str, old_base: str, onto: str) -> str:
    tree = _merged(git, _graft(git, onto, old_base), head)
    date = newest(git, (head, onto))
    return commit_tree(git, tree, (head, onto), "Merge the new base of this branch", date)


def follow(git: Git, branch: str, *, old: str, new: str) -> str | None:
    """Bring the local branch along if it is where it was; answers the worktree that has it checked out, if any."""
    ref = f"refs/heads/{branch}"
    row = git.run("for-each-ref", "--format=%(objectname) %(worktreepath)", ref)
    sha, _, place = row.partition(" ")
    if place:
        return place
    if sha == old and old != new:
        git.run("update-ref", ref, new, old)
    return None


def drop(git: Git, branch: str, sha: str) -> None:
    """Delete the local branch if it is `sha` and nobody has it checked out."""
    ref = f"refs/heads/{branch}"
    if git.lines("for-each-ref", "--format=%(objectname)%(worktreepath)", ref) == [sha]:
        git.run("update-ref", "-d", ref, sha)
