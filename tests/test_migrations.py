"""The feature table's file: made whole, brought up to date with a copy kept, and never replaced."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path, PurePosixPath

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from db.engine import sqlite_engine, sqlite_path, sqlite_url
from db.errors import SchemaTooNew, StoreError
from db.feature import Attempt, Batch, Feature, NewFeature
from db.filesystem import mount_type, shared_memory_works
from db.models import AttemptRow, Base, BatchRow, FeatureRow
from db.schema import SCHEMA, Schema, ensure
from db.store import FeatureStore

NEXT = '''
"""A step of the future."""
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("features") as table:
        table.add_column(sa.Column("colour", sa.Text()))
        table.alter_column("description", nullable=True)
'''


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


@pytest.fixture
def filled(path: Path) -> Path:
    with closing(FeatureStore.open(sqlite_url(path))) as store:
        store.add_features([NewFeature("a"), NewFeature("b", depends_on=(0,))])
    return path


@pytest.fixture
def future(tmp_path: Path) -> Iterator[Schema]:
    scripts = tmp_path / "100% later" / "migrations"
    shutil.copytree(SCHEMA.scripts, scripts)
    (scripts / "versions" / "0002_next.py").write_text(NEXT)
    return Schema(scripts, "0002")


def opened(path: Path, **options: float) -> list[Feature]:
    with closing(FeatureStore.open(sqlite_url(path), **options)) as store:
        return store.features()


def sql(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(query).fetchall()


def test_the_steps_give_what_the_models_say(filled: Path) -> None:
    engine = sqlite_engine(filled, busy_timeout_s=5)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()
    assert ScriptDirectory(SCHEMA.scripts).get_heads() == [SCHEMA.head]


@pytest.mark.parametrize(
    ("row", "value", "besides"),
    [
        (FeatureRow, Feature, {"dependencies"}),
        (BatchRow, Batch, {"feature_ids", "parents"}),
        (AttemptRow, Attempt, set()),
    ],
)
def test_columns_are_named_as_the_fields(row: type[Base], value: type, besides: set[str]) -> None:
    assert set(row.__table__.columns.keys()) == {field.name for field in fields(value)} - besides


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


def test_b2_processes_that_open_a_missing_table_at_once(path: Path) -> None:
    code = (
        "import sys; from db.store import *; s = FeatureStore.open(sys.argv[1]);"
        "s.add_features([NewFeature(sys.argv[2])]); s.close()"
    )
    run = [sys.executable, "-c", code, sqlite_url(path)]
    processes = [subprocess.Popen([*run, f"f{number}"]) for number in range(6)]
    assert [process.wait(60) for process in processes] == [0] * 6
    assert sorted(feature.name for feature in opened(path)) == [f"f{number}" for number in range(6)]


def test_opening_what_is_up_to_date_is_fast_and_loads_no_alembic(filled: Path) -> None:
    code = (
        "import sys, time; from db.store import FeatureStore; FeatureStore.open(sys.argv[1]).close();"
        "assert not any(name.startswith('alembic') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, sqlite_url(filled)], check=True)
    best = min(_timed(filled) for _ in range(5))
    assert best < 0.05


def _timed(path: Path) -> float:
    start = time.perf_counter()
    FeatureStore.open(sqlite_url(path)).close()
    return time.perf_counter() - start


# Upgrades


def test_an_upgrade_keeps_the_rows_and_a_copy(filled: Path, future: Schema) -> None:
    with closing(sqlite3.connect(filled)) as other:  # rows still in the write-ahead log
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("UPDATE features SET name = 'changed' WHERE id = 1")
        other.commit()
        ensure(filled, busy_timeout_s=5, schema=future)
    assert sql(filled, "SELECT name, colour FROM features ORDER BY id") == [("changed", None), ("b", None)]
    assert sql(filled, "SELECT feature_id, depends_on_id FROM dependencies") == [(2, 1)]
    assert sql(filled, "SELECT version_num FROM alembic_version") == [("0002",)]
    copy = filled.with_name("features.db.before-0002")
    assert sql(copy, "SELECT version_num FROM alembic_version") == [("0001",)]
    assert sql(copy, "SELECT name FROM features ORDER BY id") == [("changed",), ("b",)]
    assert not list(filled.parent.glob("*.part*"))
    stamp = copy.stat().st_mtime_ns
    ensure(filled, busy_timeout_s=5, schema=future)
    assert copy.stat().st_mtime_ns == stamp


def test_a_failed_upgrade_changes_nothing(filled: Path, future: Schema) -> None:
    step = future.scripts / "versions" / "0002_next.py"
    step.write_text(NEXT + '    op.execute("INSERT INTO nowhere VALUES (1)")\n')
    with pytest.raises(StoreError, match="nowhere"):
        ensure(filled, busy_timeout_s=5, schema=future)
    assert [feature.name for feature in opened(filled)] == ["a", "b"]
    assert "colour" not in {row[1] for row in sql(filled, "PRAGMA table_info(features)")}


def test_an_upgrade_that_breaks_references_changes_nothing(filled: Path, future: Schema) -> None:
    step = future.scripts / "versions" / "0002_next.py"
    step.write_text(NEXT + '    op.execute("DELETE FROM features WHERE id = 1")\n')
    with pytest.raises(StoreError, match="do not fit together"):
        ensure(filled, busy_timeout_s=5, schema=future)
    assert [feature.name for feature in opened(filled)] == ["a", "b"]


def test_b6_a_newer_table_is_left_alone(filled: Path, future: Schema) -> None:
    ensure(filled, busy_timeout_s=5, schema=future)
    before = filled.read_bytes()
    with pytest.raises(SchemaTooNew, match=r"newer autoforge .*0002.*0001.*upgrade autoforge"):
        opened(filled)
    assert filled.read_bytes() == before


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
    ensure(path, busy_timeout_s=5, wal=False)
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


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=ro&uri=true",
        "postgresql://u:secret@h/d",
    ],
)
def test_b5_a_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(StoreError, match=r"database\.url") as raised:
        FeatureStore.open(url)
    assert "secret" not in str(raised.value)


def test_a_url_round_trip(tmp_path: Path) -> None:
    odd = tmp_path / "a b?c=%41#é&.db"
    assert sqlite_path(sqlite_url(odd)) == odd


# Network file systems

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
40 27 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
41 40 8:1 / /home/local\\040disk rw - xfs /dev/sda1 rw
42 27 0:42 / /mnt/c rw - 9p drvfs rw
43 27 0:43 / /over rw - ext4 /dev/vdb rw
44 27 0:43 / /over rw - cifs //server/share rw
short line
"""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/me/x", "nfs4"),
        ("/homely/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/local disk/x", "xfs"),
        ("/home/local", "nfs4"),
        ("/mnt/c/x", "9p"),
        ("/over/x", "cifs"),
    ],
)
def test_b6_the_longest_mount_point_decides(where: str, kind: str) -> None:
    assert mount_type(MOUNTS, PurePosixPath(where)) == kind


@given(st.text(max_size=200))
def test_b6_odd_mount_tables_are_read(text: str) -> None:
    mount_type(text, PurePosixPath("/a/b"))


def test_b6_shared_memory_here(tmp_path: Path) -> None:
    assert isinstance(shared_memory_works(tmp_path), bool)


def test_b6_without_shared_memory_the_journal_is_a_file(filled: Path) -> None:
    ensure(filled, busy_timeout_s=5, wal=False)
    assert sql(filled, "PRAGMA journal_mode") == [("delete",)]
    assert filled.read_bytes()[18:20] == b"\x01\x01"
    with closing(sqlite3.connect(filled)) as connection:
        assert len(connection.execute("SELECT * FROM features").fetchall()) == 2
    assert [feature.name for feature in opened(filled)] == ["a", "b"]
    assert sql(filled, "PRAGMA journal_mode") == [("wal",)]
