import re
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_workflow.naming import branch_name, join_branch, new_key, saved_ref, slug, valid_prefix

# Decides for every name of standard input, in one process, what real git says about it.
JUDGE = """
import subprocess, sys
for line in sys.stdin.read().split("\\0"):
    print(subprocess.run(["git", "check-ref-format", *sys.argv[1:], line], capture_output=True).returncode == 0)
"""


def accepted(names: list[str], *options: str) -> list[bool]:
    """What `git check-ref-format` answers for each name."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, *options],
        input="\0".join(names).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return [line == "True" for line in done.stdout.decode().split()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("User login", "user-login"),
        ("  --User's LOGIN!! ", "users-login"),
        ("User\u2019s login", "users-login"),
        ("Login\N{EM DASH}page", "login-page"),
        ("Crème brûlée", "creme-brulee"),
        ("Straße", "strasse"),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER A}\N{MATHEMATICAL BOLD CAPITAL B}c", "abc"),
        ("日本語", "feature"),
        ("", "feature"),
        ("../../etc/passwd", "etc-passwd"),
        ("refs.lock", "refs-lock"),
        ("HEAD@{1}~^:?*[\\", "head-1"),
        ("a" * 50, "a" * 40),
        ("one two three four five six seven eight nine", "one-two-three-four-five-six-seven-eight"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text(), st.integers(1, 60))
def test_a_slug_is_short_plain_and_never_empty(name: str, limit: int) -> None:
    result = slug(name, limit)
    assert 1 <= len(result) <= limit
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", result)
    assert slug(result, limit) == result


def test_keys_differ_and_begin_with_a_letter() -> None:
    keys = [new_key() for _ in range(2000)]
    assert len(set(keys)) > 1990
    assert all(re.fullmatch(r"[a-z][a-z0-9]{5}", key) and not set(key) & set("ilo01") for key in keys)


def test_names_of_branches_and_refs() -> None:
    assert branch_name("autoforge", "User login", "k3x9qp") == "autoforge/user-login-k3x9qp"
    assert saved_ref("k3x9qp", "2") == "refs/autoforge/saved/k3x9qp/2"


def test_a_join_is_named_after_its_tips_in_order() -> None:
    name = join_branch("autoforge", ["a" * 40, "b" * 40])
    assert re.fullmatch(r"autoforge/join-[0-9a-f]{12}", name)
    assert name == join_branch("autoforge", ["a" * 40, "b" * 40])
    assert (
        len({name, join_branch("autoforge", ["b" * 40, "a" * 40]), join_branch("autoforge", ["a" * 40])}) == 3
    )


def test_git_accepts_every_name() -> None:
    names = ["x.lock", ".", "..", "@", "-", "é" * 300, "a\nb", "日本", *string.punctuation]
    branches = [branch_name("autoforge", name, new_key()) for name in names]
    assert all(accepted([*branches, join_branch("team/bots", ["a", "b"])], "--branch"))
    assert all(accepted([saved_ref(new_key(), "2")]))


def test_a_prefix_is_valid_exactly_when_git_accepts_it() -> None:
    odd = [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".a",
        "a/.b",
        "a.",
        "a..b",
        "a.lock",
        "a.lock/b",
        "a.locked",
        "@",
        "@{",
        "a@b",
    ]
    odd += [
        "-a",
        "a-",
        "--",
        "HEAD",
        "a/-b",
        "ä",
        "日本/x",
        "a\x7f",
        "a\tb",
        "a\nb",
        "a.lock\n",
        "x" * 100,
        "{",
        "a@",
    ]
    odd += [f"a{character}b" for character in string.punctuation + " "]
    git_says = accepted([f"{prefix}/x-k3x9qp" for prefix in odd], "--branch")
    assert {p: valid_prefix(p) is None for p in odd} == dict(zip(odd, git_says, strict=True))


@pytest.mark.parametrize("prefix", ["x" * 101, "a\0b", "a\ud800"])
def test_prefixes_that_no_file_system_takes_are_refused(prefix: str) -> None:
    assert "cannot be used" in str(valid_prefix(prefix))
