"""A loopback GitHub with one repository and a clone of it, for tests that act as people do."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import github as pygithub
import pytest
from github.GithubException import GithubException
from github.PullRequest import PullRequest
from github.Repository import Repository as GithubRepository

from autoforge.demo.github import Account, Repository
from tests.harness.github import ValidatingGitHub

TOKENS = {
    "writer": Account("ada"),
    "reader": Account("rob", may_write=False),
    "actions": Account("github-actions", app=True),
}
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@dataclass(frozen=True)
class World:
    """A server with one repository, octo/demo, and a clone of it that holds one commit on main."""

    server: ValidatingGitHub
    origin: Repository
    clone: Path

    def git(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.clone, env=ENV, capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(done.stderr)
        return (done.stdout if check else done.stderr).strip()

    def remote(self, token: str = "writer", *, suffix: str = ".git") -> str:
        credentials = f"x-access-token:{token}@" if token else ""
        return f"http://{credentials}{self.server.url.removeprefix('http://')}/octo/demo{suffix}"

    def commit(self, branch: str, name: str, text: str = "x\n", *, start: str = "") -> str:
        """One more commit on `branch`, which is made from `start` when that is given; not pushed."""
        self.git("checkout", "-q", *(["-B", branch, start] if start else [branch]))
        path = self.clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"Add {name}")
        return self.git("rev-parse", "HEAD")

    def push(self, *refspecs: str, token: str = "writer", check: bool = True) -> str:
        return self.git("push", "-q", self.remote(token), *refspecs, check=check)

    def client(self, token: str = "writer", *, api: str = "") -> pygithub.Github:
        return pygithub.Github(
            auth=pygithub.Auth.Token(token),
            base_url=self.server.url + api,
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )

    def repo(self, token: str = "writer") -> GithubRepository:
        return self.client(token).get_repo("octo/demo")

    def feature(self, branch: str = "feat", *, base: str = "main") -> PullRequest:
        """A pushed branch of one commit and its pull request."""
        self.commit(branch, f"{branch}.txt", start=base)
        self.push(f"+{branch}:{branch}")
        return self.repo().create_pull(base, branch, title=f"Add {branch}", body="why")

    def tip(self, ref: str) -> str:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "-q", ref], cwd=self.origin.path, env=ENV, capture_output=True
        )
        return done.stdout.decode().strip()


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    """Fails at its end when an exchange was not as GitHub describes it."""
    server = ValidatingGitHub(TOKENS)
    origin = server.add_repository("octo", "demo", folder / "origin.git")
    server.start()
    try:
        clone = folder / "clone"
        clone.mkdir()
        made = World(server, origin, clone)
        made.git("init", "-q", "-b", "main")
        made.git("commit", "-q", "--allow-empty", "-m", "Start")
        made.push("main")
        yield made
    finally:
        server.stop()
    assert server.violations == []


def refused(status: int, action: Callable[..., object], *args: Any, **named: Any) -> str:
    """What the API says when it answers the action with this status."""
    with pytest.raises(GithubException) as caught:
        action(*args, **named)
    assert caught.value.status == status
    return str(caught.value.data)
