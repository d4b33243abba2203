"""Every try and what happened in it, newest last, as lines for a person or as JSON: pure."""

import dataclasses
import json
import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

from autoforge.events import EventKind
from db.event import Event
from db.feature import Attempt, Feature, Result

LONGEST = 8  # lines of one reason; the JSON has all of it
NARROWEST = 40
SHA = 10
_PASSING = (Result.PASSED, Result.PARTIAL)


@dataclass(frozen=True)
class History:
    """Of all features, or of one: then `attempts` are still all, and `events` those of its batches.

    `leads`: a build is running. `cut`: older events are left out.
    """

    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]
    features: Mapping[int, Feature]
    of: int | None = None
    leads: bool = False
    cut: bool = False

    @property
    def tries(self) -> tuple[Attempt, ...]:
        return tuple(a for a in self.attempts if self.of is None or self.of in a.feature_ids)


Commits = Mapping[int, Mapping[int, str]]


def commits(history: History) -> Commits:
    """What passed in each try, by the try's id and the feature's: with what has passed, only a repair is tried."""
    passing: dict[tuple[str, int], Attempt] = {}
    for attempt in history.attempts:
        for i in attempt.feature_ids:
            before = passing.get((attempt.batch_key, i))
            if before is None or before.outcome not in _PASSING or attempt.outcome in _PASSING:
                passing[attempt.batch_key, i] = attempt
    found: dict[int, dict[int, str]] = {}
    for (key, i), attempt in passing.items():
        feature = history.features.get(i)
        if feature and feature.commit_sha and feature.batch_key == key:
            found.setdefault(attempt.id, {})[i] = feature.commit_sha
    return found


def denials(history: History) -> History:
    """Only what the guard has refused."""
    return replace(history, events=tuple(e for e in history.events if e.name == EventKind.DENIED))


def as_json(history: History) -> dict[str, Any]:
    """The documented shape of `history --json`; later versions only add keys."""
    made = commits(history)
    tries = [
        dataclasses.asdict(a) | {"commits": {str(i): sha for i, sha in made.get(a.id, {}).items()}}
        for a in history.tries
    ]
    return {"attempts": tries, **events_as_json(history)}


def events_as_json(history: History) -> dict[str, Any]:
    """`cut`: older events are left out."""
    return {"events": [dataclasses.asdict(e) for e in history.events], "cut": history.cut}


def lines(history: History, width: int, zone: tzinfo | None = None) -> list[str]:
    """Tries and events by time, then the sums. `zone` None: the system's."""
    made = commits(history)
    tries = [
        (a.started_at, 0, a.id, _try_lines(history, a, made.get(a.id, {}), width=width, zone=zone))
        for a in history.tries
    ]
    events = [(e.at, 1, e.id, event_lines(e, width, zone)) for e in history.events]
    told = [line for *_, entry in sorted(tries + events) for line in entry]
    return [*_left_out(history), *told, *([""] if told else []), *_wrap(totals(history), width)]


def denied_lines(history: History, width: int, zone: tzinfo | None = None) -> list[str]:
    """The denials alone, then how many."""
    told = [line for e in history.events for line in event_lines(e, width, zone)]
    number = f"{len(history.events)} denied." if history.events else "Nothing was denied."
    return [*_left_out(history), *told, number]


def event_lines(event: Event, width: int, zone: tzinfo | None = None) -> list[str]:
    text = event.data.get("text")
    if not isinstance(text, str):
        text = json.dumps(dict(event.data), ensure_ascii=False, default=str)
    mark = "" if event.name == EventKind.STAGE else f"{event.name}: "
    return _short(_wrap(f"{_when(event.at, event.batch_key, zone)} {mark}{text}", width))


def totals(history: History) -> str:
    """One sentence: how many tries, what is known of their cost, how many denials."""
    if not history.tries:
        return "Nothing has been tried yet. To begin: autoforge build"
    number, denied = len(history.tries), len(denials(history).events)
    unknown = sum(a.cost_usd is None for a in history.tries)
    spent = sum(a.cost_usd or 0 for a in history.tries)
    parts = [f"{number} {'try' if number == 1 else 'tries'}", f"${spent:.2f}"]
    parts += [f"the cost of {unknown} not known"] if unknown else []
    parts += [f"{denied} denied"] if denied else []
    return ", ".join(parts) + "."


def _left_out(history: History) -> list[str]:
    return ["(Older events are left out.)"] if history.cut else []


def _try_lines(
    history: History, a: Attempt, made: Mapping[int, str], *, width: int, zone: tzinfo | None
) -> list[str]:
    facts = [f"try {a.number}, {a.kind}: {_outcome(history, a)}"]
    if a.cost_usd is not None:
        facts.append(f"${a.cost_usd:.2f}")
    elif a.outcome is not None:
        facts.append("cost not known")
    facts += [f"{a.turns} turn{'' if a.turns == 1 else 's'}"] if a.turns else []
    facts += [_took(a.ended_at - a.started_at)] if a.ended_at else []
    head = _wrap(f"{_when(a.started_at, a.batch_key, zone)} {', '.join(facts)}", width)
    told = [line for i in a.feature_ids for line in _wrap(_feature(history, i, made), width, "  ")]
    reason = [line for text in (a.reason or "").splitlines() for line in _wrap(text, width, "  ")]
    return [*head, *told, *_short(reason)]


def _outcome(history: History, attempt: Attempt) -> str:
    if attempt.outcome is not None:
        return attempt.outcome
    return "running" if history.leads else "its build was killed"


def _feature(history: History, feature_id: int, made: Mapping[int, str]) -> str:
    feature = history.features.get(feature_id)
    commit = f": commit {made[feature_id][:SHA]}" if feature_id in made else ""
    return f"#{feature_id} {feature.name if feature else ''}".rstrip() + commit


def _when(at: datetime, batch_key: str | None, zone: tzinfo | None) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S} [{batch_key or '-':^6}]"


def _took(time: timedelta) -> str:
    seconds = max(0, round(time.total_seconds()))
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


def _short(told: Sequence[str]) -> list[str]:
    """The first line and the end, where a command's output says what went wrong."""
    return list(told) if len(told) <= LONGEST else [told[0], "  …", *told[2 - LONGEST :]]


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width` columns; those after the first are indented further."""
    padded = re.sub(r"[^\x00-\u02ff]", _as_wide, text)  # textwrap counts characters
    parts = textwrap.wrap(
        padded, max(width, NARROWEST), initial_indent=indent, subsequent_indent=f"{indent}    "
    )
    return [part.replace("\0", "") for part in parts]


def _as_wide(found: re.Match[str]) -> str:
    return found[0] + "\0" if unicodedata.east_asian_width(found[0]) in "WF" else found[0]
