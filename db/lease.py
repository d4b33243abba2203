"""Who leads the table's build: a lease that expires, with a token that grows at each take-over."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from .engine import time_of
from .errors import StoreError
from .models import LeaseRow

_ONLY = 1  # the key of the one row


@dataclass(frozen=True)
class Owner:
    """A process that leads a build. `process_started` tells it from a later one with the same pid."""

    build_id: str
    host: str
    pid: int
    process_started: float  # seconds since the epoch


@dataclass(frozen=True)
class Lease:
    """`token` is larger than that of every earlier lease; `expires_at` is by the database's clock."""

    owner: Owner
    token: int
    expires_at: datetime


class LeaseHeld(StoreError):
    """Another build leads."""

    def __init__(self, holder: Lease) -> None:
        owner = holder.owner
        super().__init__(
            f"Another build is running on this feature table: {owner.build_id}, process {owner.pid} on "
            f"{owner.host}. Wait for it, or stop it; if it is gone, its lease ends at "
            f"{holder.expires_at:%Y-%m-%d %H:%M:%S} UTC unless it renews it."
        )
        self.holder = holder


class LeaseLost(StoreError):
    """This build no longer leads: it stood still for too long. Nothing was changed; start it again."""


def take(session: Session, owner: Owner, *, ttl_s: float, is_alive: Callable[[Owner], bool]) -> Lease:
    """Raises LeaseHeld."""
    held = current(session)
    if held and (held.owner.host != owner.host or is_alive(held.owner)):
        raise LeaseHeld(held)
    row = session.get(LeaseRow, _ONLY, with_for_update=True) or LeaseRow(id=_ONLY, token=0)
    lease = Lease(owner, row.token + 1, time_of(session) + timedelta(seconds=ttl_s))
    row.token, row.expires_at = lease.token, lease.expires_at
    row.build_id, row.host, row.pid, row.process_started = (
        owner.build_id,
        owner.host,
        owner.pid,
        owner.process_started,
    )
    session.add(row)
    return lease


def renew(session: Session, lease: Lease, *, ttl_s: float) -> Lease:
    """Raises LeaseLost, but not for the time alone: while the token is the same nobody else has led."""
    row = _own(session, lease)
    row.expires_at = time_of(session) + timedelta(seconds=ttl_s)
    return replace(lease, expires_at=row.expires_at)


def release(session: Session, lease: Lease) -> None:
    """The row stays, with a token that nobody holds: what still runs under this lease has lost it."""
    row = session.get(LeaseRow, _ONLY, with_for_update=True)
    if row is not None and row.token == lease.token:
        row.token, row.expires_at = lease.token + 1, time_of(session)


def hold(session: Session, lease: Lease) -> None:
    """Make sure that it is held until the transaction ends. Raises LeaseLost."""
    if _own(session, lease).expires_at <= time_of(session):
        raise LeaseLost


def current(session: Session) -> Lease | None:
    row = session.get(LeaseRow, _ONLY)
    if row is None or row.expires_at <= time_of(session):
        return None
    owner = Owner(row.build_id, row.host, row.pid, row.process_started)
    return Lease(owner, row.token, row.expires_at)


def _own(session: Session, lease: Lease) -> LeaseRow:
    row = session.get(LeaseRow, _ONLY, with_for_update=True)
    if row is None or row.token != lease.token:
        raise LeaseLost
    return row
