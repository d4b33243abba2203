from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge import descendants
from autoforge.cycles import arrows, find_cycles
from autoforge.scheduler import blocked, cycles, missing, plan_batches, schedule, scores, stuck
from tests.nodes import (
    FAILED,
    NEEDS_INPUT,
    PASSED,
    PENDING,
    RUNNING,
    SKIPPED,
    Row,
    acyclic,
    feature,
    passed,
    reachable,
)

SETTLED = {PASSED, SKIPPED}
any_graph = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 11), max_size=4))


def unblocks(features: list[Row]) -> dict[int, int]:
    plan = schedule(features, available=passed(features))
    return {i: -score[0] for i, score in scores(features, plan).items()}


# Order


def test_ready_is_pending_with_everything_available() -> None:
    features = [
        feature(1, status=PASSED),
        feature(2, 1),
        feature(3, 2),
        feature(4),
        feature(5, status=FAILED),
    ]
    plan = schedule(features, available={1})
    assert plan.ready == (2, 4)
    assert blocked(features, plan) == {3: (2,)}


def test_a_passed_feature_that_cannot_be_built_on_yet_blocks() -> None:
    features = [feature(1, status=PASSED), feature(2, 1)]
    plan = schedule(features, available=())
    assert (plan.ready, blocked(features, plan)) == ((), {2: (1,)})


def test_unblocks_goes_before_depth_before_priority_before_id() -> None:
    features = [
        feature(1, status=PASSED),
        feature(2, 1, priority=0),  # deeper than 3, 4 and 5
        feature(3, priority=2),
        feature(4, priority=1),
        feature(5, priority=1),
        feature(6, priority=1000),  # unblocks 7
        feature(7, 6),
    ]
    assert schedule(features, available={1}).ready == (6, 4, 5, 3, 2)


def test_b30_a_diamond_counts_each_descendant_once() -> None:
    features = [feature(1), feature(2, 1), feature(3, 1), feature(4, 2, 3, 3), feature(5), feature(6, 5)]
    assert unblocks(features) == {1: 3, 2: 1, 3: 1, 4: 0, 5: 1, 6: 0}


def test_b30_layers_and_shortcuts_are_counted_exactly() -> None:
    layers = [
        feature(i, *range(i - 3 - (i - 1) % 3, i - (i - 1) % 3) if i > 3 else ()) for i in range(1, 1001)
    ]
    assert unblocks(layers)[1] == 997
    shortcut = [feature(1), feature(2, 1), feature(3, 2), feature(4, 3, 1), feature(5, 4)]
    assert unblocks(shortcut) == {1: 4, 2: 3, 3: 2, 4: 1, 5: 0}


def test_b31_every_step_of_a_priority_counts() -> None:
    priorities = [2**31 - 1, 0, 2**31 - 2, 11, -5, 10, 1000, 999, -(2**31)]
    features = [feature(i, priority=p) for i, p in enumerate(priorities, 1)]
    features += [feature(i, priority=1) for i in range(10, 300)]
    ready = schedule(features, available=()).ready
    assert [features[i - 1].priority for i in ready] == sorted(f.priority for f in features)


@given(acyclic())
def test_scores_and_readiness_agree_with_the_definition(features: list[Row]) -> None:
    by_id = {f.id: f for f in features}
    available = passed(features)
    dependents = {
        i: {f.id for f in features if i in f.dependencies and f.status not in SETTLED} for i in by_id
    }
    plan = schedule(features, available=available)
    pending = {f.id for f in features if f.status is PENDING}
    waits = blocked(features, plan)
    score = scores(features, plan)
    assert score.keys() == pending
    assert set(plan.ready) | waits.keys() == pending
    assert set(plan.ready) == {i for i in pending if set(by_id[i].dependencies) <= available}
    for i, ids in waits.items():
        assert sorted(ids) == sorted(set(by_id[i].dependencies) - available)
    assert (missing(features), cycles(features, plan)) == ({}, [])
    assert list(plan.ready) == sorted(plan.ready, key=score.__getitem__)
    for i, (less, _, priority, id) in score.items():
        assert (-less, priority, id) == (len(reachable(i, dependents)), by_id[i].priority, i)


@given(acyclic([PENDING]))
def test_depth_is_the_longest_way_from_a_root(features: list[Row]) -> None:
    by_id = {f.id: f for f in features}

    def depth(i: int) -> int:
        return max((1 + depth(d) for d in by_id[i].dependencies), default=0)

    score = scores(features, schedule(features, available=()))
    assert {i: each[1] for i, each in score.items()} == {i: depth(i) for i in by_id}


@given(acyclic(), st.randoms())
def test_the_order_of_the_rows_changes_nothing(features: list[Row], random) -> None:
    results = []
    for rows in (features, random.sample(features, len(features))):
        plan = schedule(rows, available=passed(rows))
        planned = plan_batches(rows, plan, size=3, slots=3)
        results.append((plan.ready, planned, scores(rows, plan), stuck(rows, plan)))
    assert results[0] == results[1]


@given(acyclic([PENDING]), st.integers(1, 4))
def test_b30_descendants_are_counted_in_parts_as_at_once(features: list[Row], at_once: int) -> None:
    dependents = {f.id: {g.id for g in features if f.id in g.dependencies} for f in features}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descendants, "AT_ONCE", at_once)
        counted = unblocks(features)
    assert counted == {i: len(reachable(i, dependents)) for i in dependents}


# Cycles and what does not exist


def test_b5_a_cycle_is_named_and_does_not_stop_the_others() -> None:
    features = [feature(4, 5), feature(5, 4), feature(6, 4), feature(7), feature(8, 8), feature(9, 7)]
    features.append(feature(10, 7, 4))  # behind the cycle: nothing that runs would unblock it
    plan = schedule(features, available=())
    assert cycles(features, plan) == [[4, 5], [8]]
    assert plan.ready == (7,)
    assert scores(features, plan)[7][0] == -1


def test_b29_what_is_behind_a_cycle_is_no_cycle() -> None:
    assert find_cycles({1: [3], 2: [1], 3: [2], 4: [3, 5], 5: [6], 6: []}) == [[1, 3, 2]]
    assert find_cycles({1: [3, 2], 2: [1], 3: [1]}) == [[1, 2]]


def test_a_cycle_over_a_passed_feature_blocks_nobody() -> None:
    features = [feature(1, 2, status=PASSED), feature(2, 1)]
    plan = schedule(features, available={1})
    assert (plan.ready, cycles(features, plan)) == ((2,), [])
    skipped = [feature(1, 2, status=SKIPPED), feature(2, 1, status=SKIPPED)]
    assert cycles(skipped, schedule(skipped, available=())) == []


@given(any_graph)
def test_cycles_are_exact(graph: dict[int, list[int]]) -> None:
    edges = {i: set(targets) & graph.keys() for i, targets in graph.items()}
    reach = {i: reachable(i, edges) for i in edges}
    groups = {frozenset(j for j in reach[i] if i in reach[j]) for i in edges if i in reach[i]}
    found = find_cycles(graph)
    assert len(found) == len(groups)
    for cycle in found:
        assert any(set(cycle) <= group and cycle[0] == min(group) for group in groups)
        assert len(set(cycle)) == len(cycle)
        assert all(b in edges[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    features = [feature(i, *targets) for i, targets in graph.items()]
    plan = schedule(features, available=())
    assert cycles(features, plan) == found
    assert missing(features) == {
        i: tuple(dict.fromkeys(d for d in ids if d not in graph))
        for i, ids in graph.items()
        if set(ids) - graph.keys()
    }
    behind = {i for i in edges if i in reach[i] or reach[i] & set().union(*groups)}
    open_below = {i: {j for j in edges if i in reach[j]} - behind for i in edges}
    for i, (less, *_) in scores(features, plan).items():
        assert -less == (0 if i in behind else len(open_below[i]))


# Why nothing runs


def test_b3_each_reason_in_words() -> None:
    settled = [FAILED, NEEDS_INPUT, SKIPPED, PASSED, PASSED, RUNNING]
    features = [feature(i, status=status) for i, status in enumerate(settled, 1)]
    features += [feature(8, 9), feature(9, 8), feature(11, 1), feature(12, 2, 99), feature(13, 3)]
    features += [feature(14, 8), feature(15, 11), feature(16, 4), feature(17, 5), feature(18, 6), feature(19)]
    plan = schedule(features, available=())
    assert stuck(features, plan, held={5: "is in pull request #5, which was closed"}) == {
        8: "is part of a cycle #8 → #9 → #8",
        9: "is part of a cycle #8 → #9 → #8",
        11: "waits for #1, which failed",
        12: "waits for #2, which needs an answer: autoforge answer 2 …; depends on #99, which does not exist",
        13: "waits for #3, which was skipped",
        14: "waits for #8, which is part of a cycle",
        15: "waits for #11, which is not built yet",
        16: "waits for #4, which has passed but cannot be built on yet",
        17: "waits for #5, which is in pull request #5, which was closed",
        18: "waits for #6, which is still running",
    }


def test_a_long_cycle_is_shown_without_its_middle() -> None:
    assert arrows([8]) == "#8 → #8"
    text = arrows(range(1, 1001))
    assert text.startswith("#1 → #2 → ")
    assert text.endswith(" → … → #1000 → #1")
    assert len(text) < 80


# Size

COUNT = 100_000
SHAPES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "chain": lambda i: (i - 1,) if i > 1 else (),
    "ring": lambda i: (i - 1 or COUNT,),
    "wide": lambda i: (),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_b28_a_hundred_thousand_features_take_no_recursion(shape: str) -> None:
    features = [Row(i, SHAPES[shape](i)) for i in range(1, COUNT + 1)]
    plan = schedule(features, available=())
    assert len(plan.ready) == {"chain": 1, "ring": 0, "wide": COUNT}[shape]
    assert len(plan.ready) + len(stuck(features, plan)) == COUNT
    assert [len(cycle) for cycle in cycles(features, plan)] == ([COUNT] if shape == "ring" else [])
    planned = plan_batches(features, plan, size=3, slots=5)
    assert [len(batch) for batch in planned] == {"chain": [3], "ring": [], "wide": [3] * 5}[shape]
    assert scores(features, plan)[1][0] == (1 - COUNT if shape == "chain" else 0)


def test_b30_however_many_features_there_are_ways_to_them_do_not_count() -> None:
    ladder = [Row(i, tuple(range(max(1, i - 3), i))) for i in range(1, 30_001)]
    chain = [Row(i, (i - 1,) if i > 30_001 else ()) for i in range(30_001, 70_001)]
    assert schedule(ladder + chain, available=()).ready == (30_001, 1)
    assert unblocks(ladder[:10_000])[1] == 9_999
