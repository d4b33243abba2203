import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge import scheduler
from autoforge.scheduler import arrows, find_cycles, plan_batches, schedule, stuck
from db.feature import Feature, FeatureStatus

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PENDING, RUNNING, PASSED, FAILED, NEEDS_INPUT, SKIPPED = FeatureStatus
SETTLED = {PASSED, SKIPPED}


def feature(
    id: int,
    *dependencies: int,
    status: FeatureStatus = PENDING,
    priority: int = 100,
    category: str = "feature",
) -> Feature:
    return Feature(
        id=id,
        priority=priority,
        category=category,
        name=f"Feature {id}",
        description="",
        steps=(),
        verify=(),
        evidence=(),
        status=status,
        refinement="",
        branch_name=None,
        commit_sha=None,
        pr_number=None,
        pr_url=None,
        pr_status=None,
        batch_key=None,
        attempts=0,
        last_error=None,
        question=None,
        answer=None,
        issue_number=None,
        last_tested_at=None,
        created_at=NOW,
        updated_at=NOW,
        dependencies=dependencies,
    )


def reachable(start: int, edges: Mapping[int, Iterable[int]]) -> set[int]:
    """Everything that one or more edges lead to, the slow and obvious way."""
    found: set[int] = set()
    todo = [start]
    while todo:
        fresh = set(edges.get(todo.pop(), ())) - found
        found |= fresh
        todo += fresh
    return found


@st.composite
def acyclic(draw: st.DrawFn) -> list[Feature]:
    count = draw(st.integers(0, 12))
    numbers = draw(st.permutations(range(1, count + 1)))  # ids say nothing about the order
    result = []
    for place, id in enumerate(numbers):
        dependencies = draw(st.sets(st.sampled_from(numbers[:place]), max_size=4)) if place else ()
        status = draw(st.sampled_from(FeatureStatus))
        priority, category = draw(st.integers(-9, 9)), draw(st.sampled_from("ab"))
        result.append(feature(id, *dependencies, status=status, priority=priority, category=category))
    return result


graphs = st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 11), max_size=4))


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
    assert plan.blocked == {3: (2,)}


def test_a_passed_feature_that_cannot_be_built_on_yet_blocks() -> None:
    plan = schedule([feature(1, status=PASSED), feature(2, 1)], available=())
    assert (plan.ready, plan.blocked) == ((), {2: (1,)})


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


def test_a_diamond_counts_each_descendant_once() -> None:
    features = [feature(1), feature(2, 1), feature(3, 1), feature(4, 2, 3), feature(5), feature(6, 5)]
    plan = schedule(features, available=())
    assert {i: -score[0] for i, score in plan.scores.items()} == {1: 3, 2: 1, 3: 1, 4: 0, 5: 1, 6: 0}


def test_every_step_of_a_priority_counts() -> None:
    priorities = [10**9, 0, 10**9 - 1, 11, -5, 10, 1000, 999, -(10**9)]
    features = [feature(i, priority=p) for i, p in enumerate(priorities, 1)]
    ready = schedule(features, available=()).ready
    assert [priorities[i - 1] for i in ready] == sorted(priorities)


@given(acyclic())
def test_scores_and_readiness_agree_with_the_definition(features: list[Feature]) -> None:
    by_id = {f.id: f for f in features}
    passed = {f.id for f in features if f.status is PASSED}
    dependents = {
        i: {f.id for f in features if i in f.dependencies and f.status not in SETTLED} for i in by_id
    }
    plan = schedule(features, available=passed)
    pending = {f.id for f in features if f.status is PENDING}
    assert plan.scores.keys() == pending
    assert set(plan.ready) | plan.blocked.keys() == pending
    assert set(plan.ready) == {i for i in pending if set(by_id[i].dependencies) <= passed}
    assert all(set(waits) == set(by_id[i].dependencies) - passed for i, waits in plan.blocked.items())
    assert (plan.missing, plan.cycles) == ({}, ())
    assert list(plan.ready) == sorted(plan.ready, key=lambda i: plan.scores[i])
    for i, (unblocks, _, priority, id) in plan.scores.items():
        assert (-unblocks, priority, id) == (len(reachable(i, dependents)), by_id[i].priority, i)


@given(acyclic())
def test_depth_is_the_longest_way_from_a_root(features: list[Feature]) -> None:
    features = [replace(f, status=PENDING) for f in features]
    by_id = {f.id: f for f in features}

    def depth(i: int) -> int:
        return max((1 + depth(d) for d in by_id[i].dependencies), default=0)

    scores = schedule(features, available=()).scores
    assert {i: score[1] for i, score in scores.items()} == {i: depth(i) for i in by_id}


@given(acyclic(), st.randoms())
def test_the_order_of_the_rows_changes_nothing(features: list[Feature], random) -> None:
    passed = {f.id for f in features if f.status is PASSED}
    shuffled = random.sample(features, len(features))
    plans = [schedule(rows, available=passed) for rows in (features, shuffled)]
    assert plans[0] == plans[1]
    batches = [
        plan_batches(rows, plan, size=3, slots=3)
        for rows, plan in zip((features, shuffled), plans, strict=True)
    ]
    assert batches[0] == batches[1]


def test_above_the_exact_size_trees_are_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = [feature(i, *([i // 2] if i > 1 else [])) for i in range(1, 64)]
    exact = schedule(tree, available=()).scores
    monkeypatch.setattr(scheduler, "EXACT_UP_TO", 10)
    assert schedule(tree, available=()).scores == exact
    ladder = [feature(1)] + [feature(i, *range(max(1, i - 3), i)) for i in range(2, 64)]
    assert all(-score[0] <= 63 for score in schedule(ladder, available=()).scores.values())


# Cycles and what does not exist


def test_b5_a_cycle_is_named_and_does_not_stop_the_others() -> None:
    features = [feature(4, 5), feature(5, 4), feature(6, 4), feature(7), feature(8, 8), feature(9, 7)]
    plan = schedule(features, available=())
    assert plan.cycles == ((4, 5), (8,))
    assert plan.ready == (7,)
    assert plan.scores[7][0] == -1


def test_a_cycle_over_a_passed_feature_blocks_nobody() -> None:
    plan = schedule([feature(1, 2, status=PASSED), feature(2, 1)], available={1})
    assert (plan.ready, plan.cycles) == ((2,), ())


@given(graphs)
def test_cycles_are_exact(graph: dict[int, set[int]]) -> None:
    edges = {i: targets & graph.keys() for i, targets in graph.items()}
    reach = {i: reachable(i, edges) for i in edges}
    groups = {frozenset(j for j in reach[i] if i in reach[j]) for i in edges if i in reach[i]}
    cycles = find_cycles(graph)
    assert len(cycles) == len(groups)
    for cycle in cycles:
        assert any(set(cycle) <= group and cycle[0] == min(group) for group in groups)
        assert len(set(cycle)) == len(cycle)
        assert all(b in edges[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_unknown_dependencies_are_missing() -> None:
    plan = schedule([feature(1, 99, 2), feature(2), feature(3, 98, status=SKIPPED)], available=())
    assert plan.missing == {1: (99,)}
    assert plan.blocked == {1: (99, 2)}


# Batches


def batches(
    features: list[Feature], *, size: int = 3, slots: int = 2, busy: Iterable[int] = ()
) -> list[tuple[int, ...]]:
    passed = {f.id for f in features if f.status is PASSED}
    return plan_batches(
        features, schedule(features, available=passed), size=size, slots=slots, busy=set(busy)
    )


def test_with_enough_slots_each_ready_feature_gets_its_own() -> None:
    assert batches([feature(1), feature(2), feature(3)], slots=3) == [(1,), (2,), (3,)]


def test_a_chain_is_built_together() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 2), feature(4, 3)]) == [(1, 2, 3)]


def test_siblings_do_not_wait_for_each_other() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 1)]) == [(1,)]


def test_a_failed_sibling_still_counts_and_a_skipped_one_does_not() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 1, status=FAILED)]) == [(1,)]
    assert batches([feature(1), feature(2, 1), feature(3, 1, status=SKIPPED)]) == [(1, 2)]


def test_a_chain_stops_at_what_waits_for_others() -> None:
    assert batches([feature(1), feature(2), feature(3, 1, 2)]) == [(1,), (2,)]
    assert batches([feature(1), feature(2, status=PASSED), feature(3, 1, 2)]) == [(1, 3)]


def test_a_chain_stops_at_what_waits_for_a_person_or_is_busy() -> None:
    assert batches([feature(1), feature(2, 1, status=NEEDS_INPUT)]) == [(1,)]
    assert batches([feature(1), feature(2, 1)], busy={2}) == [(1,)]
    assert batches([feature(1), feature(2)], busy={1}) == [(2,)]


def test_what_has_no_slot_joins_its_category_evenly() -> None:
    features = [feature(i, category="ab"[i % 2]) for i in range(1, 8)]
    assert batches(features) == [(1, 3, 5), (2, 4, 6)]
    assert batches([feature(i) for i in range(1, 5)]) == [(1, 3), (2, 4)]


def test_no_size_and_no_slots() -> None:
    features = [feature(1), feature(2, 1), feature(3)]
    assert batches(features, size=1) == [(1,), (3,)]
    assert batches(features, slots=0) == []
    assert batches([], slots=3) == []


@given(acyclic(), st.integers(1, 4), st.integers(0, 4), st.sets(st.integers(1, 12), max_size=3))
def test_batches_can_be_built_in_their_order(
    features: list[Feature], size: int, slots: int, busy: set[int]
) -> None:
    by_id = {f.id: f for f in features}
    passed = {f.id for f in features if f.status is PASSED}
    plan = schedule(features, available=passed)
    result = plan_batches(features, plan, size=size, slots=slots, busy=busy)
    members = [i for batch in result for i in batch]
    assert len(members) == len(set(members))
    assert not busy & set(members)
    free = [i for i in plan.ready if i not in busy]
    assert [batch[0] for batch in result] == free[:slots]
    for batch in result:
        assert len(batch) <= size
        for place, i in enumerate(batch):
            assert by_id[i].status is PENDING
            assert set(by_id[i].dependencies) <= passed | set(batch[:place])


# Why nothing runs


def test_b3_each_reason_in_words() -> None:
    features = [
        feature(1, status=FAILED),
        feature(2, status=NEEDS_INPUT),
        feature(3, status=SKIPPED),
        feature(4, 5),
        feature(5, 4),
        feature(6, status=PASSED),
        feature(7, status=PASSED),
        feature(8, status=RUNNING),
        feature(11, 1),
        feature(12, 2, 99),
        feature(13, 3),
        feature(14, 4),
        feature(15, 11),
        feature(16, 6),
        feature(17, 7),
        feature(18, 8),
        feature(19),
    ]
    plan = schedule(features, available=())
    assert stuck(features, plan, held={7: "is in pull request #5, which was closed"}) == {
        4: "is part of a cycle #4 → #5 → #4",
        5: "is part of a cycle #4 → #5 → #4",
        11: "waits for #1, which failed",
        12: "waits for #2, which needs an answer: autoforge answer 2 …; depends on #99, which does not exist",
        13: "waits for #3, which was skipped",
        14: "waits for #4, which is part of a cycle",
        15: "waits for #11, which cannot start itself",
        16: "waits for #6, which has passed but cannot be built on yet",
        17: "waits for #7, which is in pull request #5, which was closed",
        18: "waits for #8, which is still running",
    }


def test_a_long_cycle_is_shown_without_its_middle() -> None:
    assert arrows([8]) == "#8 → #8"
    text = arrows(range(1, 1001))
    assert text.startswith("#1 → #2 → ")
    assert text.endswith(" → … → #1000 → #1")
    assert len(text) < 80


# Size


@pytest.mark.parametrize("shape", ["chain", "ring", "wide"])
def test_a_hundred_thousand_features_take_no_recursion(shape: str) -> None:
    count = 100_000
    before = {
        "chain": lambda i: [i - 1] if i > 1 else [],
        "ring": lambda i: [i - 1 or count],
        "wide": lambda i: [],
    }[shape]
    features = [feature(i, *before(i)) for i in range(1, count + 1)]
    plan = schedule(features, available=())
    assert len(plan.ready) == {"chain": 1, "ring": 0, "wide": count}[shape]
    assert len(plan.ready) + len(stuck(features, plan)) == count
    planned = plan_batches(features, plan, size=3, slots=5)
    assert [len(batch) for batch in planned] == {"chain": [3], "ring": [], "wide": [3] * 5}[shape]


def test_ten_thousand_features_are_scheduled_at_once() -> None:
    features = [feature(i, *{max(1, i - 7 * k) for k in (1, 2, 3)} - {i}) for i in range(1, 10_001)]
    start = time.process_time()
    plan = schedule(features, available=())
    assert time.process_time() - start < 1
    assert -plan.scores[1][0] > 9_000
