"""What the server remembers: accounts, repositories, and what people and checks have said in them."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """Whom a token speaks for. `app`: an installation token, as GITHUB_TOKEN in GitHub Actions is.

    `may_discuss`: without the right to write, open issues, comment and review, as anybody on a public repository.
    """

    login: str
    may_write: bool = True
    app: bool = False
    may_discuss: bool = False


@dataclass(frozen=True)
class Comment:
    id: int
    author: Account
    body: str
    created_at: str


@dataclass(frozen=True)
class Review:
    id: int
    author: Account
    body: str
    state: str  # APPROVED, CHANGES_REQUESTED or COMMENTED
    commit_sha: str
    submitted_at: str


@dataclass(frozen=True)
class CheckRun:
    id: int
    app: str  # the login of the app that made it
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    started_at: str
    completed_at: str | None
    details_url: str | None
    external_id: str | None
    title: str | None
    summary: str | None


@dataclass(frozen=True)
class Status:
    id: int
    author: Account
    sha: str
    context: str
    state: str
    description: str | None
    target_url: str | None
    created_at: str


@dataclass(frozen=True)
class Issue:
    id: int
    number: int
    title: str
    body: str | None
    author: Account
    created_at: str
    updated_at: str
    state: str = "open"
    closed_at: str | None = None
    labels: tuple[str, ...] = ()
    comments: tuple[Comment, ...] = ()


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
    reviews: tuple[Review, ...] = ()

    @property
    def merged(self) -> bool:
        return self.merged_at is not None


@dataclass
class Repository:
    """One repository; read and write it while holding `lock`. The switches may be set at any time.

    `retarget_on_base_delete`: open pull requests into the deleted head of a merged one go on to that one's base, as
    on GitHub where a person or the repository's own setting deletes it after the merge. Otherwise they are closed, as
    where it goes by a push or through the API.
    """

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
    issues: dict[int, Issue] = field(default_factory=dict)
    check_runs: list[CheckRun] = field(default_factory=list)  # oldest first
    statuses: list[Status] = field(default_factory=list)  # oldest first
    labels: dict[str, int] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1001))

    @property
    def slug(self) -> str:
        return f"{self.owner}/{self.name}"

    def next_number(self) -> int:
        """Issues and pull requests share their numbers."""
        return max([0, *self.pulls, *self.issues]) + 1

    def has_open_pull(self, head: str, base: str) -> bool:
        return any((p.state, p.head, p.base) == ("open", head, base) for p in self.pulls.values())


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
