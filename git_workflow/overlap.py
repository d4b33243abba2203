"""Which branches will conflict when they are merged one after the other, found without a checkout."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from git_workflow.base import merge_tree
from git_workflow.command import Git, shown
from git_workflow.errors import JoinConflict
from git_workflow.repository import is_ancestor

RENAMES = "-M"  # a renamed directory moves files that only the other side has


@dataclass(frozen=True)
class Conflict:
    """Two names of heads that change the same lines of these paths. One of them may be the target."""

    left: str
    right: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class _Head:
    name: str
    sha: str
    paths: frozenset[str]
    renames: bool


def conflicts(
    git: Git, heads: Mapping[str, str], *, target: tuple[str, str], only: Collection[str] | None = None
) -> tuple[Conflict, ...]:
    """Every pair that conflicts, in the order of the heads; `target` is a name and a commit.

    Where one head contains another, nothing can conflict between them, and what the lower one conflicts with in the
    same paths is not told again. `only`: pairs with one of these.
    """
    changed = [_changes(git, name, sha, target[1]) for name, sha in heads.items()]
    above = _Head(*target, frozenset(), renames=True)
    found: list[Conflict] = []
    for one, other in [*((above, head) for head in changed), *combinations(changed, 2)]:
        if only is None or one.name in only or other.name in only:
            found += _conflict(git, one, other)
    return tuple(c for c in found if not _told_below(git, c, found, {**heads, target[0]: target[1]}))


def _changes(git: Git, name: str, sha: str, target: str) -> _Head:
    states = git.names("diff", "--name-status", RENAMES, "-z", f"{target}...{sha}")
    paths = frozenset(word for word in states if not _is_state(word))
    return _Head(name, sha, paths, renames=any(_is_state(word) and word[0] in "RC" for word in states))


def _is_state(word: str) -> bool:
    return word[:1] in "ACDMRTUX" and (len(word) == 1 or word[1:].isdigit())


def _conflict(git: Git, one: _Head, other: _Head) -> Sequence[Conflict]:
    apart = not (one.renames or other.renames or one.paths & other.paths)
    if apart or is_ancestor(git, one.sha, other.sha) or is_ancestor(git, other.sha, one.sha):
        return []
    try:
        merge_tree(git, one.sha, other.sha)
    except JoinConflict as error:
        return [Conflict(one.name, other.name, tuple(map(shown, error.paths)))]
    return []


def _told_below(git: Git, this: Conflict, found: Sequence[Conflict], shas: Mapping[str, str]) -> bool:
    """Whether a pair of heads that these two contain conflicts in all of these paths."""
    return any(
        other != this
        and set(this.paths) <= set(other.paths)
        and all(
            any(a == b or is_ancestor(git, shas[a], shas[b]) for b in (this.left, this.right))
            for a in (other.left, other.right)
        )
        for other in found
    )
