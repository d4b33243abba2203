"""Pull requests after they are open: their state on the forge becomes the table's."""

from collections.abc import Sequence
from dataclasses import dataclass

from db.feature import UNMERGED, Batch, BatchStatus, PrStatus
from db.store import FeatureStore
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.errors import ForgeFailed
from git_workflow.forge import Forge, PullRequest
from git_workflow.repository import is_ancestor

ON_THE_FORGE = (BatchStatus.OPENED, BatchStatus.CLOSED)  # what is closed may be reopened
GONE = 404


@dataclass(frozen=True)
class Verdict:
    """What a pull request's state means for its batch; `note` is for the person."""

    status: BatchStatus
    pr_status: PrStatus
    merge_sha: str | None = None
    note: str | None = None


def judge(batch: Batch, pull: PullRequest, *, in_target: bool, parent_branches: Sequence[str]) -> Verdict:
    """The decision table. `in_target`: the merge commit is an ancestor of the fetched target."""
    name = f"#{pull.number} ({batch.branch})"
    if pull.state == "open":
        return Verdict(BatchStatus.OPENED, PrStatus.DRAFT if pull.draft else PrStatus.OPEN)
    if not pull.merged:
        note = f"{name} was closed unmerged: what depends on it waits until it is reopened and merged."
        known = batch.status is BatchStatus.CLOSED
        return Verdict(BatchStatus.CLOSED, PrStatus.CLOSED, note=None if known else note)
    if in_target:
        return Verdict(BatchStatus.MERGED, PrStatus.MERGED, pull.merge_sha)
    where = f"{name} was merged into {pull.base_branch}"
    if pull.base_branch in parent_branches:
        note = f"{where} and gets into the target with it."
        return Verdict(BatchStatus.FOLDED, PrStatus.MERGED, pull.merge_sha, note)
    note = f"{where}, but its commits are not in the target yet."
    return Verdict(BatchStatus.OPENED, PrStatus.MERGED, pull.merge_sha, note)


def sync(store: FeatureStore, forge: Forge, git: Git, target: Target) -> list[str]:
    """Bring every pull request's state into the table; answers what a person should know. Raises ForgeFailed."""
    notes = []
    batches = store.batches()
    branches = {batch.key: batch.branch for batch in batches}
    for batch in batches:
        if batch.status not in ON_THE_FORGE or batch.pr_number is None:
            continue
        try:
            pull = forge.get(batch.pr_number)
        except ForgeFailed as error:
            if error.status != GONE:
                raise
            notes.append(f"{batch.branch}: {error}")
            continue
        verdict = judge(
            batch,
            pull,
            in_target=_contains(git, target.sha, pull.merge_sha),
            parent_branches=[branches[p.key] for p in batch.parents if p.key in branches],
        )
        store.set_pull_request(
            batch.key,
            number=pull.number,
            url=pull.url,
            status=verdict.pr_status,
            batch_status=verdict.status,
            merge_sha=verdict.merge_sha,
        )
        notes += [verdict.note] if verdict.note else []
    return notes + _left_behind(store.batches())


def _contains(git: Git, tip: str, sha: str | None) -> bool:
    return sha is not None and git.ok("cat-file", "-e", sha) and is_ancestor(git, sha, tip)


def _left_behind(batches: Sequence[Batch]) -> list[str]:
    """Children with an open pull request whose parent is not what they were built on any more."""
    gone = {
        b.key: b for b in batches if b.status in (BatchStatus.MERGED, BatchStatus.FOLDED, BatchStatus.CLOSED)
    }
    notes = []
    for batch in batches:
        for parent in batch.parents if batch.status in UNMERGED else ():
            if parent.key in gone:
                how = str(gone[parent.key].status)
                what = f"#{batch.pr_number}" if batch.pr_number else batch.branch
                notes.append(
                    f"{what} is built on {gone[parent.key].branch}, which is {how}: "
                    f"change its base on GitHub and rebase it when you review it."
                )
    return notes
