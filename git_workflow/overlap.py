"""Which branches will conflict when they are merged one after the other, found without a checkout."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import PurePosixPath

from git_workflow.base import merge_tree
from git_workflow.command import Git, shown
from git_workflow.errors import JoinConflict

AS_MERGES_DO = ("-M", "-l7000")  # renames


@dataclass(frozen=True)
class Conflict:
    """Two names of heads that change the same lines of these paths. One of them may be the target."""

    left: str
    right: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class _Head:
    """`contains`: commits that the target lacks, and the target itself. `moves`: folders that it renames files out of."""

    name: str
    sha: str
    contains: frozenset[str]
    paths: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


def conflicts(
    git: Git, heads: Mapping[str, str], *, target: tuple[str, str], only: Collection[str] | None = None
) -> tuple[Conflict, ...]:
    """Every pair that conflicts, in the order of the heads; `target` is a name and a commit.

    Where one head contains another, nothing can conflict between them, and what the lower one conflicts with in the
    same paths is not told again. Heads without history in common with the target are left out. `only`: pairs with one
    of these.
    """
    graph = _graph(git, heads.values(), target[1])
    changed = [_Head(name, sha, _reached(graph, sha)) for name, sha in heads.items() if sha in graph]
    changed = [whole for head in changed if (whole := _changes(git, head, target[1]))]
    above = _Head(*target, frozenset({target[1]}))
    pairs = [
        *((above, head) for head in changed),
        *(pair for pair in combinations(changed, 2) if _meet(*pair) or _meet(*reversed(pair))),
    ]
    if only is not None:
        near = [head for head in changed if any(head.sha in h.contains for h in changed if h.name in only)]
        pairs = [pair for pair in pairs if pair[0] in near or pair[1] in near]
    found = {
        frozenset({one.name, other.name}): Conflict(one.name, other.name, paths)
        for one, other in pairs
        if (paths := _conflict(git, one, other))
    }
    known = {head.name: head for head in (above, *changed)}
    return tuple(
        this
        for this in found.values()
        if not _told_below(this, found.values(), known)
        and (only is None or this.left in only or this.right in only)
    )


def _graph(git: Git, heads: Iterable[str], target: str) -> dict[str, list[str]]:
    """The commits that the target lacks, with their parents."""
    rows = (row.split() for row in git.lines("rev-list", "--parents", *heads, f"^{target}"))
    return {sha: parents for sha, *parents in rows}


def _reached(graph: Mapping[str, Sequence[str]], head: str) -> frozenset[str]:
    found, todo = set(), [head]
    while todo:
        sha = todo.pop()
        if sha not in found:
            found.add(sha)
            todo += graph.get(sha, ())
    return frozenset(found)


def _changes(git: Git, head: _Head, target: str) -> _Head | None:
    """With what it changes as a whole and, as others may stand on a part of it, with each commit."""
    code, out, _ = git.attempt("diff", "--name-status", *AS_MERGES_DO, "-z", f"{target}...{head.sha}")
    if code:
        return None
    flags = ("--format=", "--no-show-signature", "--no-renames", "--diff-merges=first-parent")
    paths = set(git.names("log", *flags, "--name-only", "-z", f"{target}..{head.sha}"))
    moves: set[str] = set()
    words = iter(out.split("\0"))
    for state in words:
        names = tuple(islice(words, 2 if state.startswith("R") else 1))
        paths.update(names)
        moves.update(_left(*names) if len(names) == 2 else ())
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    return _Head(head.name, head.sha, head.contains, frozenset(paths), frozenset(moves), frozenset(folders))


def _left(old: str, new: str) -> set[str]:
    """The topmost folder that a rename may be a rename of: what others add there would move along."""
    before, after = PurePosixPath(old).parent, PurePosixPath(new).parent
    if before == after:
        return set()
    while before.name and before.name == after.name:
        before, after = before.parent, after.parent
    return {str(before)}


def _meet(one: _Head, other: _Head) -> bool:
    """Whether they touch the same path, a file where the other has a folder, or a folder that one moves away."""
    return not (one.paths | one.moves).isdisjoint(other.paths | other.folders)


def _conflict(git: Git, one: _Head, other: _Head) -> tuple[str, ...]:
    if one.sha in other.contains or other.sha in one.contains:
        return ()
    try:
        merge_tree(git, one.sha, other.sha)
    except JoinConflict as error:
        return tuple(map(shown, error.paths))
    return ()


def _told_below(this: Conflict, found: Iterable[Conflict], known: Mapping[str, _Head]) -> bool:
    """Whether a pair of heads that these two contain conflicts in all of these paths."""
    pair = (known[this.left], known[this.right])
    return any(
        other != this
        and set(this.paths) <= set(other.paths)
        and all(any(known[name].sha in head.contains for head in pair) for name in (other.left, other.right))
        for other in found
    )
