"""The open branches as a reviewer sees them: what each stands on, its pull request, and what it will conflict with."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoforge import merge_order, plan
from db.feature import UNMERGED, Batch, BatchStatus
from git_workflow import overlap
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.forge import Checks, Forge, Review
from git_workflow.overlap import Conflict
from git_workflow.repository import has_commit, is_ancestor


@dataclass(frozen=True)
class Entry:
    """A branch. `behind`: its base has commits that it lacks; `conflicts`: branches, the target among them, and paths.

    `checks` and `review` are None where no forge was asked.
    """

    key: str
    branch: str
    title: str
    base: str
    parents: tuple[str, ...]  # branches
    head_sha: str
    status: str
    number: int | None
    url: str | None
    pr_status: str | None
    behind: bool
    conflicts: Mapping[str, tuple[str, ...]]
    problem: str | None
    checks: Checks | None = None
    review: Review | None = None


def entries(git: Git, batches: Sequence[Batch], titles: Mapping[str, str], target: Target) -> list[Entry]:
    """Of every unmerged or closed batch that has a head; `titles` by key."""
    heads = {b.branch: b.head_sha for b in batches if b.status in UNMERGED and b.head_sha}
    found = clashes(git, batches, target)
    tips = {b.branch: b.head_sha for b in batches} | {target.branch: target.sha}
    branches = {b.key: b.branch for b in batches}
    return [
        Entry(
            key=b.key,
            branch=b.branch,
            title=titles.get(b.key, b.branch),
            base=b.base_branch or target.branch,
            parents=tuple(branches[p.key] for p in b.parents if p.key in branches),
            head_sha=b.head_sha,
            status=str(b.status),
            number=b.pr_number,
            url=b.pr_url,
            pr_status=str(b.pr_status) if b.pr_status else None,
            behind=_behind(git, tips.get(b.base_branch or "") or b.base_sha, b.head_sha),
            conflicts=_with(b.branch, found),
            problem=b.last_error,
        )
        for b in batches
        if b.head_sha and (b.branch in heads or b.status is BatchStatus.CLOSED)
    ]


def clashes(
    git: Git, batches: Sequence[Batch], target: Target, only: Sequence[str] | None = None
) -> tuple[Conflict, ...]:
    """Pairs of unmerged branches, or of one and the target, that git cannot merge."""
    heads = {
        b.branch: b.head_sha
        for b in batches
        if b.status in UNMERGED and b.head_sha and has_commit(git, b.head_sha)
    }
    return overlap.conflicts(git, heads, target=(target.branch, target.sha), only=only)


def _behind(git: Git, base: str | None, head: str) -> bool:
    here = base is not None and has_commit(git, base) and has_commit(git, head)
    return here and not is_ancestor(git, str(base), head)


def _with(branch: str, found: Sequence[Conflict]) -> dict[str, tuple[str, ...]]:
    return {
        other: conflict.paths
        for conflict in found
        for one, other in ((conflict.left, conflict.right), (conflict.right, conflict.left))
        if one == branch
    }


def asked(forge: Forge, found: Sequence[Entry]) -> list[Entry]:
    """With what the forge says of the open pull requests. Raises ForgeFailed."""
    return [
        dataclasses.replace(e, checks=forge.checks(e.head_sha), review=forge.review_state(e.number))
        if e.number and e.status == BatchStatus.OPENED
        else e
        for e in found
    ]


def proposed(found: Sequence[Entry]) -> tuple[list[Entry], set[str]]:
    """The order in which merging them conflicts least, and the keys of those that will conflict all the same."""
    open_ones = {e.branch: e for e in found if e.status != BatchStatus.CLOSED}
    pairs = {
        frozenset({e.branch, other})
        for e in open_ones.values()
        for other in e.conflicts
        if other in open_ones
    }
    below = {branch: [p for p in e.parents if p in open_ones] for branch, e in open_ones.items()}
    order = merge_order.order([*open_ones], below=below, clashes=pairs)
    late = merge_order.conflicting(order, pairs)
    return [open_ones[branch] for branch in order], {open_ones[branch].key for branch in late}


def titles(batches: Sequence[Batch], features: Sequence[plan.Row]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for feature in features:
        if feature.batch_key:
            names.setdefault(feature.batch_key, []).append(feature.name)
    return {b.key: ", ".join(names.get(b.key, [])) or b.branch for b in batches}


def as_json(found: Sequence[Entry], order: Sequence[str]) -> dict[str, Any]:
    """The documented shape of `prs --json`; later versions only add keys."""
    return {"pulls": [dataclasses.asdict(e) for e in found], "order": list(order)}
