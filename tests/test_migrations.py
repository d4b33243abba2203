"""The feature table: made whole, and brought up to date with its rows, on each database."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, select

from db.engine import PostgresDatabase, address, open_engine, sqlite_url
from db.errors import SchemaTooNew, StoreError
from db.feature import Attempt, Batch, Feature, NewFeature
from db.models import AttemptRow, Base, BatchRow, FeatureRow
from db.schema import SCHEMA, Schema, ensure
from db.store import FeatureStore
from tests.postgres import Server
from tests.tables import added, behind, led, passed, planned, started

NEXT = '''
"""A step of the future."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("features") as table:
        table.add_column(sa.Column("colour", sa.Text()))
        table.alter_column("description", nullable=True)
'''


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "features.db")
    else:
        with request.getfixturevalue("postgresql").database(empty=True) as url:
            yield url


@pytest.fixture
def filled(table_url: str) -> str:
    with closing(FeatureStore.open(table_url)) as store:
        store.add_features([NewFeature("a"), NewFeature("b", depends_on=(0,))])
    return table_url


@pytest.fixture
def future(tmp_path: Path) -> Schema:
    scripts = tmp_path / "100% later" / "migrations"
    shutil.copytree(SCHEMA.scripts, scripts)
    (scripts / "versions" / "9999_next.py").write_text(NEXT)
    return Schema(scripts, "9999")


def names(url: str) -> list[str]:
    with closing(FeatureStore.open(url)) as store:
        return [feature.name for feature in store.features()]


def rows(url: str) -> dict[str, list[dict[str, object]]]:
    """Everything in the database, as it is stored."""
    engine = open_engine(address(url), busy_timeout_s=5)
    tables = MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        found = {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in tables.sorted_tables
        }
    engine.dispose()
    return found


def test_the_steps_give_what_the_models_say(empty_url: str) -> None:
    assert names(empty_url) == []
    engine = open_engine(address(empty_url), busy_timeout_s=5)
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
    columns = set(row.__table__.columns.keys())
    assert columns == {field.name for field in fields(value)} - besides


OPEN_AND_ADD = (
    "import sys; from db.store import *; from db.feature import *; s = FeatureStore.open(sys.argv[1]);"
    "s.add_features([NewFeature(sys.argv[2])]); s.close()"
)


def test_b2_processes_that_open_a_missing_table_at_once(empty_url: str) -> None:
    run = [sys.executable, "-c", OPEN_AND_ADD, empty_url]
    processes = [subprocess.Popen([*run, f"f{number}"]) for number in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert sorted(names(empty_url)) == [f"f{number}" for number in range(4)]


def test_opening_what_is_up_to_date_loads_no_alembic(filled: str) -> None:
    code = (
        "import sys; from db.store import FeatureStore; FeatureStore.open(sys.argv[1]).close();"
        "assert not any(name.startswith('alembic') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, filled], check=True)


# Upgrades


def test_what_the_first_version_stored_is_kept(empty_url: str, tmp_path: Path) -> None:
    """Made by the code of now without the later steps' columns, which is what the first version made."""
    with closing(led(FeatureStore.open(empty_url))) as store:
        ids = added(store, "a", "b")
        planned(store, "k1", *ids)
        started(store, "k1", *ids)
        passed(store, "k1", ids[0], "c1")
        store.record_event(build_id="b1", batch_key="k1", name="text", data={"said": "é"})
    for statement in (
        "ALTER TABLE attempts DROP COLUMN lease_token",
        "DROP TABLE leases",
        "ALTER TABLE batches DROP COLUMN pushed_sha",
        "ALTER TABLE batches ADD COLUMN owner TEXT",
        "ALTER TABLE batches ADD COLUMN lease_expires_at TIMESTAMP",
        "UPDATE batches SET status = 'opened', head_sha = 'c1'",
        "UPDATE alembic_version SET version_num = '0001'",
    ):
        behind(empty_url, statement)
    before = rows(empty_url)
    assert all(before[name] for name in ("features", "batches", "batch_features", "attempts", "events"))
    with closing(FeatureStore.open(empty_url)) as store:
        assert [attempt.batch_key for attempt in store.attempts()] == ["k1"]
        assert store.leader() is None
    after = rows(empty_url)
    assert [attempt.pop("lease_token") for attempt in after["attempts"]] == [None]
    assert after.pop("leases") == []
    assert [batch.pop("pushed_sha") for batch in after["batches"]] == ["c1"]
    for batch in before["batches"]:
        assert (batch.pop("owner"), batch.pop("lease_expires_at")) == (None, None)
    assert after.pop("alembic_version") == [{"version_num": SCHEMA.head}]
    assert after == {name: found for name, found in before.items() if name != "alembic_version"}
    if not isinstance(address(empty_url), PostgresDatabase):
        copy = rows(sqlite_url(tmp_path / f"features.db.before-{SCHEMA.head}"))
        assert [batch.pop("owner") for batch in copy["batches"]] == [
            batch.pop("lease_expires_at") for batch in copy["batches"]
        ]
        assert copy == before


def test_an_upgrade_keeps_the_rows(filled: str, future: Schema) -> None:
    ensure(address(filled), busy_timeout_s=5, schema=future)
    assert behind(filled, "SELECT name, colour FROM features ORDER BY id") == [("a", None), ("b", None)]
    assert behind(filled, "SELECT feature_id, depends_on_id FROM dependencies") == [(2, 1)]
    assert behind(filled, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_copy_of_the_file_is_kept_with_what_is_in_its_log(tmp_path: Path, future: Schema) -> None:
    path = tmp_path / "features.db"
    with closing(FeatureStore.open(sqlite_url(path))) as store:
        added(store, "a", "b")
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("UPDATE features SET name = 'changed' WHERE id = 1")
        other.commit()
        ensure(address(sqlite_url(path)), busy_timeout_s=5, schema=future)
    copy = path.with_name("features.db.before-9999")
    url = sqlite_url(copy)
    assert behind(url, "SELECT version_num FROM alembic_version") == [(SCHEMA.head,)]
    assert behind(url, "SELECT name FROM features ORDER BY id") == [("changed",), ("b",)]
    assert not list(path.parent.glob("*.part*"))
    stamp = copy.stat().st_mtime_ns
    ensure(address(sqlite_url(path)), busy_timeout_s=5, schema=future)
    assert copy.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO nowhere VALUES (1)", "nowhere"),
        ("DELETE FROM features WHERE id = 1", "do not fit together|violates foreign key"),
    ],
)
def test_a_failed_upgrade_changes_nothing(filled: str, future: Schema, statement: str, said: str) -> None:
    step = future.scripts / "versions" / "9999_next.py"
    step.write_text(NEXT + f'    op.execute("{statement}")\n')
    before = rows(filled)
    with pytest.raises(StoreError, match=said):
        ensure(address(filled), busy_timeout_s=5, schema=future)
    assert rows(filled) == before
    assert names(filled) == ["a", "b"]


def test_b6_a_newer_table_is_left_alone(filled: str, future: Schema) -> None:
    ensure(address(filled), busy_timeout_s=5, schema=future)
    before = rows(filled)
    with pytest.raises(SchemaTooNew, match=rf"newer autoforge .*9999.*{SCHEMA.head}.*upgrade autoforge"):
        names(filled)
    assert rows(filled) == before


def test_b6_one_process_at_a_time_takes_the_steps(postgresql: Server, future: Schema) -> None:
    """Another one that holds the lock of the writers: the steps wait for it, and say so when it takes too long."""
    with postgresql.database() as url:
        with closing(FeatureStore.open(url)) as store, store._database.write():
            with pytest.raises(StoreError, match="is locked by another process: try again"):
                ensure(address(url), busy_timeout_s=0.1, schema=future)
            assert names(url) == []
        ensure(address(url), busy_timeout_s=5, schema=future)
        assert behind(url, "SELECT version_num FROM alembic_version") == [("9999",)]
