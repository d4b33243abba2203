"""The repositories that a person has given names, in one file of the user's data folder."""

import contextlib
import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from autoforge import data_file
from autoforge.data_file import quote
from autoforge.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9._-]{1,50}")
LOCK_TIMEOUT_S = 10


def file() -> Path:
    """Where the names are kept; below XDG_DATA_HOME, where that is an absolute path."""
    try:
        return platformdirs.user_data_path("autoforge", appauthor=False) / "projects.json"
    except RuntimeError as error:
        raise UsageError("Your home folder cannot be found: set HOME or XDG_DATA_HOME.") from error


def projects() -> dict[str, Path]:
    """Every name with its folder, by name. Raises UsageError."""
    path = file()
    try:
        if not path.exists():
            return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    content = data_file.parse(path)
    known = content.get("projects") if isinstance(content, dict) else None
    if not isinstance(known, dict) or not all(_is_valid(*pair) for pair in known.items()):
        raise UsageError(
            f'{path} is not what autoforge writes: {{"projects": {{"NAME": "/absolute/path"}}}}. '
            "Mend it, or move it away and add your projects again."
        )
    return {name: Path(known[name]) for name in sorted(known)}


def add(name: str, path: Path) -> None:
    """`path` is absolute. Raises UsageError when the name or the folder is there already."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{quote(name)} cannot be a project's name: use 1 to 50 letters, digits, dots, hyphens and underscores."
        )
    with _changing() as known:
        for other, folder in known.items():
            if other.casefold() == name.casefold() or folder == path:
                raise UsageError(
                    f"There is a project {other} already, at {folder}. "
                    f"To replace it: autoforge projects remove {other}"
                )
        known[name] = path


def remove(name: str) -> Path:
    """Forget the name; the folder that it stood for. Raises UsageError."""
    with _changing() as known:
        return known.pop(_known(name, known))


def prune() -> dict[str, Path]:
    """Forget what is stale, and answer it. Raises UsageError."""
    with _changing() as known:
        gone = {name: path for name, path in known.items() if stale(path)}
        for name in gone:
            del known[name]
    return gone


def resolve(name: str) -> Path:
    """The folder of a project. Raises UsageError, with the name that was probably meant."""
    known = projects()
    path = known[_known(name, known)]
    if why := stale(path):
        raise UsageError(
            f"Project {name} is at {path}, but {why}. To forget it: autoforge projects remove {name}"
        )
    return path


def stale(path: Path) -> str | None:
    """Why nothing can be built there; None also for a folder that may not be looked at."""
    try:
        if not path.is_dir():
            return "the folder is gone"
        if not any((folder / ".git").exists() for folder in (path, *path.parents)):
            return "it is no git repository"
    except OSError:
        pass
    return None


def _is_valid(name: object, path: object) -> bool:
    return (
        bool(isinstance(name, str) and NAME.fullmatch(name) and isinstance(path, str))
        and Path(str(path)).is_absolute()
    )


def _known(name: str, known: Mapping[str, Path]) -> str:
    if name in known:
        return name
    by_folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.5)
    meant = f" Did you mean {by_folded[close[0]]}?" if close else ""
    rest = "To see all: autoforge projects list" if known else "To add it: autoforge projects add NAME PATH"
    raise UsageError(f"There is no project {quote(name)}.{meant} {rest}")


@contextlib.contextmanager
def _changing() -> Iterator[dict[str, Path]]:
    """Hold the names alone, and write what the body leaves of them; nothing when it raises."""
    path = file()
    try:
        path = path.resolve()  # a symlink to a file elsewhere stays one
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=LOCK_TIMEOUT_S)
        with lock:
            known = projects()
            yield known
            _write(path, known)
    except Timeout as error:
        raise UsageError(f"Another autoforge holds {path}. Try again when it has ended.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}. Nothing was changed.") from error


def _write(path: Path, known: Mapping[str, Path]) -> None:
    """Whole or not at all; what a killed process left of it is written over."""
    new = path.with_name(f"{path.name}.new")
    content = {"projects": {name: str(known[name]) for name in sorted(known)}}
    with new.open("w", encoding="ascii") as to:
        to.write(json.dumps(content, indent=2) + "\n")
        to.flush()
        os.fsync(to.fileno())
    new.replace(path)
