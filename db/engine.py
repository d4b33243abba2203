"""Short transactions on an open feature table: readers never take the write lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session, sessionmaker

from .errors import StoreError
from .trouble import explained

WRITES = "autoforge_writes"
"""The execution option of an engine whose transactions write."""


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
            yield session

    def close(self) -> None:
        self._engine.dispose()


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def sqlite_path(url: str) -> Path:
    """The file that the URL names, without symbolic links. Raises StoreError for any other database."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            "database.url is not a database URL: write it like sqlite:////folder/features.db."
        ) from error
    name = parsed.database or ":memory:"
    no_file = name == ":memory:" or name.startswith("file:") or "\0" in name
    if parsed.get_backend_name() != "sqlite" or no_file or parsed.query:
        raise StoreError(
            f"database.url {parsed.render_as_string()} cannot be used: "
            "only a file is supported, like sqlite:////folder/features.db."
        )
    return Path(name).resolve()


def sqlite_engine(path: Path, *, busy_timeout_s: float, foreign_keys: bool = True) -> Engine:
    """An engine on an existing file: one that is gone is an error, never a new empty one."""
    engine = create_engine(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"}),
        connect_args={"timeout": busy_timeout_s},
        max_overflow=-1,  # threads that wait for the write lock must not keep readers waiting
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: SqliteConnection, _: object) -> None:
        connection.isolation_level = None  # the driver begins nothing: `begin` below does
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
