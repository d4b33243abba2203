"""What the server remembers: accounts, repositories, pull requests and their comments."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """Whom a token speaks for. `app`: an installation token, as GITHUB_TOKEN in GitHub Actions is."""

    login: str
    may_write: bool = True
    app: bool = False


@dataclass(frozen=True)
class Comment:
    id: int
    author: Account
    body: str
    created_at: str


@dataclass(frozen=True)
class Pull:
    """A pull request. `base_sha` stays at the commit before the merge once it is merged."""

    id: int
    number: int
    title: str
    body: str | None
    head: str
    base: str
    author: Account
    draft: bool
    created_at: str
    updated_at: str
    head_sha: str
    base_sha: str
    state: str = "open"
    mergeable: bool | None = None
    closed_at: str | None = None
    merged_at: str | None = None
    merged_by: Account | None = None
    merge_sha: str | None = None
    labels: tuple[str, ...] = ()
    comments: tuple[Comment, ...] = ()

    @property
    def merged(self) -> bool:
        return self.merged_at is not None


@dataclass
class Repository:
    """One repository; read and write it while holding `lock`. The switches may be set at any time."""

    id: int
    owner: str
    name: str
    path: Path
    default_branch: str
    private: bool = False
    delete_branch_on_merge: bool = False
    retarget_on_base_delete: bool = False
    app_may_open_pulls: bool = True
    protected: set[str] = field(default_factory=set)  # whole refs: refs/heads/main
    pulls: dict[int, Pull] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1001))

    @property
    def slug(self) -> str:
        return f"{self.owner}/{self.name}"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
