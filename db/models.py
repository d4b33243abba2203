"""The rows of the feature table; private to this room."""

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import ForeignKey, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from .columns import CleanText, Data, Evidences, Items, Utc, Word
from .feature import BatchStatus, Evidence, FeatureStatus, Kind, PrStatus, Result


def now() -> datetime:
    return datetime.now(UTC)


class Base(DeclarativeBase):
    # names by rule, so that later migrations can address every constraint on every database
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy declares it so
        str: CleanText,
        datetime: Utc,
        Mapping[str, object]: Data,
        tuple[int, ...]: Items,
        tuple[str, ...]: Items,
        tuple[Evidence, ...]: Evidences,
        FeatureStatus: Word(FeatureStatus),
        BatchStatus: Word(BatchStatus),
        PrStatus: Word(PrStatus),
        Kind: Word(Kind),
        Result: Word(Result),
    }


class DependencyRow(Base):
    __tablename__ = "dependencies"

    feature_id: Mapped[int] = mapped_column(ForeignKey("features.id"), primary_key=True)
    depends_on_id: Mapped[int] = mapped_column(ForeignKey("features.id"), primary_key=True, index=True)


class FeatureRow(Base):
    __tablename__ = "features"

    id: Mapped[int] = mapped_column(primary_key=True)
    priority: Mapped[int]
    category: Mapped[str]
    name: Mapped[str]
    description: Mapped[str]
    steps: Mapped[tuple[str, ...]]
    verify: Mapped[tuple[str, ...]]
    evidence: Mapped[tuple[Evidence, ...]]
    status: Mapped[FeatureStatus]
    refinement: Mapped[str]
    branch_name: Mapped[str | None]
    commit_sha: Mapped[str | None]
    pr_number: Mapped[int | None]
    pr_url: Mapped[str | None]
    pr_status: Mapped[PrStatus | None]
    batch_key: Mapped[str | None] = mapped_column(ForeignKey("batches.key"), index=True)
    attempts: Mapped[int]
    last_error: Mapped[str | None]
    question: Mapped[str | None]
    answer: Mapped[str | None]
    issue_number: Mapped[int | None]
    last_tested_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)

    needs: Mapped[list[DependencyRow]] = relationship(
        foreign_keys=DependencyRow.feature_id,
        order_by=DependencyRow.depends_on_id,
        lazy="selectin",
    )


class MemberRow(Base):
    __tablename__ = "batch_features"

    batch_key: Mapped[str] = mapped_column(ForeignKey("batches.key"), primary_key=True)
    feature_id: Mapped[int] = mapped_column(ForeignKey("features.id"), primary_key=True, index=True)
    position: Mapped[int]


class ParentRow(Base):
    __tablename__ = "batch_parents"

    batch_key: Mapped[str] = mapped_column(ForeignKey("batches.key"), primary_key=True)
    parent_key: Mapped[str] = mapped_column(ForeignKey("batches.key"), primary_key=True)
    tip: Mapped[str]
    position: Mapped[int]


class BatchRow(Base):
    __tablename__ = "batches"

    key: Mapped[str] = mapped_column(primary_key=True)
    branch: Mapped[str]
    status: Mapped[BatchStatus]
    base_branch: Mapped[str | None]
    base_sha: Mapped[str | None]
    head_sha: Mapped[str | None]
    merge_sha: Mapped[str | None]
    worktree_path: Mapped[str | None]
    pr_number: Mapped[int | None]
    pr_url: Mapped[str | None]
    pr_status: Mapped[PrStatus | None]
    checks: Mapped[tuple[Evidence, ...]]
    summary: Mapped[str]
    notes: Mapped[tuple[str, ...]]
    rounds: Mapped[int]
    check_signature: Mapped[str | None]
    pushed_sha: Mapped[str | None]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)

    members: Mapped[list[MemberRow]] = relationship(
        order_by=MemberRow.position, lazy="selectin", cascade="all, delete-orphan"
    )
    stands_on: Mapped[list[ParentRow]] = relationship(
        foreign_keys=ParentRow.batch_key,
        order_by=ParentRow.position,
        lazy="selectin",
        cascade="all, delete-orphan",
    )


class AttemptRow(Base):
    __tablename__ = "attempts"

    id: Mapped[int] = mapped_column(primary_key=True)
    batch_key: Mapped[str] = mapped_column(ForeignKey("batches.key"), index=True)
    kind: Mapped[Kind]
    number: Mapped[int]
    feature_ids: Mapped[tuple[int, ...]]
    build_id: Mapped[str] = mapped_column(index=True)
    session_id: Mapped[str]
    lease_token: Mapped[int | None]  # of the lease under which it was started
    outcome: Mapped[Result | None]
    reason: Mapped[str | None]
    cost_usd: Mapped[float | None]
    turns: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(default=now)
    ended_at: Mapped[datetime | None]


class LeaseRow(Base):
    """Who leads: one row, or none before the first build."""

    __tablename__ = "leases"

    id: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[int]
    build_id: Mapped[str]
    host: Mapped[str]
    pid: Mapped[int]
    process_started: Mapped[float]
    expires_at: Mapped[datetime]


class EventRow(Base):
    __tablename__ = "events"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=now)
    build_id: Mapped[str] = mapped_column(index=True)
    # no foreign key: history outlives a planned batch that was dropped
    batch_key: Mapped[str | None] = mapped_column(index=True)
    name: Mapped[str]
    data: Mapped[Mapping[str, object]]
