import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from autoforge.budget import Budget, back_off_s, pause_until, reserve, settle

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
money = st.floats(0, 50)


def granted(budget: Budget, key: str = "a", *, cap: float = 5, turn: float = 1, minimum: float = 2):
    return reserve(budget, key, cap_usd=cap, turn_usd=turn, minimum_usd=minimum)


def test_a_cap_is_granted_and_its_worst_case_reserved() -> None:
    budget, cap_usd = granted(Budget(10))
    assert cap_usd == 5
    assert budget.reserved == {"a": 6}
    assert budget.left_usd == 4


def test_b4_the_last_cap_shrinks_and_then_none_is_granted() -> None:
    budget, _ = granted(Budget(10))
    budget, cap_usd = granted(budget, "b")
    assert cap_usd == 3
    assert budget.left_usd == 0
    assert granted(budget, "c") is None


def test_no_grant_below_the_minimum() -> None:
    assert granted(Budget(2.9)) is None
    assert granted(Budget(3)) == (Budget(3, 0, {"a": 3}), 2)


@pytest.mark.parametrize("limit", [0, -1, 1, math.nan])
def test_no_grant_of_nothing(limit: float) -> None:
    assert granted(Budget(limit), minimum=0) is None


def test_a_cap_below_the_minimum_is_granted_whole() -> None:
    assert granted(Budget(10), cap=1, minimum=2) == (Budget(10, 0, {"a": 2}), 1)


def test_without_a_limit_every_cap_is_granted_and_spending_counted() -> None:
    budget, cap_usd = granted(Budget(None, 1000))
    assert (cap_usd, budget.left_usd) == (5, math.inf)
    assert settle(budget, "a", 2).spent_usd == 1002


def test_settling_frees_what_was_not_spent() -> None:
    budget, _ = granted(Budget(10))
    assert settle(budget, "a", 1.5) == Budget(10, 1.5, {})


@pytest.mark.parametrize("cost", [None, math.nan, math.inf, -1])
def test_an_unknown_cost_is_the_whole_reservation(cost: float | None) -> None:
    budget, _ = granted(Budget(10))
    assert settle(budget, "a", cost) == Budget(10, 6, {})


def test_an_overshoot_is_counted_and_ends_the_build() -> None:
    budget, _ = granted(Budget(10))
    budget = settle(budget, "a", 12)
    assert budget.left_usd == -2
    assert granted(budget) is None


def test_nothing_is_reserved_or_settled_twice() -> None:
    budget, _ = granted(Budget(10))
    with pytest.raises(ValueError, match="a has a reservation already"):
        granted(budget)
    with pytest.raises(KeyError):
        settle(settle(budget, "a", 1), "a", 1)


class Build(RuleBasedStateMachine):
    """Attempts that keep to their cap and one turn, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(100.0)
        self.worst: dict[str, float] = {}
        self.count = 0

    @rule(cap=money, turn=money, minimum=money)
    def start(self, cap: float, turn: float, minimum: float) -> None:
        self.count += 1
        answer = reserve(self.budget, str(self.count), cap_usd=cap, turn_usd=turn, minimum_usd=minimum)
        if answer is not None:
            self.budget, grant = answer
            assert 0 < grant <= cap
            assert grant >= min(minimum, cap)
            self.worst[str(self.count)] = grant + turn

    @precondition(lambda self: self.worst)
    @rule(data=st.data(), share=st.none() | st.floats(0, 1))
    def end(self, data: st.DataObject, share: float | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.worst)))
        worst = self.worst.pop(key)
        self.budget = settle(self.budget, key, None if share is None else worst * share)

    @invariant()
    def never_more_than_the_limit(self) -> None:
        assert self.budget.spent_usd + sum(self.budget.reserved.values()) <= 100 + 1e-9
        assert set(self.budget.reserved) == set(self.worst)


TestBuild = Build.TestCase


def test_a3_a_pause_lasts_until_the_reset_and_a_little_longer() -> None:
    pause = pause_until(NOW, resets_at=NOW + timedelta(hours=3), tries=7)
    assert pause.until == NOW + timedelta(hours=3, seconds=5)
    assert "2026-01-02 06:04 UTC" in pause.reason


@pytest.mark.parametrize("resets_at", [NOW + timedelta(days=3), datetime.max.replace(tzinfo=UTC)])
def test_a3_no_pause_is_longer_than_a_day(resets_at: datetime) -> None:
    assert pause_until(NOW, resets_at=resets_at, tries=1).until == NOW + timedelta(hours=24)


@pytest.mark.parametrize(
    ("tries", "wait_s"), [(0, 60), (1, 60), (2, 120), (5, 960), (6, 1800), (7, 1800), (10**6, 1800)]
)
@pytest.mark.parametrize("resets_at", [None, NOW, NOW - timedelta(hours=1)])
def test_a3_without_a_reset_to_come_pauses_double(
    resets_at: datetime | None, tries: int, wait_s: int
) -> None:
    assert pause_until(NOW, resets_at=resets_at, tries=tries).until == NOW + timedelta(seconds=wait_s)


@given(st.integers(-5, 10**9))
def test_a2_back_off_grows_to_ten_minutes(attempts: int) -> None:
    assert back_off_s(attempts) <= back_off_s(attempts + 1) <= 600
    assert [back_off_s(n) for n in range(9)] == [0, 10, 20, 40, 80, 160, 320, 600, 600]
