"""Decides what can be built next: the dependency graph, the order, the batches, and why something cannot run."""

import heapq
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoforge import descendants
from autoforge.cycles import arrows, find_cycles
from db.feature import FeatureStatus

PENDING, PASSED, SKIPPED = FeatureStatus.PENDING, FeatureStatus.PASSED, FeatureStatus.SKIPPED

Score = tuple[int, int, int, int]
"""(-unblocks, depth, priority, id): the lowest goes first."""


class Node(Protocol):
    """What scheduling needs to know of a feature."""

    @property
    def id(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def category(self) -> str: ...
    @property
    def status(self) -> FeatureStatus: ...
    @property
    def dependencies(self) -> Collection[int]: ...


@dataclass(frozen=True)
class Graph:
    """Who builds on whom. Features are positions in the list that was scheduled: that is twice as fast as ids.

    What a settled feature once waited for is left out, unless that is settled as well.
    """

    position: Mapping[int, int]  # of each id
    followers: Sequence[Sequence[int]]
    order: Sequence[int]  # dependencies first; without what is in or behind a cycle
    depths: Sequence[int]  # the longest way from a root; 0 for what is not in the order
    settled: Sequence[bool]  # passed or skipped


@dataclass(frozen=True)
class Schedule:
    """What can start now, best first, by id. The functions below tell the rest, for the same list of features."""

    ready: tuple[int, ...]
    available: frozenset[int]
    graph: Graph


def schedule(features: Sequence[Node], *, available: Collection[int]) -> Schedule:
    """Find the pending features that have all they need.

    `available`: the passed features whose work can be built on now. The order compares whole values one after
    the other, without weights or bounds, so every step of a priority counts wherever unblocks and depth are equal.
    """
    available = frozenset(available)
    graph = _graph(features)
    ready = [
        n
        for n, feature in enumerate(features)
        if feature.status is PENDING and available.issuperset(feature.dependencies)
    ]
    ranked = sorted(_scores(features, graph, ready))
    return Schedule(ready=tuple(score[-1] for score in ranked), available=available, graph=graph)


def scores(features: Sequence[Node], schedule: Schedule) -> dict[int, Score]:
    """Of each pending feature."""
    pending = [n for n, feature in enumerate(features) if feature.status is PENDING]
    return {score[-1]: score for score in _scores(features, schedule.graph, pending)}


def blocked(features: Sequence[Node], schedule: Schedule) -> dict[int, tuple[int, ...]]:
    """Each pending feature that is not ready, and the direct dependencies that it waits for, unknown ones too."""
    available = schedule.available
    return {
        feature.id: tuple(d for d in dict.fromkeys(feature.dependencies) if d not in available)
        for feature in features
        if feature.status is PENDING and not available.issuperset(feature.dependencies)
    }


def missing(features: Sequence[Node]) -> dict[int, tuple[int, ...]]:
    """Each pending feature with dependencies that do not exist, and which."""
    known = {feature.id for feature in features}
    return {
        feature.id: tuple(d for d in dict.fromkeys(feature.dependencies) if d not in known)
        for feature in features
        if feature.status is PENDING and not known.issuperset(feature.dependencies)
    }


def cycles(features: Sequence[Node], schedule: Schedule) -> list[list[int]]:
    """One cycle for each group of open features that wait for each other, as in find_cycles."""
    left = set(range(len(features))).difference(schedule.graph.order)
    waiting = [features[n] for n in sorted(left) if not schedule.graph.settled[n]]
    return find_cycles({feature.id: feature.dependencies for feature in waiting})


def build_order(features: Sequence[Node], schedule: Schedule) -> list[int]:
    """The pending features, dependencies first and otherwise best first, without what is in or behind a cycle.

    Last comes what cannot be reached by building: something below it failed, was skipped, waits or runs.
    """
    score = scores(features, schedule)
    waits = blocked(features, schedule)
    held = {i for i, ids in waits.items() if not score.keys() >= set(ids)}
    followers: dict[int, list[int]] = {i: [] for i in score}
    counts = dict.fromkeys(score, 0)
    for i, ids in waits.items():
        for d in score.keys() & set(ids):
            followers[d].append(i)
            counts[i] += 1
    heap = [(i in held, score[i]) for i, count in counts.items() if not count]
    heapq.heapify(heap)
    order = []
    while heap:
        is_held, (*_, i) = heapq.heappop(heap)
        order.append(i)
        for follower in followers[i]:
            counts[follower] -= 1
            if is_held:
                held.add(follower)
            if not counts[follower]:
                heapq.heappush(heap, (follower in held, score[follower]))
    return order


def plan_batches(
    features: Sequence[Node],
    schedule: Schedule,
    *,
    size: int,
    slots: int,
    busy: Collection[int] = (),
) -> list[tuple[int, ...]]:
    """At most `slots` batches of at most `size` features, best first; within a batch dependencies come first.

    Every ready feature gets a batch of its own while there are slots. A batch then takes the sole dependent of its
    last feature, so that nobody else waits longer, and only what has no slot joins a batch of its category.
    """
    position, follows = schedule.graph.position, schedule.graph.followers
    ready = [features[position[i]] for i in schedule.ready if i not in busy]
    batches = [[feature] for feature in ready[: max(slots, 0)]]
    for batch in batches:
        while len(batch) < size:
            followers = set(follows[position[batch[-1].id]])
            follower = features[followers.pop()] if len(followers) == 1 else None
            if follower is None or follower.id in busy or not _completes(follower, batch, schedule.available):
                break
            batch.append(follower)
    _fill(batches, ready[len(batches) :], size=size)
    return [tuple(feature.id for feature in batch) for batch in batches]


def stuck(
    features: Sequence[Node], schedule: Schedule, *, held: Mapping[int, str] | None = None
) -> dict[int, str]:
    """Each pending feature that is not ready, and why in words.

    `held`: passed features that cannot be built on, with the reason as it follows "which" in a sentence.
    """
    by_id = {feature.id: feature for feature in features}
    in_cycle: dict[int, str] = {}
    for cycle in cycles(features, schedule):
        in_cycle |= dict.fromkeys(cycle, f"is part of a cycle {arrows(cycle)}")
    reasons: dict[int, str] = {}
    for i, waits in blocked(features, schedule).items():
        causes = (_why(d, by_id.get(d), held=held or {}, in_cycle=d in in_cycle) for d in waits)
        reasons[i] = in_cycle.get(i) or "; ".join(causes)
    return reasons


def _why(i: int, feature: Node | None, *, held: Mapping[int, str], in_cycle: bool) -> str:
    if feature is None:
        return f"depends on #{i}, which does not exist"
    words = {
        FeatureStatus.PENDING: "is part of a cycle" if in_cycle else "is not built yet",
        FeatureStatus.RUNNING: "is still running",
        FeatureStatus.PASSED: held.get(i, "has passed but cannot be built on yet"),
        FeatureStatus.FAILED: "failed",
        FeatureStatus.NEEDS_INPUT: f"needs an answer: autoforge answer {i} …",
        FeatureStatus.SKIPPED: "was skipped",
    }
    return f"waits for #{i}, which {words[feature.status]}"


def _completes(follower: Node, batch: Sequence[Node], available: frozenset[int]) -> bool:
    """Whether it can be built as soon as the batch is."""
    others = set(follower.dependencies) - {feature.id for feature in batch}
    return follower.status is PENDING and others <= available


def _fill(batches: Sequence[list[Node]], waiting: Sequence[Node], *, size: int) -> None:
    """Add what has no slot of its own to batches of its category, in rounds, so that these stay equally long."""
    queues: dict[str, deque[Node]] = {}
    for feature in waiting:
        queues.setdefault(feature.category, deque()).append(feature)
    for length in range(2, size + 1):
        for batch in batches:
            queue = queues.get(batch[0].category)
            if queue and len(batch) < length:
                batch.append(queue.popleft())


def _graph(features: Sequence[Node]) -> Graph:
    position = {feature.id: n for n, feature in enumerate(features)}
    settled = [feature.status is PASSED or feature.status is SKIPPED for feature in features]
    followers: list[list[int]] = [[] for _ in features]
    waits = []
    find = position.get
    for n, feature in enumerate(features):
        count, is_open = 0, not settled[n]
        for d in feature.dependencies:
            below = find(d)
            if below is not None and (is_open or settled[below]):
                followers[below].append(n)
                count += 1
        waits.append(count)
    order, depths = _levels(followers, waits)
    return Graph(position, followers, order, depths, settled)


def _levels(followers: Sequence[Sequence[int]], waits: list[int]) -> tuple[list[int], list[int]]:
    """The order and the depths. `waits`, for how many each one waits, is used up."""
    order: list[int] = []
    depths = [0] * len(waits)
    depth = 0
    level = [n for n, count in enumerate(waits) if not count]
    while level:
        order += level
        depth += 1
        next_level = []
        for n in level:
            for follower in followers[n]:
                waits[follower] = left = waits[follower] - 1
                if not left:
                    depths[follower] = depth
                    next_level.append(follower)
        level = next_level
    return order, depths


def _scores(features: Sequence[Node], graph: Graph, wanted: Sequence[int]) -> list[Score]:
    unblocks = descendants.count(wanted, order=graph.order, followers=graph.followers)
    return [
        (-count, graph.depths[n], features[n].priority, features[n].id)
        for n, count in zip(wanted, unblocks, strict=True)
    ]
