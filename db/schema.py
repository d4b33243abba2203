"""Makes the feature table, or brings its schema up to date, without ever replacing what is there."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout
from sqlalchemy import Connection

from .engine import WRITES, Address, PostgresDatabase, SqliteFile, open_engine
from .errors import SchemaTooNew, StoreError
from .filesystem import shared_memory_works
from .trouble import explained

_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class Schema:
    """Alembic's folder, and its newest revision: known here, so that opening need not load Alembic."""

    scripts: Path
    head: str


SCHEMA = Schema(scripts=Path(__file__).parent / "migrations", head="0003")


@dataclass(frozen=True)
class _State:
    revision: str
    journal: str


def ensure(at: Address, *, busy_timeout_s: float, schema: Schema = SCHEMA, wal: bool | None = None) -> None:
    """Leave a usable table of this schema there. `wal` None: as the file system allows.

    Raises StoreError or SchemaTooNew, and then what is there is as it was.
    """
    with explained(str(at)):
        if isinstance(at, PostgresDatabase):
            _ensure_database(at, busy_timeout_s, schema)
        else:
            with _folder_explained(at.path):
                _ensure_file(at.path, busy_timeout_s=busy_timeout_s, schema=schema, wal=wal)


def _ensure_database(at: PostgresDatabase, busy_timeout_s: float, schema: Schema) -> None:
    """A transaction that writes holds the lock of all writers, so only one process takes the steps."""
    engine = open_engine(at, busy_timeout_s=busy_timeout_s)
    try:
        with engine.begin() as connection:
            if _revision(connection, at) == schema.head:
                return
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            revision = _revision(connection, at)
            if revision is not None:
                _check_known(at, revision, schema)
            if revision != schema.head:
                _take_steps(connection, schema)
    finally:
        engine.dispose()


def _revision(connection: Connection, at: PostgresDatabase) -> str | None:
    """None: there is no table yet."""
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"The database {at} stores text as {encoding}: make one with ENCODING 'UTF8' for the feature table."
        )
    if connection.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar_one() is None:
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()


def _ensure_file(path: Path, *, busy_timeout_s: float, schema: Schema, wal: bool | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = "wal" if (shared_memory_works(path) if wal is None else wal) else "delete"
    wanted = _State(schema.head, journal)
    if path.exists() and _state(path, busy_timeout_s) == wanted:
        return
    with _locked(path, busy_timeout_s):
        if not path.exists():
            _create(path, schema, journal)
        state = _state(path, busy_timeout_s)
        if state.revision != schema.head:
            _check_known(SqliteFile(path), state.revision, schema)
            _keep_copy(path, Path(f"{path}.before-{schema.head}"), busy_timeout_s)
            _rebuild(path, schema, busy_timeout_s=busy_timeout_s)
        if state.journal != journal:
            _set_journal(path, journal, busy_timeout_s)


@contextmanager
def _folder_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The feature table {path} cannot be opened ({error.strerror or error}): "
            "make it and its folder readable and writable for you, or correct database.url."
        ) from error


@contextmanager
def _locked(path: Path, timeout_s: float) -> Iterator[None]:
    try:
        lock = FileLock(f"{path}.lock", timeout=timeout_s).acquire()
    except Timeout as error:
        raise StoreError(
            f"Another process has been preparing the feature table {path} for over {timeout_s:g} s: "
            "try again when it is done."
        ) from error
    with lock:
        yield


def _state(path: Path, busy_timeout_s: float) -> _State:
    """Look without changing anything."""
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
    if start != _MAGIC:
        what = "is empty" if not start else "is not an SQLite database"
        raise StoreError(
            f"The feature table {path} {what}; it was left as it is: put a copy in its place, "
            "or move it away to begin a new one."
        )
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise StoreError(
            f"The feature table {path} is read-only: make the file and its folder writable for you."
        )
    with closing(_connect(path, busy_timeout_s)) as connection:
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchall()
        found = connection.execute("SELECT version_num FROM alembic_version").fetchall() if tables else []
    if len(found) != 1:
        raise StoreError(
            f"{path} is an SQLite database, but not autoforge's feature table; it was left as it is: "
            "move it away, or correct database.url."
        )
    return _State(found[0][0], journal)


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)


def _create(path: Path, schema: Schema, journal: str) -> None:
    """Make the file beside its place and move it there whole: an empty file is never a crash of ours."""
    orphans = [Path(f"{path}-{end}") for end in ("wal", "journal")]
    if left := [orphan.name for orphan in orphans if orphan.exists()]:
        raise StoreError(
            f"The feature table {path} is missing, but {' and '.join(left)} is there and may hold its newest rows: "
            "put the table back, or move that away to begin a new one."
        )
    fresh = path.with_name(f"{path.name}.new")
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{fresh}{end}").unlink(missing_ok=True)
    fresh.touch()
    _rebuild(fresh, schema, busy_timeout_s=0)
    _set_journal(fresh, journal, busy_timeout_s=0)
    fresh.replace(path)
    _sync_folder(path.parent)


def _check_known(at: Address, revision: str, schema: Schema) -> None:
    """Raises SchemaTooNew."""
    from alembic.script import ScriptDirectory  # slow to load, and seldom needed

    known = {script.revision for script in ScriptDirectory(schema.scripts).walk_revisions()}
    if revision not in known:
        raise SchemaTooNew(
            f"The feature table {at} was written by a newer autoforge (its schema is {revision}, "
            f"this one knows up to {schema.head}): upgrade autoforge."
        )


def _keep_copy(path: Path, copy: Path, busy_timeout_s: float) -> None:
    part = copy.with_name(f"{copy.name}.part")
    part.unlink(missing_ok=True)
    with closing(_connect(path, busy_timeout_s)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)
    part.replace(copy)


def _rebuild(path: Path, schema: Schema, *, busy_timeout_s: float) -> None:
    """All steps in one transaction, without foreign keys (a rebuilt table would trip over them)."""
    engine = open_engine(SqliteFile(path), busy_timeout_s=busy_timeout_s, foreign_keys=False)
    try:
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            _take_steps(connection, schema)
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                raise StoreError(
                    f"The feature table {path} could not be upgraded: its rows do not fit together."
                )
    finally:
        engine.dispose()


def _take_steps(connection: Connection, schema: Schema) -> None:
    from alembic import command  # slow to load, and seldom needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(schema.scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _set_journal(path: Path, journal: str, busy_timeout_s: float) -> None:
    with closing(_connect(path, busy_timeout_s)) as connection:
        answer = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()[0]
    # where WAL is refused SQLite keeps its rollback journal, which is safe everywhere; the reverse is not
    if journal == "delete" and answer != "delete":
        raise StoreError(
            f"The feature table {path} lies on a network file system and is in use there: "
            "end the other processes that use it and try again."
        )


def _sync_folder(folder: Path) -> None:
    """A new name survives a power failure only when its folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
