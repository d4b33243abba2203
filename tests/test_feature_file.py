import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoforge.data_file import MAX_BYTES
from autoforge.errors import UsageError
from autoforge.feature_file import read
from db.feature import MAX_DEPENDENCIES, NewFeature
from db.new_features import MAX_NAME, folded

LOGIN = NewFeature(
    name="Login",
    description="With a password.",
    steps=("Open the page", "Enter the password"),
    category="auth",
    priority=3,
    verify=("pytest -q",),
    depends_on=(1,),
    existing=(7,),
    issue_number=12,
)
KNOWN = {"start page": 7}

JSON = """[
  {"name": "Login", "description": "With a password.", "steps": ["Open the page", "Enter the password"],
   "category": "auth", "priority": 3, "verify": "pytest -q", "depends_on": ["sign  UP", "Start page"], "issue_number": 12},
  {"name": "Sign up"}
]"""
YAML = """
features:
  - name: Login
    description: |
      With a password.
    steps: [Open the page, Enter the password]
    category: auth
    priority: 3
    verify: pytest -q
    dependencies: [1, Start page]
    issue_number: 12
  - name: Sign up
    steps:
"""
TOML = """
[[feature]]
name = "Login"
description = "With a password."
steps = ["Open the page", "Enter the password"]
category = "auth"
priority = 3
verify = ["pytest -q"]
depends_on = [1, "START PAGE", "Sign up"]
issue_number = 12

[[feature]]
name = "Sign up"
"""


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.json", JSON),
        ("f.JSON", "\ufeff" + JSON),
        ("f.yaml", YAML),
        ("f.yml", JSON),
        ("f.toml", TOML),
        ("f.toml", TOML.replace("[[feature]]", "[[features]]").replace("\n", "\r\n")),
    ],
)
def test_the_three_languages_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    assert read(written(tmp_path, name, text), KNOWN) == [LOGIN, NewFeature(name="Sign up")]


def test_a_list_of_indices_as_older_files_have_it(tmp_path: Path) -> None:
    text = '[{"name": "a"}, {"name": "b", "depends_on_indices": [0, 0]}]'
    assert [f.depends_on for f in read(written(tmp_path, "f.json", text), {})] == [(), (0,)]


def test_names_that_look_like_dates_are_names(tmp_path: Path) -> None:
    assert (
        read(written(tmp_path, "f.yaml", "- name: 2024-13-45\n- name: 2024-01-01"), {})[1].name
        == "2024-01-01"
    )


def test_blanks_are_folded_and_the_unset_is_left_out(tmp_path: Path) -> None:
    text = '[{"name": " a \\n b ", "description": " ", "steps": null, "category": null, "priority": null}]'
    assert read(written(tmp_path, "f.json", text), {}) == [NewFeature(name="a b")]
    assert folded("  A \n b") == "a b"


# What is refused: text in JSON, and all that the message must say.
REFUSED = {
    "not a list": ("3", "f.json holds a number; expected a list of features"),
    "empty list": ("[]", "f.json holds no features"),
    "other object": ('{"feature": [], "x": 1}', 'an object with the key "x"; expected a list'),
    "both keys": ('{"feature": [], "features": []}', "expected a list"),
    "empty object": ("{}", "holds an object; expected a list"),
    "not an object": ('[{"name": "a"}, "b"]', "f.json: item 2 is text; expected an object with a name"),
    "no name": ('[{"priority": 1}]', "item 1 has no name"),
    "null name": ('[{"name": null}]', "item 1 has no name"),
    "empty name": ('[{"name": " "}]', "item 1, name is empty"),
    "name type": ('[{"name": 3}]', "item 1, name is a number; expected text"),
    "long name": (json.dumps([{"name": "x" * (MAX_NAME + 1)}]), "item 1, name is longer than 200 characters"),
    "duplicate": ('[{"name": "Log in"}, {"name": "x"}, {"name": "log  IN"}]', 'item 3, name: "log IN" is the name of item 1'),
    "stored already": ('[{"name": "Start Page"}]', 'item 1, name: "Start Page" exists already as #7'),
    "unknown key": ('[{"name": "a", "priorty": 1}]', 'item 1 ("a") has the unknown key "priorty". Did you mean "priority"?'),
    "strange key": ('[{"name": "a", "zzz": 1}]', 'unknown key "zzz". Expected name, description, steps'),
    "two words for one": ('[{"name": "a", "dependencies": [], "depends_on": []}]', "depends_on means the same as"),
    "priority type": ('[{"name": "a", "priority": true}]', 'item 1 ("a"), priority is true or false; expected a whole number'),
    "priority text": ('[{"name": "a", "priority": "1"}]', "priority is text; expected a whole number"),
    "priority float": ('[{"name": "a", "priority": 1.0}]', "priority is a number; expected a whole number"),
    "priority range": ('[{"name": "a", "priority": 2147483648}]', "priority is out of range"),
    "issue range": ('[{"name": "a", "issue_number": 0}]', "issue_number is out of range; expected 1 to"),
    "steps type": ('[{"name": "a", "steps": {}}]', "steps is an object; expected a list"),
    "step type": ('[{"name": "a", "steps": ["x", 1]}]', "steps, entry 2 is a number; expected text"),
    "empty step": ('[{"name": "a", "verify": [""]}]', "verify, entry 1 is empty"),
    "category": ('[{"name": "a", "category": []}]', "category is a list; expected text"),
    "description": ('[{"name": "a", "description": false}]', "description is true or false"),
    "unknown feature": ('[{"name": "Login"}, {"name": "b", "depends_on": ["Lgoin"]}]', 'item 2 ("b"), depends_on: there is no feature "Lgoin". Did you mean "login"?'),
    "nothing close": ('[{"name": "a", "depends_on": ["zzz"]}]', 'no feature "zzz". Expected the name'),
    "index too high": ('[{"name": "a", "depends_on": [1]}]', "place in this file counted from 0"),
    "negative index": ('[{"name": "a", "depends_on": [-1]}]', "place in this file counted from 0"),
    "bool index": ('[{"name": "a"}, {"name": "b", "depends_on": [false]}]', "depends_on is true or false"),
    "itself": ('[{"name": "a", "depends_on": ["a"]}]', 'wait for each other: "a" → "a"'),
    "cycle": ('[{"name": "a", "depends_on": [2]}, {"name": "x"}, {"name": "b", "depends_on": ["a"]}]', '"a" → "b" → "a"'),
    "NUL": ('[{"name": "a\\u0000"}]', "item 1, name has the character U+0000"),
    "surrogate": ('[{"name": "a", "steps": ["\\ud800"]}]', "steps, entry 1 has the character U+D800"),
    "escape": ('[{"name": "\\u001b[31m"}]', "name has the character U+001B"),
    "syntax": ('[\n{"name" "a"}]', "f.json is not valid JSON: Expecting ':' delimiter: line 2 column 9"),
    "duplicate key": ('[{"name": "a", "name": "b"}]', 'the key "name" twice in one object'),
    "NaN": ('[{"name": "a", "priority": NaN}]', "NaN is no JSON value"),
    "deep": ("[" * 200_000, "nested too deeply"),
    "huge number": ('[{"name": "a", "priority": 1' + "0" * 5000 + "}]", "f.json is not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_b5_one_message_says_what_is_wrong_where(tmp_path: Path, case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, "f.json", text), KNOWN)
    assert message in str(caught.value)
    assert str(caught.value).startswith("f.json")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.json", b'[\n{"name":\0}]', "has a NUL byte in line 2"),
        ("f.json", b'[\n\n{"name":"\xff"}]', "is not UTF-8 in line 3"),
        ("f.json", b" " * (MAX_BYTES + 1), "is larger than 10 MB"),
        ("f.json", b"", "is not valid JSON"),
        ("f.txt", b"[]", "expected a file that ends in .json, .yaml, .yml, .toml"),
        ("f", b"[]", "expected a file that ends in"),
        ("f.toml", b"[[feature]]\nname = a", "is not valid TOML: Invalid value (at line 2, column 8)"),
        ("f.toml", b'[[feature]]\nname = "a"\nname = "b"', "is not valid TOML"),
        ("f.toml", b"a." * 5_000_000, "nested too deeply"),
        ("f.toml", b"a = " + b"[" * 100_000, "nested too deeply"),
        ("f.toml", b"[[feature]]\nname = 'a'\npriority = 0x" + b"f" * 9999, "priority is out of range"),
        ("f.toml", b"[[feature]]\nname = 1979-05-27", "name is a date; expected text"),
        ("f.yaml", b"", "holds nothing"),
        ("f.yaml", b"- name: a\n  name: b", 'the key "name" for the second time at line 2, column 3'),
        ("f.yaml", b"- name: a\n- name: [b", " at line "),
        ("f.yaml", b"- name: a\n bad", "at line 2"),
        ("f.yaml", b"a: &a [x]\nb: *a", "an alias or a tag at line 2, column 4"),
        ("f.yaml", b"- !!python/object:os.system {}", "an alias or a tag at line 1, column 3"),
        ("f.yaml", b"[" * 900, "nested too deeply"),
        ("f.yaml", b"[" * 9_000_000, "f.yaml is n"),
        ("f.yaml", b"- " * 9_000, "nested too deeply"),
        ("f.yaml", b"- 1: x", "unknown key a number"),
        ("f.yaml", b"- ? [x]\n  : y", "is not valid YAML"),
        ("f.yaml", b"- name: yes", "name is true or false; expected text (in quotes)"),
        ("f.yaml", b"- name: 0b_", "is not valid YAML"),
        ("f.yaml", b"- name: a\n--- x", "is not valid YAML"),
        ("f.yaml", b"- name: \x07", "is not valid YAML"),
    ],
)
def test_b5_files_that_cannot_be_parsed(tmp_path: Path, name: str, text: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(written(tmp_path, name, text), {})
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_b5_at_most_so_many_dependencies(tmp_path: Path) -> None:
    items = [{"name": str(i)} for i in range(MAX_DEPENDENCIES)]
    known = {"stored": 1}
    full = {"name": "x", "depends_on": list(range(MAX_DEPENDENCIES))}
    assert (
        len(read(written(tmp_path, "f.json", json.dumps([*items, full])), known)[-1].depends_on)
        == MAX_DEPENDENCIES
    )
    full["depends_on"].append("stored")
    with pytest.raises(UsageError, match="depends_on has 21 entries; at most 20"):
        read(written(tmp_path, "f.json", json.dumps([*items, full])), known)


def test_b5_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name, message in (
        ("folder", "is a folder"),
        ("pipe", "no file"),
        ("gone", "no file"),
        ("loop", "loop.json"),
        ("a\0", "a\0.json"),
    ):
        with pytest.raises(UsageError, match=message):
            read(tmp_path / f"{name}.json", {})


# Whatever the file holds

suffixes = st.sampled_from([".json", ".yaml", ".toml"])
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
keys = st.sampled_from(
    ["name", "description", "steps", "category", "priority", "verify", "depends_on", "issue_number"]
)
likely = st.lists(st.dictionaries(keys, st.text("ab", max_size=3) | st.integers(-1, 3) | st.lists(st.text("ab", max_size=1) | st.integers(-1, 3), max_size=3), min_size=1), max_size=4)  # fmt: skip
snippets = st.lists(
    st.sampled_from(
        [
            *"[]{}:,-?&*!|>'\"\n #=.0b_x",
            "- name: ",
            "\n  ",
            "<<: ",
            "[[feature]]\n",
            "2024-99-99",
            "\t",
            "null",
        ]
    )
).map("".join)


def read_or_refuse(folder: Path, suffix: str, text: bytes) -> None:
    features, refusal = [], "f. holds nothing"
    try:
        features = read(written(folder, f"f{suffix}", text), KNOWN)
    except UsageError as error:
        refusal = str(error)
    assert refusal.startswith("f.")
    assert "\n" not in refusal
    assert len({folded(f.name) for f in features}) == len(features)
    for feature in features:
        assert feature.name.strip()
        assert all(0 <= i < len(features) for i in feature.depends_on)
        repr(feature).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@given(suffixes, st.binary() | snippets.map(str.encode))
def test_b5_any_bytes_are_read_or_refused(folder: Path, suffix: str, text: bytes) -> None:
    read_or_refuse(folder, suffix, text)


@given(values | likely)
def test_b5_any_values_are_read_or_refused(folder: Path, value: object) -> None:
    read_or_refuse(folder, ".json", json.dumps(value).encode())
    read_or_refuse(folder, ".yaml", yaml.safe_dump(value).encode())
