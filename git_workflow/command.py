"""The only caller of git: one command, in one folder, with a clean environment and a time limit."""

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from git_workflow.errors import GitFailed

log = logging.getLogger("autoforge.git")

QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C.UTF-8",
}
"""Set for every git command: nothing may wait for a person."""


CONFIG = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false")
"""Given to every git command: nothing may go on in the background."""

END_LIMIT_S = 15.0  # the guard's own limits fit into it


@dataclass(frozen=True)
class Git:
    """git in one folder, which is the top of a checkout: it never looks for a repository above.

    `guard` is put in front of commands that run hooks, so that nothing outlives them.
    """

    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    guard: tuple[str, ...] = ()
    timeout_s: float = 300

    def at(self, cwd: Path) -> "Git":
        return replace(self, cwd=cwd)

    def with_env(self, **env: str) -> "Git":
        return replace(self, env={**self.env, **env})

    def run(self, *args: str, stdin: str | None = None, guarded: bool = False) -> str:
        """Standard output without its last newline. Raises GitFailed, also when the time is over."""
        code, out, err = self.attempt(*args, stdin=stdin, guarded=guarded)
        if code:
            raise GitFailed([shown(arg) for arg in args], code, said(out, err))
        return out

    def lines(self, *args: str) -> list[str]:
        out = self.run(*args)
        return out.split("\n") if out else []

    def names(self, *args: str) -> list[str]:
        """What a command with -z prints."""
        return [name for name in self.run(*args).split("\0") if name]

    def ok(self, *args: str) -> bool:
        return self.attempt(*args)[0] == 0

    def maybe(self, *args: str) -> str | None:
        """Standard output, or None when git says no."""
        code, out, _ = self.attempt(*args)
        return out if code == 0 else None

    def attempt(self, *args: str, stdin: str | None = None, guarded: bool = False) -> tuple[int, str, str]:
        """Exit code (-1: out of time), standard output and standard error."""
        started = time.monotonic()
        # -C and not Popen's cwd: without the folder git says so, instead of another folder being used
        command = [*(self.guard if guarded else ()), "git", "-C", str(self.cwd), *CONFIG, *args]
        env = {**QUIET, "GIT_CEILING_DIRECTORIES": str(self.cwd.parent), **self.env}
        code, out, err = _execute(command, env, stdin, self.timeout_s)
        spent = time.monotonic() - started
        log.debug("git cwd=%s code=%d seconds=%.3f args=%s", self.cwd, code, spent, list(args))
        return code, out, err


def said(out: str, err: str) -> str:
    """What git and its hooks printed, as text that can be stored."""
    return f"{out}\n{err}".strip().encode(errors="replace").decode()


def shown(name: str) -> str:
    """A name as a person, a pull request or a table can have it: without control characters and broken bytes."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name)


def _execute(
    command: Sequence[str], env: Mapping[str, str], stdin: str | None, timeout_s: float
) -> tuple[int, str, str]:
    data = stdin.encode("utf-8", "surrogateescape") if stdin is not None else None
    with _start(command, env, subprocess.PIPE if stdin is not None else None) as process:
        try:
            out, err = process.communicate(data, timeout=timeout_s)
            code = process.returncode
        except subprocess.TimeoutExpired:
            code, out, err = -1, b"", _stop(process)
            err += f"\nIt did not end within {timeout_s:g} s and was stopped.".encode()
    text = out.decode("utf-8", "surrogateescape")
    return code, text.removesuffix("\n"), err.decode("utf-8", "replace")


def _start(command: Sequence[str], env: Mapping[str, str], istream: int | None) -> "subprocess.Popen[bytes]":
    try:
        import git as gitpython  # not before it is needed: it is slow, and fails where there is no git
    except ImportError as error:
        raise GitFailed(
            ("version",), 127, "There is no git on the PATH: install git 2.38 or newer."
        ) from error
    child = gitpython.Git().execute(
        list(command),
        as_process=True,
        env=dict(env),
        istream=istream,
        start_new_session=True,  # the terminal's Ctrl-C is for us to handle
    )
    process = child.proc
    assert process is not None
    child.proc = None  # it would be ended together with its wrapper
    return process


def _stop(process: "subprocess.Popen[bytes]") -> bytes:
    """End its process group; answers what it said on standard error."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=END_LIMIT_S)[1]
    return b""
