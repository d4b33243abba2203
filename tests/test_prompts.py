"""The words that agents read."""

import re

import jinja2
import pytest

from prompts import render
from tests.values import feature


def code(*features: object, **other: object) -> str:
    given = {"verify": (), "parents": (), "unfinished": False, "kept": {}} | other
    given["kept"] = {f.id: None for f in features} | dict(given["kept"])  # type: ignore[attr-defined, call-overload]
    return render("code", features=features, **{"answers": {}, **given})


def test_a_prompt_has_the_heading_that_every_part_of_it_hangs_on() -> None:
    one = feature(7, "Greet people", description="Say hello.", steps=("hello is said", "politely"))
    text = code(one, feature(8, "Leave"))
    assert re.findall(r"^### Feature (\d+): (.+)$", text, re.MULTILINE) == [
        ("7", "Greet people"),
        ("8", "Leave"),
    ]
    assert "these 2 features, in this order" in text
    assert "1. hello is said\n2. politely\n" in text
    assert "(no further description)" in text


def test_what_is_not_so_is_not_mentioned() -> None:
    text = code(feature(1))
    for words in ("verify", "answered", "last try", "earlier try", "not merged yet", "kept in commit"):
        assert words not in text


def test_everything_that_earlier_tries_left_is_said() -> None:
    one = feature(1, verify=("make one",), last_error="line 1\nline 2")
    answers = {1: "You (or an agent before you) asked: Which?\nA person answered: Blue."}
    text = code(
        one,
        verify=("make",),
        parents=("Root",),
        unfinished=True,
        kept={1: "abcdef0123456789"},
        answers=answers,
    )
    for words in (
        "Verified by: `make one`",
        "asked: Which?\nA person answered: Blue.",
        "    line 1\n    line 2",
        "commit abcdef012345:",
        "verify commands: `make`",
        "not merged yet (Root)",
        "Its work is still in this worktree",
    ):
        assert words in text


def test_the_rules_name_the_branch_the_ports_and_the_tools() -> None:
    text = render(
        "rules", branch="autoforge/x-k", first_port=42000, last_port=42019, verify=("make",), features=True
    )
    for words in (
        "`autoforge/x-k`",
        "ports 42000 to 42019",
        "`feature_passed`",
        "`feature_failed`",
        "`ask_human`",
    ):
        assert words in text


def test_what_users_write_is_no_template_and_a_forgotten_value_is_a_bug() -> None:
    assert "{{ 7 * 6 }} {% raw %}" in code(feature(1, description="{{ 7 * 6 }} {% raw %}"))
    with pytest.raises(jinja2.UndefinedError):
        render("rules", branch="b")
