"""An event of a build, kept for its history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Event:
    """Something that happened at `at`; `data` is what JSON can hold."""

    id: int
    at: datetime
    build_id: str
    batch_key: str | None
    name: str
    data: Mapping[str, object]
