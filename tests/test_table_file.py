"""The feature table's file: made whole, never replaced, and named when it cannot be used."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from db.engine import SqliteFile, sqlite_url
from db.errors import StoreError
from db.feature import Feature, NewFeature
from db.schema import SCHEMA, ensure
from db.store import FeatureStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


@pytest.fixture
def filled(path: Path) -> Path:
    with closing(FeatureStore.open(sqlite_url(path))) as store:
        store.add_features([NewFeature("a"), NewFeature("b", depends_on=(0,))])
    return path


def opened(path: Path, **options: float) -> list[Feature]:
    with closing(FeatureStore.open(sqlite_url(path), **options)) as store:
        return store.features()


def sql(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(query).fetchall()


def test_a_missing_table_is_made_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "deep down" / "what? 100% #1" / "é.db"
    assert opened(path) == []
    assert {file.name for file in path.parent.iterdir()} == {"é.db", "é.db.lock"}
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    assert sql(path, "SELECT version_num FROM alembic_version") == [(SCHEMA.head,)]


def test_a_link_keeps_pointing_to_the_table(tmp_path: Path) -> None:
    link = tmp_path / "features.db"
    link.symlink_to(tmp_path / "elsewhere" / "real.db")
    opened(link)
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "real.db").stat().st_size > 0


def test_what_a_crash_left_while_making_is_healed(path: Path) -> None:
    for left in (".new", ".new-journal", ".new-wal"):
        path.with_name(path.name + left).write_bytes(b"half")
    assert opened(path) == []
    assert {file.name for file in path.parent.iterdir()} == {"features.db", "features.db.lock"}


def test_opening_what_is_up_to_date_is_fast(filled: Path) -> None:
    best = min(_timed(filled) for _ in range(5))
    assert best < 0.05


def _timed(path: Path) -> float:
    start = time.perf_counter()
    FeatureStore.open(sqlite_url(path)).close()
    return time.perf_counter() - start


# Broken, foreign, read-only, locked


@pytest.mark.parametrize("content", [b"", b"junk" * 1000, b"SQLite format 3"], ids=["empty", "junk", "torn"])
def test_b6_a_broken_file_is_named_and_left(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError) as raised:
        opened(path)
    assert str(path) in str(raised.value)
    assert "left as it is" in str(raised.value)
    assert path.read_bytes() == content
    assert {file.name for file in path.parent.iterdir()} <= {"features.db", "features.db.lock"}


def test_b6_broken_pages_are_named_and_left(filled: Path) -> None:
    broken = filled.read_bytes()[:100] + b"\xff" * 9000
    filled.write_bytes(broken)
    with pytest.raises(StoreError, match="is broken; it was left as it is"):
        opened(filled)
    assert filled.read_bytes() == broken


def test_b6_another_programs_database_is_left(path: Path) -> None:
    sql(path, "CREATE TABLE features (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not autoforge's feature table"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", ["wal", "journal"])
def test_b6_a_log_without_its_table_is_not_covered_up(path: Path, end: str) -> None:
    path.with_name(f"features.db-{end}").write_bytes(b"rows")
    with pytest.raises(StoreError, match=f"is missing, but features.db-{end} is there"):
        opened(path)
    assert not path.exists()


def test_b6_a_folder_in_its_place(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_b6_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(StoreError, match=r"/proc/autoforge/features\.db cannot be opened"):
        opened(Path("/proc/autoforge/features.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to everything")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_b6_read_only(filled: Path, what: str) -> None:
    target = filled if what == "file" else filled.parent
    mode = target.stat().st_mode
    target.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="read-only"):
            opened(filled)
    finally:
        target.chmod(mode)


def test_b6_a_locked_table(path: Path) -> None:
    ensure(SqliteFile(path), busy_timeout_s=5, wal=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="is locked by another process"):
            opened(path, busy_timeout_s=0)


def test_b6_another_process_prepares_the_table_for_too_long(path: Path) -> None:
    with (
        FileLock(f"{path}.lock"),
        pytest.raises(StoreError, match=r"preparing the feature table .* try again"),
    ):
        opened(path, busy_timeout_s=0)
    assert opened(path) == []


def test_b6_without_shared_memory_the_journal_is_a_file(filled: Path) -> None:
    ensure(SqliteFile(filled), busy_timeout_s=5, wal=False)
    assert sql(filled, "PRAGMA journal_mode") == [("delete",)]
    assert filled.read_bytes()[18:20] == b"\x01\x01"
    with closing(sqlite3.connect(filled)) as connection:
        assert len(connection.execute("SELECT * FROM features").fetchall()) == 2
    assert [feature.name for feature in opened(filled)] == ["a", "b"]
    assert sql(filled, "PRAGMA journal_mode") == [("wal",)]
