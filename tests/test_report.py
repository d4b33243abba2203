"""What is told at the end: why each thing is left, and the exit code."""

import json

import pytest

from autoforge import report
from autoforge.report import Report
from db.feature import BatchStatus, FeatureStatus, Result
from tests.values import batch, feature, passed

DONE = [passed(1, "a")], [batch("a", 1)]
LEFT = [feature(1)], []


@pytest.mark.parametrize(
    ("ending", "left", "code"),
    [
        (None, False, 0),
        (None, True, 1),
        (Result.MONEY, False, 0),
        (Result.MONEY, True, 4),
        (Result.INTERRUPTED, False, 0),
        (Result.INTERRUPTED, True, 130),
        (Result.UNAVAILABLE, True, 2),
        (Result.UNAVAILABLE, False, 2),
    ],
)
def test_the_exit_code(ending: Result | None, left: bool, code: int) -> None:
    features, batches = LEFT if left else DONE
    assert report.make(features, batches, cost_usd=0, ending=ending).exit_code == code


@pytest.mark.parametrize(
    ("status", "publish", "forge", "error", "told"),
    [
        (BatchStatus.BUILT, False, False, None, False),
        (BatchStatus.BUILT, True, True, None, True),
        (BatchStatus.BUILT, False, False, "refused", True),
        (BatchStatus.PUSHED, True, False, None, False),
        (BatchStatus.PUSHED, True, True, None, True),
        (BatchStatus.PUSHED, False, False, "refused", True),
        (BatchStatus.OPENED, True, True, None, False),
        (BatchStatus.MERGED, True, True, None, False),
    ],
)
def test_what_should_be_further_than_it_is_counts_as_left(
    status: BatchStatus, publish: bool, forge: bool, error: str | None, told: bool
) -> None:
    held = [batch("a", 1, status=status, last_error=error)]
    made = report.make([passed(1, "a")], held, cost_usd=0, publish=publish, forge=forge)
    assert ("a" in made.unpublished) is told
    assert made.exit_code == int(told)
    if told:
        assert (error or "the build ended before") in made.unpublished["a"]


@pytest.mark.parametrize(
    ("status", "other", "why"),
    [
        (FeatureStatus.PENDING, {}, "has not been tried yet"),
        (FeatureStatus.PENDING, {"last_error": "red"}, "red"),
        (FeatureStatus.RUNNING, {}, "is running"),
        (FeatureStatus.FAILED, {"attempts": 3, "last_error": "red"}, "failed after 3 attempts: red"),
        (
            FeatureStatus.NEEDS_INPUT,
            {"question": "which?"},
            "asks: which? (autoforge answer 1 shows and answers it)",
        ),
    ],
)
def test_what_is_left_says_why(status: FeatureStatus, other: dict[str, object], why: str) -> None:
    made = report.make([feature(1, status=status, **other)], [], cost_usd=0)
    assert made.open == {1: why}
    assert made.exit_code == 1


def test_s6_what_waits_for_a_failed_or_closed_one_is_blocked_and_says_so() -> None:
    features = [
        feature(1, status=FeatureStatus.FAILED),
        feature(2, dependencies=(1,)),
        passed(3, "c"),
        feature(4, dependencies=(3,)),
    ]
    made = report.make(features, [batch("c", 3, status=BatchStatus.CLOSED)], cost_usd=0)
    assert made.blocked[2] == "waits for #1, which failed"
    assert "closed unmerged" in made.blocked[4]
    assert made.open.keys() == {1}
    assert (made.count(FeatureStatus.PENDING), made.exit_code) == (0, 1)


def test_only_what_was_selected_counts() -> None:
    features = [passed(1, "a"), feature(2), feature(3, dependencies=(2,))]
    held = [batch("a", 1), batch("b", 2, status=BatchStatus.BUILT, last_error="no")]
    made = report.make(features, held, cost_usd=0, selected=frozenset({1}))
    assert (made.exit_code, made.open, made.blocked, made.unpublished) == (0, {}, {}, {})


def test_skipped_features_are_no_failure() -> None:
    assert report.make([feature(1, status=FeatureStatus.SKIPPED)], [], cost_usd=0).exit_code == 0


def test_the_json_says_the_same() -> None:
    features = [passed(1, "a"), feature(2), feature(3, dependencies=(2,))]
    made: Report = report.make(features, [batch("a", 1)], cost_usd=1.23456)
    shape = json.loads(json.dumps(report.as_json(made), default=str))
    assert shape["totals"]["passed"] == 1
    assert (shape["totals"]["pending"], shape["totals"]["blocked"], shape["totals"]["cost_usd"]) == (
        1,
        1,
        1.2346,
    )
    assert (list(shape["open"]), list(shape["blocked"])) == (["2"], ["3"])
    assert shape["features"][0]["commit_sha"] == features[0].commit_sha
