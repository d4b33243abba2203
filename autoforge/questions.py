"""A question that an agent has for a person, with typed fields, and the person's answer: pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autoforge.claim import Refused, words
from autoforge.data_file import describe, quote
from autoforge.errors import UsageError
from autoforge.log import redact
from db.new_features import text_fault

MAX_FIELDS, MAX_CHOICES = 10, 20
MAX_QUESTION, MAX_LABEL, MAX_CHOICE, MAX_ANSWER = 4000, 300, 100, 10_000  # characters
ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")  # a bare key in JSON, YAML and TOML
YES, NO = ("yes", "y", "true"), ("no", "n", "false")

Value = str | bool


class FieldType(StrEnum):
    TEXT = "text"
    CHOICE = "choice"
    YES_NO = "yes_no"


@dataclass(frozen=True)
class Field:
    """One thing to decide."""

    id: str
    label: str
    type: FieldType = FieldType.TEXT
    choices: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True)
class Question:
    """Without fields, the answer is one text."""

    text: str
    fields: tuple[Field, ...] = ()


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "description": "the feature's id"},
        "question": {"type": "string"},
        "fields": {
            "type": "array",
            "maxItems": MAX_FIELDS,
            "description": "what exactly is to be decided; without it, the answer is one text",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "a short name, such as colour"},
                    "label": {"type": "string", "description": "what the person is asked"},
                    "type": {"type": "string", "enum": [str(kind) for kind in FieldType]},
                    "choices": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_CHOICES},
                    "required": {"type": "boolean", "description": "true when it is left out"},
                },
                "required": ["id", "label"],
            },
        },
    },
    "required": ["id", "question"],
}
"""The input of the tool that asks a person."""


def parse(arguments: Mapping[str, Any]) -> Question:
    """What the agent gave as `question` and `fields`, without secrets. Raises Refused."""
    text = _text(arguments, "question", "The question", MAX_QUESTION)
    given = arguments.get("fields")
    if given is not None and not isinstance(given, list):
        raise Refused("`fields` is a list of objects with `id`, `label`, `type`, `choices` and `required`.")
    if given and len(given) > MAX_FIELDS:
        raise Refused(f"`fields` has {len(given)} items; at most {MAX_FIELDS} are allowed.")
    fields = tuple(_field(item, number) for number, item in enumerate(given or (), 1))
    if twice := _twice([field.id for field in fields]):
        raise Refused(f"Two fields have the id {quote(twice)}: each needs its own.")
    return Question(text, fields)


def _field(item: object, number: int) -> Field:
    if not isinstance(item, Mapping):
        raise Refused(f"Field {number} is {describe(item)}; expected an object with `id` and `label`.")
    allowed = ("id", "label", "type", "choices", "required")
    if unknown := [str(key) for key in item if key not in allowed]:
        raise Refused(f"Field {number} has the unknown key {quote(unknown[0])}; known: {', '.join(allowed)}.")
    name, kind, required = item.get("id"), item.get("type", FieldType.TEXT), item.get("required", True)
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise Refused(
            f"Field {number}: `id` is a letter and up to 39 letters, digits, hyphens and underscores."
        )
    if not isinstance(kind, str) or kind not in list(FieldType):
        raise Refused(f"Field {name}: `type` is one of {', '.join(FieldType)}.")
    if not isinstance(required, bool):
        raise Refused(f"Field {name}: `required` is true or false.")
    label = " ".join(_text(item, "label", f"The label of field {name}", MAX_LABEL).split())
    return Field(name, label, FieldType(kind), _choices(name, FieldType(kind), item.get("choices")), required)


def _choices(name: str, kind: FieldType, given: object) -> tuple[str, ...]:
    if kind is not FieldType.CHOICE:
        if given:
            raise Refused(f"Field {name}: only a field of type choice has `choices`, this one is {kind}.")
        return ()
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_CHOICES:
        raise Refused(f"Field {name}: `choices` is a list of 1 to {MAX_CHOICES} texts.")
    choices = [
        " ".join(_text({"": each}, "", f"A choice of field {name}", MAX_CHOICE).split()) for each in given
    ]
    if twice := _twice(choices):
        raise Refused(f"Field {name}: the choice {quote(twice)} is there twice.")
    return tuple(choices)


def _text(given: Mapping[str, Any], key: str, what: str, longest: int) -> str:
    text = redact(words(given, key))
    if not text:
        raise Refused(f"{what} is empty: write it as text.")
    if len(text) > longest:
        raise Refused(f"{what} has {len(text)} characters; at most {longest} are allowed. Shorten it.")
    return text


def _twice(texts: Sequence[str]) -> str | None:
    return next((text for n, text in enumerate(texts) if text in texts[:n]), None)


def to_column(question: Question) -> str:
    """As the table keeps it: plain text without fields, JSON with them."""
    if not question.fields:
        return question.text
    fields = [
        {
            "id": f.id,
            "label": f.label,
            "type": str(f.type),
            "choices": list(f.choices),
            "required": f.required,
        }
        for f in question.fields
    ]
    return json.dumps({"question": question.text, "fields": fields}, ensure_ascii=False)


def from_column(column: str) -> Question:
    """What `to_column` has written; anything else is a question in plain text."""
    try:
        given = json.loads(column)
        if isinstance(given, dict) and set(given) == {"question", "fields"} and given["fields"]:
            return parse(given)
    except (ValueError, RecursionError, Refused):
        pass
    return Question(column)


def render(question: Question) -> str:
    """The question and a line for each field, for a person."""
    return "\n".join([question.text, *(f"  {f.id}: {f.label} ({hint(f)})" for f in question.fields)])


def hint(field: Field) -> str:
    """What the field takes, in words."""
    kinds = {FieldType.TEXT: "text", FieldType.YES_NO: "yes or no"}
    what = kinds.get(field.type) or f"one of: {', '.join(field.choices)}"
    return what if field.required else f"{what}; may be left out"


def parse_answer(question: Question, given: Mapping[str, object] | str) -> str:
    """As the table keeps it: JSON by field, or the text itself where there are no fields. Raises UsageError.

    A text answers the only field, or is a JSON object.
    """
    if not question.fields:
        if not isinstance(given, str):
            raise UsageError("The question has no fields: answer it with a text.")
        return _checked(given, "The answer")
    by_field = _by_field(question, given) if isinstance(given, str) else given
    known = {field.id for field in question.fields}
    if unknown := [key for key in by_field if key not in known]:
        raise UsageError(
            f"The question has no field {quote(str(unknown[0]))}. Its fields: {_ids(question.fields)}."
        )
    values = {f.id: value_of(f, by_field[f.id]) for f in question.fields if not _is_blank(by_field.get(f.id))}
    if missing := [f for f in question.fields if f.required and f.id not in values]:
        raise UsageError(f"There is no answer for {_ids(missing)}.\n{render(question)}")
    return json.dumps(values, ensure_ascii=False)


def _by_field(question: Question, text: str) -> Mapping[str, object]:
    only = question.fields[0].id if len(question.fields) == 1 else None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict) and (only is None or only in given):
        return given
    if only is not None:
        return {only: text}
    raise UsageError(
        f"The question has {len(question.fields)} fields. Answer them in a file, or as JSON: "
        f'{{"{question.fields[0].id}": …}}\n{render(question)}'
    )


def value_of(field: Field, given: object) -> Value:
    """Raises UsageError that says what the field takes. A number or date of a file may not be what was written."""
    if isinstance(given, bool) and field.type is FieldType.YES_NO:
        return given
    if not isinstance(given, str):
        raise UsageError(f"{field.id} is {describe(given)}; expected {hint(field)}. Put it in quotes.")
    text = _checked(given, field.id)
    folded = text.casefold()
    if field.type is FieldType.TEXT or text in field.choices:
        return text
    if field.type is FieldType.YES_NO and folded in YES + NO:
        return folded in YES
    close = [choice for choice in field.choices if choice.casefold() == folded]
    if len(close) == 1:
        return close[0]
    raise UsageError(f"{field.id} cannot be {quote(text)}; expected {hint(field)}.")


def _checked(given: str, what: str) -> str:
    text = given.strip()
    if not text:
        raise UsageError(f"{what} is empty: write what the agent is to know.")
    if len(text) > MAX_ANSWER:
        raise UsageError(f"{what} has {len(text)} characters; at most {MAX_ANSWER} are allowed.")
    if fault := text_fault(text):
        raise UsageError(f"{what} {fault}: write it as plain text.")
    return text


def _is_blank(given: object) -> bool:
    return given is None or (isinstance(given, str) and not given.strip())


def _ids(fields: Sequence[Field]) -> str:
    return ", ".join(field.id for field in fields)


def as_prompt(question: Question, answer: str) -> str:
    """Question and answer, for the prompt of the next attempt."""
    asked = f"You (or an agent before you) asked: {question.text}"
    values = _answers(question, answer)
    if values is None:
        return f"{asked}\nA person answered: {answer}"
    told = [f"- {f.label} (`{f.id}`): {_told(values.get(f.id))}" for f in question.fields]
    return "\n".join([asked, "A person answered:", *told])


def _answers(question: Question, answer: str) -> Mapping[str, Value] | None:
    try:
        given = json.loads(answer) if question.fields else None
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _told(value: object) -> str:
    if value is None:
        return "no answer, decide it yourself"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace("\n", "\n  ")
