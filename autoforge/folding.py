"""What was merged into a branch of ours shares the fate of that branch."""

from collections.abc import Mapping
from dataclasses import replace

from db.feature import Batch, BatchStatus
from db.store import FeatureStore


def is_folded(batch: Batch) -> bool:
    """Whether its commits are in another batch's branch, whose pull request may be closed."""
    return batch.status is BatchStatus.FOLDED or (
        batch.status is BatchStatus.CLOSED and batch.merge_sha is not None
    )


def settle(store: FeatureStore) -> list[str]:
    """Close what is in a branch whose pull request is closed, until that is open again; answers what was done."""
    notes = []
    batches = {batch.key: batch for batch in store.batches()}
    for batch in batches.values():
        if not is_folded(batch):
            continue
        status = BatchStatus.CLOSED if _is_shut(batch, batches) else BatchStatus.FOLDED
        if status is batch.status:
            continue
        store.save_batch(replace(batch, status=status))
        if status is BatchStatus.CLOSED:
            where = " and ".join(batches[p.key].branch for p in batch.parents if p.key in batches)
            notes.append(
                f"{batch.branch} was merged into {where}, which was closed unmerged: it waits with that."
            )
    return notes


def _is_shut(batch: Batch, batches: Mapping[str, Batch]) -> bool:
    if not is_folded(batch):
        return batch.status is BatchStatus.CLOSED
    return any(_is_shut(batches[p.key], batches) for p in batch.parents if p.key in batches)
