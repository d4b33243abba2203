"""Questions with fields: what an agent may ask, what a person may answer, and that nothing is changed between."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as thorough
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from autoforge import questions
from autoforge.claim import Refused
from autoforge.errors import UsageError
from autoforge.log import redact
from autoforge.project import Project, table
from autoforge.questions import Field, FieldType, Question
from db.feature import FeatureStatus, NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, build, features

Opened = Callable[..., Project]
COLOUR = {"id": "colour", "label": "Which colour?", "type": "choice", "choices": ["Red", "Dark green", "red"]}
DARK = {"id": "dark", "label": "A dark mode?", "type": "yes_no"}
NOTE = {"id": "note", "label": "Anything\n else?", "required": False}
GIVEN = {"id": 1, "question": " How shall it look? ", "fields": [COLOUR, DARK, NOTE]}
ASKED = questions.parse(GIVEN)
PLAIN = Question("How shall it look?")
GOOD = {"colour": "Dark green", "dark": "yes"}
ANSWER = '{"colour": "Dark green", "dark": true}'
SECRET = "ghp_" + "a1" * 18


def one(**field: object) -> dict[str, Any]:
    return {"question": "q", "fields": [{"id": "x", "label": "l", **field}]}


def test_a_question_is_read_as_the_agent_gave_it() -> None:
    assert (
        Question(
            "How shall it look?",
            (
                Field("colour", "Which colour?", FieldType.CHOICE, ("Red", "Dark green", "red")),
                Field("dark", "A dark mode?", FieldType.YES_NO),
                Field("note", "Anything else?", required=False),
            ),
        )
        == ASKED
    )
    for none in ({}, {"fields": None}, {"fields": []}):
        assert questions.parse({"question": "How shall it look?", **none}) == PLAIN


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "The question is empty"),
        ({"question": " \0 "}, "The question is empty"),
        ({"question": 3}, "The question is empty"),
        ({"question": "q" * 4001}, "4001 characters; at most 4000"),
        ({"question": "q", "fields": "[]"}, "`fields` is a list"),
        ({"question": "q", "fields": [DARK] * 11}, "11 items; at most 10"),
        ({"question": "q", "fields": [DARK, COLOUR, DARK]}, 'Two fields have the id "dark"'),
        ({"question": "q", "fields": [DARK, "x"]}, "Field 2 is text; expected an object"),
        (one(id=""), "Field 1: `id` is a letter"),
        (one(id="1a"), "Field 1: `id` is a letter"),
        (one(id="a\n"), "Field 1: `id` is a letter"),
        (one(id="a" * 41), "Field 1: `id` is a letter"),
        (one(label=""), "The label of field x is empty"),
        (one(type="number"), "`type` is one of text, choice, yes_no"),
        (one(type=["text"]), "`type` is one of"),
        (one(required="no"), "`required` is true or false"),
        (one(default="x"), 'unknown key "default"'),
        (one(type="choice"), "`choices` is a list of 1 to 20 texts"),
        (one(type="choice", choices=[]), "`choices` is a list of 1 to 20 texts"),
        (one(type="choice", choices="ab"), "`choices` is a list of 1 to 20 texts"),
        (one(type="choice", choices=[str(n) for n in range(21)]), "`choices` is a list of 1 to 20 texts"),
        (one(type="choice", choices=["a", " "]), "A choice of field x is empty"),
        (one(type="choice", choices=["a", 1]), "A choice of field x is empty"),
        (one(type="choice", choices=["a b", "a  b "]), 'the choice "a b" is there twice'),
        (one(type="choice", choices=["c" * 101]), "101 characters"),
        (one(type="yes_no", choices=["yes"]), "only a field of type choice has `choices`"),
        (one(choices=["a"]), "only a field of type choice has `choices`"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_with_the_reason(
    arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises(Refused) as refused:
        questions.parse(arguments)
    assert error in str(refused.value)


def test_the_schema_admits_what_can_be_parsed() -> None:
    schema = Draft202012Validator(dict(questions.SCHEMA))
    assert schema.is_valid(GIVEN)
    assert schema.is_valid({"id": 1, "question": "q"})
    assert not schema.is_valid({"id": 1, **one(type="number")})
    assert not schema.is_valid({"id": 1, "question": "q", "fields": [DARK] * 11})


def test_the_column_keeps_a_question_and_leaves_plain_text_as_it_is() -> None:
    assert questions.from_column(questions.to_column(ASKED)) == ASKED
    assert questions.to_column(PLAIN) == PLAIN.text
    for text in ("Which colour?", "", "{", '{"question": "q"}', '{"question": "q", "fields": []}', "[1]",
                 '{"question": "q", "fields": [{"id": ""}]}', "[" * 100_000, '{"question": 1, "fields": 1}'):  # fmt: skip
        assert questions.from_column(text) == Question(text)


@pytest.mark.parametrize("before", ["", "\n", "\b", "\\", '"', "\x1b"])
def test_a_secret_in_any_part_is_not_kept(before: str) -> None:
    secret = before + SECRET
    given = {
        "question": f"x{before} {secret}",
        "fields": [{**COLOUR, "label": secret, "choices": [secret, "b"]}],
    }
    column = questions.to_column(questions.parse(given))
    assert SECRET not in column
    assert redact(column) == column
    assert questions.from_column(column).fields[0].choices[1] == "b"


def test_a_person_reads_what_each_field_takes() -> None:
    assert questions.render(ASKED) == (
        "How shall it look?\n"
        "  colour: Which colour? (one of: Red, Dark green, red)\n"
        "  dark: A dark mode? (yes or no)\n"
        "  note: Anything else? (text; may be left out)"
    )
    assert questions.render(PLAIN) == PLAIN.text


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (GOOD, ANSWER),
        ({"colour": "DARK GREEN ", "dark": True, "note": ""}, ANSWER),
        ({"colour": "Dark green", "dark": "Y", "note": None}, ANSWER),
        (json.dumps(GOOD), ANSWER),
        ({"colour": "red", "dark": "False", "note": "no é\n"}, '{"colour": "red", "dark": false, "note": "no é"}'),
    ],
)  # fmt: skip
def test_an_answer_is_kept_by_field(given: dict[str, object] | str, answer: str) -> None:
    assert questions.parse_answer(ASKED, given) == answer


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "There is no answer for colour, dark."),
        ({**GOOD, "dark": " "}, "There is no answer for dark."),
        ({**GOOD, "color": "red"}, 'no field "color". Its fields: colour, dark, note.'),
        ({**GOOD, True: "red"}, 'no field "True"'),
        ({**GOOD, "colour": "RED"}, 'colour cannot be "RED"; expected one of: Red, Dark green, red'),
        ({**GOOD, "colour": "blue"}, 'colour cannot be "blue"'),
        ({**GOOD, "colour": "1"}, 'colour cannot be "1"'),
        ({**GOOD, "colour": True}, "colour is true or false; expected one of"),
        ({**GOOD, "dark": "maybe"}, 'dark cannot be "maybe"; expected yes or no'),
        ({**GOOD, "dark": 1}, "dark is a number; expected yes or no"),
        ({**GOOD, "note": 1.10}, "note is a number; expected text; may be left out. Put it in quotes."),
        ({**GOOD, "note": ["x"]}, "note is a list"),
        ({**GOOD, "note": "x" * 10_001}, "10001 characters; at most 10000"),
        ({**GOOD, "note": "\0"}, "note holds a NUL byte"),
        ({**GOOD, "note": "\ud800"}, "note is not valid Unicode"),
        ("Dark green", "The question has 3 fields"),
        ('["x"]', "The question has 3 fields"),
        ("[" * 100_000, "The question has 3 fields"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_the_reason(
    given: dict[str, object] | str, error: str
) -> None:
    with pytest.raises(UsageError) as refused:
        questions.parse_answer(ASKED, given)
    assert error in str(refused.value)


def test_a_text_answers_a_plain_question_or_the_only_field() -> None:
    assert questions.parse_answer(PLAIN, ' {"a": 1} ') == '{"a": 1}'
    only = Question("q", (ASKED.fields[2],))
    assert questions.parse_answer(only, ' {"a": 1} ') == '{"note": "{\\"a\\": 1}"}'
    assert questions.parse_answer(only, '{"note": "x"}') == '{"note": "x"}'
    assert questions.parse_answer(only, {}) == "{}"
    for wrong in ("  ", {"note": "x"}):
        with pytest.raises(UsageError):
            questions.parse_answer(PLAIN, wrong)


def test_the_next_attempt_reads_question_and_answer() -> None:
    assert questions.as_prompt(ASKED, '{"colour": "red", "dark": false}') == (
        "You (or an agent before you) asked: How shall it look?\n"
        "A person answered:\n"
        "- Which colour? (`colour`): red\n"
        "- A dark mode? (`dark`): no\n"
        "- Anything else? (`note`): no answer, decide it yourself"
    )
    assert questions.as_prompt(PLAIN, '{"note": "x"}').endswith('A person answered: {"note": "x"}')
    for kept in ("red, no dark mode", "[1]", "{"):  # given before there were fields
        assert questions.as_prompt(ASKED, kept).endswith(f"A person answered: {kept}")


def test_a_question_survives_a_build_and_its_answer_the_table(opened: Opened) -> None:
    async def ask(agent: Agent) -> None:
        await agent.call("ask_human", id=1, question=questions.to_column(ASKED))

    project = opened()
    add(project, NewFeature("Door"))
    build(project, Crew(ask))
    [waiting] = features(project)
    assert waiting.status is FeatureStatus.NEEDS_INPUT
    assert waiting.question is not None
    assert questions.from_column(waiting.question) == ASKED
    with table(project) as store:
        answered = store.answer(1, questions.parse_answer(ASKED, GOOD))
    assert (answered.status, answered.answer) == (FeatureStatus.PENDING, ANSWER)


LABELS = st.text("ab \n\b\x1b\\\"'@:/{}é\N{FIRE}\ud800\0", min_size=1, max_size=30).map("x".__add__)
FIELDS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"id": st.from_regex(questions.ID, fullmatch=True), "label": LABELS},
            optional={"type": st.sampled_from(["text", "yes_no"]), "required": st.booleans()},
        ),
        st.fixed_dictionaries(
            {
                "id": st.from_regex(questions.ID, fullmatch=True),
                "label": LABELS,
                "type": st.just("choice"),
                "choices": st.lists(LABELS, min_size=1, max_size=5, unique_by=lambda text: redact(text)),
            }
        ),
    ),
    max_size=5,
    unique_by=lambda field: field["id"],
)


@thorough(max_examples=100, deadline=None)
@given(LABELS, FIELDS, st.data())
def test_what_is_asked_and_answered_comes_back_the_same(
    text: str, fields: list[dict[str, Any]], data: st.DataObject
) -> None:
    try:
        asked = questions.parse({"question": text, "fields": fields})
    except Refused as refused:
        assert "is there twice" in str(refused)  # noqa: PT017 - choices that differ in white space only
        return
    column = questions.to_column(asked)
    assert questions.from_column(column) == asked
    assert len(questions.from_column(redact(column)).fields) == len(fields)
    answers = {
        f.id: data.draw(st.sampled_from(f.choices) if f.choices else st.sampled_from(["yes", "No"]))
        for f in asked.fields
    }
    if not asked.fields:
        return
    kept = json.loads(questions.parse_answer(asked, answers))
    for field in asked.fields:
        given = answers[field.id]
        expected = given == "yes" if field.type is FieldType.YES_NO else given
        assert kept[field.id] == expected
    assert questions.as_prompt(asked, json.dumps(kept)).count("(`") >= len(fields)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["question", "fields", "id", "label", "type", "choices", "colour"]), inner
        )
    ),
    max_leaves=12,
)


@thorough(max_examples=150, deadline=None)
@given(JSON)
def test_whatever_is_given_there_is_a_value_or_a_clear_refusal(junk: Any) -> None:
    for asking in (
        {"question": "q", "fields": junk},
        {"question": "q", "fields": [junk]},
        {"question": junk},
    ):
        try:
            asked = questions.parse(asking)
        except Refused as refused:
            assert str(refused)  # noqa: PT017
        else:
            assert questions.from_column(questions.to_column(asked)) == asked
    text = json.dumps(junk)
    assert questions.render(questions.from_column(text))
    questions.as_prompt(ASKED, text)
    for answer in (text, junk if isinstance(junk, dict) else {"colour": junk, "dark": junk, "note": junk}):
        try:
            assert set(json.loads(questions.parse_answer(ASKED, answer))) <= {"colour", "dark", "note"}
        except UsageError as error:
            assert str(error)  # noqa: PT017
