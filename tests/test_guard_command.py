"""`autoforge guard` tells a user what an agent would be told."""

import json
from pathlib import Path

import pytest

from tests.conftest import commit
from tests.invoke import invoke


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("pytest -q tests",), 0, "allowed"),
        (("git push origin main",), 1, "denied: "),
        (("sudo rm -rf /",), 1, "denied: "),
        (("--write", "src/new.py"), 0, "allowed"),
        (("--write", "../elsewhere.py"), 1, "denied: "),
        (("--write", "autoforge.toml"), 1, "denied: "),
        (("--write", "secret/x"), 1, "denied: "),
    ],
)
def test_a_verdict_is_explained(clone: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    commit(clone, {"autoforge.toml": '[commit]\nprotected = ["secret/**"]\n'})
    ended = invoke(clone, "guard", *arguments)
    assert (ended.code, ended.err) == (code, "")
    assert ended.out.startswith(said)
    told = json.loads(invoke(clone, "guard", "--json", *arguments).out)
    assert told["decision"] == ("deny" if code else "allow")
    assert (told["reason"] is None) == (code == 0)


@pytest.mark.parametrize("arguments", [(), ("ls", "--write", "x")])
def test_one_thing_is_asked_at_a_time(clone: Path, arguments: tuple[str, ...]) -> None:
    ended = invoke(clone, "guard", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Give a COMMAND, or --write PATH." in ended.err
