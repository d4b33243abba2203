"""Which batches are to land in which order, and which cannot: pure, from the table's values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autoforge.errors import UsageError
from db.feature import Batch, BatchStatus, Feature, FeatureStatus, PrStatus

NOT_LANDED = "not landed: "  # begins a last_error that says nothing about publishing
LANDABLE = frozenset({BatchStatus.BUILT, BatchStatus.PUSHED})
IN_THE_WAY = {
    BatchStatus.CLOSED: "its pull request was closed unmerged.",
    BatchStatus.FAILED: "nothing in it has passed.",
    BatchStatus.PLANNED: "it is not built yet.",
    BatchStatus.WORKING: "it is not finished: autoforge build goes on with it.",
    BatchStatus.FOLDED: "it was merged into the branch below it: land that.",
}


@dataclass(frozen=True)
class Order:
    """`batches`: parents first. `added`: those of them that nobody asked for. `left`: key and why it cannot land."""

    batches: tuple[Batch, ...]
    added: tuple[Batch, ...]
    left: Mapping[str, str]


def verified(batches: Sequence[Batch]) -> frozenset[str]:
    """The keys of all that is verified and not merged."""
    return frozenset(b.key for b in batches if b.status in LANDABLE or b.status is BatchStatus.OPENED)


def named(features: Sequence[Feature], batches: Sequence[Batch], words: Sequence[str]) -> frozenset[str]:
    """The batches that are meant by keys and by ids of features. Raises UsageError."""
    by_id, known = {str(f.id): f for f in features}, {b.key for b in batches}
    keys = set()
    for word in words:
        feature = by_id.get(word.removeprefix("#"))
        key = feature.batch_key if feature else word
        if feature and (feature.status is not FeatureStatus.PASSED or key not in known):
            raise UsageError(
                f"Feature #{feature.id} is {feature.status}: there is no branch of it that could land."
            )
        if key is None or key not in known:
            raise UsageError(f"There is no batch or feature {word}. `autoforge land` shows what could land.")
        keys.add(key)
    return frozenset(keys)


def order(batches: Sequence[Batch], asked: Collection[str], *, by_name: bool) -> Order:
    """The asked batches that are not merged, with everything that they are built on.

    `by_name`: a closed one is meant to land.
    """
    by_key = {batch.key: batch for batch in batches}
    chosen: dict[str, Batch] = {}
    left: dict[str, str] = {}

    def visit(batch: Batch) -> None:
        if batch.key in chosen or batch.key in left or batch.status is BatchStatus.MERGED:
            return
        for parent in parents(batch, by_key):
            visit(parent)
        meant = by_name and batch.key in asked and batch.status is BatchStatus.CLOSED
        why = None if meant else obstacle(batch)
        why = why or stacked_on_left(batch, by_key, left)
        if why:
            left[batch.key] = why
        else:
            chosen[batch.key] = batch

    for batch in batches:
        if batch.key in asked:
            visit(batch)
    return Order(tuple(chosen.values()), tuple(b for b in chosen.values() if b.key not in asked), left)


def parents(batch: Batch, by_key: Mapping[str, Batch]) -> list[Batch]:
    """What it is built on and has to land before it; what was merged into a parent's branch lands with that."""
    found: list[Batch] = []
    for parent in batch.parents:
        below = by_key.get(parent.key)
        if below and below.status is BatchStatus.FOLDED:
            found += parents(below, by_key)
        elif below and below.status is not BatchStatus.MERGED:
            found.append(below)
    return found


def obstacle(batch: Batch) -> str | None:
    if batch.status is BatchStatus.OPENED:
        return f"its pull request #{batch.pr_number} is open: merge it on GitHub, or close it."
    return IN_THE_WAY.get(batch.status)


def stacked_on_left(batch: Batch, by_key: Mapping[str, Batch], left: Collection[str]) -> str | None:
    missing = [parent.branch for parent in parents(batch, by_key) if parent.key in left]
    return f"it is built on {missing[0]}, which has not landed." if missing else None


def landed(batches: Sequence[Batch]) -> list[Batch]:
    """Merged into the local target, not by a pull request."""
    merged = (b for b in batches if b.status is BatchStatus.MERGED and b.merge_sha)
    return [b for b in merged if b.pr_status is not PrStatus.MERGED]


def merges(batches: Sequence[Batch]) -> list[str]:
    """The commits by which they came into it."""
    return [b.merge_sha for b in landed(batches) if b.merge_sha]
