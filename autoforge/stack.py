"""The open branches as a reviewer sees them: what each stands on, its pull request, and what it will conflict with."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoforge import merge_order, plan
from db.feature import UNMERGED, Batch, BatchStatus, PrStatus
from git_workflow import overlap
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.forge import Checks, Forge, PullRequest, Review
from git_workflow.overlap import Conflict
from git_workflow.repository import has_commit, is_ancestor


@dataclass(frozen=True)
class Entry:
    """A branch. `behind`: what it is built on, else the target, has commits that it lacks.

    `conflicts`: branches, the target among them, and the paths. `checks` and `review` are None where no forge was asked.
    """

    key: str
    branch: str
    title: str
    base: str
    parents: tuple[str, ...]  # branches
    head_sha: str
    pushed_sha: str | None
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
    found = clashes(git, batches, target)
    branches = {b.key: b.branch for b in batches}
    tips = {b.key: b.head_sha for b in batches if b.status in UNMERGED and b.head_sha}
    return [
        Entry(
            key=b.key,
            branch=b.branch,
            title=titles.get(b.key, b.branch),
            base=b.base_branch or target.branch,
            parents=tuple(branches[p.key] for p in b.parents if p.key in branches),
            head_sha=b.head_sha,
            pushed_sha=b.pushed_sha,
            status=str(b.status),
            number=b.pr_number,
            url=b.pr_url,
            pr_status=str(b.pr_status) if b.pr_status else None,
            behind=_behind(
                git, [tips[p.key] for p in b.parents if p.key in tips] or [target.sha], b.head_sha
            ),
            conflicts=_with(b.branch, found),
            problem=b.last_error,
        )
        for b in batches
        if b.head_sha and (b.key in tips or b.status is BatchStatus.CLOSED)
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


def _behind(git: Git, below: Sequence[str], head: str) -> bool:
    here = all(has_commit(git, sha) for sha in (*below, head))
    return here and not all(is_ancestor(git, sha, head) for sha in below)


def _with(branch: str, found: Sequence[Conflict]) -> dict[str, tuple[str, ...]]:
    return {
        other: conflict.paths
        for conflict in found
        for one, other in ((conflict.left, conflict.right), (conflict.right, conflict.left))
        if one == branch
    }


def asked(forge: Forge, found: Sequence[Entry]) -> list[Entry]:
    """With what the forge says now of the pull requests that are open in the table. Raises ForgeFailed."""
    pulls = {pull.number: pull for pull in forge.open_pulls()}
    return [
        _asked(forge, e, pulls.get(e.number) or forge.get(e.number))
        if e.number and e.status == BatchStatus.OPENED
        else e
        for e in found
    ]


def _asked(forge: Forge, entry: Entry, pull: PullRequest) -> Entry:
    if pull.state != "open":
        return dataclasses.replace(
            entry,
            pr_status=str(PrStatus.MERGED if pull.merged else PrStatus.CLOSED),
            problem="the table does not know that yet: `autoforge sync`",
        )
    moved = f"somebody changed it to {pull.head_sha[:10]}: `autoforge sync` takes that over"
    return dataclasses.replace(
        entry,
        pr_status=str(PrStatus.DRAFT if pull.draft else PrStatus.OPEN),
        problem=entry.problem if pull.head_sha in (entry.head_sha, entry.pushed_sha) else moved,
        checks=forge.checks(pull.head_sha),
        review=forge.review_state(pull.number),
    )


def proposed(found: Sequence[Entry]) -> list[Entry]:
    """The order in which merging what is open conflicts least."""
    open_ones = {e.branch: e for e in found if e.status != BatchStatus.CLOSED}
    pairs = {
        frozenset({e.branch, other})
        for e in open_ones.values()
        for other in e.conflicts
        if other in open_ones
    }
    below = {branch: e.parents for branch, e in open_ones.items()}
    return [open_ones[branch] for branch in merge_order.order([*open_ones], below=below, clashes=pairs)]


def titles(batches: Sequence[Batch], features: Sequence[plan.Row]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for feature in features:
        if feature.batch_key:
            names.setdefault(feature.batch_key, []).append(feature.name)
    return {b.key: ", ".join(names.get(b.key, [])) or b.branch for b in batches}


def as_json(found: Sequence[Entry], notes: Sequence[str]) -> dict[str, Any]:
    """The documented shape of `prs --json`; later versions only add keys. `order`: keys, as `proposed`."""
    return {
        "pulls": [dataclasses.asdict(e) for e in found],
        "order": [e.key for e in proposed(found)],
        "notes": list(notes),
    }
