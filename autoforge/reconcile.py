"""Pull requests after they are open: their state on the forge becomes the table's."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoforge import healing
from autoforge.folding import is_folded, settle
from db.feature import Batch, BatchStatus, Parent, PrStatus
from db.store import FeatureStore
from git_workflow import publish
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.errors import ForgeFailed, GitFailed
from git_workflow.forge import Forge, PullRequest
from git_workflow.publish import Remote
from git_workflow.repository import has_commit, is_ancestor

ON_THE_FORGE = (BatchStatus.OPENED, BatchStatus.CLOSED)  # what is closed may be reopened
GONE = 404


@dataclass(frozen=True)
class Verdict:
    """What a pull request's state means for its batch; `note` is for the person, `into` the batch that has it now.

    `again`: its commits went where nothing takes them to the target, so that they need a new pull request.
    """

    status: BatchStatus
    pr_status: PrStatus
    merge_sha: str | None = None
    note: str | None = None
    again: bool = False
    into: str | None = None


@dataclass(frozen=True)
class Merge:
    """Where a merged pull request's commit is: in the target, in a parent's branch that gets there, or elsewhere."""

    in_target: bool = False
    in_parent: bool = False
    into: str | None = None  # the key of the batch whose branch that is
    ours: bool = False  # it went into a branch of ours


def judge(batch: Batch, pull: PullRequest, merge: Merge) -> Verdict:
    """The decision table."""
    name = f"#{pull.number} ({batch.branch})"
    if pull.state == "open":
        return Verdict(BatchStatus.OPENED, PrStatus.DRAFT if pull.draft else PrStatus.OPEN)
    if not pull.merged:
        note = f"{name} was closed unmerged: what depends on it waits until it is reopened and merged."
        known = batch.status is BatchStatus.CLOSED
        return Verdict(BatchStatus.CLOSED, PrStatus.CLOSED, note=None if known else note)
    if merge.in_target:
        return Verdict(BatchStatus.MERGED, PrStatus.MERGED, pull.merge_sha)
    where = f"{name} was merged into {pull.base_branch}"
    if merge.in_parent:
        note = f"{where} and gets into the target with it."
        return Verdict(BatchStatus.FOLDED, PrStatus.MERGED, pull.merge_sha, note, into=merge.into)
    if merge.ours:
        note = f"{where}, which nobody merges any more: its commits get a new pull request."
        return Verdict(BatchStatus.BUILT, PrStatus.MERGED, note=note, again=True)
    note = f"{where}, but its commits are not in the target yet."
    return Verdict(BatchStatus.OPENED, PrStatus.MERGED, pull.merge_sha, note)


@dataclass(frozen=True)
class Learnt:
    """The open pull requests by number, and what a person should know."""

    pulls: Mapping[int, PullRequest]
    notes: list[str]


def sync(store: FeatureStore, forge: Forge, git: Git, remote: Remote, target: Target) -> Learnt:
    """Bring every pull request's state into the table. Raises ForgeFailed and GitFailed."""
    batches = store.batches()
    known = [b for b in batches if b.status in ON_THE_FORGE and b.pr_number is not None and not is_folded(b)]
    pulls = {pull.number: pull for pull in forge.open_pulls()} if known else {}
    found, notes = _look(forge, known, pulls)
    judged = []
    for batch, pull in found:
        if pull.state == "open" or pull.merged:
            merge = _find(batches, batch, pull, git=git, remote=remote, target=target)
            judged.append((batch, pull, judge(batch, pull, merge)))
    judged.sort(key=lambda each: each[2].again)  # after what was merged into their branches
    for batch, pull, verdict in judged:
        if verdict.again:
            _keep_head(batch, pull, git, remote)
        notes += _record(store, batch, pull, verdict)
    for batch, pull in found:  # now it is known which parents are merged
        if pull.state == "closed" and not pull.merged:
            again, told = _heal(store, batch, pull, git=git, remote=remote, forge=forge)
            pulls |= {again.number: again} if again.state == "open" else {}
            notes += told + _record(store, batch, again, judge(batch, again, Merge()))
    return Learnt(pulls, notes + settle(store))


def _look(
    forge: Forge, known: Sequence[Batch], pulls: Mapping[int, PullRequest]
) -> tuple[list[tuple[Batch, PullRequest]], list[str]]:
    """Each batch's pull request, and what cannot be found any more."""
    found, notes = [], []
    for batch in known:
        assert batch.pr_number is not None
        try:
            found.append((batch, pulls.get(batch.pr_number) or forge.get(batch.pr_number)))
        except ForgeFailed as error:
            if error.status != GONE:
                raise
            notes.append(f"{batch.branch}: {error}")
    return found, notes


def _keep_head(batch: Batch, pull: PullRequest, git: Git, remote: Remote) -> None:
    """What somebody has pushed before the merge is on the branch that comes next, where adoption finds it."""
    if pull.head_sha not in (batch.head_sha, batch.pushed_sha):
        head = publish.fetch_pull(git, remote, pull.number)
        git.run("update-ref", f"refs/heads/{next_name(batch.branch)}", head)


def _heal(
    store: FeatureStore, batch: Batch, pull: PullRequest, *, git: Git, remote: Remote, forge: Forge
) -> tuple[PullRequest, list[str]]:
    if batch.status is BatchStatus.CLOSED:
        return pull, []
    name = f"#{pull.number} ({batch.branch})"
    try:
        again = healing.heal(batch, pull, store.batches(), git=git, remote=remote, forge=forge)
    except ForgeFailed as error:
        return pull, [
            f"{name} was closed because {pull.base_branch} was deleted, and not opened again: {error}"
        ]
    if again is None:
        return pull, []
    return again, [f"{name} was closed because {pull.base_branch} was deleted; it is open again."]


def _record(store: FeatureStore, batch: Batch, pull: PullRequest, verdict: Verdict) -> list[str]:
    notes = [verdict.note] if verdict.note else []
    if verdict.again:
        store.publish_again(batch.key, branch=next_name(batch.branch), why=verdict.note or "")
        return notes
    if pull.merged and pull.head_sha != batch.head_sha:  # somebody pushed before it was merged
        batch = replace(batch, head_sha=pull.head_sha, pushed_sha=pull.head_sha, checks=())
        store.save_batch(batch)
    if verdict.into and pull.merge_sha:
        store.save_batch(replace(batch, parents=(Parent(verdict.into, pull.merge_sha),)))
    store.set_pull_request(
        batch.key,
        number=pull.number,
        url=pull.url,
        status=verdict.pr_status,
        batch_status=verdict.status,
        merge_sha=verdict.merge_sha,
    )
    return notes


def next_name(branch: str) -> str:
    """A branch for the same work: a merged pull request cannot be opened again."""
    found = re.fullmatch(r"(.+-[a-z][a-z2-9]{5})-(\d+)", branch)
    return f"{found[1]}-{int(found[2]) + 1}" if found else f"{branch}-2"


def _find(
    batches: Sequence[Batch], batch: Batch, pull: PullRequest, *, git: Git, remote: Remote, target: Target
) -> Merge:
    if not pull.merged or pull.merge_sha is None:
        return Merge()
    if has_commit(git, pull.merge_sha) and is_ancestor(git, pull.merge_sha, target.sha):
        return Merge(in_target=True)
    ours = {b.branch: b for b in batches if b.key != batch.key}
    into = ours.get(pull.base_branch)
    if into is None:
        return Merge(ours=pull.base_branch == batch.base_branch and pull.base_branch != target.branch)
    return Merge(in_parent=_carries(git, remote, into, pull.merge_sha), into=into.key, ours=True)


def _carries(git: Git, remote: Remote, into: Batch, sha: str) -> bool:
    """Whether the pull request of that batch has the commit, or had it when it was merged."""
    if into.pr_number is None:
        return False
    try:
        head = publish.fetch_pull(git, remote, into.pr_number)
    except GitFailed:
        return False
    return has_commit(git, sha) and is_ancestor(git, sha, head)
