"""Features as scheduling sees them, and graphs of them."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from db.feature import FeatureStatus

PENDING, RUNNING, PASSED, FAILED, NEEDS_INPUT, SKIPPED = FeatureStatus


class Row(NamedTuple):
    """Only what scheduling asks for."""

    id: int
    dependencies: tuple[int, ...] = ()
    status: FeatureStatus = PENDING
    priority: int = 100
    category: str = "feature"


def feature(
    id: int,
    *dependencies: int,
    status: FeatureStatus = PENDING,
    priority: int = 100,
    category: str = "feature",
) -> Row:
    return Row(id, dependencies, status, priority, category)


def passed(features: Iterable[Row]) -> set[int]:
    return {f.id for f in features if f.status is PASSED}


def reachable(start: int, edges: Mapping[int, Collection[int]]) -> set[int]:
    """Everything that one or more edges lead to, the slow and obvious way."""
    found: set[int] = set()
    todo = [start]
    while todo:
        fresh = set(edges.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found


@st.composite
def acyclic(
    draw: st.DrawFn, statuses: type[FeatureStatus] | list[FeatureStatus] = FeatureStatus
) -> list[Row]:
    count = draw(st.integers(0, 12))
    numbers = draw(st.permutations(range(1, count + 1)))  # ids say nothing about the order
    result = []
    for place, id in enumerate(numbers):
        earlier = st.lists(st.sampled_from(numbers[:place]), max_size=4) if place else st.just([])
        result.append(
            Row(
                id,
                tuple(draw(earlier)),  # the same one may be there twice
                draw(st.sampled_from(statuses)),
                draw(st.integers(-9, 9)),
                draw(st.sampled_from("ab")),
            )
        )
    return result
