"""Plain timestamped lines: one for each thing that a person wants to know has happened."""

from collections.abc import Callable
from datetime import datetime

from autoforge.events import Event, EventKind

SHOWN = frozenset(EventKind) - {EventKind.TEXT}


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
    mark = {EventKind.TOOL: "  · ", EventKind.DENIED: "denied: ", EventKind.WARNING: "warning: "}.get(
        event.kind, ""
    )
    return f"{at:%H:%M:%S} [{event.batch or '-':^6}] {mark}{text if len(text) <= 160 else text[:159] + '…'}"
