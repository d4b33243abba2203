from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from autoforge.scheduler import plan_batches, schedule
from tests.nodes import FAILED, NEEDS_INPUT, PASSED, PENDING, SKIPPED, Row, acyclic, feature, passed


def batches(
    features: list[Row], *, size: int = 3, slots: int = 2, busy: Iterable[int] = ()
) -> list[tuple[int, ...]]:
    plan = schedule(features, available=passed(features))
    return plan_batches(features, plan, size=size, slots=slots, busy=set(busy))


def test_b37_with_enough_slots_each_ready_feature_gets_its_own() -> None:
    assert batches([feature(1), feature(2), feature(3)], slots=3) == [(1,), (2,), (3,)]
    infrastructure = [feature(i, category="infrastructure") for i in range(1, 6)]
    assert len(batches(infrastructure, slots=5)) == 5
    assert sorted(map(len, batches(infrastructure, slots=4))) == [1, 1, 1, 2]


def test_a_chain_is_built_together() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 2), feature(4, 3)]) == [(1, 2, 3)]
    assert batches([feature(1), feature(2, 1, 1)]) == [(1, 2)]
    assert batches([feature(1), feature(2, 1), feature(3, 2, 1)]) == [(1,)]  # 2 and 3 both wait for 1


def test_siblings_do_not_wait_for_each_other() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 1)]) == [(1,)]


def test_a_failed_sibling_still_counts_and_a_skipped_one_does_not() -> None:
    assert batches([feature(1), feature(2, 1), feature(3, 1, status=FAILED)]) == [(1,)]
    assert batches([feature(1), feature(2, 1), feature(3, 1, status=SKIPPED)]) == [(1, 2)]


def test_a_chain_stops_at_what_waits_for_others() -> None:
    assert batches([feature(1), feature(2), feature(3, 1, 2)]) == [(1,), (2,)]
    assert batches([feature(1), feature(2, status=PASSED), feature(3, 1, 2)]) == [(1, 3)]
    assert batches([feature(1), feature(3, 1, 99)]) == [(1,)]


def test_b35_a_chain_stops_at_what_waits_for_a_person_or_is_busy() -> None:
    assert batches([feature(1), feature(2, 1, status=NEEDS_INPUT), feature(3, 2)]) == [(1,)]
    assert batches([feature(1), feature(2, 1)], busy={2}) == [(1,)]
    assert batches([feature(1), feature(2)], busy={1}) == [(2,)]


def test_what_has_no_slot_joins_its_category_evenly() -> None:
    features = [feature(i, category="ab"[i % 2]) for i in range(1, 8)]
    assert batches(features) == [(1, 3, 5), (2, 4, 6)]
    assert batches([feature(i) for i in range(1, 5)]) == [(1, 3), (2, 4)]
    assert batches([feature(1), feature(2, 1), feature(3), feature(4)]) == [(1, 2), (3, 4)]


def test_no_size_and_no_slots() -> None:
    features = [feature(1), feature(2, 1), feature(3)]
    assert batches(features, size=1) == [(1,), (3,)]
    assert batches(features, slots=0) == []
    assert batches(features, slots=-1) == []
    assert batches([], slots=3) == []


@given(acyclic(), st.integers(1, 4), st.integers(0, 4), st.sets(st.integers(1, 12), max_size=3))
def test_b37_no_slot_idles_and_batches_can_be_built_in_their_order(
    features: list[Row], size: int, slots: int, busy: set[int]
) -> None:
    by_id = {f.id: f for f in features}
    available = passed(features)
    plan = schedule(features, available=available)
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
            assert set(by_id[i].dependencies) <= available | set(batch[:place])


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_b37_what_is_started_is_what_fits(ready: int, slots: int, size: int) -> None:
    result = batches([feature(i) for i in range(1, ready + 1)], slots=slots, size=size)
    assert sum(map(len, result)) == min(ready, slots * size)
    assert max(map(len, result)) - min(map(len, result)) <= 1
