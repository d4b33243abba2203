"""Decides what can be built next: the dependency graph, the order, the batches, and why something cannot run."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from db.feature import Feature, FeatureStatus

EXACT_UP_TO = 20_000
"""Up to so many open features descendants are counted exactly, in n·(n + edges)/64 word operations and n²/16 bytes."""

_SETTLED = frozenset({FeatureStatus.PASSED, FeatureStatus.SKIPPED})

_SHOWN = 10

Score = tuple[int, int, int, int]


@dataclass(frozen=True)
class Schedule:
    """What can start and what cannot. All ids are feature ids; a dependency on an unknown id is in `blocked` too."""

    ready: tuple[int, ...]  # best first
    blocked: Mapping[int, tuple[int, ...]]  # pending feature -> the direct dependencies that it waits for
    missing: Mapping[int, tuple[int, ...]]  # pending feature -> its dependencies that do not exist
    cycles: tuple[tuple[int, ...], ...]  # each member depends on the next, the last on the first
    scores: Mapping[int, Score]  # pending feature -> (-unblocks, depth, priority, id): the lowest goes first


def schedule(features: Sequence[Feature], *, available: Collection[int]) -> Schedule:
    """Sort the pending features into ready and blocked.

    `available`: the passed features whose work can be built on now. The order compares whole values one after
    the other, without weights or bounds, so every step of a priority counts wherever unblocks and depth are equal.
    """
    by_id = {feature.id: feature for feature in features}
    available = frozenset(available)
    open_ids = {feature.id for feature in features if feature.status not in _SETTLED}
    dependents = _dependents(by_id, open_ids)
    depths, leftover = _depths(by_id, dependents)
    unblocks = _count_descendants([i for i in depths if i in open_ids], dependents)
    blocked: dict[int, tuple[int, ...]] = {}
    scores: dict[int, Score] = {}
    for feature in features:
        if feature.status is not FeatureStatus.PENDING:
            continue
        i = feature.id
        scores[i] = (-unblocks.get(i, 0), depths.get(i, 0), feature.priority, i)
        if not available.issuperset(feature.dependencies):
            blocked[i] = tuple(d for d in dict.fromkeys(feature.dependencies) if d not in available)
    cycles = find_cycles({i: by_id[i].dependencies for i in leftover if i in open_ids})
    gone = {i: tuple(d for d in waits if d not in by_id) for i, waits in blocked.items()}
    return Schedule(
        ready=tuple(sorted(scores.keys() - blocked.keys(), key=scores.__getitem__)),
        blocked=blocked,
        missing={i: ids for i, ids in gone.items() if ids},
        cycles=tuple(tuple(cycle) for cycle in cycles),
        scores=scores,
    )


def plan_batches(
    features: Sequence[Feature],
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
    ready = [i for i in schedule.ready if i not in busy]
    batches = [[i] for i in ready[: max(slots, 0)]]
    by_id = {feature.id: feature for feature in features}
    dependents = _dependents(by_id, {i for i, f in by_id.items() if f.status not in _SETTLED})
    waits = {i: d for i, d in schedule.blocked.items() if i not in busy}
    for batch in batches:
        while len(batch) < size and (follower := _follower(batch, dependents, waits)) is not None:
            batch.append(follower)
    _fill(batches, [by_id[i] for i in ready[len(batches) :]], by_id=by_id, size=size)
    return [tuple(batch) for batch in batches]


def stuck(
    features: Sequence[Feature], schedule: Schedule, *, held: Mapping[int, str] | None = None
) -> dict[int, str]:
    """Each pending feature that is not ready, and why in words.

    `held`: passed features that cannot be built on, with the reason as it follows "which" in a sentence.
    """
    by_id = {feature.id: feature for feature in features}
    in_cycle: dict[int, str] = {}
    for cycle in schedule.cycles:
        in_cycle |= dict.fromkeys(cycle, f"is part of a cycle {arrows(cycle)}")
    reasons: dict[int, str] = {}
    for i, waits in schedule.blocked.items():
        causes = (_why(d, by_id.get(d), held=held or {}, in_cycle=d in in_cycle) for d in waits)
        reasons[i] = in_cycle.get(i) or "; ".join(causes)
    return reasons


def arrows(cycle: Sequence[int]) -> str:
    """The cycle as people read it: #4 → #5 → #4; a long one without its middle."""
    shown = [f"#{i}" for i in cycle]
    if len(shown) > _SHOWN:
        shown[_SHOWN - 1 : -1] = ["…"]
    return " → ".join((*shown, shown[0]))


def find_cycles(dependencies: Mapping[int, Collection[int]]) -> list[list[int]]:
    """One cycle for each group of features that depend on each other, and nothing else.

    It is a shortest one through the group's lowest id, which comes first; each member depends on the next.
    Ids that are no keys are ignored.
    """
    graph = {i: [d for d in depends_on if d in dependencies] for i, depends_on in dependencies.items()}
    found = []
    for component in _components(graph):
        start = min(component)
        if len(component) > 1 or start in graph[start]:
            found.append(
                _shortest_cycle(start, {i: [d for d in graph[i] if d in component] for i in component})
            )
    return sorted(found)


def _why(i: int, feature: Feature | None, *, held: Mapping[int, str], in_cycle: bool) -> str:
    if feature is None:
        return f"depends on #{i}, which does not exist"
    words = {
        FeatureStatus.PENDING: "is part of a cycle" if in_cycle else "cannot start itself",
        FeatureStatus.RUNNING: "is still running",
        FeatureStatus.PASSED: held.get(i, "has passed but cannot be built on yet"),
        FeatureStatus.FAILED: "failed",
        FeatureStatus.NEEDS_INPUT: f"needs an answer: autoforge answer {i} …",
        FeatureStatus.SKIPPED: "was skipped",
    }
    return f"waits for #{i}, which {words[feature.status]}"


def _follower(
    batch: Sequence[int], dependents: Mapping[int, Iterable[int]], waits: Mapping[int, Sequence[int]]
) -> int | None:
    """The one feature that depends on the batch's last, when the batch is all that it waits for."""
    followers = set(dependents[batch[-1]])
    if len(followers) != 1:
        return None
    follower = followers.pop()
    return follower if follower in waits and set(waits[follower]) <= set(batch) else None


def _fill(
    batches: Sequence[list[int]], waiting: Sequence[Feature], *, by_id: Mapping[int, Feature], size: int
) -> None:
    """Add what has no slot of its own to batches of its category, in rounds, so that these stay equally long."""
    queues: dict[str, deque[int]] = {}
    for feature in waiting:
        queues.setdefault(feature.category, deque()).append(feature.id)
    for length in range(2, size + 1):
        for batch in batches:
            queue = queues.get(by_id[batch[0]].category)
            if queue and len(batch) < length:
                batch.append(queue.popleft())


def _dependents(by_id: Mapping[int, Feature], open_ids: Collection[int]) -> dict[int, list[int]]:
    """Who builds on whom. What a settled feature once waited for is left out, unless that is settled as well."""
    dependents: dict[int, list[int]] = {i: [] for i in by_id}
    for i, feature in by_id.items():
        is_open = i in open_ids
        for d in feature.dependencies:
            if d in dependents and (is_open or d not in open_ids):
                dependents[d].append(i)
    return dependents


def _depths(
    by_id: Mapping[int, Feature], dependents: Mapping[int, Sequence[int]]
) -> tuple[dict[int, int], list[int]]:
    """Each feature's longest distance from a root, in topological order, and what is in or behind a cycle."""
    waits = dict.fromkeys(by_id, 0)
    for followers in dependents.values():
        for i in followers:
            waits[i] += 1
    order = [i for i, count in waits.items() if not count]
    depths = dict.fromkeys(order, 0)
    for i in order:  # grows while it is read
        below = depths[i] + 1
        for follower in dependents[i]:
            waits[follower] -= 1
            if not waits[follower]:
                order.append(follower)
            if depths.get(follower, 0) < below:
                depths[follower] = below
    return {i: depths[i] for i in order}, [i for i, count in waits.items() if count]


def _count_descendants(order: Sequence[int], dependents: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """How many distinct features of `order` (topological) wait for each; beyond EXACT_UP_TO in linear time.

    Then a feature with several dependencies counts once for each path to it, at most as often as there are features.
    """
    if len(order) > EXACT_UP_TO:
        return _count_paths(order, dependents)
    counts: dict[int, int] = {}
    reach: dict[
        int, int
    ] = {}  # feature -> itself and its descendants, as bits; the last of the order is bit 0
    for position, i in enumerate(reversed(order)):
        bits = 0
        for follower in dependents[i]:
            bits |= reach.get(follower, 0)
        counts[i] = bits.bit_count()
        reach[i] = bits | 1 << position
    return counts


def _count_paths(order: Sequence[int], dependents: Mapping[int, Sequence[int]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for i in reversed(order):
        counts[i] = min(len(order), sum(1 + counts[f] for f in dependents[i] if f in counts))
    return counts


def _components(graph: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """The strongly connected components, by Kosaraju's two walks."""
    reverse: dict[int, list[int]] = {i: [] for i in graph}
    for i, targets in graph.items():
        for target in targets:
            reverse[target].append(i)
    seen: set[int] = set()
    components = []
    for root in reversed(_postorder(graph)):
        if root in seen:
            continue
        seen.add(root)
        component = [root]
        for i in component:  # grows while it is read
            fresh = [source for source in reverse[i] if source not in seen]
            seen.update(fresh)
            component.extend(fresh)
        components.append(set(component))
    return components


def _postorder(graph: Mapping[int, Sequence[int]]) -> list[int]:
    seen: set[int] = set()
    order = []
    for root in graph:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(graph[root]))]
        while stack:
            node, targets = stack[-1]
            fresh = next((target for target in targets if target not in seen), None)
            if fresh is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(fresh)
                stack.append((fresh, iter(graph[fresh])))
    return order


def _shortest_cycle(start: int, graph: Mapping[int, Sequence[int]]) -> list[int]:
    came_from: dict[int, int] = {}
    queue = [start]
    for node in queue:  # grows while it is read
        for target in sorted(graph[node]):
            if target not in came_from:
                came_from[target] = node
                queue.append(target)
        if start in came_from:
            break
    cycle = [came_from[start]]
    while cycle[-1] != start:
        cycle.append(came_from[cycle[-1]])
    return cycle[::-1]
