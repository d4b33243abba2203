"""In which order open branches are merged so that the fewest of them conflict when their turn comes; pure."""

from collections.abc import Collection, Mapping, Sequence, Set
from functools import cache

EXACT_UP_TO = 12  # heads: every set of them is looked at


def order(
    keys: Sequence[str], *, below: Mapping[str, Collection[str]], clashes: Collection[frozenset[str]]
) -> tuple[str, ...]:
    """All keys, each after what is `below` it; of equally good orders the one nearest to that of `keys`.

    A key conflicts when one that it clashes with comes before it.
    """
    rivals: dict[str, set[str]] = {key: set() for key in keys}
    for pair in clashes:
        for key in pair & rivals.keys():
            rivals[key] |= (pair - {key}) & rivals.keys()
    needs = {key: set(below.get(key, ())) & rivals.keys() for key in keys}
    return _exact(keys, needs, rivals) if len(keys) <= EXACT_UP_TO else _greedy(keys, needs, rivals)


def _exact(
    keys: Sequence[str], needs: Mapping[str, set[str]], rivals: Mapping[str, set[str]]
) -> tuple[str, ...]:
    @cache
    def best(done: frozenset[str]) -> tuple[int, tuple[str, ...]]:
        tries = []
        for place, key in enumerate(_ready(keys, needs, done)):
            cost, rest = best(done | {key})
            tries.append((cost + bool(rivals[key] & done), place, (key, *rest)))
        return min(((cost, found) for cost, _, found in sorted(tries)), default=(0, ()), key=lambda t: t[0])

    return best(frozenset())[1]


def _greedy(
    keys: Sequence[str], needs: Mapping[str, set[str]], rivals: Mapping[str, set[str]]
) -> tuple[str, ...]:
    """Next is what conflicts with nothing that is merged, and is in the way of the fewest."""
    done: dict[str, None] = {}
    while len(done) < len(keys):
        ready = _ready(keys, needs, done.keys())
        done[min(ready, key=lambda k: (bool(rivals[k] & done.keys()), len(rivals[k] - done.keys())))] = None
    return tuple(done)


def _ready(keys: Sequence[str], needs: Mapping[str, set[str]], done: Set[str]) -> list[str]:
    """Those whose turn it can be; all where they wait for each other: nothing is lost by taking them as they come."""
    rest = [key for key in keys if key not in done]
    return [key for key in rest if needs[key] <= done] or rest
