"""What happens while a build runs, as values: told to the progress and, where it must last, to the store."""

from dataclasses import dataclass
from enum import StrEnum

from db.feature import Evidence


class EventKind(StrEnum):
    STAGE = "stage"  # a step of the batch's life has begun or ended
    TOOL = "tool"  # the agent uses a tool
    DENIED = "denied"  # the guard said no
    TEXT = "text"  # the agent said something
    GATE = "gate"  # a feature was verified, red or green
    WARNING = "warning"


@dataclass(frozen=True)
class Passed:
    """A feature that is verified on `commit_sha`; to be recorded."""

    feature_id: int
    commit_sha: str
    evidence: tuple[Evidence, ...]
    checks: tuple[Evidence, ...]


@dataclass(frozen=True)
class Event:
    """`batch` is its key, empty for the build itself."""

    kind: EventKind
    batch: str
    text: str
    feature_id: int | None = None
    cost_usd: float | None = None
    passed: Passed | None = None
