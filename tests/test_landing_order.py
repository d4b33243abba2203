"""What lands before what, and what cannot: from values alone."""

import pytest

from autoforge import landing_order
from autoforge.errors import UsageError
from db.feature import Batch, BatchStatus, FeatureStatus, Parent, PrStatus
from tests.values import batch, feature, passed

BUILT = BatchStatus.BUILT


def on(*keys: str) -> tuple[Parent, ...]:
    return tuple(Parent(key, f"head-{key}") for key in keys)


def order(*batches: Batch, asked: set[str] | None = None) -> landing_order.Order:
    keys = landing_order.verified(batches) if asked is None else asked
    return landing_order.order(batches, keys, by_name=asked is not None)


def keys(batches: tuple[Batch, ...]) -> str:
    return "".join(b.key for b in batches)


def test_parents_come_first_whatever_the_order_of_the_table() -> None:
    made = order(
        batch("d", 4, status=BUILT, parents=on("b", "c")),
        batch("c", 3, status=BUILT, parents=on("a")),
        batch("b", 2, status=BatchStatus.PUSHED, parents=on("a")),
        batch("a", 1, status=BUILT),
    )
    assert (keys(made.batches), made.added, made.left) == ("abcd", (), {})


def test_what_is_asked_for_brings_what_it_is_built_on() -> None:
    made = order(
        batch("a", 1, status=BUILT),
        batch("b", 2, status=BUILT, parents=on("a")),
        batch("c", 3, status=BUILT),
        batch("m", 4, status=BatchStatus.MERGED),
        batch("d", 5, status=BUILT, parents=on("b", "m")),
        asked={"d"},
    )
    assert (keys(made.batches), keys(made.added)) == ("abd", "ab")


def test_a_folded_parent_lands_with_the_one_that_it_was_folded_into() -> None:
    made = order(
        batch("a", 1, status=BUILT),
        batch("b", 2, status=BatchStatus.FOLDED, parents=on("a")),
        batch("c", 3, status=BUILT, parents=on("b")),
        asked={"c"},
    )
    assert keys(made.batches) == "ac"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (BatchStatus.OPENED, "#7 is open"),
        (BatchStatus.CLOSED, "closed unmerged"),
        (BatchStatus.WORKING, "not finished"),
        (BatchStatus.FAILED, "nothing in it has passed"),
    ],
)
def test_what_is_built_on_something_that_cannot_land_is_left_with_it(status: BatchStatus, why: str) -> None:
    made = order(
        batch("a", 1, status=status, pr_number=7),
        batch("b", 2, status=BUILT, parents=on("a")),
        batch("c", 3, status=BUILT),
    )
    assert keys(made.batches) == "c"
    assert why in made.left["a"]
    assert made.left["b"] == "it is built on autoforge/a, which has not landed."


def test_a_closed_batch_lands_only_when_it_is_named() -> None:
    closed = batch("a", 1, status=BatchStatus.CLOSED)
    assert order(closed).batches == ()
    assert order(closed, asked={"a"}).batches == (closed,)


def test_batches_are_named_by_key_and_by_feature() -> None:
    features = [passed(1, "a"), passed(2, "b"), feature(3), feature(4, status=FeatureStatus.PASSED)]
    batches = [batch("a", 1), batch("b", 2)]
    assert landing_order.named(features, batches, ["a", "#2"]) == {"a", "b"}
    assert landing_order.named(features, batches, ["1"]) == {"a"}
    for word, why in (
        ("3", "#3 is pending"),
        ("4", "no branch"),
        ("zz", "no batch or feature zz"),
        ("9", "9"),
    ):
        with pytest.raises(UsageError, match=why):
            landing_order.named(features, batches, [word])


def test_landed_is_what_no_pull_request_merged() -> None:
    merged = BatchStatus.MERGED
    batches = [
        batch("a", 1, status=merged, merge_sha="m"),
        batch("b", 2, status=merged, merge_sha="m", pr_number=1, pr_status=PrStatus.MERGED),
        batch("c", 3, status=merged, merge_sha="m", pr_number=2, pr_status=PrStatus.CLOSED),
        batch("d", 4, status=BUILT),
    ]
    assert [b.key for b in landing_order.landed(batches)] == ["a", "c"]
