"""The table's values: frozen, without SQL. Times are aware UTC datetimes, money is US dollars."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

MAX_DEPENDENCIES = 20


class FeatureStatus(StrEnum):
    """Where a feature stands. *Blocked* is computed from dependencies and never stored."""

    PENDING = "pending"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"  # its attempts are used up
    NEEDS_INPUT = "needs_input"  # waits for a person's answer
    SKIPPED = "skipped"


class BatchStatus(StrEnum):
    """The recorded step of a batch; each step is ensured again after a crash."""

    PLANNED = "planned"
    WORKING = "working"
    BUILT = "built"  # everything that will pass in it has passed; not on the remote
    PUSHED = "pushed"
    OPENED = "opened"
    MERGED = "merged"  # merge_sha is in the target
    FOLDED = "folded"  # merged into its parent's branch
    CLOSED = "closed"  # its PR was closed unmerged
    FAILED = "failed"  # nothing in it passed and its attempts are used up


UNMERGED = frozenset({BatchStatus.BUILT, BatchStatus.PUSHED, BatchStatus.OPENED})
"""Batches with finished work that others are stacked on."""

UNFINISHED = frozenset({BatchStatus.PLANNED, BatchStatus.WORKING})


class PrStatus(StrEnum):
    OPEN = "open"
    DRAFT = "draft"
    MERGED = "merged"
    CLOSED = "closed"


class Kind(StrEnum):
    """Why an attempt is made."""

    CODE = "code"
    RESTACK = "restack"  # merges what git could not


class Result(StrEnum):
    """How an attempt ended."""

    PASSED = "passed"  # every feature of the batch passed
    PARTIAL = "partial"  # some did
    FAILED = "failed"  # the agent gave up, or ended without passing anything
    NO_WORK = "no_work"  # it exited well and had done nothing
    NEEDS_INPUT = "needs_input"
    TURNS = "turns"  # ran out of turns
    TIMEOUT = "timeout"
    MONEY = "money"  # ran out of the attempt's own cap
    LIMITED = "limited"  # usage limit, rate limit or overload: costs no attempt
    UNAVAILABLE = "unavailable"  # no credentials or no CLI: stops the build, costs no attempt
    WAITING = "waiting"  # its base cannot be made yet: costs no attempt
    INTERRUPTED = "interrupted"  # stopped by a person or signal: costs no attempt
    CRASHED = "crashed"  # the CLI or autoforge died


FREE_RESULTS = frozenset({Result.LIMITED, Result.UNAVAILABLE, Result.WAITING, Result.INTERRUPTED})
"""Results that do not count against a feature's attempts."""


@dataclass(frozen=True)
class Evidence:
    """A command that ran at the gate; `step` is the acceptance step it shows, None for a verify command."""

    command: str
    exit_code: int
    duration_s: float
    step: int | None = None  # index into Feature.steps, from 0


@dataclass(frozen=True)
class NewFeature:
    """A feature to be stored. `depends_on` are indices into the same list or, as `existing`, ids in the table."""

    name: str
    description: str = ""
    steps: tuple[str, ...] = ()
    category: str = "feature"
    priority: int | None = None  # None: after all others
    verify: tuple[str, ...] = ()
    depends_on: tuple[int, ...] = ()
    existing: tuple[int, ...] = ()
    issue_number: int | None = None


@dataclass(frozen=True)
class Feature:
    """One row of the feature table; the field names are the column names."""

    id: int
    priority: int
    category: str
    name: str
    description: str
    steps: tuple[str, ...]
    verify: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    status: FeatureStatus
    refinement: str
    branch_name: str | None
    commit_sha: str | None
    pr_number: int | None
    pr_url: str | None
    pr_status: PrStatus | None
    batch_key: str | None
    attempts: int
    last_error: str | None
    question: str | None
    answer: str | None
    issue_number: int | None
    last_tested_at: datetime | None
    created_at: datetime
    updated_at: datetime
    dependencies: tuple[int, ...] = ()


@dataclass(frozen=True)
class Parent:
    """An unmerged batch that another is built on, with the parent's tip at branch time."""

    key: str
    tip: str


@dataclass(frozen=True)
class Batch:
    """One to three features on one branch, in one worktree, with one PR."""

    key: str
    branch: str
    feature_ids: tuple[int, ...]
    status: BatchStatus = BatchStatus.PLANNED
    base_branch: str | None = None  # what its PR targets
    base_sha: str | None = None
    head_sha: str | None = None  # the last commit that passed the gate
    pushed_sha: str | None = None  # what we last put on the remote's branch
    merge_sha: str | None = None
    worktree_path: str | None = None
    pr_number: int | None = None
    pr_url: str | None = None
    pr_status: PrStatus | None = None
    parents: tuple[Parent, ...] = ()
    checks: tuple[Evidence, ...] = ()  # the project's verify commands, as they ran on head_sha
    summary: str = ""  # the agent's last words
    notes: tuple[str, ...] = ()  # what a reviewer must know (red baseline, no verification)
    rounds: int = 0
    check_signature: str | None = None
    last_error: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class Moved:
    """A batch as a restack leaves it, and what became of its commits: old SHA to new."""

    batch: Batch
    commits: Mapping[str, str]


@dataclass(frozen=True)
class Attempt:
    """One try at a batch; kept for ever. `outcome` None: it is running, or its build was killed."""

    id: int
    batch_key: str
    kind: Kind
    number: int
    feature_ids: tuple[int, ...]
    build_id: str
    session_id: str
    lease_token: int | None  # of the lease under which it was started; None: before there were leases
    outcome: Result | None
    reason: str | None
    cost_usd: float | None  # None: not known
    turns: int
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class Ended:
    """How an attempt ended, as the store records it: reasons by feature, and who was not reached and pays nothing."""

    result: Result
    reason: str = ""
    cost_usd: float | None = None
    turns: int = 0
    summary: str = ""
    failed: dict[int, str] = field(default_factory=dict)
    questions: dict[int, str] = field(default_factory=dict)
    untried: frozenset[int] = frozenset()
