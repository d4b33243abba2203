"""Turns what a database raises into a StoreError that says what happened and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import OperationalError, SQLAlchemyError, StatementError

from .errors import StoreError

_SHOWN = 300
_LOCKED = "is locked by another process: try again when it is done"
_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_FULL": "cannot grow, the disk is full: free some space and try again",
    "SQLITE_IOERR": "cannot be read or written: check the disk and its free space",
    "SQLITE_READONLY": "is read-only: make the file and its folder writable for you",
    "SQLITE_CANTOPEN": "cannot be opened: it was moved or removed, or its folder is not writable",
    "SQLITE_PERM": "cannot be opened: make the file and its folder writable for you",
    "SQLITE_CORRUPT": "is broken; it was left as it is: put a copy in its place, or move it away",
    "SQLITE_NOTADB": "is not an SQLite database; it was left as it is: move it away, or correct database.url",
}
_UNREACHABLE = "cannot be reached: check database.url, and that the server runs and lets you in"
_STATES = {
    "55P03": _LOCKED,
    "40": "is being changed by others at the same time: try again",
    "53": "cannot be used, the server is out of space, memory or connections: free some and try again",
    "42501": "does not let you do this: let its owner grant you the right to create and change tables there",
    "25006": "is read-only: let database.url name the primary server",
    "25P03": "did not wait for this process, which stood still: start it again",
    "08": _UNREACHABLE,
    "28": _UNREACHABLE,
    "3D": _UNREACHABLE,
    "57P": "is closed by its server: try again when it is back",
    "42P07": "is another program's, whose tables are in the way; they were left as they are: "
    "let database.url name an empty database",
}
"""By the start of PostgreSQL's error code."""


@contextmanager
def explained(place: str) -> Iterator[None]:
    """`place` is the file's path, or the URL without its password."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OverflowError) as error:
        raise StoreError(f"The feature table {place} {_advice(error)}") from error
    except ValueError as error:  # of a column's type: nothing else in a transaction raises it
        raise StoreError(
            f"The feature table {place} holds what autoforge did not write ({_brief(error)}): correct it there, or put "
            "a copy in its place."
        ) from error


def _advice(error: Exception) -> str:
    cause = (error.orig if isinstance(error, StatementError) else None) or error
    said = _brief(cause)
    name, state = str(getattr(cause, "sqlite_errorname", "")), getattr(cause, "sqlstate", "")
    for prefix, advice in _SQLITE.items():
        if name == prefix or name.startswith(prefix + "_"):
            return f"{advice} ({said})."
    if state is None and isinstance(error, OperationalError):  # the connection failed, or is gone
        return f"{_UNREACHABLE} ({said})."
    for prefix, advice in _STATES.items():
        if state and state.startswith(prefix):
            return f"{advice} ({said})."
    return f"refused a step: {said}."


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
