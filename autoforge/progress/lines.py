"""Plain timestamped lines: one for each thing that a person wants to know has happened."""

import re
from collections.abc import Callable
from datetime import datetime

from autoforge.events import Event, EventKind

SHOWN = frozenset(EventKind) - {EventKind.TEXT}
MARKS = {EventKind.TOOL: "  · ", EventKind.DENIED: "denied: ", EventKind.WARNING: "warning: "}
LONGEST = 160
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text without what would move a terminal's cursor, colour it or turn the reading direction."""
    return INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printer(
    write: Callable[[str], None], now: Callable[[], datetime], *, verbose: bool
) -> Callable[[Event], None]:
    """Shows events as lines of at most one line each; `verbose` adds what agents say."""

    def show(event: Event) -> None:
        if event.kind in SHOWN or verbose:
            write(line(event, now()))

    return show


def line(event: Event, at: datetime) -> str:
    """`12:34:56 [k3f9ab] agent` with the batch's key, or `-` for the build itself."""
    text = " ".join(event.text.split())
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return f"{at:%H:%M:%S} [{event.batch or '-':^6}] {MARKS.get(event.kind, '')}{shown}"
