"""The proposed order is as good as the best that a brute force finds."""

from collections.abc import Collection, Sequence
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from autoforge.merge_order import EXACT_UP_TO, order

KEYS = "abcdef"


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[str], dict[str, list[str]], set[frozenset[str]]]:
    keys = list(KEYS[: draw(st.integers(0, len(KEYS)))])
    below = {
        key: draw(st.lists(st.sampled_from(keys[:n]), max_size=2, unique=True)) if n else []
        for n, key in enumerate(keys)
    }
    pairs = [frozenset(pair) for pair in combinations(keys, 2)]
    return keys, below, draw(st.sets(st.sampled_from(pairs))) if pairs else set()


def valid(found: tuple[str, ...], below: dict[str, list[str]]) -> bool:
    return all(found.index(parent) < found.index(key) for key in found for parent in below[key])


def conflicting(found: Sequence[str], clashes: Collection[frozenset[str]]) -> tuple[str, ...]:
    """Those that conflict when their turn comes."""
    return tuple(
        key for n, key in enumerate(found) if any(frozenset({key, other}) in clashes for other in found[:n])
    )


@given(stacks())
def test_no_order_conflicts_less(given: tuple[list[str], dict[str, list[str]], set[frozenset[str]]]) -> None:
    keys, below, clashes = given
    found = order(keys, below=below, clashes=clashes)
    assert sorted(found) == sorted(keys)
    assert valid(found, below)
    best = min(
        (len(conflicting(tries, clashes)) for tries in permutations(keys) if valid(tries, below)), default=0
    )
    assert len(conflicting(found, clashes)) == best


def test_what_conflicts_with_nothing_keeps_its_place() -> None:
    assert order("abc", below={}, clashes=set()) == ("a", "b", "c")


def test_one_that_is_in_everybodys_way_goes_last() -> None:
    clashes = {frozenset({"a", other}) for other in "bcd"}
    found = order("abcd", below={}, clashes=clashes)
    assert (found, conflicting(found, clashes)) == (("b", "c", "d", "a"), ("a",))


def test_many_are_ordered_too() -> None:
    keys = [f"k{n}" for n in range(EXACT_UP_TO * 3)]
    below = {key: [keys[n - 1]] if n % 3 else [] for n, key in enumerate(keys)}
    clashes = {frozenset({keys[0], key}) for key in keys[3:]}
    found = order(keys, below=below, clashes=clashes)
    assert sorted(found) == sorted(keys)
    assert valid(found, below)
    assert len(conflicting(found, clashes)) == 1


def test_what_waits_for_itself_is_in_the_order_all_the_same() -> None:
    cycle = {"a": ["b"], "b": ["a"]}
    assert order("abc", below=cycle, clashes=set()) == ("c", "a", "b")
    many = [*"ab", *(f"k{n}" for n in range(EXACT_UP_TO))]
    assert sorted(order(many, below=cycle, clashes=set())) == sorted(many)
