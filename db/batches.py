"""The half of the feature table that only the leading build writes: batches, attempts and events."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from .engine import Database
from .errors import StoreError
from .event import Event
from .feature import (
    UNFINISHED,
    UNMERGED,
    Attempt,
    Batch,
    BatchStatus,
    Ended,
    Evidence,
    FeatureStatus,
    Kind,
    Moved,
    PrStatus,
)
from .lease import Lease, hold
from .models import AttemptRow, BatchRow, EventRow, FeatureRow, now
from .rows import (
    batch_before,
    end,
    locked_features,
    member,
    one,
    to_attempt,
    to_batch,
    to_event,
    write_batch,
    write_members,
)


class BatchTable:
    """Reads are free. A write without a lease raises StoreError, under a lost one LeaseLost, and changes nothing."""

    def __init__(self, database: Database, lease: Lease | None) -> None:
        self._database = database
        self._lease = lease

    @contextmanager
    def _owned(self) -> Iterator[Session]:
        if self._lease is None:
            raise StoreError(
                "Only the build that leads may change batches and attempts: take the lease first."
            )
        with self._database.write() as session:
            hold(session, self._lease)
            yield session

    def batches(self) -> list[Batch]:
        """By creation time, then key."""
        with self._database.read() as session:
            rows = session.scalars(select(BatchRow).order_by(BatchRow.created_at, BatchRow.key))
            return [to_batch(row) for row in rows]

    def batch(self, key: str) -> Batch:
        """Raises NotFound."""
        with self._database.read() as session:
            return to_batch(one(session, BatchRow, key))

    def plan_batch(self, batch: Batch) -> bool:
        """Store the batch and claim its features.

        False, and nothing is stored, when one of them is no longer pending or an unfinished batch holds it.
        """
        with self._owned() as session:
            features = locked_features(session, batch.feature_ids)
            if any(row.status is not FeatureStatus.PENDING for row in features):
                return False
            # after the lock: only now nobody else can claim them
            held = select(BatchRow.key).where(
                BatchRow.key.in_([row.batch_key for row in features if row.batch_key]),
                BatchRow.status.in_(UNFINISHED),
            )
            if session.scalars(held).first() is not None:
                return False
            row = BatchRow()
            write_batch(row, batch)
            write_members(row, batch.feature_ids)
            session.add(row)
            session.flush()
            for feature in features:
                feature.batch_key, feature.branch_name = batch.key, batch.branch
            return True

    def save_batch(self, batch: Batch) -> None:
        """Write every column and the parents; the features and the time of creation stay. Raises NotFound."""
        with self._owned() as session:
            write_batch(one(session, BatchRow, batch.key, lock=True), batch)

    def move_batches(self, moved: Sequence[Moved]) -> None:
        """Write the batches as `save_batch` does and their features' new commits, all or nothing. Raises NotFound."""
        with self._owned() as session:
            for each in moved:
                batch = one(session, BatchRow, each.batch.key, lock=True)
                write_batch(batch, each.batch)
                for feature in _features_of(session, batch.key):
                    feature.commit_sha = each.commits.get(feature.commit_sha or "", feature.commit_sha)

    def publish_again(self, key: str, *, branch: str, why: str) -> None:
        """The same work is to be published from another branch, in another pull request. Raises NotFound."""
        with self._owned() as session:
            batch = one(session, BatchRow, key, lock=True)
            batch.status, batch.branch, batch.pushed_sha, batch.merge_sha = (
                BatchStatus.BUILT,
                branch,
                None,
                None,
            )
            batch.last_error, batch.check_signature = why, None
            batch.pr_number = batch.pr_url = batch.pr_status = None
            for feature in _features_of(session, key):
                feature.pr_number = feature.pr_url = feature.pr_status = None
                feature.branch_name = branch

    def drop_planned(self, key: str) -> None:
        """Remove a batch that nobody has worked on; its features belong to the batch before it, if any."""
        with self._owned() as session:
            batch = one(session, BatchRow, key, lock=True)
            tried = session.scalars(select(AttemptRow.id).where(AttemptRow.batch_key == key)).first()
            if batch.status is not BatchStatus.PLANNED or tried is not None:
                raise StoreError(f"Batch {key} is {batch.status} and was worked on: it cannot be dropped.")
            ids = [each.feature_id for each in batch.members]
            for feature in locked_features(session, ids):
                earlier = batch_before(session, feature.id, key)
                feature.batch_key = earlier.key if earlier else None
                feature.branch_name = earlier.branch if earlier else None
            session.flush()
            session.delete(batch)

    def start_attempt(
        self, *, batch_key: str, feature_ids: Sequence[int], kind: Kind, build_id: str, session_id: str
    ) -> Attempt | None:
        """The batch is working, its pending features are running.

        The attempt holds those of `feature_ids` that run or have passed: a user may have skipped others. None, and
        nothing is changed, when no feature is left to work on.
        """
        with self._owned() as session:
            batch = one(session, BatchRow, batch_key, lock=True)
            features = [member(session, batch, feature_id) for feature_id in feature_ids]
            pending = [feature for feature in features if feature.status is FeatureStatus.PENDING]
            if not pending:
                return None
            batch.status = BatchStatus.WORKING
            for feature in pending:
                feature.status = FeatureStatus.RUNNING
                feature.attempts += 1
            in_it = (FeatureStatus.RUNNING, FeatureStatus.PASSED)
            taken = [feature.id for feature in features if feature.status in in_it]
            return self._attempt(
                session, batch_key, taken, kind=kind, build_id=build_id, session_id=session_id
            )

    def start_repair(
        self, *, batch_key: str, feature_ids: Sequence[int], kind: Kind, build_id: str, session_id: str
    ) -> Attempt:
        """An attempt at a batch that is built: neither its status nor its features change."""
        with self._owned() as session:
            batch = one(session, BatchRow, batch_key, lock=True)
            if batch.status not in UNMERGED:
                raise StoreError(f"Batch {batch_key} is {batch.status}: there is nothing in it to repair.")
            for feature_id in feature_ids:
                member(session, batch, feature_id)
            return self._attempt(
                session, batch_key, feature_ids, kind=kind, build_id=build_id, session_id=session_id
            )

    def _attempt(
        self,
        session: Session,
        batch_key: str,
        feature_ids: Sequence[int],
        *,
        kind: Kind,
        build_id: str,
        session_id: str,
    ) -> Attempt:
        assert self._lease is not None
        tries = select(func.count()).select_from(AttemptRow).where(AttemptRow.batch_key == batch_key)
        row = AttemptRow(
            batch_key=batch_key,
            kind=kind,
            number=1 + session.scalars(tries).one(),
            feature_ids=tuple(feature_ids),
            build_id=build_id,
            session_id=session_id,
            lease_token=self._lease.token,
            turns=0,
        )
        session.add(row)
        session.flush()
        return to_attempt(row)

    def record_pass(
        self,
        *,
        batch_key: str,
        feature_id: int,
        commit_sha: str,
        evidence: Sequence[Evidence],
        checks: Sequence[Evidence],
    ) -> None:
        """The feature passed on this commit, which is the batch's head; once recorded, nothing changes."""
        with self._owned() as session:
            batch = one(session, BatchRow, batch_key, lock=True)
            feature = member(session, batch, feature_id)
            if feature.status is FeatureStatus.PASSED and feature.commit_sha == commit_sha:
                return
            feature.status = FeatureStatus.PASSED
            feature.commit_sha = commit_sha
            feature.evidence = tuple(evidence)
            feature.branch_name = batch.branch
            feature.last_error = None
            batch.head_sha = commit_sha
            batch.checks = tuple(checks)

    def end_attempt(self, attempt_id: int, ended: Ended, *, max_attempts: int) -> None:
        """Record the outcome, and what it means for the features that still run; once ended, nothing changes."""
        with self._owned() as session:
            attempt = one(session, AttemptRow, attempt_id, lock=True)
            if attempt.outcome is not None:
                return
            attempt.outcome, attempt.reason, attempt.ended_at = ended.result, ended.reason, now()
            attempt.cost_usd, attempt.turns = ended.cost_usd, ended.turns
            if ended.summary:
                one(session, BatchRow, attempt.batch_key, lock=True).summary = ended.summary
            for feature in locked_features(session, attempt.feature_ids, missing_ok=True):
                if feature.status is FeatureStatus.RUNNING and feature.batch_key == attempt.batch_key:
                    end(feature, ended, max_attempts)

    def running_attempts(self) -> list[Attempt]:
        """Those without an outcome: where no build runs, one was killed."""
        with self._database.read() as session:
            query = select(AttemptRow).where(AttemptRow.outcome.is_(None)).order_by(AttemptRow.id)
            return [to_attempt(row) for row in session.scalars(query)]

    def attempts(self, batch_key: str | None = None) -> list[Attempt]:
        """In the order of their start."""
        query = select(AttemptRow).order_by(AttemptRow.id)
        if batch_key is not None:
            query = query.where(AttemptRow.batch_key == batch_key)
        with self._database.read() as session:
            return [to_attempt(row) for row in session.scalars(query)]

    def set_pull_request(
        self,
        key: str,
        *,
        number: int,
        url: str,
        status: PrStatus,
        batch_status: BatchStatus,
        merge_sha: str | None = None,
    ) -> None:
        """Write the pull request to the batch and its passed features. `merge_sha` None: as it was."""
        with self._owned() as session:
            batch = one(session, BatchRow, key, lock=True)
            batch.status = batch_status
            batch.merge_sha = merge_sha or batch.merge_sha
            rows: list[BatchRow | FeatureRow] = [batch, *_features_of(session, key)]
            for row in rows:
                row.pr_number, row.pr_url, row.pr_status = number, url, status

    def spent_usd(self, build_id: str | None = None) -> float:
        """What is known to have been spent, by one build or by all."""
        query = select(func.sum(AttemptRow.cost_usd))
        if build_id is not None:
            query = query.where(AttemptRow.build_id == build_id)
        with self._database.read() as session:
            return session.scalars(query).one() or 0.0

    def record_event(
        self, *, build_id: str, batch_key: str | None, name: str, data: Mapping[str, object]
    ) -> None:
        with self._owned() as session:
            session.add(EventRow(build_id=build_id, batch_key=batch_key, name=name, data=data))

    def events(self, *, batch_key: str | None = None, limit: int = 200) -> list[Event]:
        """The newest ones, oldest first."""
        query = select(EventRow).order_by(EventRow.id.desc()).limit(limit)
        if batch_key is not None:
            query = query.where(EventRow.batch_key == batch_key)
        with self._database.read() as session:
            return [to_event(row) for row in session.scalars(query)][::-1]


def _features_of(session: Session, key: str) -> list[FeatureRow]:
    """What has passed in the batch, locked."""
    passed = select(FeatureRow).where(FeatureRow.batch_key == key, FeatureRow.status == FeatureStatus.PASSED)
    return list(session.scalars(passed.order_by(FeatureRow.id).with_for_update()))
