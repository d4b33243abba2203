"""No dress makes a refused command pass, and words are read as bash reads them."""

import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autoforge.agent.guard import Policy, decide_command
from autoforge.agent.shell import Simple, parse
from autoforge.agent.words import Unreadable
from tests.test_guard import DENIED, furnished


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return furnished(tmp_path_factory.mktemp("disguise").resolve())


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


DRESSES = {
    "sh -c": lambda c: f"sh -c {quoted(c)}",
    "bash -lc": lambda c: f"bash -lc {quoted(c)}",
    "eval": lambda c: f"eval {quoted(c)}",
    "parentheses": lambda c: f"({c}\n)",
    "braces": lambda c: f"{{ {c}\n}}",
    "newlines": lambda c: f"\n\n  {c}\n",
    "before": lambda c: f"{c}\ntrue",
    "and": lambda c: f"true &&\n{c}",
    "pipe": lambda c: f"true | {{ {c}\n}}",
    "substitution": lambda c: f'echo "$({c}\n)"',
    "if": lambda c: f"if true; then\n{c}\nfi",
    "loop": lambda c: f"for i in 1 2; do\n{c}\ndone",
    "function": lambda c: f"f() {{\n{c}\n}}; f",
    "here-document": lambda c: f"bash <<'_END_'\n{c}\n_END_",
    "background": lambda c: f"{c} &",
    "assignment": lambda c: f"X=1 sh -c {quoted(c)}",
    "timeout": lambda c: f"timeout 9 bash -c {quoted(c)}",
    "env": lambda c: f"env X=1 bash -c {quoted(c)}",
    "find": lambda c: f"find . -exec sh -c {quoted(c)} \\;",
}


@settings(deadline=None)
@given(
    command=st.sampled_from(DENIED),
    dresses=st.lists(st.sampled_from(sorted(DRESSES)), min_size=1, max_size=3),
)
def test_no_dress_makes_a_denied_command_pass(policy: Policy, command: str, dresses: list[str]) -> None:
    dressed = command
    for name in dresses:
        dressed = DRESSES[name](dressed)
    assert decide_command(policy, dressed) is not None


MARKS = ["{}", "'{}'", '"{}"', "\\{}", "$'{}'", '$"{}"', "''{}", '{}""', "\\\n{}", "{}\\\n"]


@settings(deadline=None)
@given(name=st.sampled_from(["git", "sudo", "pkill", "gh"]), noise=st.data())
def test_no_quoting_hides_a_name(policy: Policy, name: str, noise: st.DataObject) -> None:
    spelled = "".join(noise.draw(st.sampled_from(MARKS)).format(letter) for letter in name)
    assert decide_command(policy, f"{spelled} push") is not None


PIECES = st.sampled_from(
    ["a", "'b c'", '"d"', "\\e", '"\\$f"', "$'g'", '$"h"', "''", '""', "\\\n", '"\\\\"', "'\\'", '\\"', "\\'",
     "\\ ", "\\$", "$HOME", '"$HOME"', "${HOME}", '"\\\n"', '"i  j"', "=", "-", "/", ".", "#", "%", "+", "{", "}", "!"]
)  # fmt: skip
SPACES = st.sampled_from([" ", "  ", "\t", " \\\n"])
WORD = st.lists(PIECES, min_size=1, max_size=4).map("".join)


@settings(deadline=None, max_examples=60)
@given(pairs=st.lists(st.tuples(SPACES, WORD), min_size=1, max_size=4))
def test_words_are_read_as_bash_reads_them_or_not_at_all(pairs: list[tuple[str, str]]) -> None:
    command = "printf '<%s>'" + "".join(space + word for space, word in pairs)
    try:
        items = parse(command, {"HOME": "/home/x"})
    except Unreadable:
        return
    done = subprocess.run(
        ["bash", "-c", command], env={"HOME": "/home/x"}, capture_output=True, text=True, check=False
    )
    assume(len(items) == 1 and done.returncode == 0 and not done.stderr)
    assert isinstance(items[0], Simple)
    words = items[0].words[2:]
    assume(all(word.known for word in words))
    assert "".join(f"<{word.text}>" for word in words) == done.stdout or not words
