"""Between rows and values: the field names are the column names, and the types are the same."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import count
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from .errors import NotFound, StoreError
from .event import Event
from .feature import FREE_RESULTS, Attempt, Batch, Ended, Feature, FeatureStatus, NewFeature, Parent
from .models import AttemptRow, Base, BatchRow, EventRow, FeatureRow, MemberRow, ParentRow
from .new_features import one_line

R = TypeVar("R", bound=Base)
MAX_ID = 2**31 - 1  # what every database takes; a greater one is nobody's
_SET_BY_THE_TABLE = {"created_at", "updated_at"}


def to_feature(row: FeatureRow) -> Feature:
    needs = tuple(need.depends_on_id for need in row.needs)
    return Feature(**_values(row, Feature, besides={"dependencies"}), dependencies=needs)


def to_batch(row: BatchRow) -> Batch:
    return Batch(
        **_values(row, Batch, besides={"feature_ids", "parents"}),
        feature_ids=tuple(member.feature_id for member in row.members),
        parents=tuple(Parent(parent.parent_key, parent.tip) for parent in row.stands_on),
    )


def to_attempt(row: AttemptRow) -> Attempt:
    return Attempt(**_values(row, Attempt))


def to_event(row: EventRow) -> Event:
    return Event(**_values(row, Event))


def from_new(new: Sequence[NewFeature], *, last_priority: int) -> list[FeatureRow]:
    """What has no priority comes after everything that has one, in the order of the list."""
    behind = count(1 + max([last_priority, *(item.priority or 0 for item in new)]))
    return [
        FeatureRow(
            priority=next(behind) if item.priority is None else item.priority,
            category=one_line(item.category),
            name=one_line(item.name),
            description=item.description,
            steps=item.steps,
            verify=item.verify,
            evidence=(),
            status=FeatureStatus.PENDING,
            refinement="",
            attempts=0,
            issue_number=item.issue_number,
        )
        for item in new
    ]


def write_batch(row: BatchRow, batch: Batch) -> None:
    """Every column and the parents, but not the members."""
    for name, value in _values(batch, Batch, besides={"feature_ids", "parents"} | _SET_BY_THE_TABLE).items():
        setattr(row, name, value)
    row.stands_on = [
        ParentRow(parent_key=parent.key, tip=parent.tip, position=position)
        for position, parent in enumerate(batch.parents)
    ]


def write_members(row: BatchRow, feature_ids: Iterable[int]) -> None:
    row.members = [MemberRow(feature_id=each, position=position) for position, each in enumerate(feature_ids)]


def locked_features(
    session: Session, feature_ids: Sequence[int], *, missing_ok: bool = False
) -> list[FeatureRow]:
    """In the given order; locked by id, so that two writers cannot wait for each other. Raises NotFound."""
    possible = [each for each in feature_ids if abs(each) <= MAX_ID]
    query = select(FeatureRow).where(FeatureRow.id.in_(possible)).order_by(FeatureRow.id).with_for_update()
    found = {row.id: row for row in session.scalars(query)}
    for feature_id in feature_ids:
        if feature_id not in found and not missing_ok:
            raise NotFound(f"There is no feature #{feature_id}.")
    return [found[feature_id] for feature_id in feature_ids if feature_id in found]


def one(session: Session, kind: type[R], key: int | str, *, lock: bool = False) -> R:
    """The row with this key, of features, batches or attempts. Raises NotFound."""
    possible = isinstance(key, str) or abs(key) <= MAX_ID
    row = session.get(kind, key, with_for_update=lock or None) if possible else None
    if row is None:
        raise NotFound(f"There is no {kind.__name__.removesuffix('Row').lower()} {key}.")
    return row


def member(session: Session, batch: BatchRow, feature_id: int) -> FeatureRow:
    """The feature, which this batch must hold now. Raises NotFound or StoreError."""
    [row] = locked_features(session, [feature_id])
    if row.batch_key != batch.key:
        raise StoreError(
            f"Feature #{feature_id} does not belong to batch {batch.key}, but to {row.batch_key}."
        )
    return row


def batch_before(session: Session, feature_id: int, key: str) -> BatchRow | None:
    """The newest other batch that held the feature."""
    held = select(BatchRow).join(MemberRow).where(MemberRow.feature_id == feature_id, BatchRow.key != key)
    return session.scalars(held.order_by(BatchRow.created_at.desc())).first()


def end(feature: FeatureRow, ended: Ended, max_attempts: int) -> None:
    """What the end of an attempt means for a feature that did not pass in it."""
    question = ended.questions.get(feature.id)
    if question is not None:
        feature.status, feature.question, feature.answer = FeatureStatus.NEEDS_INPUT, question, None
    elif ended.result in FREE_RESULTS or feature.id in ended.untried:
        feature.status, feature.attempts = FeatureStatus.PENDING, max(0, feature.attempts - 1)
    else:
        used_up = feature.attempts >= max_attempts
        feature.status = FeatureStatus.FAILED if used_up else FeatureStatus.PENDING
        feature.last_error = ended.failed.get(feature.id) or ended.reason


def _values(source: object, value: type[Any], besides: Iterable[str] = ()) -> dict[str, Any]:
    return {field.name: getattr(source, field.name) for field in fields(value) if field.name not in besides}
