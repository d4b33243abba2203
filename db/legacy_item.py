"""Reads one feature as an older tool stored it: each value may be anything, and what is wrong with it is noted."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_NUMBER = 1_000_000_000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN = 40


@dataclass(frozen=True)
class Item:
    """`notes` is shared by all items of a list."""

    id: int
    values: Mapping[str, object]
    notes: list[str]

    def note(self, text: str) -> None:
        self.notes.append(f"#{self.id}: {text}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            self.note(f"{key} was no text and is kept as JSON")
        return as_text(value)

    def word(self, key: str, allowed: Collection[str]) -> str | None:
        value = as_text(self.values.get(key))
        if value and value not in allowed:
            self.note(f"{key} was {shown(value)}, which means nothing here")
        return value if value in allowed else None

    def number(self, key: str) -> int | None:
        value = self.values.get(key)
        number = as_number(value)
        if number is None and value is not None:
            self.note(f"{key} was {shown(value)}, no usable number")
        return number

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        word = as_text(value).strip().lower()
        if word not in ("", "0", "1", "false", "true"):
            self.note(f"{key} was {shown(value)} and counts as false")
        return word in ("1", "true")

    def time(self, key: str) -> datetime | None:
        """In UTC, which is the zone of one without."""
        value = self.values.get(key)
        try:
            found = datetime.fromisoformat(value) if isinstance(value, str) else None
            found = found and (found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            found = None
        if found is None and value is not None:
            self.note(f"{key} was {shown(value)}, no usable time")
        return found

    def data(self, key: str) -> object:
        """A JSON value, which a table keeps as text. Text that is no JSON stays text."""
        value = self.values.get(key)
        try:
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return as_text(value)

    def entries(self, key: str) -> list[object]:
        """A list; what is none is its only entry."""
        value = self.data(key)
        if value in (None, ""):
            return []
        if not isinstance(value, list):
            self.note(f"{key} was {shown(value)}, no list")
        return value if isinstance(value, list) else [value]

    def question(self) -> str | None:
        """What the tool asked a person, with the fields of its form."""
        request = self.data("human_input_request")
        if not isinstance(request, Mapping):
            return as_text(request) or None
        fields = request.get("fields")
        lines = [as_text(request.get("prompt")), *_fields(fields if isinstance(fields, list) else [])]
        return "\n".join(line for line in lines if line) or None

    def answer(self) -> str | None:
        response = self.data("human_input_response")
        if not isinstance(response, Mapping):
            return as_text(response) or None
        given = response.get("fields")
        given = given if isinstance(given, Mapping) else response
        lines = [f"{as_text(key)}: {as_text(value)}" for key, value in given.items() if key != "responded_at"]
        return "\n".join(lines) or None


def _fields(fields: list[object]) -> Iterator[str]:
    for field in fields:
        if isinstance(field, Mapping):
            options = field.get("options")
            options = options if isinstance(options, list) else []
            labels = [o.get("label") or o.get("value") for o in options if isinstance(o, Mapping)]
            choices = f" ({', '.join(map(as_text, labels))})" if labels else ""
            yield f"- {as_text(field.get('label') or field.get('id'))}{choices}"


def as_text(value: object) -> str:
    """As every database stores it; what is no text becomes JSON."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        text = "(nested too deeply)"
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def as_number(value: object) -> int | None:
    """A whole number within bounds, also when it was written as text or with a point."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,10}", value.strip(), re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    usable = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER
    return value if usable else None  # type: ignore[return-value]


def shown(value: object) -> str:
    text = " ".join(as_text(value).split())
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
