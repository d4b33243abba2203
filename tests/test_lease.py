"""One build leads: its lease is taken, renewed, released and lost, and what it writes without it changes nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from db.feature import Batch, BatchStatus, Ended, Kind, PrStatus, Result
from db.lease import Lease, LeaseHeld, LeaseLost, Owner
from db.store import FeatureStore
from tests.postgres import Server
from tests.tables import CHECK, RAN, added, behind, everything, planned, started

ME, OTHER = Owner("b1", "here", 11, 1.25), Owner("b2", "there", 22, 2.5)
LIMIT_S = 20.0


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
    "drop_planned": lambda s: s.drop_planned("k2"),
    "start_attempt": lambda s: s.start_attempt(
        batch_key="k2", feature_ids=[2], kind=Kind.CODE, build_id="b1", session_id="s"
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
    """Feature 1 runs in k1, feature 2 is planned in k2, feature 3 is free."""
    a, b, _ = added(store, "a", "b", "c")
    planned(store, "k1", a)
    planned(store, "k2", b)
    started(store, "k1", a)


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
    assert everything(store) == before
    assert late.features() == store.features(), "to read needs no lease"
    late.add_features([])  # nor does what a person writes


def test_an_attempt_records_its_lease(store: FeatureStore, table_url: str) -> None:
    at_work(store)
    lease = taken(store)
    started(store.under(lease), "k2", 2)
    assert behind(table_url, "SELECT lease_token FROM attempts ORDER BY id") == [(None,), (lease.token,)]


# Processes

LEADER = """
import os, signal, sys
from db.errors import StoreError
from db.lease import Owner
from db.store import FeatureStore

url, host, ttl_s, busy_s = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
store = FeatureStore.open(url, busy_timeout_s=busy_s)
lease = store.take_lease(Owner("first", host, os.getpid(), 1.0), ttl_s=ttl_s, is_alive=lambda _: True)
print("leads", flush=True)
for order in sys.stdin:
    try:
        if order == "hold\\n":
            with store._database.write() as session:
                session.connection().exec_driver_sql("UPDATE leases SET build_id = 'half'")
                print("holds", flush=True)
                os.kill(os.getpid(), signal.SIGSTOP)
        else:
            store.under(lease).record_event(build_id="first", batch_key=None, name="late", data={})
        print("written", flush=True)
    except StoreError as error:
        print(type(error).__name__, error, flush=True)
"""


class Leader:
    """A process that takes the lease, and writes when it is told to."""

    def __init__(self, url: str, *, host: str, ttl_s: float, busy_s: float = 5) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEADER, url, host, str(ttl_s), str(busy_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.orders, self.answers = self.process.stdin, self.process.stdout
        assert self.answers.readline() == "leads\n"

    def told(self, order: str) -> str:
        self.orders.write(f"{order}\n")
        self.orders.flush()
        return self.answers.readline()

    def is_alive(self, owner: Owner) -> bool:
        return owner.pid == self.process.pid and self.process.poll() is None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()
        with contextlib.suppress(BrokenPipeError):
            self.orders.close()


def taken_in_time(store: FeatureStore, owner: Owner, leader: Leader) -> tuple[Lease, int]:
    """The lease, as soon as it can be had, and how often it could not."""
    limit = time.monotonic() + LIMIT_S
    for refused in range(10_000):
        try:
            return store.take_lease(owner, ttl_s=60, is_alive=leader.is_alive), refused
        except LeaseHeld:
            assert time.monotonic() < limit
            time.sleep(0.02)
    raise AssertionError


@pytest.mark.parametrize("host", ["here", "there"])
def test_b1_a_killed_leader_is_followed(store: FeatureStore, table_url: str, host: str) -> None:
    with closing(Leader(table_url, host=host, ttl_s=1)) as leader:
        with pytest.raises(LeaseHeld):
            store.take_lease(ME, ttl_s=60, is_alive=leader.is_alive)
        leader.process.kill()
        leader.process.wait()
        lease, refused = taken_in_time(store, ME, leader)
    assert store.leader() == lease
    assert (refused == 0) is (host == ME.host), "at once on the same host, else after its time"


def test_b1_a_leader_that_stood_still_writes_nothing_when_it_goes_on(
    store: FeatureStore, table_url: str
) -> None:
    with closing(Leader(table_url, host="there", ttl_s=1)) as leader:
        assert leader.told("write") == "written\n"
        leader.process.send_signal(signal.SIGSTOP)
        lease, _ = taken_in_time(store, ME, leader)
        before = everything(store)
        leader.process.send_signal(signal.SIGCONT)
        assert leader.told("write").startswith("LeaseLost This build no longer leads")
        assert (everything(store), store.leader()) == (before, lease)
        store.under(lease).record_event(build_id="b1", batch_key=None, name="n", data={})


def test_b1_a_leader_killed_in_the_middle_of_a_write_leaves_nothing_and_blocks_nobody(
    store: FeatureStore, table_url: str
) -> None:
    with closing(Leader(table_url, host="here", ttl_s=60)) as leader:
        assert leader.told("hold") == "holds\n"
        leader.process.kill()
        leader.process.wait()
        assert [each.owner.build_id for each in [store.leader()] if each] == ["first"]
        assert taken_in_time(store, ME, leader)[1] == 0


def test_b1_the_server_ends_a_write_that_stands_still(postgresql: Server) -> None:
    with postgresql.database() as url, closing(FeatureStore.open(url, busy_timeout_s=10)) as store:
        with closing(Leader(url, host="there", ttl_s=0, busy_s=1)) as leader:
            assert leader.told("hold") == "holds\n"
            lease = taken(store)  # waits until the server has lost patience
            os.kill(leader.process.pid, signal.SIGCONT)
            assert leader.answers.readline().startswith("StoreError The feature table postgresql://")
            assert leader.told("write").startswith("LeaseLost")
        assert store.leader() == lease
