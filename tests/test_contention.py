"""Many who write the feature table at once: each batch is claimed once, one leads, and nobody is turned away."""

import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import pytest

from db.feature import Ended, NewFeature, Result
from db.lease import Lease, LeaseHeld, Owner
from db.models import FeatureRow
from db.rows import one
from db.store import FeatureStore
from tests.tables import added, led, planned, started

PROCESSES, BATCHES = 20, 500

CLAIMS = """
import os, random, sys
from db.feature import Batch
from db.store import FeatureStore

url, processes = sys.argv[1], int(sys.argv[2])
ready, go = os.pipe()

def claim(me):
    store, chance = FeatureStore.open(url), random.Random(me)
    store = store.under(store.leader())
    os.close(go)
    os.read(ready, 1)  # ends when every process has been started
    while free := [node.id for node in store.nodes() if node.batch_key is None]:
        for i in chance.sample(free, min(10, len(free))):
            if store.plan_batch(Batch(f"{me}-{i}", f"autoforge/{me}-{i}", (i,))):
                os.write(1, f"{i}\\n".encode())
    store.close()

children = []
for me in range(processes):
    if (pid := os.fork()) == 0:
        claim(me)
        os._exit(0)
    children.append(pid)
os.close(go)
sys.exit(any([os.waitpid(pid, 0)[1] for pid in children]))
"""


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    with closing(FeatureStore.open(table_url)) as opened:
        yield opened


def test_b2_twenty_processes_claim_every_batch_once(store: FeatureStore, table_url: str) -> None:
    led(store)
    ids = store.add_features([NewFeature(f"f{number}") for number in range(BATCHES)])
    done = subprocess.run(
        [sys.executable, "-c", CLAIMS, table_url, str(PROCESSES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(map(int, done.stdout.split())) == ids
    batches = store.batches()
    assert sorted(fid for batch in batches for fid in batch.feature_ids) == ids
    assert {node.id: node.batch_key for node in store.nodes()} == {
        batch.feature_ids[0]: batch.key for batch in batches
    }
    assert len({batch.key.partition("-")[0] for batch in batches}) > PROCESSES // 2, "they took turns"


def test_many_threads_write_and_read(store: FeatureStore) -> None:
    store = led(store)

    def work(number: int) -> None:
        [fid] = added(store, f"f{number}")
        planned(store, f"k{number}", fid)
        store.end_attempt(started(store, f"k{number}", fid).id, Ended(Result.LIMITED), max_attempts=1)
        store.features()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(32)))
    assert len(store.attempts()) == len(store.features()) == 32
    assert len({feature.priority for feature in store.features()}) == 32


def test_b2_threads_that_lock_the_same_rows_in_any_order(store: FeatureStore) -> None:
    """Without an order, two of them wait for each other and a database ends one."""
    ids = added(store, *(f"f{number}" for number in range(8)))

    def work(number: int) -> None:
        with store._database.write() as session:
            for fid in random.Random(number).sample(ids, len(ids)):
                one(session, FeatureRow, fid, lock=True).attempts += 1
                session.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert {node.attempts for node in store.nodes()} == {40}


def test_b2_one_of_many_takes_the_lease(store: FeatureStore) -> None:
    def take(number: int) -> Lease | LeaseHeld:
        try:
            owner = Owner(f"b{number}", "host", number, 1.0)
            return store.take_lease(owner, ttl_s=60, is_alive=lambda _: True)
        except LeaseHeld as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(take, range(32)))
    [lease] = [each for each in taken if isinstance(each, Lease)]
    assert store.leader() == lease
    assert [each.holder for each in taken if isinstance(each, LeaseHeld)] == [lease] * 31


def test_b2_leases_taken_from_the_dead_all_have_their_own_token(store: FeatureStore) -> None:
    def take(number: int) -> Lease:
        return store.take_lease(Owner(f"b{number}", "host", 1, 1.0), ttl_s=60, is_alive=lambda _: False)

    with ThreadPoolExecutor(16) as pool:
        tokens = sorted(lease.token for lease in pool.map(take, range(32)))
    assert all(later > earlier for earlier, later in pairwise(tokens))
    assert store.leader() is not None
