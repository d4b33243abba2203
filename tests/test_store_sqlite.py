"""The feature table in a file: locked, removed, on a full disk."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from db.engine import sqlite_url
from db.errors import StoreError
from db.feature import (
    NewFeature,
)
from db.store import FeatureStore
from tests.tables import added


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


def test_readers_are_not_blocked_by_an_open_writer(path: Path) -> None:
    with closing(FeatureStore.open(sqlite_url(path), busy_timeout_s=0)) as store:
        [fid] = added(store, "a")
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE features SET name = 'not yet'")
            assert store.feature(fid).name == "a"
            assert [feature.name for feature in store.features()] == ["a"]
            with closing(FeatureStore.open(sqlite_url(path), busy_timeout_s=0)) as other:
                assert other.spent_usd() == 0.0
            with pytest.raises(StoreError, match=r"features\.db is locked by another process: try again"):
                added(store, "b")
            writer.execute("ROLLBACK")
        assert len(added(store, "b")) == 1


def test_b6_a_table_removed_while_open_is_not_replaced(store: FeatureStore, path: Path) -> None:
    store.close()
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(StoreError, match="moved or removed"):
        store.features()
    assert not path.exists()


def test_b6_a_full_disk_is_said(store: FeatureStore, path: Path) -> None:
    added(store, "a")
    with store._database.write() as session:  # the page limit holds for its connection only
        pages = session.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
        session.connection().exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full: free some space"):
        store.add_features([NewFeature("big", "x" * 1_000_000)])
    assert [feature.name for feature in store.features()] == ["a"]
