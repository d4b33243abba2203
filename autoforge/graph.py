"""Draws the features, their states and what they are built on: as a tree, for Mermaid, for Graphviz and as JSON."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from autoforge import scheduler
from autoforge.cycles import arrows, find_cycles
from autoforge.progress.lines import plain
from autoforge.scheduler import Node, Schedule

COLOURS = {
    "passed": "#c8e6c9",
    "running": "#bbdefb",
    "ready": "#fff9c4",
    "blocked": "#e0e0e0",
    "failed": "#ffcdd2",
    "needs_input": "#ffe0b2",
    "skipped": "#ffffff",
    "missing": "#ffffff",
}
DEEPEST = 10  # levels of a tree before it goes on at the margin: so it fits 80 columns and stays linear
NARROWEST = 10
ABOVE, BELOW, CONTINUED = "(above)", "(continues below)", "(continued)"


class Named(Node, Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Row:
    """One line of the tree: a feature, the lines drawn before it, and where else it is drawn."""

    prefix: str
    id: int
    note: str = ""


def as_json(features: Sequence[Node], schedule: Schedule) -> dict[str, Any]:
    """The documented shape of `graph --format json`; later versions only add keys."""
    scores = scheduler.scores(features, schedule)
    return {
        "order": scheduler.build_order(features, schedule),
        "ready": list(schedule.ready),
        "blocked": _listed(scheduler.blocked(features, schedule)),
        "missing": _listed(scheduler.missing(features)),
        "cycles": scheduler.cycles(features, schedule),
        "scores": {
            str(i): {"unblocks": -minus, "depth": depth, "priority": priority}
            for i, (minus, depth, priority, _) in scores.items()
        },
    }


def tree(features: Sequence[Named], schedule: Schedule, width: int) -> list[str]:
    """What is built on a feature stands below it. Each feature is drawn once; names are cut to `width` columns."""
    names = {feature.id: _line(feature.name) for feature in features}
    states = _states(features, schedule)
    children: dict[int, list[int]] = {i: [] for i in names}
    for feature in features:
        for d in dict.fromkeys(feature.dependencies):
            if d in children:
                children[d].append(feature.id)
    lines = []
    for row in _rows(children, _tops(features)):
        start = f"{row.prefix}#{row.id} "
        state = "" if row.note == ABOVE else f"[{states[row.id].replace('_', ' ')}]"
        end = "".join(f" {part}" for part in (state, row.note) if part)
        lines.append(start + _cut(names[row.id], max(NARROWEST, width - len(start) - len(end))) + end)
    return lines + _faults(features, schedule)


def mermaid(features: Sequence[Named], schedule: Schedule) -> str:
    """A flowchart. Every character with a meaning to Mermaid or HTML is written as its number."""
    lines = ["flowchart TD"]
    for i, name, state in _boxes(features, schedule):
        label = "".join(f"#{ord(c)};" if re.match(r"[^\w ,.-]|_", c) else c for c in f"#{i} {name}")
        lines.append(f'    f{i}["{label}<br/>{state.replace("_", " ")}"]:::{state}')
    lines += [f"    f{above} --> f{below}" for above, below in _edges(features)]
    lines += [f"    classDef {state} fill:{colour},color:#000000" for state, colour in COLOURS.items()]
    return "\n".join(lines)


def dot(features: Sequence[Named], schedule: Schedule) -> str:
    """A digraph. Graphviz reads backslashes and HTML entities in quoted strings, so both are escaped."""
    lines = ["digraph features {", "    node [shape=box, style=filled];"]
    for i, name, state in _boxes(features, schedule):
        label = name.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
        text = f"#{i} {label}\\n{state.replace('_', ' ')}"
        lines.append(f'    f{i} [label="{text}", fillcolor="{COLOURS[state]}"];')
    lines += [f"    f{above} -> f{below};" for above, below in _edges(features)]
    return "\n".join([*lines, "}"])


def _listed(ids: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(i): list(others) for i, others in ids.items()}


def _states(features: Sequence[Node], schedule: Schedule) -> dict[int, str]:
    """Its status, or for what is pending whether it can start."""
    states = {feature.id: feature.status.value for feature in features}
    pending = {i: "blocked" for i, state in states.items() if state == "pending"}
    return states | pending | dict.fromkeys(schedule.ready, "ready")


def _boxes(features: Sequence[Named], schedule: Schedule) -> Iterator[tuple[int, str, str]]:
    states = _states(features, schedule)
    for feature in features:
        yield feature.id, _line(feature.name), states[feature.id]
    for i in sorted({d for feature in features for d in feature.dependencies} - states.keys()):
        yield i, "does not exist", "missing"


def _edges(features: Sequence[Node]) -> Iterator[tuple[int, int]]:
    for feature in features:
        for d in dict.fromkeys(feature.dependencies):
            yield d, feature.id


def _tops(features: Sequence[Node]) -> list[int]:
    """What depends on nothing, and one of each cycle: everything else is below one of these."""
    ids = {feature.id for feature in features}
    roots = [feature.id for feature in features if ids.isdisjoint(feature.dependencies)]
    cycles = find_cycles({feature.id: feature.dependencies for feature in features})
    return roots + [cycle[0] for cycle in cycles]


def _rows(children: Mapping[int, Sequence[int]], tops: Sequence[int]) -> Iterator[Row]:
    shown: set[int] = set()
    starts = [Row("", top) for top in reversed(tops)]
    while starts:
        start = starts.pop()
        if start.id in shown and not start.note:
            continue
        later = []
        for row in _branch(start, children, shown):
            yield row
            if row.note == BELOW:
                later.append(Row("", row.id, CONTINUED))
        starts += reversed(later)


def _branch(start: Row, children: Mapping[int, Sequence[int]], shown: set[int]) -> Iterator[Row]:
    """A feature and what is below it. What is shown already, or too deep, is only named."""
    stack = [(start, "", 0)]
    while stack:
        row, indent, level = stack.pop()
        if row.id in shown and level:
            yield Row(row.prefix, row.id, ABOVE)
            continue
        shown.add(row.id)
        if level == DEEPEST and children[row.id]:
            yield Row(row.prefix, row.id, BELOW)
            continue
        yield row
        last = len(children[row.id]) - 1
        for n, child in reversed(list(enumerate(children[row.id]))):
            corner, line = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            stack.append((Row(indent + corner, child), indent + line, level + 1))


def _faults(features: Sequence[Node], schedule: Schedule) -> list[str]:
    """What keeps features from ever being built, in sentences."""
    lines = [
        f"{arrows(cycle)} is a cycle: none of these can start while all of these dependencies stand."
        for cycle in scheduler.cycles(features, schedule)
    ]
    for i, ids in scheduler.missing(features).items():
        lines += [f"#{i} cannot start: it depends on #{d}, which does not exist." for d in ids]
    return ["", *lines] if lines else []


def _line(name: str) -> str:
    return plain(" ".join(name.split()))


def _cut(text: str, cells: int) -> str:
    """The text in at most so many columns of a terminal."""
    ends = list(accumulate(map(_cells, text)))
    if not ends or ends[-1] <= cells:
        return text
    return text[: bisect_right(ends, cells - 1)] + "…"


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
