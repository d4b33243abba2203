"""The feature table: the single speaker of SQL. Every method is one short, blocking transaction."""

from collections.abc import Callable
from typing import Self

from . import lease as leases
from .batches import BatchTable
from .engine import Database, address, open_engine
from .features import FeatureTable
from .lease import Lease, Owner
from .schema import ensure


class FeatureStore(FeatureTable, BatchTable):
    """Usable from several threads and processes. Every method may raise StoreError, and then changed nothing."""

    def __init__(self, database: Database, lease: Lease | None = None) -> None:
        BatchTable.__init__(self, database, lease)

    @classmethod
    def open(cls, url: str, *, password: str | None = None, busy_timeout_s: float = 30) -> Self:
        """Make or upgrade the table where needed; never replaces what is there. `password`: where the URL has none."""
        found = address(url, password)
        ensure(found, busy_timeout_s=busy_timeout_s)
        return cls(Database(open_engine(found, busy_timeout_s=busy_timeout_s), str(found)))

    def close(self) -> None:
        self._database.close()

    # Who leads

    def under(self, lease: Lease) -> Self:
        """The same open table; what it writes to batches and attempts counts only while the lease is held."""
        return type(self)(self._database, lease)

    def take_lease(self, owner: Owner, *, ttl_s: float, is_alive: Callable[[Owner], bool]) -> Lease:
        """Lead for `ttl_s` from now. Raises LeaseHeld while another owner leads.

        `is_alive` is asked only about an owner on the same host: a dead one need not be waited for.
        """
        with self._database.write() as session:
            return leases.take(session, owner, ttl_s=ttl_s, is_alive=is_alive)

    def renew_lease(self, lease: Lease, *, ttl_s: float) -> Lease:
        """Lead for `ttl_s` from now, also when the time was over but nobody took it. Raises LeaseLost."""
        with self._database.write() as session:
            return leases.renew(session, lease, ttl_s=ttl_s)

    def release_lease(self, lease: Lease) -> None:
        """Lead no longer; nothing happens when another owner does already."""
        with self._database.write() as session:
            leases.release(session, lease)

    def ensure_leading(self) -> None:
        """Asked before what the table cannot take back, such as a push. Raises LeaseLost."""
        with self._owned():
            pass

    def leader(self) -> Lease | None:
        """The lease that is held now."""
        with self._database.read() as session:
            return leases.current(session)
