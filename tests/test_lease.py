"""One build leads: its lease is taken, renewed, released and lost, and what it writes without it changes nothing."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from db.batches import BatchTable
from db.errors import StoreError
from db.feature import Batch, BatchStatus, Ended, Kind, Moved, PrStatus, Result
from db.lease import Lease, LeaseHeld, LeaseLost, Owner
from db.store import FeatureStore
from tests.tables import CHECK, ME, RAN, added, everything, passed, planned, started

OTHER = Owner("b2", "there", 22, 2.5)


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    with closing(FeatureStore.open(table_url, busy_timeout_s=5)) as opened:
        yield opened


def taken(store: FeatureStore, owner: Owner = ME, *, ttl_s: float = 60, alive: bool = True) -> Lease:
    return store.take_lease(owner, ttl_s=ttl_s, is_alive=lambda _: alive)


def test_a_lease_is_taken_renewed_and_released(store: FeatureStore) -> None:
    assert store.leader() is None
    lease = taken(store, ttl_s=60)
    assert (store.leader(), lease.owner) == (lease, ME)
    assert timedelta(seconds=50) < lease.expires_at - datetime.now(UTC) < timedelta(seconds=70)
    renewed = store.renew_lease(lease, ttl_s=600)
    assert (renewed.token, store.leader()) == (lease.token, renewed)
    assert renewed.expires_at - lease.expires_at > timedelta(seconds=500)
    store.release_lease(lease)  # the token says whose it is, not the time
    assert store.leader() is None
    with pytest.raises(LeaseLost):
        store.renew_lease(renewed, ttl_s=60)
    assert store.leader() is None, "a renewal that came late must not bring it back"
    again = taken(store, OTHER)
    assert again.token > lease.token
    store.release_lease(lease)
    assert store.leader() == again


def test_b2_a_second_build_is_turned_away_with_the_first_ones_facts(store: FeatureStore) -> None:
    lease = taken(store)
    for owner in (OTHER, replace(OTHER, host=ME.host), ME):
        with pytest.raises(LeaseHeld, match=r"b1, process 11 on here\. Wait for it, or stop it") as raised:
            taken(store, owner)
        assert raised.value.holder == lease
    assert store.leader() == lease


def test_b2_a_dead_leader_on_this_host_is_followed_at_once(store: FeatureStore) -> None:
    lease = taken(store)
    asked: list[Owner] = []

    def is_alive(owner: Owner) -> bool:
        asked.append(owner)
        return False

    with pytest.raises(LeaseHeld):  # nobody can tell whether it lives
        store.take_lease(OTHER, ttl_s=60, is_alive=is_alive)
    assert asked == []
    follower = store.take_lease(replace(OTHER, host=ME.host), ttl_s=60, is_alive=is_alive)
    assert (asked, follower.token > lease.token) == ([ME], True)


def test_b2_a_leader_is_followed_when_its_time_is_over(store: FeatureStore) -> None:
    late = taken(store, ttl_s=0)
    assert store.leader() is None
    back = store.renew_lease(late, ttl_s=60)  # nobody has led in between
    assert store.leader() == back
    expired = store.renew_lease(back, ttl_s=0)
    follower = taken(store, OTHER)
    assert follower.token > expired.token
    for write in (
        lambda: store.renew_lease(expired, ttl_s=60),
        lambda: store.under(expired).drop_planned("k"),
    ):
        with pytest.raises(LeaseLost, match="no longer leads"):
            write()
    store.release_lease(expired)
    assert store.leader() == follower


# Fencing

WRITES: dict[str, Callable[[FeatureStore], object]] = {
    "plan_batch": lambda s: s.plan_batch(Batch("k3", "autoforge/k3", (3,))),
    "save_batch": lambda s: s.save_batch(replace(s.batch("k1"), summary="mine")),
    "move_batches": lambda s: s.move_batches([Moved(s.batch("k4"), {"c4": "d4"})]),
    "publish_again": lambda s: s.publish_again("k4", branch="autoforge/x-k4-2", why="w"),
    "drop_planned": lambda s: s.drop_planned("k2"),
    "start_attempt": lambda s: s.start_attempt(
        batch_key="k2", feature_ids=[2], kind=Kind.CODE, build_id="b1", session_id="s"
    ),
    "start_repair": lambda s: s.start_repair(
        batch_key="k4", feature_ids=[4], kind=Kind.RESTACK, build_id="b1", session_id="s"
    ),
    "record_pass": lambda s: s.record_pass(
        batch_key="k1", feature_id=1, commit_sha="c1", evidence=[RAN], checks=[CHECK]
    ),
    "end_attempt": lambda s: s.end_attempt(1, Ended(Result.FAILED, "why"), max_attempts=1),
    "set_pull_request": lambda s: s.set_pull_request(
        "k1", number=1, url="u", status=PrStatus.OPEN, batch_status=BatchStatus.OPENED
    ),
    "record_event": lambda s: s.record_event(build_id="b1", batch_key=None, name="n", data={}),
}


def expired(store: FeatureStore, lease: Lease) -> None:
    store.renew_lease(lease, ttl_s=0)


def followed(store: FeatureStore, lease: Lease) -> None:
    taken(store, replace(OTHER, host=ME.host), alive=False)


def at_work(store: FeatureStore) -> None:
    """Feature 1 runs in k1, feature 2 is planned in k2, feature 3 is free, feature 4 has passed in k4."""
    lease = taken(store)
    mine = store.under(lease)
    a, b, _, d = added(store, "a", "b", "c", "d")
    planned(mine, "k1", a)
    planned(mine, "k2", b)
    planned(mine, "k4", d)
    started(mine, "k1", a)
    started(mine, "k4", d)
    passed(mine, "k4", d, "c4")
    mine.save_batch(replace(mine.batch("k4"), status=BatchStatus.BUILT))
    store.release_lease(lease)


def test_every_write_of_the_leader_is_tried_here() -> None:
    methods = inspect.getmembers(BatchTable, inspect.isfunction)
    assert {name for name, method in methods if "self._owned()" in inspect.getsource(method)} == set(WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_what_the_leader_writes_is_stored(store: FeatureStore, name: str) -> None:
    at_work(store)
    before = everything(store)
    WRITES[name](store.under(taken(store)))
    assert everything(store) != before


@pytest.mark.parametrize("lose", [expired, followed, FeatureStore.release_lease])
def test_a_lost_lease_changes_nothing(
    store: FeatureStore, lose: Callable[[FeatureStore, Lease], None]
) -> None:
    at_work(store)
    lease = taken(store)
    lose(store, lease)
    before = everything(store)
    late = store.under(lease)
    for write in WRITES.values():
        with pytest.raises(LeaseLost, match="no longer leads"):
            write(late)
    with pytest.raises(LeaseLost):
        late.ensure_leading()
    assert everything(store) == before


def test_who_does_not_lead_reads_and_writes_only_what_a_person_may(store: FeatureStore) -> None:
    at_work(store)
    before = everything(store)
    for write in WRITES.values():
        with pytest.raises(StoreError, match="Only the build that leads may change batches"):
            write(store)
    assert everything(store) == before
    store.skip(added(store, "e"))


def test_an_attempt_records_its_lease(store: FeatureStore) -> None:
    at_work(store)
    lease = taken(store)
    tried = started(store.under(lease), "k2", 2)
    assert tried.lease_token == lease.token > store.attempts("k1")[0].lease_token
