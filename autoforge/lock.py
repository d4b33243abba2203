"""One build leads a repository at a time: a lock that the system frees when its holder is gone."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from autoforge.errors import BuildActive


@contextlib.contextmanager
def lead(state_dir: Path, build_id: str) -> Iterator[None]:
    """Hold the repository's lock. Raises BuildActive with the holder's pid; a recycled pid cannot hold it."""
    state_dir.mkdir(parents=True, exist_ok=True)
    told = state_dir / "lock.json"
    lock = FileLock(state_dir / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise BuildActive(
            f"Another build is running on this repository ({_holder(told)}). Wait for it, or stop it."
        ) from error
    try:
        told.write_text(json.dumps({"pid": os.getpid(), "build": build_id}))
        yield
    finally:
        told.unlink(missing_ok=True)
        lock.release()


def _holder(told: Path) -> str:
    try:
        return f"pid {json.loads(told.read_text())['pid']}"
    except (OSError, ValueError, KeyError):
        return "it has just started"


def holder(state_dir: Path) -> str | None:
    """Who leads this repository now, None when nobody does."""
    if not (state_dir / "lock").exists():
        return None
    lock = FileLock(state_dir / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return _holder(state_dir / "lock.json")
    lock.release()
    return None
