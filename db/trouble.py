"""Turns what a database raises into a StoreError that says what happened and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from .errors import StoreError

_ADVICE = {
    "SQLITE_BUSY": "is locked by another process: try again when it is done",
    "SQLITE_LOCKED": "is locked by another process: try again when it is done",
    "SQLITE_FULL": "cannot grow, the disk is full: free some space and try again",
    "SQLITE_IOERR": "cannot be read or written: check the disk and its free space",
    "SQLITE_READONLY": "is read-only: make the file and its folder writable for you",
    "SQLITE_CANTOPEN": "cannot be opened: it was moved or removed, or its folder is not writable",
    "SQLITE_PERM": "cannot be opened: make the file and its folder writable for you",
    "SQLITE_CORRUPT": "is broken; it was left as it is: put a copy in its place, or move it away",
    "SQLITE_NOTADB": "is not an SQLite database; it was left as it is: move it away, or correct database.url",
}


@contextmanager
def explained(place: str) -> Iterator[None]:
    """`place` is the file's path, or the URL without its password."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OverflowError) as error:
        raise StoreError(f"The feature table {place} {_advice(error)}") from error


def _advice(error: Exception) -> str:
    cause = (error.orig if isinstance(error, DBAPIError) else None) or error
    name = str(getattr(cause, "sqlite_errorname", ""))
    for prefix, advice in _ADVICE.items():
        if name == prefix or name.startswith(prefix + "_"):
            return f"{advice} ({cause})."
    return f"refused a step: {cause}."
