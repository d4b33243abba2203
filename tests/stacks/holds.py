"""What must hold after a sync, whatever happened before it."""

from dataclasses import replace
from typing import Any

from autoforge.demo.github.repository import Pull
from db.feature import UNMERGED, Batch, BatchStatus, PrStatus
from tests.builds import features
from tests.conftest import run
from tests.reviews import sync
from tests.stacks.world import PREFIX, World

DONE = (BatchStatus.MERGED, BatchStatus.FOLDED)


def holds(world: World) -> None:
    table, heads = world.batches(), world.heads()
    open_ones = [pull for pull in world.forged.pulls.values() if pull.state == "open"]
    assert len({pull.head for pull in open_ones}) == len(open_ones), "two open pull requests of one branch"
    held = waiting(world, table)
    for batch in table:
        of_the_work = [
            p.number
            for p in open_ones
            if p.head.startswith(batch.branch[: len(f"{PREFIX}/feature-0-batcha")])
        ]
        assert len(of_the_work) <= 1, f"two pull requests for {batch.key}: {of_the_work}"
        _table_tells(world, batch, heads, waits=batch.key in held)
        pull = world.pull(batch)
        if pull and pull.state == "open" and batch.key not in held and batch.last_error is None:
            _shows_its_own(world, batch, pull, table)
    reachable = {*world.git("rev-list", "--all").split()}
    reachable |= {*run("git", "rev-list", "--all", cwd=world.project.repo.root).split()}
    assert world.theirs <= reachable, f"lost {world.theirs - reachable}"
    _nothing_left(world, table, heads, {pull.base for pull in open_ones})


def waiting(world: World, table: list[Batch], *, far: bool = True) -> set[str]:
    """Batches that depend on something that is closed or not on the remote, `far` or directly below."""
    by_key, needs = {b.key: b for b in table}, {f.id: f for f in features(world.project)}
    held: set[str] = set()
    for batch in table:  # parents were made first
        for number in batch.feature_ids:
            below = {str(needs[d].batch_key) for d in needs[number].dependencies}
            if any((far and k in held) or _is_shut(by_key[k], by_key) for k in below):
                held.add(batch.key)
    return held


def _is_shut(batch: Batch, table: dict[str, Batch]) -> bool:
    """Closed, not on the remote, or merged into a branch that is so."""
    if batch.status is BatchStatus.FOLDED:
        return all(_is_shut(table[parent.key], table) for parent in batch.parents)
    return batch.status in (BatchStatus.CLOSED, BatchStatus.BUILT)


def _table_tells(world: World, batch: Batch, heads: dict[str, str], *, waits: bool) -> None:
    pull = world.pull(batch)
    assert batch.last_error is None or waits or world.tangled, f"{batch.branch}: {batch.last_error}"
    if pull is None:
        assert batch.status in UNMERGED
        assert waits, f"{batch.branch} has no pull request"
    elif pull.state == "open":
        assert batch.status is BatchStatus.OPENED
        assert batch.pr_status is (PrStatus.DRAFT if pull.draft else PrStatus.OPEN)
        assert (pull.head, pull.base) == (batch.branch, batch.base_branch)
        assert {batch.head_sha, batch.pushed_sha} == {heads[batch.branch]}
    elif not pull.merged:
        assert batch.status is BatchStatus.CLOSED
    elif pull.merge_sha in world.git("rev-list", "main").split():
        assert batch.status is BatchStatus.MERGED
    else:
        assert batch.pr_status is PrStatus.MERGED
        assert batch.status is not BatchStatus.MERGED


def _shows_its_own(world: World, batch: Batch, pull: Pull, table: list[Batch]) -> None:
    added, removed = world.shown(pull.base, pull.head)
    own, there = world.own[batch.key], world.contains(pull.head)
    assert added <= own, f"{batch.branch} shows {added - own}"
    assert removed == set(), f"{batch.branch} removes {removed}"
    assert own - world.edited <= there, f"{batch.branch} has lost {own - there}"
    known, by_key = {f.id: f for f in features(world.project)}, {b.key: b for b in table}
    for number in (d for i in batch.feature_ids for d in known[i].dependencies):
        below = by_key[str(known[number].batch_key)]
        behind = set() if below.status is BatchStatus.OPENED else world.contains(pull.base)
        missing = world.own[below.key] - world.edited - there - behind
        assert not missing, f"{batch.branch} misses {missing} of {below.branch}"
    commits = set(world.git("rev-list", pull.head).split())
    for other in table:
        if (
            other.status is BatchStatus.CLOSED
            and batch.base_branch != other.branch
            and other.head_sha in commits
        ):
            raise AssertionError(f"{batch.branch} has commits of {other.branch}, which is closed")


def _nothing_left(world: World, table: list[Batch], heads: dict[str, str], targeted: set[str]) -> None:
    bases = {b.base_branch for b in table if b.status not in DONE}
    ours = {pull.head for pull in world.forged.pulls.values()} | {b.branch for b in table}
    for branch in heads:
        if branch.startswith(f"{PREFIX}/join-"):
            assert branch in bases | targeted, f"{branch} is left over"
        elif branch.startswith(PREFIX):
            assert branch in ours
            assert branch not in world.deleted or branch in targeted, f"{branch} came back"


def picture(world: World) -> tuple[Any, ...]:
    """Everything that a second sync must leave as it is."""
    table = [replace(b, updated_at=None) for b in world.batches()]
    pulls = [replace(p, updated_at="") for p in world.forged.pulls.values()]
    commits = [(f.commit_sha, f.branch_name, f.pr_number, f.pr_status) for f in features(world.project)]
    return table, commits, world.heads(), pulls


def followed(world: World, *, cut: bool = False) -> list[str]:
    """Sync, and what must hold then; answers what a person was told. `cut`: the sync before was cut off."""
    heads = world.heads()
    told = sync(world.project)[1]
    world.story += told
    holds(world)
    stay = waiting(world, world.batches(), far=False)
    for batch in world.batches():
        if batch.key in stay and batch.status is BatchStatus.OPENED and not cut:
            assert world.heads().get(batch.branch) == heads.get(batch.branch), f"{batch.branch} did not wait"
    before = picture(world)
    again = sync(world.project)
    assert picture(world) == before, again
    return told
