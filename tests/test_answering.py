"""How a person answers: by text, from a file, in a terminal; and what cannot be an answer."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autoforge.commands import answering
from autoforge.errors import UsageError
from autoforge.questions import Field, FieldType, Question

ASKED = Question(
    "How shall it look?",
    (
        Field("colour", "Which colour?", FieldType.CHOICE, ("Red", "Dark green", "red")),
        Field("dark", "A dark mode?", FieldType.YES_NO),
        Field("note", "Anything else?", required=False),
    ),
)
PLAIN = Question("How shall it look?")
ANSWER = '{"colour": "Dark green", "dark": true}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '{"colour": "Dark green", "dark": true}'),
        ("a.toml", 'colour = "Dark green"\ndark = true\n'),
        ("a.yaml", "colour: Dark green\ndark: yes\nnote:\n"),
    ],
)
def test_an_answer_comes_from_a_file(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert answering.answer_to(1, ASKED, text=None, file=tmp_path / name) == ANSWER


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.json", "[1]", "a.json is a list; expected an object"),
        ("a.json", "{", "a.json is not valid JSON"),
        ("a.json", '{"dark": true}', "a.json: There is no answer for colour"),
        ("a.json", '{"dark": true, "dark": false}', "twice"),
        ("a.yaml", "note: 1.10", "a.yaml: note is a number"),
        ("a.yaml", "1: x", 'a.yaml: The question has no field "1"'),
        ("a.txt", "", "no known type"),
    ],
)
def test_b5_a_file_that_does_not_fit_is_named(name: str, content: str, error: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=r"a\.") as refused:
        answering.answer_to(1, ASKED, text=None, file=tmp_path / name)
    assert error in str(refused.value)


def test_there_is_one_way_at_a_time_and_without_a_terminal_no_prompt(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        answering.answer_to(1, PLAIN, text="x", file=tmp_path)
    assert answering.answer_to(1, PLAIN, text=" x ", file=None) == "x"
    for question, how in ((PLAIN, "autoforge answer 7 TEXT"), (ASKED, "autoforge answer 7 --file FILE")):
        with pytest.raises(UsageError) as refused:
            answering.answer_to(7, question, text=None, file=None)
        assert str(refused.value).startswith("#7 asks: How shall it look?")
        assert str(refused.value).endswith(how)


def asked_in_a_terminal(question: Question, typed: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(lambda: typer.echo(f"={answering.ask(question)}"))
    ended = CliRunner().invoke(app, input=typed)
    return ended.exit_code, ended.output


def test_a_terminal_asks_each_field_until_its_answer_can_be_used() -> None:
    code, output = asked_in_a_terminal(ASKED, "blue\n2\nmaybe\n \nyes\n\n")
    assert (code, output.splitlines()[-1][-len(ANSWER) - 1 :]) == (0, f"={ANSWER}")
    assert "  2. Dark green\n" in output
    assert 'colour cannot be "blue"; expected one of: Red, Dark green, red' in output
    assert 'dark cannot be "maybe"; expected yes or no' in output
    assert "dark is empty" in output
    assert asked_in_a_terminal(ASKED, "red\nn\nAll of it\n")[1].endswith(
        '={"colour": "red", "dark": false, "note": "All of it"}\n'
    )


def test_a_terminal_asks_a_plain_question_and_stops_at_its_end() -> None:
    assert asked_in_a_terminal(PLAIN, " \nBlue\n")[1].endswith("=Blue\n")
    code, output = asked_in_a_terminal(ASKED, "red\n")
    assert (code, "=" in output) == (1, False)


def test_a_choice_that_is_a_number_is_meant_before_its_place_in_the_list() -> None:
    sizes = Question("q", (Field("size", "Size?", FieldType.CHOICE, ("3", "2", "1")),))
    assert asked_in_a_terminal(sizes, "3\n")[1].endswith('={"size": "3"}\n')


def test_a_question_cannot_move_the_cursor_or_turn_the_text() -> None:
    asked = Question(
        "q\a\u202e", (Field("x", "l\a\u202e"), Field("y", "m", FieldType.CHOICE, ("c\a\u202e",)))
    )
    output = asked_in_a_terminal(asked, "y\n1\n")[1]
    assert ("\a" in output, "\u202e" in output.partition("=")[0]) == (False, False)


def test_a_real_terminal_is_asked() -> None:
    code = (
        "from autoforge.commands.answering import answer_to\n"
        "from autoforge.questions import Question\n"
        "print('=' + answer_to(1, Question('Which?'), text=None, file=None))"
    )
    ours, theirs = pty.openpty()
    os.write(ours, b"Blue\n")
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=theirs, capture_output=True, text=True, check=False, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout.splitlines()[-1][-5:], done.stderr) == (0, "=Blue", "")
