"""Where a batch starts: the target, a parent's tip, or a join of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

from git_workflow.command import Git, said, shown
from git_workflow.errors import GitFailed, JoinConflict
from git_workflow.naming import join_branch
from git_workflow.repository import is_ancestor

JOIN_MESSAGE = "Join of the branches that a batch is built on"
MAX_ORDERS = 24  # of folding a join before its conflict counts as real
SAME_EVERYWHERE = (
    *("-c", "merge.renames=true", "-c", "merge.directoryRenames=conflict", "-c", "merge.renameLimit=7000"),
    *("-c", "merge.renormalize=false", "-c", "merge.conflictStyle=merge", "-c", "i18n.commitEncoding=UTF-8"),
)
"""What would make the join of the same commits another one in another clone."""


@dataclass(frozen=True)
class Tip:
    """The head of an unmerged parent batch."""

    key: str
    branch: str
    sha: str


@dataclass(frozen=True)
class Target:
    """The branch that everything ends up in, at the commit that was fetched."""

    branch: str
    sha: str


@dataclass(frozen=True)
class Base:
    """The commit a batch starts from and the branch that its PR targets. `joins`: what a join was made of."""

    sha: str
    branch: str
    parents: tuple[Tip, ...] = ()
    joins: tuple[str, ...] = ()

    @property
    def is_join(self) -> bool:
        return bool(self.joins)


def minimal(git: Git, tips: Sequence[Tip]) -> tuple[Tip, ...]:
    """The tips that no other tip contains, in a fixed order."""
    unique = {tip.sha: tip for tip in sorted(tips, key=lambda t: t.key, reverse=True)}
    return tuple(
        tip
        for sha, tip in sorted(unique.items())
        if not any(other != sha and is_ancestor(git, sha, other) for other in unique)
    )


def choose(git: Git, *, target: Target, tips: Sequence[Tip], merged: Sequence[str], prefix: str) -> Base:
    """Decide the base from the unmerged parents' tips and the merge commits of merged dependencies.

    Raises JoinConflict. A join is made without a checkout and kept on a ref of its own.
    """
    parents = minimal(git, tips)
    if not parents:
        return Base(target.sha, target.branch)
    shas = [tip.sha for tip in parents]
    if any(not any(is_ancestor(git, merge, sha) for sha in shas) for merge in merged):
        shas = [*(sha for sha in shas if not is_ancestor(git, sha, target.sha)), target.sha]
    if shas == [target.sha]:  # the parents have been merged, the forge has not told yet
        return Base(target.sha, target.branch)
    if len(shas) == 1:
        return Base(shas[0], parents[0].branch, parents)
    branch = join_branch(prefix, shas)
    kept = git.maybe("rev-parse", "--verify", "--quiet", join_ref(branch))
    sha = kept or join(git, shas)
    git.run("update-ref", join_ref(branch), sha)
    return Base(sha, branch, parents, tuple(shas))


def join_ref(branch: str) -> str:
    """Keeps a join's commit alive here; an agent's resolution is stored there as well."""
    return f"refs/autoforge/joins/{branch.rsplit('/', 1)[-1]}"


def join(git: Git, shas: Sequence[str]) -> str:
    """Merge commits pairwise; the same commits give the same join. Raises JoinConflict."""
    date = newest(git, shas)
    conflict: JoinConflict | None = None
    for order in islice(permutations(shas), MAX_ORDERS):
        try:
            return _fold(git, order, date)
        except JoinConflict as error:
            conflict = conflict or error
    assert conflict is not None
    raise conflict


def newest(git: Git, shas: Sequence[str]) -> str:
    """The latest committer date of these commits, in seconds since the epoch."""
    return max(git.lines("log", "--no-walk", "--no-show-signature", "--format=%ct", *shas), key=int)


def _fold(git: Git, order: Sequence[str], date: str) -> str:
    left = order[0]
    for right in order[1:]:
        left = resolution(git, left, right) or commit_tree(
            git, merge_tree(git, left, right), (left, right), JOIN_MESSAGE, date
        )
    return left


def resolution(git: Git, left: str, right: str) -> str | None:
    """The commit that somebody made when git could not merge these two."""
    return git.maybe("rev-parse", "--verify", "--quiet", _resolution_ref(left, right)) or None


def _resolution_ref(left: str, right: str) -> str:
    return f"refs/autoforge/resolved/{left}-{right}"


def lay_out_conflict(git: Git, tips: tuple[str, ...]) -> None:
    """Put the merge of two commits into a worktree that stands on the first, conflict markers and all."""
    tree = git.attempt(
        *SAME_EVERYWHERE, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", *tips
    )[1]
    git.run("read-tree", "-u", "--reset", tree.split("\0")[0])


def commit_join(git: Git, tree: str, tips: tuple[str, ...]) -> str:
    """A join of two commits with the tree that somebody resolved."""
    return commit_tree(git, tree, tips, JOIN_MESSAGE, newest(git, tips))


def keep_resolution(git: Git, tips: tuple[str, ...], sha: str) -> None:
    """From now on `sha` is the merge of these two commits."""
    git.run("update-ref", _resolution_ref(tips[0], tips[1]), sha)


def merge_tree(git: Git, left: str, right: str) -> str:
    """The tree of a merge, made without a checkout. Raises JoinConflict with the paths."""
    args = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", left, right)
    code, out, err = git.attempt(*SAME_EVERYWHERE, *args)
    if code not in (0, 1):
        raise GitFailed(args, code, said(out, err))
    tree, *paths = out.rstrip("\0").split("\0")
    if code == 0:
        return tree
    raise JoinConflict(
        f"{left[:10]} and {right[:10]} change the same lines of {', '.join(map(shown, paths[:5]))}",
        tips=(left, right),
        paths=paths,
    )


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, date: str) -> str:
    """A commit with a fixed identity; `date` in seconds since the epoch."""
    who = {"NAME": "autoforge", "EMAIL": "autoforge@localhost", "DATE": f"{date} +0000"}
    env = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in who.items()}
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return git.with_env(**env).run(*SAME_EVERYWHERE, "commit-tree", tree, *flags, "-m", message)
