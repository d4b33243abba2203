"""Processes that lead: killed, stopped in the middle of a write, late."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from db.lease import Lease, LeaseHeld, Owner
from db.store import FeatureStore
from tests.postgres import Server
from tests.tables import ME, everything

LIMIT_S = 20.0


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    with closing(FeatureStore.open(table_url, busy_timeout_s=5)) as opened:
        yield opened


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
            lease = store.take_lease(
                ME, ttl_s=60, is_alive=lambda _: True
            )  # waits until the server has lost patience
            os.kill(leader.process.pid, signal.SIGCONT)
            assert leader.answers.readline().startswith("StoreError The feature table postgresql://")
            assert leader.told("write").startswith("LeaseLost")
        assert store.leader() == lease
