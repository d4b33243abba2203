"""The half of the feature table that a person writes; a build sees each change at its next step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from . import editing, nodes
from .engine import Database
from .errors import InvalidFeatures, StoreError
from .feature import Batch, Feature, FeatureStatus, NewFeature
from .models import AttemptRow, BatchRow, DependencyRow, FeatureRow, MemberRow
from .new_features import check, one_line, text_fault
from .nodes import Node, Standing
from .rows import from_new, one, to_batch, to_feature, write_batch


class FeatureTable:
    """Every method is one short transaction, raises StoreError when it is refused, and then changed nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def features(self) -> list[Feature]:
        """By priority, then id."""
        with self._database.read() as session:
            return _features(session)

    def nodes(self) -> list[Node]:
        """What scheduling needs of the features, by id."""
        with self._database.read() as session:
            return nodes.read(session)

    def standing(self) -> Standing:
        """What scheduling needs of features and batches, of one moment."""
        with self._database.read() as session:
            return nodes.standing(session)

    def snapshot(self) -> tuple[list[Feature], list[Batch]]:
        """Features and batches of one moment, ordered as `features` and `batches` do."""
        with self._database.read() as session:
            rows = session.scalars(select(BatchRow).order_by(BatchRow.created_at, BatchRow.key))
            return _features(session), [to_batch(row) for row in rows]

    def feature(self, feature_id: int) -> Feature:
        """Raises NotFound."""
        with self._database.read() as session:
            return to_feature(one(session, FeatureRow, feature_id))

    def add_features(self, new: Sequence[NewFeature]) -> list[int]:
        """Store all of them or none; their ids, in order. Raises InvalidFeatures."""
        with self._database.write() as session:
            known = session.execute(select(FeatureRow.id, FeatureRow.name, FeatureRow.priority)).all()
            check(new, names=[row.name for row in known], ids={row.id for row in known})
            rows = from_new(new, last_priority=max((row.priority for row in known), default=0))
            for id_, row in enumerate(rows, _free_id(session)):
                row.id = id_
            session.add_all(rows)
            session.flush()
            for row, item in zip(rows, new, strict=True):
                needs = [*(rows[index].id for index in item.depends_on), *item.existing]
                session.add_all(DependencyRow(feature_id=row.id, depends_on_id=need) for need in needs)
            return [row.id for row in rows]

    def restore(self, features: Sequence[Feature], batches: Sequence[Batch] = ()) -> dict[int, int]:
        """Store features and batches of another table, every column as it is, names as one line; answers the new
        id for each old one. In a table that never held a feature the ids stay. Raises InvalidFeatures; then nothing is stored.
        """
        with self._database.write() as session:
            _check_whole(session, features, batches)
            free = _free_id(session)
            shift = free if free > 1 else None
            ids = {f.id: f.id if shift is None else shift + n for n, f in enumerate(features)}
            _insert(session, features, batches, ids)
            return ids

    def answer(self, feature_id: int, text: str) -> Feature:
        """Answer the feature's question, which it keeps; it is pending again."""
        if not text.strip():
            raise StoreError(
                f"The answer to feature #{feature_id} is empty: write what the agent is to know."
            )
        if fault := text_fault(text):
            raise StoreError(f"The answer to feature #{feature_id} {fault}: write it as plain text.")
        with self._database.write() as session:
            row = one(session, FeatureRow, feature_id, lock=True)
            if row.status is not FeatureStatus.NEEDS_INPUT:
                raise StoreError(f"Feature #{feature_id} does not wait for an answer: it is {row.status}.")
            row.status = FeatureStatus.PENDING
            row.answer = text
            session.flush()
            return to_feature(row)

    def edit(
        self,
        feature_id: int,
        *,
        name: str | None = None,
        description: str | None = None,
        steps: Sequence[str] | None = None,
        category: str | None = None,
        priority: int | None = None,
        verify: Sequence[str] | None = None,
    ) -> Feature:
        """Change what is not None. Of a feature that runs or has passed only category and priority can change."""
        given = {
            "name": name,
            "description": description,
            "steps": None if steps is None else tuple(steps),
            "category": category,
            "priority": priority,
            "verify": None if verify is None else tuple(verify),
        }
        with self._database.write() as session:
            changes = {column: value for column, value in given.items() if value is not None}
            row = editing.edit(session, feature_id, changes)
            session.flush()
            return to_feature(row)

    def skip(self, ids: Sequence[int]) -> None:
        """Pending, failed or asking: they are not built, and what depends on them waits."""
        with self._database.write() as session:
            editing.skip(session, _unique(ids))

    def retry(self, ids: Sequence[int]) -> None:
        """They are pending with all their attempts; what passed in a closed batch starts again on a new branch."""
        with self._database.write() as session:
            editing.retry(session, _unique(ids))

    def reset(self, ids: Sequence[int]) -> None:
        """Forget everything but the definition; branches and commits stay. An unfinished batch keeps them."""
        with self._database.write() as session:
            editing.reset(session, _unique(ids))

    def remove(self, ids: Sequence[int], *, cascade: bool = False) -> list[int]:
        """Remove them, with `cascade` all that depends on them too; answers which. Attempts keep their numbers."""
        with self._database.write() as session:
            return editing.remove(session, _unique(ids), cascade=cascade)

    def depend(self, feature_id: int, on: Sequence[int]) -> None:
        """Let the feature wait for others. Raises InvalidFeatures."""
        with self._database.write() as session:
            editing.depend(session, feature_id, _unique(on))

    def undepend(self, feature_id: int, on: Sequence[int]) -> None:
        """Let the feature no longer wait for others. Raises InvalidFeatures."""
        with self._database.write() as session:
            editing.undepend(session, feature_id, _unique(on))


def _unique(ids: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(ids))


def _features(session: Session) -> list[Feature]:
    rows = session.scalars(select(FeatureRow).order_by(FeatureRow.priority, FeatureRow.id))
    return [to_feature(row) for row in rows]


def _free_id(session: Session) -> int:
    """Above every id that is or was in use: a removed feature's attempts and commits must not become another's."""
    tried = session.scalars(select(AttemptRow.feature_ids))
    return 1 + max([session.scalar(select(func.max(FeatureRow.id))) or 0, *chain.from_iterable(tried)])


def _check_whole(session: Session, features: Sequence[Feature], batches: Sequence[Batch]) -> None:
    """What a foreign key or a rule of the table would refuse. Raises InvalidFeatures."""
    position = {feature.id: n for n, feature in enumerate(features)}
    keys = {batch.key for batch in batches}
    if len(position) < len(features) or len(keys) < len(batches):
        raise InvalidFeatures("Nothing was stored. An id of a feature or a key of a batch is there twice.")
    stored = keys.intersection(session.scalars(select(BatchRow.key)))
    faults = [f"batch {key} is in the table already" for key in sorted(stored)]
    faults += [
        f"feature #{f.id}: there is no batch {f.batch_key}"
        for f in features
        if f.batch_key is not None and f.batch_key not in keys
    ]
    for batch in batches:
        faults += [
            f"batch {batch.key}: there is no feature #{i}" for i in batch.feature_ids if i not in position
        ]
        faults += [
            f"batch {batch.key}: there is no batch {p.key}" for p in batch.parents if p.key not in keys
        ]
    for f in features:
        faults += [f"feature #{f.id}: there is no feature #{i}" for i in f.dependencies if i not in position]
    if faults:
        raise InvalidFeatures("Nothing was stored. " + "; ".join(faults[:10]))
    names = session.scalars(select(FeatureRow.name)).all()
    check([_as_new(f, position) for f in features], names=names, ids=())


def _as_new(f: Feature, position: Mapping[int, int]) -> NewFeature:
    return NewFeature(
        f.name,
        f.description,
        f.steps,
        f.category,
        f.priority,
        f.verify,
        depends_on=tuple(position[i] for i in f.dependencies),
        issue_number=f.issue_number,
    )


def _insert(
    session: Session, features: Sequence[Feature], batches: Sequence[Batch], ids: Mapping[int, int]
) -> None:
    """In the order that the foreign keys ask for."""
    for batch in batches:
        row = BatchRow(created_at=batch.created_at, updated_at=batch.updated_at)
        write_batch(row, batch)
        session.add(row)
    session.flush()
    for f in features:
        f = replace(f, id=ids[f.id], name=one_line(f.name), category=one_line(f.category))
        values = {name: value for name, value in vars(f).items() if name != "dependencies"}
        session.add(FeatureRow(**values))
    session.flush()
    session.add_all(
        MemberRow(batch_key=batch.key, feature_id=ids[i], position=n)
        for batch in batches
        for n, i in enumerate(batch.feature_ids)
    )
    session.add_all(
        DependencyRow(feature_id=ids[f.id], depends_on_id=ids[i]) for f in features for i in f.dependencies
    )
