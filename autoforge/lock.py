"""One build leads a repository at a time: a lock on this machine, a lease in the table for all machines."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from autoforge.errors import AutoforgeError, BuildActive
from autoforge.process import host_id, start_time
from db.errors import StoreError
from db.lease import Lease, LeaseLost, Owner
from db.store import FeatureStore

LEASE_S = 60.0
PLAN = "plan"  # what a plan holds the lock as

log = logging.getLogger("autoforge.lock")


@contextlib.contextmanager
def lead(state_dir: Path, build_id: str) -> Iterator[None]:
    """Hold the repository's lock. Raises BuildActive with the holder's pid; a recycled pid cannot hold it.

    Raises AutoforgeError when the folder cannot be used.
    """
    pid = os.getpid()
    told = _told(state_dir)
    lock = FileLock(state_dir / "lock")
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        told.write_text(json.dumps({"pid": pid, "started": start_time(pid), "build": build_id}))
    except Timeout as error:
        held = holder(state_dir)
        what, who = (held.what, f"pid {held.pid}") if held else ("build", "it has just started")
        raise BuildActive(
            f"Another {what} is running on this repository ({who}). Wait for it, or stop it."
        ) from error
    except OSError as error:
        lock.release()
        raise unwritable(state_dir, error) from error
    try:
        yield
    finally:
        told.unlink(missing_ok=True)
        lock.release()


def unwritable(folder: Path, error: OSError) -> AutoforgeError:
    return AutoforgeError(
        f"{error.filename or folder} cannot be written ({error.strerror}): make it writable for you, or free some space."
    )


def _told(state_dir: Path) -> Path:
    return state_dir / "lock.json"


@dataclass(frozen=True)
class Holder:
    """`what`: a build, which may change batches, or a plan."""

    what: str
    pid: int


def holder(state_dir: Path) -> Holder | None:
    """Who leads this repository now, None when nobody does. Looks only: to try the lock could turn a build away."""
    try:
        told = json.loads(_told(state_dir).read_text())
        pid, started = told["pid"], told["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(pid, int) or start_time(pid) != started:
        return None
    return Holder("plan" if told.get("build") == PLAN else "build", pid)


@contextlib.contextmanager
def lease(
    store: FeatureStore, build_id: str, *, ttl_s: float = LEASE_S
) -> Iterator[tuple[FeatureStore, Lease]]:
    """Lead on every machine that shares the table: the lock holds on this one only. Raises LeaseHeld."""
    pid = os.getpid()
    owner = Owner(build_id, host_id(), pid, start_time(pid) or 0.0)
    held = store.take_lease(owner, ttl_s=ttl_s, is_alive=_is_alive)
    try:
        yield store.under(held), held
    finally:
        store.release_lease(held)


def _is_alive(owner: Owner) -> bool:
    return start_time(owner.pid) == owner.process_started


async def keep(store: FeatureStore, held: Lease, *, ttl_s: float = LEASE_S) -> str:
    """Renew the lease in time until cancelled; answers why it was lost. A table that cannot be used now is tried again."""
    while True:
        await asyncio.sleep(ttl_s / 3)
        try:
            await asyncio.to_thread(store.renew_lease, held, ttl_s=ttl_s)
        except LeaseLost as error:
            return str(error)
        except StoreError as error:
            log.warning("the lease was not renewed: %s", error)
