"""What scheduling needs of every feature and batch, read without making rows of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import JSON, Select, SelectBase, Text, func, select, type_coerce
from sqlalchemy.orm import Session

from .errors import SchemaTooNew
from .feature import UNFINISHED, Batch, BatchStatus, FeatureStatus
from .models import BatchRow, DependencyRow, FeatureRow
from .rows import to_batch

E = TypeVar("E", bound=StrEnum)


class Node(NamedTuple):
    """A feature without what only its agent reads; the field names are those of Feature."""

    id: int
    priority: int
    category: str
    name: str
    status: FeatureStatus
    batch_key: str | None
    attempts: int
    dependencies: tuple[int, ...]


class BatchNode(NamedTuple):
    """Where a batch stands; the field names are those of Batch."""

    key: str
    status: BatchStatus


@dataclass(frozen=True)
class Standing:
    """Everything as scheduling sees it at one moment; what is unfinished goes on, so it is there as a whole too."""

    features: list[Node]
    batches: list[BatchNode]
    unfinished: list[Batch]


def _in_lists(rows: SelectBase) -> dict[str, Select[*tuple[Any, ...]]]:
    """By database: each column as one list, as objects for each row would take more than twice as long."""
    lists = {"sqlite": func.json_group_array, "postgresql": func.json_agg}
    return {
        name: select(*(in_list(column, type_=JSON) for column in rows.subquery().columns))
        for name, in_list in lists.items()
    }


_FEATURES = _in_lists(
    select(
        FeatureRow.id,
        FeatureRow.priority,
        FeatureRow.category,
        FeatureRow.name,
        type_coerce(FeatureRow.status, Text),
        FeatureRow.batch_key,
        FeatureRow.attempts,
    )
)
_NEEDS = _in_lists(
    select(DependencyRow.feature_id, DependencyRow.depends_on_id).order_by(
        DependencyRow.feature_id, DependencyRow.depends_on_id
    )
)
_BATCHES = _in_lists(select(BatchRow.key, type_coerce(BatchRow.status, Text)))
_UNFINISHED = (
    select(BatchRow).where(BatchRow.status.in_(UNFINISHED)).order_by(BatchRow.created_at, BatchRow.key)
)


def read(session: Session) -> list[Node]:
    """By id. Raises SchemaTooNew."""
    ids, priorities, categories, names, words, keys, attempts = _columns(session, _FEATURES)
    statuses = _members(FeatureStatus, words)
    needs = map(_needs(session).get, ids, repeat(()))
    values = zip(ids, priorities, categories, names, statuses, keys, attempts, needs, strict=True)
    return sorted(map(partial(tuple.__new__, Node), values))  # Node(…) itself would take three times as long


def standing(session: Session) -> Standing:
    """Raises SchemaTooNew."""
    keys, words = _columns(session, _BATCHES)
    return Standing(
        features=read(session),
        batches=list(map(BatchNode, keys, _members(BatchStatus, words))),
        unfinished=[to_batch(row) for row in session.scalars(_UNFINISHED)],
    )


def _needs(session: Session) -> dict[int, tuple[int, ...]]:
    ids, wanted = _columns(session, _NEEDS)
    needs, begin = {}, 0
    for id_, count in Counter(ids).items():  # in the order of the ids, as the rows are
        needs[id_] = tuple(wanted[begin : begin + count])
        begin += count
    return needs


def _columns(session: Session, queries: Mapping[str, Select[*tuple[Any, ...]]]) -> list[list[Any]]:
    query = queries[session.get_bind().dialect.name]
    return [column or [] for column in session.connection().execute(query).one()]


def _members(kind: type[E], words: list[str]) -> list[E]:
    known = {str(member): member for member in kind}
    try:
        return [known[word] for word in words]
    except KeyError as error:
        raise SchemaTooNew(
            f"The feature table holds the {kind.__name__} {error}, which this autoforge does not know: upgrade autoforge."
        ) from error
