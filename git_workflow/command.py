"""The only caller of git: one command, in one folder, with a clean environment and a time limit."""

import logging
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import git as gitpython

from git_workflow.errors import GitFailed

log = logging.getLogger("autoforge.git")

QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C.UTF-8",
}
"""Set for every git command: nothing may wait for a person."""


@dataclass(frozen=True)
class Git:
    """git in one folder. `guard` is put in front of commands that run hooks, so that nothing outlives them."""

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
            raise GitFailed(args, code, err or out)
        return out

    def lines(self, *args: str) -> list[str]:
        return self.run(*args).splitlines()

    def ok(self, *args: str) -> bool:
        return self.attempt(*args)[0] == 0

    def maybe(self, *args: str) -> str | None:
        """Standard output, or None when git says no."""
        code, out, _ = self.attempt(*args)
        return out if code == 0 else None

    def attempt(self, *args: str, stdin: str | None = None, guarded: bool = False) -> tuple[int, str, str]:
        """Exit code (-1: out of time), standard output and standard error."""
        started = time.monotonic()
        # -C and not GitPython's cwd: that falls back to the process's own folder when this one is gone
        command = [*(self.guard if guarded else ()), "git", "-C", str(self.cwd), *args]
        code, out, err = _execute(command, {**QUIET, **self.env}, stdin, self.timeout_s)
        spent = time.monotonic() - started
        log.debug("git cwd=%s code=%d seconds=%.3f args=%s", self.cwd, code, spent, list(args))
        return code, out, err


def _execute(
    command: Sequence[str], env: Mapping[str, str], stdin: str | None, timeout_s: float
) -> tuple[int, str, str]:
    child = gitpython.Git().execute(
        list(command),
        as_process=True,
        env=dict(env),
        istream=subprocess.PIPE if stdin is not None else None,
        start_new_session=True,  # the terminal's Ctrl-C is for us to handle
    )
    process = child.proc
    assert process is not None
    data = stdin.encode("utf-8", "surrogateescape") if stdin is not None else None
    try:
        out, err = process.communicate(data, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return -1, "", f"it did not end within {timeout_s:g} s and was stopped"
    text = out.decode("utf-8", "surrogateescape")
    return process.returncode, text.removesuffix("\n"), err.decode("utf-8", "replace")
