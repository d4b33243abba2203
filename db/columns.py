"""Column types, so that a row holds the very Python values of `feature.py` on every database."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import JSON, DateTime, Dialect, Text, TypeDecorator

from .errors import SchemaTooNew
from .feature import Evidence

E = TypeVar("E", bound=StrEnum)


def clean(text: str) -> str:
    """Text that every database stores: agents' output may hold NUL and half surrogate pairs."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


class CleanText(TypeDecorator[str]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class Utc(TypeDecorator[datetime]):
    """An aware datetime in UTC; SQLite keeps no zone, so it is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"a time without a zone: {value}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Word(TypeDecorator[E]):
    """A member of `words`. Raises SchemaTooNew when the table holds one that is not in it."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[E]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: E | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        if value is None:
            return None
        try:
            return self.words(value)
        except ValueError as error:
            raise SchemaTooNew(
                f"The feature table holds the {self.words.__name__} {value!r}, "
                "which this autoforge does not know: upgrade autoforge."
            ) from error


class Items(TypeDecorator[tuple[Any, ...]]):
    """A tuple of texts or numbers."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> list[Any] | None:
        return None if value is None else [clean(item) if isinstance(item, str) else item for item in value]

    def process_result_value(self, value: list[Any] | None, dialect: Dialect) -> tuple[Any, ...] | None:
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{value!r} where a list belongs")
        return None if value is None else tuple(value)


class Evidences(TypeDecorator[tuple[Evidence, ...]]):
    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Sequence[Evidence] | None, dialect: Dialect) -> Any:
        return None if value is None else [asdict(item) | {"command": clean(item.command)} for item in value]

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[Evidence, ...] | None:
        try:
            return None if value is None else tuple(Evidence(**item) for item in value)
        except TypeError as error:
            raise ValueError(f"{value!r} where evidence belongs") from error


class Data(TypeDecorator[Mapping[str, object]]):
    """A JSON object; what JSON does not know is kept as its text."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, object] | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(json.dumps(dict(value), default=str))
