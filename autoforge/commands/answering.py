"""How a person's answer reaches `autoforge answer`: as text, from a file, or asked for in the terminal."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from autoforge.commands.context import say
from autoforge.errors import UsageError
from autoforge.progress.lines import plain

if TYPE_CHECKING:
    from autoforge.questions import Field, Question

T = TypeVar("T")
File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="A JSON, YAML or TOML file with a value by field.", show_default=False
    ),
]


def answer_to(feature_id: int, question: "Question", *, text: str | None, file: Path | None) -> str:
    """The answer as the table keeps it. Asks in a terminal when neither is given. Raises UsageError."""
    from autoforge import questions

    if text is not None and file is not None:
        raise UsageError("Give the answer as TEXT or with --file, not both.")
    if text is not None:
        return questions.parse_answer(question, text)
    if file is not None:
        return from_file(question, file)
    if not sys.stdin.isatty():
        how = "--file FILE" if question.fields else "TEXT"
        raise UsageError(
            f"#{feature_id} asks: {questions.render(question)}\n"
            f"Give the answer: autoforge answer {feature_id} {how}"
        )
    return ask(question)


def from_file(question: "Question", path: Path) -> str:
    """Raises UsageError that names the file."""
    from autoforge import data_file, questions

    given = data_file.parse(path)
    if not isinstance(given, dict):
        raise UsageError(
            f"{path.name} is {data_file.describe(given)}; expected an object with a value by field."
        )
    try:
        return questions.parse_answer(question, given)
    except UsageError as error:
        raise UsageError(f"{path.name}: {error}") from error


def ask(question: "Question") -> str:
    """Ask in the terminal, each field until its answer can be used."""
    from autoforge import questions

    say(question.text)
    if not question.fields:
        return _until_valid(lambda: questions.parse_answer(question, typer.prompt("Answer")))
    given = {field.id: _until_valid(partial(_value, field)) for field in question.fields}
    return questions.parse_answer(question, given)


def _value(field: "Field") -> str | bool | None:
    from autoforge import questions

    for number, choice in enumerate(field.choices, 1):
        say(f"  {number}. {choice}")
    label = field.label if field.choices else f"{field.label} ({questions.hint(field)})"
    text: str = typer.prompt(plain(label), default=None if field.required else "", show_default=False)
    if not text.strip() and not field.required:
        return None
    numbered = {str(number): choice for number, choice in enumerate(field.choices, 1)}
    return questions.value_of(field, text if text in field.choices else numbered.get(text.strip(), text))


def _until_valid(get: Callable[[], T]) -> T:
    while True:
        try:
            return get()
        except UsageError as error:
            say(str(error))
