"""A plan as a person reviews it: a tree, the longest chain, and how much can be built at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from autoforge.progress.lines import counted
from db.feature import NewFeature


@dataclass(frozen=True)
class Outline:
    """`levels`: positions by their longest distance from a feature that depends on nothing; `critical`: the longest chain."""

    features: tuple[NewFeature, ...]
    levels: tuple[tuple[int, ...], ...]
    critical: tuple[int, ...]

    @property
    def widest(self) -> int:
        return max(map(len, self.levels), default=0)


def make(features: Sequence[NewFeature]) -> Outline:
    """Dependencies point anywhere in the list but form no cycle."""
    depth: dict[int, int] = {}
    above: dict[int, int] = {}  # the dependency that makes it so deep
    waiting = list(range(len(features)))
    while waiting:
        ready = [n for n in waiting if all(d in depth for d in features[n].depends_on)]
        for n in ready:
            deepest = max(features[n].depends_on, key=lambda d: depth[d], default=None)
            depth[n] = 0 if deepest is None else depth[deepest] + 1
            if deepest is not None:
                above[n] = deepest
        waiting = [n for n in waiting if n not in depth]
    count = max(depth.values(), default=-1) + 1
    levels = tuple(tuple(n for n in depth if depth[n] == level) for level in range(count))
    chain = [min(levels[-1])] if levels else []
    while chain and chain[-1] in above:
        chain.append(above[chain[-1]])
    return Outline(tuple(features), levels, tuple(reversed(chain)))


def lines(outline: Outline) -> list[str]:
    """The tree, each feature once below the deepest thing that it needs; `also needs` names the rest."""
    depth = {n: level for level, members in enumerate(outline.levels) for n in members}
    children: dict[int | None, list[int]] = {}
    for n, feature in enumerate(outline.features):
        parent = max(feature.depends_on, key=lambda d: depth[d], default=None)
        children.setdefault(parent, []).append(n)
    result: list[str] = []
    todo = [(n, 0, None) for n in reversed(children.get(None, []))]
    stack: list[tuple[int, int, int | None]] = list(todo)
    while stack:
        n, indent, parent = stack.pop()
        result += _entry(outline, n, indent, parent)
        stack += [(child, indent + 1, n) for child in reversed(children.get(n, []))]
    path = " → ".join(outline.features[n].name for n in outline.critical)
    result += [
        "",
        f"{counted(len(outline.features), 'feature')}. Longest chain ({len(outline.critical)}): {path}",
    ]
    result += [f"At most {outline.widest} can be built at the same time."]
    return result


def _entry(outline: Outline, n: int, indent: int, parent: int | None) -> list[str]:
    feature = outline.features[n]
    space = "  " * indent
    others = [outline.features[d].name for d in feature.depends_on if d != parent]
    others += [f"#{i}" for i in feature.existing]
    also = f" (also needs {', '.join(others)})" if others else ""
    return [
        f"{space}- {feature.name} [{feature.category}]{also}",
        *(f"{space}    · {step}" for step in feature.steps),
    ]
