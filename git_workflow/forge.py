"""The code host behind a small protocol, and the values that cross it."""

import re
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

Decision = Literal["approved", "changes_requested", "none"]
SSH_ALIASES = {"ssh.github.com": "github.com"}  # GitHub's SSH on the HTTPS port


@dataclass(frozen=True)
class PullRequest:
    """A pull request as the forge tells it. `state` is open or closed; `merge_sha` only when merged."""

    number: int
    url: str
    state: str
    draft: bool
    merged: bool
    head_branch: str
    head_sha: str
    base_branch: str
    title: str
    body: str
    merge_sha: str | None = None


@dataclass(frozen=True)
class Review:
    """What the reviewers' latest verdicts come to. Anyone's request for changes counts, only writers' approvals do."""

    decision: Decision


@dataclass(frozen=True)
class Checks:
    """How the check runs and commit statuses of one commit stand; `failures` names those that failed."""

    passed: int
    running: int
    failures: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        return len(self.failures)


@dataclass(frozen=True)
class Issue:
    number: int
    title: str
    body: str
    labels: tuple[str, ...]
    state: str


class Forge(Protocol):
    """Every method is blocking, raises ForgeFailed, and may be called from several threads."""

    def find(self, head_branch: str) -> PullRequest | None:
        """The newest pull request from this branch of our own repository, whatever its state."""
        ...

    def get(self, number: int) -> PullRequest: ...

    def open(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a pull request, or answer the one that is open already for this head and base."""
        ...

    def open_pulls(self) -> list[PullRequest]:
        """All that are open, in this repository and from whichever branch."""
        ...

    def edit(
        self, number: int, *, title: str | None = None, body: str | None = None, base: str | None = None
    ) -> PullRequest: ...

    def reopen(self, number: int) -> PullRequest:
        """Refused with status 422 when its head has moved or its base is gone."""
        ...

    def ready(self, number: int) -> None:
        """A draft becomes ready for review; nothing happens to one that is ready."""
        ...

    def comment(self, number: int, body: str) -> None:
        """Leave a note, unless the same one is there already."""
        ...

    def review_state(self, number: int) -> Review: ...

    def checks(self, sha: str) -> Checks: ...

    def issues(self, label: str | None) -> list[Issue]:
        """The open ones, oldest first; pull requests are none."""
        ...


def repository_slug(remote_url: str) -> tuple[str, str] | None:
    """(host, "owner/name") of a remote, None when it names no repository of a forge.

    The host keeps the port of http and https; an SSH port says nothing about the API. Credentials are dropped.
    """
    address = _split_remote(remote_url.strip())
    if address is None:
        return None
    host, path = address
    found = re.fullmatch(r"/*([\w.-]+)/([\w.-]+?)(?:\.git)?/*", path, re.ASCII)
    return (SSH_ALIASES.get(host, host), f"{found[1]}/{found[2]}") if found else None


def _split_remote(url: str) -> tuple[str, str] | None:
    """(host, path) of an http(s) or ssh URL or of git's short form [user@]host:path."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        if not host or parts.scheme not in ("http", "https", "ssh", "git+ssh"):
            return None
        host = f"[{host}]" if ":" in host else host
        return (f"{host}:{port}" if port and parts.scheme.startswith("http") else host), parts.path
    # One letter before the colon is a Windows drive.
    short = re.fullmatch(r"(?:[^@/:]+@)?([\w.-]{2,}):(.+)", url, re.ASCII)
    return (short[1].lower(), short[2]) if short else None
