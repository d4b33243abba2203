"""What scheduling needs of every feature, read without making rows of it."""

import json
from typing import NamedTuple

from sqlalchemy import ColumnElement, Text, cast, func, select, type_coerce
from sqlalchemy.orm import Session

from .errors import SchemaTooNew
from .feature import FeatureStatus
from .models import DependencyRow, FeatureRow

_STATUSES = {str(status): status for status in FeatureStatus}


class Node(NamedTuple):
    """A feature without its texts; the field names are those of Feature."""

    id: int
    priority: int
    category: str
    status: FeatureStatus
    batch_key: str | None
    attempts: int
    dependencies: tuple[int, ...]


def read(session: Session) -> list[Node]:
    """By priority, then id. Raises SchemaTooNew."""
    needs = _needs(session)
    columns = select(
        FeatureRow.id,
        FeatureRow.priority,
        FeatureRow.category,
        type_coerce(FeatureRow.status, Text),
        FeatureRow.batch_key,
        FeatureRow.attempts,
    ).order_by(FeatureRow.priority, FeatureRow.id)
    try:
        return [
            Node(id_, priority, category, _STATUSES[status], key, attempts, tuple(needs.get(id_, ())))
            for id_, priority, category, status, key, attempts in session.connection().execute(columns)
        ]
    except KeyError as error:
        raise SchemaTooNew(
            f"The feature table holds the FeatureStatus {error}, which this autoforge does not know: upgrade autoforge."
        ) from error


def _needs(session: Session) -> dict[int, list[int]]:
    """Joined to two texts by the database: a Python object for each of 30,000 rows would take twice as long."""
    pairs = select(DependencyRow.feature_id, DependencyRow.depends_on_id)
    ordered = pairs.order_by(*pairs.selected_columns).subquery()
    columns = (_joined(ordered.c.feature_id), _joined(ordered.c.depends_on_id))
    ids, wanted = (
        json.loads(f"[{text or ''}]") for text in session.connection().execute(select(*columns)).one()
    )
    needs: dict[int, list[int]] = {}
    for id_, need in zip(ids, wanted, strict=True):
        if id_ in needs:
            needs[id_].append(need)
        else:
            needs[id_] = [need]
    return needs


def _joined(column: ColumnElement[int]) -> ColumnElement[str]:
    return func.aggregate_strings(cast(column, Text), ",")
