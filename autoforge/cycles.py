"""Finds the features that depend on each other, in time linear in features and dependencies."""

from collections.abc import Collection, Mapping, Sequence

_SHOWN = 10


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
