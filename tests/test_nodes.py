"""What scheduling reads of the feature table."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoforge import scheduler
from db.engine import sqlite_url
from db.errors import SchemaTooNew
from db.feature import FeatureStatus
from db.store import FeatureStore
from tests.standings import PASSED, added, stand
from tests.tables import behind


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = FeatureStore.open(table_url)
    yield opened
    opened.close()


def test_nodes_are_features_without_their_texts(store: FeatureStore, table_url: str) -> None:
    assert store.nodes() == []
    added(store, (), (1,), (2, 1))
    stand(store, PASSED)
    store.edit(3, priority=-5)
    nodes, whole = store.nodes(), store.features()
    for name in ("id", "priority", "category", "status", "dependencies", "batch_key", "attempts"):
        assert [getattr(n, name) for n in nodes] == [getattr(f, name) for f in whole]
    assert all(type(n.status) is FeatureStatus for n in nodes)
    assert (
        scheduler.schedule(nodes, available=()).ready == scheduler.schedule(whole, available=()).ready == (1,)
    )
    behind(table_url, "UPDATE features SET status = 'dreaming' WHERE id = 1")
    with pytest.raises(SchemaTooNew, match="FeatureStatus 'dreaming'"):
        store.nodes()


def test_ten_thousand_nodes_are_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "features.db"
    store = FeatureStore.open(sqlite_url(path))
    [first] = added(store, ())
    many = range(first + 1, first + 10_000)
    with closing(sqlite3.connect(path)) as other, other:
        columns = [row[1] for row in other.execute("PRAGMA table_info(features)")][2:]
        other.executemany(
            f"INSERT INTO features SELECT ?, ?, {', '.join(columns)} FROM features WHERE id = 1",
            [(i, i) for i in many],
        )
        other.executemany(
            "INSERT INTO dependencies VALUES (?, ?)",
            [(i, i - back) for i in many for back in (1, 2, 3) if i > back],
        )
    spent = []
    for _ in range(5):
        begun = time.process_time()
        assert len(store.nodes()) == 10_000
        spent.append(time.process_time() - begun)
    store.close()
    assert min(spent) < 0.15  # 0.04 on an idle machine; whole features take 1
