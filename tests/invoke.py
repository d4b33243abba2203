"""Calls the command line in this process, as the console script would."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from autoforge import cli, settings

CONSOLE_SCRIPT = (sys.executable, "-m", "autoforge")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def invoke(folder: Path, *arguments: str, **env: str) -> Ended:
    """`env` comes on top of the test's environment, which stays as it is."""
    out, err = io.StringIO(), io.StringIO()
    surroundings = settings.take({**os.environ, **env})
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.run(["-C", str(folder), *arguments], surroundings)
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Ended(code, out.getvalue(), err.getvalue())


def succeed(folder: Path, *arguments: str, **env: str) -> str:
    """A command that must end with 0 and say nothing on stderr; its output."""
    ended = invoke(folder, *arguments, **env)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def refused(folder: Path, *arguments: str, **env: str) -> str:
    """A command that must end with 2 and one clear error; the error."""
    ended = invoke(folder, *arguments, **env)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ") or "\n\nError: " in ended.err
    assert ended.err.lower().count("error: ") == 1
    assert "Traceback" not in ended.err
    return ended.err
