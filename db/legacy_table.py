"""Reads an older tool's features.db from a copy, so that neither it nor its folder changes."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .errors import StoreError
from .legacy import Legacy, from_items

MAX_BYTES = 500_000_000
MAX_ROWS = 100_000
_MAGIC = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Whether the file begins as SQLite's do. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read(path: Path) -> Legacy:
    """What the file holds, with what its journal holds. Raises StoreError and InvalidFeatures."""
    try:
        with _copied(path) as copy, closing(sqlite3.connect(copy)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return from_items(_rows(connection, path))
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} cannot be read as an older tool's table ({error}): end the tool if it still runs, or put a copy "
            "in its place. Nothing was imported."
        ) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read ({error.strerror or error}). Nothing was imported."
        ) from error


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    parts = [path, *(part for end in ("-wal", "-journal") if (part := Path(f"{path}{end}")).is_file())]
    if sum(part.stat().st_size for part in parts) > MAX_BYTES:
        raise StoreError(f"{path} is larger than {MAX_BYTES // 1_000_000} MB: that is no list of features.")
    with tempfile.TemporaryDirectory(prefix="autoforge-import-") as folder:
        for part in parts:
            shutil.copyfile(part, Path(folder, part.name))
        yield Path(folder, path.name)


def _rows(connection: sqlite3.Connection, path: Path) -> list[object]:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "alembic_version" in tables:
        raise StoreError(
            f"{path} is a table of autoforge itself: use `autoforge features export` there, and import that file."
        )
    if "features" not in tables:
        raise StoreError(f"{path} has no table `features`: it is no feature list. Nothing was imported.")
    cursor = connection.execute("SELECT * FROM features")
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise StoreError(f"{path} has over {MAX_ROWS} features: that is no list of features.")
    return [dict(zip(names, row, strict=True)) for row in rows]
