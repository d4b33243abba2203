"""Tables of older tools are read whatever they hold, and never touched."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from db import legacy_table
from db.errors import StoreError
from db.feature import FeatureStatus
from db.store import FeatureStore

COLUMNS = (
    "id INTEGER PRIMARY KEY, priority INTEGER, category TEXT, name TEXT, description TEXT, steps JSON, "
    "passes BOOLEAN, in_progress BOOLEAN, dependencies JSON, needs_human_input BOOLEAN, human_input_request JSON, "
    "human_input_response JSON, testing_in_progress BOOLEAN, last_tested_at DATETIME, refinement_state TEXT, "
    "branch_name TEXT, worktree_path TEXT, commit_sha TEXT, pr_number INTEGER, pr_url TEXT, pr_status TEXT"
)


def database(path: Path, *rows: Mapping[str, object], columns: str = COLUMNS) -> Path:
    with closing(sqlite3.connect(path)) as made, made:
        made.execute(f"CREATE TABLE features ({columns})")
        for row in rows:
            marks = ", ".join("?" * len(row))
            made.execute(f"INSERT INTO features ({', '.join(row)}) VALUES ({marks})", [*row.values()])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which reading must not change anything."""
    folder = tmp_path / "old"
    folder.mkdir()
    return folder


def seen(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_a_whole_table_is_read_and_stored(folder: Path, store: FeatureStore) -> None:
    path = database(
        folder / "features.db",
        {
            "id": 1,
            "priority": 5,
            "category": "api",
            "name": "A",
            "description": "d",
            "steps": '["s"]',
            "passes": 1,
        },
        {
            "id": 4,
            "name": "B",
            "dependencies": "[1]",
            "passes": None,
            "in_progress": None,
            "commit_sha": "a" * 40,
        },
    )
    before = seen(folder)
    found = legacy_table.read(path)
    assert seen(folder) == before
    assert store.restore(found.features) == {1: 1, 4: 4}
    first, second = sorted(store.features(), key=lambda f: f.id)
    assert (first.priority, first.category, first.steps, first.status) == (
        5,
        "api",
        ("s",),
        FeatureStatus.PASSED,
    )
    assert (second.dependencies, second.commit_sha, second.status) == ((1,), "a" * 40, FeatureStatus.PENDING)


@pytest.mark.parametrize("columns", ["name TEXT", "id INTEGER, passes", "description TEXT, name BLOB, extra"])
def test_any_columns_will_do(folder: Path, columns: str) -> None:
    name = columns.split(",")[0].split()[0]
    path = database(folder / "x", {name: 1}, columns=columns)
    [feature] = legacy_table.read(path).features
    assert feature.id == 1


def test_rows_in_the_wal_beside_it_count_and_nothing_is_touched(folder: Path, store: FeatureStore) -> None:
    path = database(folder / "features.db", {"name": "first"})
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = wal")
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("INSERT INTO features (name) VALUES ('in the wal')")
        other.commit()
        assert (folder / "features.db-wal").stat().st_size > 0
        before = seen(folder)
        found = legacy_table.read(path)
        assert seen(folder) == before
    assert [f.name for f in found.features] == ["first", "in the wal"]


def test_flags_that_are_null_against_their_own_rule_are_read(folder: Path) -> None:
    path = database(folder / "x.db", {"name": "a"}, columns="name TEXT, passes BOOLEAN")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("UPDATE sqlite_master SET sql = replace(sql, 'BOOLEAN', 'BOOLEAN NOT NULL')")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA quick_check").fetchone() != ("ok",)
    [feature] = legacy_table.read(path).features
    assert (feature.name, feature.status) == ("a", FeatureStatus.PENDING)


def test_text_that_is_no_utf8_is_mended(folder: Path) -> None:
    path = database(folder / "x.db", {"name": "a"})
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE features SET name = CAST(x'61ff62' AS TEXT), description = x'00ff'")
    [feature] = legacy_table.read(path).features
    assert (feature.name, feature.description) == ("a\ufffdb", "\ufffd\ufffd")


def broken(folder: Path, how: str) -> Path:
    path = database(folder / "features.db", *({"name": f"f{n}", "description": "x" * 900} for n in range(40)))
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "overwritten":
        path.write_bytes(content[:4096] + os.urandom(4096) + content[8192:])
    elif how == "header":
        path.write_bytes(content[:60])
    elif how == "junk":
        path.write_bytes(b"SQLite format 3\0" + os.urandom(10_000_000))
    elif how == "other":
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("ALTER TABLE features RENAME TO things")
    elif how == "ours":
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("CREATE TABLE alembic_version (version_num)")
    elif how == "empty":
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("DELETE FROM features")
    return path


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("truncated", "cannot be read as an older tool's table"),
        ("overwritten", "cannot be read as an older tool's table"),
        ("header", "cannot be read as an older tool's table"),
        ("junk", "cannot be read as an older tool's table"),
        ("other", "has no table `features`"),
        ("ours", "use `autoforge features export` there"),
        ("empty", "holds no features"),
    ],
)
def test_b6_a_broken_table_is_one_clear_error(folder: Path, how: str, said: str) -> None:
    path = broken(folder, how)
    before = seen(folder)
    with pytest.raises(StoreError, match=said):
        legacy_table.read(path)
    assert seen(folder) == before


def test_a_table_that_is_gone_is_one_clear_error(folder: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        legacy_table.read(folder / "none.db")
