"""What scheduling reads of the feature table."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoforge import lane, scheduler
from autoforge import settings as configuration
from db.engine import sqlite_url
from db.errors import SchemaTooNew, StoreError
from db.feature import UNFINISHED, Batch, BatchStatus, FeatureStatus, NewFeature
from db.nodes import Node, Standing
from db.store import FeatureStore
from tests.standings import FAILED, PASSED, RUNNING, added, stand
from tests.tables import behind, led


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url))
    yield opened
    opened.close()


def test_nodes_are_features_without_what_only_agents_read(store: FeatureStore, table_url: str) -> None:
    assert store.nodes() == []
    added(store, (), (1,), (2, 1))
    store.depend(2, [stand(store, PASSED)])
    store.edit(3, priority=-5, category='a "b",\n[c]\\ \N{SNOWMAN}', name="null")
    nodes, whole = store.nodes(), sorted(store.features(), key=lambda f: f.id)
    for name in Node._fields:
        assert [getattr(n, name) for n in nodes] == [getattr(f, name) for f in whole]
    assert all(type(n) is Node and type(n.status) is FeatureStatus for n in nodes)
    assert (
        scheduler.schedule(nodes, available=()).ready == scheduler.schedule(whole, available=()).ready == (1,)
    )
    behind(table_url, "UPDATE features SET status = 'dreaming' WHERE id = 1")
    with pytest.raises(SchemaTooNew, match="FeatureStatus 'dreaming'"):
        store.nodes()


def test_a_standing_has_every_batch_and_the_unfinished_ones_whole(
    store: FeatureStore, table_url: str
) -> None:
    assert store.standing() == Standing([], [], [])
    for status in (PASSED, FAILED, RUNNING):
        stand(store, status)
    [last] = added(store, ())
    assert store.plan_batch(Batch("planned", "autoforge/planned", (last,)))
    standing, whole = store.standing(), store.batches()
    assert standing.features == store.nodes()
    assert sorted(standing.batches) == sorted((b.key, b.status) for b in whole)
    assert standing.unfinished == [b for b in whole if b.status in UNFINISHED]
    assert [b.status for b in standing.unfinished] == [BatchStatus.WORKING, BatchStatus.PLANNED]
    behind(table_url, "UPDATE batches SET status = 'melted' WHERE key = 'planned'")
    with pytest.raises(SchemaTooNew, match="BatchStatus 'melted'"):
        store.standing()


@given(st.lists(st.sets(st.integers(0, 11), max_size=4), max_size=12))
@settings(deadline=None, max_examples=40)
def test_dependencies_are_read_as_they_were_written(needs: list[set[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FeatureStore.open(sqlite_url(Path(folder) / "features.db"))
        below = [sorted(n for n in each if n < place) for place, each in enumerate(needs)]
        new = [NewFeature(f"F{n}", depends_on=tuple(each)) for n, each in enumerate(below)]
        ids = store.add_features(new)
        read = {node.id: node.dependencies for node in store.nodes()}
        store.close()
    assert read == {i: tuple(ids[n] for n in each) for i, each in zip(ids, below, strict=True)}


def test_a_look_for_the_next_batches_reads_no_descriptions(tmp_path: Path) -> None:
    """Where they cannot be read, batches are found all the same."""
    path = tmp_path / "features.db"
    store = led(FeatureStore.open(sqlite_url(path)))
    stand(store, PASSED)
    added(store, (), (2,), (1,))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE features SET steps = 'broken', verify = 'broken', evidence = 'broken'")
        other.execute("UPDATE batches SET checks = 'broken', notes = 'broken'")
    configured = configuration.Settings(batch_size=2)
    build = SimpleNamespace(
        store=store, selected={2, 3}, publish=True, project=SimpleNamespace(settings=configured)
    )
    found = asyncio.run(lane.next_batches(build, (), 5))  # type: ignore[arg-type]
    assert [ids for _, ids in found] == [(2, 3)]
    assert [batch.branch.rsplit("-", 1)[0] for batch, _ in found] == ["autoforge/f1"]
    with pytest.raises(StoreError, match="holds what autoforge did not write"):
        store.features()
    store.close()


def test_ten_thousand_nodes_keep_their_dependencies(tmp_path: Path) -> None:
    path = tmp_path / "features.db"
    store = led(FeatureStore.open(sqlite_url(path)))
    [first] = added(store, ())
    many = range(first + 1, first + 10_000)
    with closing(sqlite3.connect(path)) as other, other:
        columns = [row[1] for row in other.execute("PRAGMA table_info(features)")][2:]
        other.executemany(
            f"INSERT INTO features SELECT ?, ?, {', '.join(columns)} FROM features WHERE id = 1",
            [(i, -i) for i in many],
        )
        other.executemany(
            "INSERT INTO dependencies VALUES (?, ?)",
            [(i, i - back) for i in reversed(many) for back in (1, 2, 3) if i > back],
        )
    nodes = store.nodes()
    store.close()
    assert [n.id for n in nodes] == [first, *many]
    assert [n.dependencies for n in nodes] == [
        tuple(d for d in (n.id - 3, n.id - 2, n.id - 1) if d > 0) for n in nodes
    ]
