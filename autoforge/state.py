"""What the loop remembers while it runs; nothing that a restart needs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from autoforge.attempt import Outcome
from autoforge.budget import Budget, Pause
from autoforge.slot import Start
from autoforge.upkeep import Pass
from db.feature import Batch, Result
from git_workflow.errors import JoinConflict


@dataclass
class State:
    """`to_publish`: which built batches the build publishes."""

    budget: Budget
    to_publish: Callable[[Batch], bool]
    working: dict["asyncio.Task[Outcome]", Start] = field(default_factory=dict)
    upkeep: "asyncio.Task[Pass] | None" = None
    due: bool = True  # another pass over what is built
    looked: bool = False  # there was one
    conflicts: dict[str, JoinConflict] = field(default_factory=dict)  # batch, and what an agent is to resolve
    told: set[str] = field(default_factory=set)
    not_before: dict[str, datetime] = field(default_factory=dict)  # batch that backs off
    waiting: dict[str, str] = field(default_factory=dict)  # batch that cannot start now, and why
    pause: Pause | None = None
    limited: int = 0  # limits in a row
    ending: Result | None = None  # why nothing more is started
    why: str = ""
