"""Short transactions on an open feature table: one writer at a time, and readers who never wait for it."""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from .errors import StoreError
from .trouble import explained

WRITES = "autoforge_writes"
"""The execution option of an engine whose transactions write."""
_WRITE_LOCK = 0x6175746F666F7267  # "autoforg", PostgreSQL's advisory lock of every writer
_POSTGRESQL = ("postgresql", "postgres")
_CONNECT_TIMEOUT_S = 10
_RETRY_S = 0.02


class Database:
    """An open database; usable from several threads."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._place = place
        self._reads = sessionmaker(engine, expire_on_commit=False)
        self._writes = sessionmaker(engine.execution_options(**{WRITES: True}), expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that sees one state."""
        with explained(self._place), self._reads.begin() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction that holds the write lock from its start; an exception leaves nothing behind."""
        with explained(self._place), self._writes.begin() as session:
            session.connection()
            yield session

    def close(self) -> None:
        self._engine.dispose()


@dataclass(frozen=True)
class SqliteFile:
    """`path` is without symbolic links."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class PostgresDatabase:
    url: URL

    def __str__(self) -> str:
        """Without the password, which may also stand in the query."""
        return self.url.set(drivername="postgresql", query={}).render_as_string()


Address = SqliteFile | PostgresDatabase


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def address(url: str, password: str | None = None) -> Address:
    """Where the feature table is. Raises StoreError for what is neither an SQLite file nor PostgreSQL.

    `password` is for a server whose URL has none.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # without the cause, which shows the password
        raise StoreError(
            "database.url is not a database URL: write it like sqlite:////folder/features.db "
            "or postgresql://user@host/database."
        ) from None
    if parsed.get_backend_name() in _POSTGRESQL:
        known = parsed.password is not None or "password" in parsed.query
        found = parsed.set(drivername="postgresql+psycopg")
        return PostgresDatabase(found if known or not password else found.set(password=password))
    name = parsed.database or ":memory:"
    no_file = name == ":memory:" or name.startswith("file:") or "\0" in name or not Path(name).is_absolute()
    if parsed.get_backend_name() != "sqlite" or no_file or parsed.query:
        raise StoreError(
            f"database.url {parsed.set(query={}).render_as_string()} cannot be used: only a file by its whole path, "
            "like sqlite:////folder/features.db, or PostgreSQL, like postgresql://user@host/database."
        )
    return SqliteFile(Path(name).resolve())


def open_engine(at: Address, *, busy_timeout_s: float, foreign_keys: bool = True) -> Engine:
    """`foreign_keys` False: SQLite does not check them, so that a table can be rebuilt."""
    if isinstance(at, PostgresDatabase):
        return _postgres_engine(at.url, busy_timeout_s)
    return _sqlite_engine(at.path, busy_timeout_s=busy_timeout_s, foreign_keys=foreign_keys)


def time_of(session: Session) -> datetime:
    """Now, by the clock that all who use the database share: the server's, where there is one."""
    if session.get_bind().dialect.name == "postgresql":
        return cast(datetime, session.scalars(select(func.clock_timestamp())).one())
    return datetime.now(UTC)


def _sqlite_engine(path: Path, *, busy_timeout_s: float, foreign_keys: bool) -> Engine:
    """An engine on an existing file: one that is gone is an error, never a new empty one."""
    engine = create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"}),
        connect_args={"timeout": busy_timeout_s},
        max_overflow=-1,  # threads that wait for the write lock must not keep readers waiting
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver begins nothing: `begin` below does
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if _writes(connection):
            _begin_immediate(connection, busy_timeout_s)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_immediate(connection: Connection, busy_timeout_s: float) -> None:
    """SQLite's own wait asks ever more seldom, so that whoever has waited longest comes last: ask by chance."""
    deadline = time.monotonic() + busy_timeout_s
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except OperationalError as error:
                code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # without its extension
                if code != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(random.uniform(0, _RETRY_S))
            else:
                return
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}")


def _postgres_engine(url: URL, busy_timeout_s: float) -> Engine:
    try:
        engine = create_engine(
            url,
            connect_args={
                "application_name": "autoforge",
                "connect_timeout": url.query.get("connect_timeout", _CONNECT_TIMEOUT_S),
                "prepare_threshold": None,  # a pooler in between may give each transaction another connection
            },
            max_overflow=-1,
            pool_pre_ping=True,  # builds are long, and servers are restarted
        )
    except ImportError as error:
        raise StoreError(
            'database.url names PostgreSQL, whose driver is not installed: install "autoforge[postgres]".'
        ) from error
    wait_ms = max(1, round(busy_timeout_s * 1000))  # 0 would be for ever

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not _writes(connection):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return
        # One writer at a time, as in SQLite: nothing to lock in order, no deadlock, and no check that another
        # writer undoes. A writer that stands still is ended by the server.
        connection.exec_driver_sql(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;"
            f"SET LOCAL lock_timeout = {wait_ms};"
            f"SET LOCAL idle_in_transaction_session_timeout = {max(wait_ms, 1000)};"
            f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})"
        )

    return engine


def _writes(connection: Connection) -> bool:
    return bool(connection.get_execution_options().get(WRITES))
