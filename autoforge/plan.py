"""Which batches to start next, and what they are built on: pure, from the table's values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoforge import scheduler
from db.feature import UNFINISHED, UNMERGED, Batch, BatchStatus, Feature, FeatureStatus
from db.nodes import BatchNode, Node
from git_workflow.base import Tip
from git_workflow.naming import branch_name, new_key

Row = Feature | Node
PUBLISHED = frozenset({BatchStatus.PUSHED, BatchStatus.OPENED, BatchStatus.MERGED, BatchStatus.FOLDED})


@dataclass(frozen=True)
class Parents:
    """Unmerged batches to build on, and the merge commits of those that are in the target already."""

    tips: tuple[Tip, ...]
    merged: tuple[str, ...]


def available(
    features: Sequence[Row], batches: Sequence[Batch | BatchNode], *, publish: bool
) -> frozenset[int]:
    """Passed features that others can be built on now."""
    ready = PUBLISHED if publish else PUBLISHED | {BatchStatus.BUILT}
    keys = {None, *(batch.key for batch in batches if batch.status in ready)}
    passed = FeatureStatus.PASSED
    return frozenset(f.id for f in features if f.status is passed and f.batch_key in keys)


def held(features: Sequence[Row], batches: Sequence[Batch | BatchNode]) -> dict[int, str]:
    """Passed features that cannot be built on, and why, as it follows "which"."""
    words = {
        BatchStatus.CLOSED: "passed, but its pull request was closed unmerged",
        BatchStatus.BUILT: "passed, but its branch is not on the remote",
        BatchStatus.WORKING: "passed, but its batch is not finished",
    }
    by_key = {batch.key: batch for batch in batches}
    return {
        f.id: words[by_key[f.batch_key].status]
        for f in features
        if f.batch_key in by_key and by_key[f.batch_key].status in words
    }


def worktrees_in_use(batches: Sequence[Batch]) -> frozenset[Path]:
    """Where batches work, or worked and will go on."""
    return frozenset(Path(b.worktree_path) for b in batches if b.worktree_path and b.status in UNFINISHED)


def selection(features: Sequence[Row], wanted: Collection[int]) -> frozenset[int]:
    """The wanted features and everything that they depend on."""
    by_id = {f.id: f for f in features}
    chosen: set[int] = set()
    todo = list(wanted)
    while todo:
        feature_id = todo.pop()
        if feature_id in by_id and feature_id not in chosen:
            chosen.add(feature_id)
            todo += by_id[feature_id].dependencies
    return frozenset(chosen)


def unfinished(
    features: Sequence[Row], batches: Sequence[Batch], ready_to_use: Collection[int]
) -> list[tuple[Batch, tuple[int, ...]]]:
    """Batches that were begun and can go on, with the features that they can work on."""
    begun = [batch for batch in batches if batch.status in UNFINISHED]
    theirs = {i for batch in begun for i in batch.feature_ids}
    by_id = {f.id: f for f in features if f.id in theirs}
    result = []
    for batch in begun:
        usable, todo = set(ready_to_use), []
        for i in batch.feature_ids:  # in their order: one may depend on those before it
            feature = by_id.get(i)
            if feature is None or feature.batch_key != batch.key or not set(feature.dependencies) <= usable:
                continue
            if feature.status is FeatureStatus.PENDING:
                todo.append(i)
            if feature.status in (FeatureStatus.PENDING, FeatureStatus.PASSED):
                usable.add(i)
        if todo:
            result.append((batch, tuple(todo)))
    return result


def new_batches(
    features: Sequence[Row],
    batches: Sequence[Batch],
    *,
    ready_to_use: Collection[int],
    size: int,
    slots: int,
    prefix: str,
) -> list[Batch]:
    """At most `slots` batches of features that belong to no unfinished batch, best first."""
    begun = {i for batch in batches if batch.status in UNFINISHED for i in batch.feature_ids}
    schedule = scheduler.schedule(features, available=ready_to_use)
    result = []
    for group in scheduler.plan_batches(features, schedule, size=size, slots=slots, busy=begun):
        first, key = features[schedule.graph.position[group[0]]], new_key()
        result.append(Batch(key, branch_name(prefix, first.name, key), group))
    return result


def parents(batch: Batch, features: Sequence[Row], batches: Sequence[Batch]) -> Parents:
    """What a batch is built on: the batches of its dependencies, and those that its own features were tried in."""
    by_id, by_key = {f.id: f for f in features}, {b.key: b for b in batches}
    mine = [by_id[i] for i in batch.feature_ids]
    keys = {by_id[d].batch_key for f in mine for d in f.dependencies if d not in batch.feature_ids}
    keys |= earlier(batch, batches)
    below = [b for key in sorted(k for k in keys if k in by_key) for b in _alive(by_key[key], by_key)]
    passed = {f.batch_key for f in features if f.status is FeatureStatus.PASSED}  # else a person has reset it
    alive = [b for b in below if b.status in UNMERGED and b.key in passed]
    tips = [Tip(b.key, b.branch, b.head_sha) for b in alive if b.head_sha]
    merged = [b.merge_sha for b in below if b.status is BatchStatus.MERGED and b.merge_sha]
    return Parents(tuple(dict.fromkeys(tips)), tuple(dict.fromkeys(merged)))


def earlier(batch: Batch, batches: Sequence[Batch]) -> set[str]:
    """Published batches that some of these features were planned with and did not pass in."""
    mine = set(batch.feature_ids)
    usable = UNMERGED | {BatchStatus.MERGED, BatchStatus.FOLDED}
    return {b.key for b in batches if b.key != batch.key and mine & set(b.feature_ids) and b.status in usable}


def _alive(batch: Batch, by_key: Mapping[str, Batch]) -> list[Batch]:
    """Where its work is now. A folded batch lives on in its parents: their branches have its commits."""
    if batch.status is not BatchStatus.FOLDED:
        return [batch]
    below = [by_key[parent.key] for parent in batch.parents if parent.key in by_key]
    return [b for parent in below for b in _alive(parent, by_key)]


def next_status(batch: Batch, features: Sequence[Row], *, over: bool) -> BatchStatus:
    """Where a working batch stands after an attempt; `over`: what has passed is to be published now."""
    by_id = {f.id: f for f in features}
    held = [by_id[i] for i in batch.feature_ids if i in by_id and by_id[i].batch_key == batch.key]
    mine = [f for f in held if f.status is not FeatureStatus.SKIPPED]
    passed = [f for f in mine if f.status is FeatureStatus.PASSED]
    if passed and (over or len(passed) == len(mine)):
        return BatchStatus.BUILT
    if not passed and all(f.status is FeatureStatus.FAILED for f in mine):
        return BatchStatus.FAILED
    return batch.status
