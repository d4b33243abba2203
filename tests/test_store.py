"""The feature table as its callers see it: features and batches, on each database."""

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.errors import InvalidFeatures, NotFound, StoreError
from db.feature import (
    MAX_DEPENDENCIES,
    Batch,
    BatchStatus,
    Ended,
    Feature,
    FeatureStatus,
    NewFeature,
    Parent,
    PrStatus,
    Result,
)
from db.new_features import check
from db.store import FeatureStore
from tests.tables import CHECK, RAN, added, behind, everything, led, passed, planned, started


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url, busy_timeout_s=5))
    yield opened
    opened.close()


# Features


def test_added_features_come_back_whole(store: FeatureStore) -> None:
    first = NewFeature("first", "what", ("one", "two"), "api", 7, ("make test",), issue_number=12)
    assert store.add_features([first, NewFeature("  second \n half ", depends_on=(0,))]) == [1, 2]
    one, two = store.features()
    assert (one.name, one.description, one.steps, one.category) == ("first", "what", ("one", "two"), "api")
    assert (one.priority, one.verify, one.issue_number) == (7, ("make test",), 12)
    assert (one.status, one.attempts, one.evidence) == (FeatureStatus.PENDING, 0, ())
    assert (two.name, two.priority, two.dependencies) == ("second half", 8, (1,))
    assert one.created_at.tzinfo is UTC
    assert store.feature(2) == two
    assert {field.name: type(getattr(one, field.name)) for field in fields(Feature)}[
        "status"
    ] is FeatureStatus


def test_priorities_go_on_after_the_highest(store: FeatureStore) -> None:
    store.add_features([NewFeature("a", priority=50), NewFeature("b"), NewFeature("c", priority=-1)])
    store.add_features([NewFeature("d"), NewFeature("e")])
    assert [(f.name, f.priority) for f in store.features()] == [
        ("c", -1), ("a", 50), ("b", 51), ("d", 52), ("e", 53)
    ]  # fmt: skip


def test_dependencies_on_the_list_and_the_table(store: FeatureStore) -> None:
    added(store, "old")
    ids = store.add_features([NewFeature("x", depends_on=(1,), existing=(1,)), NewFeature("y")])
    assert store.feature(ids[0]).dependencies == (1, ids[1])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (NewFeature(" \t "), "feature 2 '': name is empty"),
        (NewFeature("x" * 201), "name has 201 characters, at most 200 are allowed"),
        (NewFeature("x\x1b[2J"), "name has the character U+001B: remove it"),
        (NewFeature("x", category="a\x9bb"), "category has the character U+009B"),
        (NewFeature("x", category=" "), "category is empty"),
        (NewFeature("x", verify=("",)), "verify is empty"),
        (NewFeature("x", steps=("ok", " \n")), "steps is empty"),
        (NewFeature("GOOD"), "feature 2 'GOOD': the name is already that of feature 1"),
        (NewFeature("old  FEATURE "), "feature 2 'old FEATURE': the name is already in the table"),
        (NewFeature("x", depends_on=(2,)), "feature 2 'x': depends on item 3, which is not in the list"),
        (NewFeature("x", depends_on=(-1,)), "depends on item 0, which is not in the list"),
        (NewFeature("x", depends_on=(1,)), "feature 2 'x': it depends on itself"),
        (NewFeature("x", depends_on=(0, 0)), "it names a dependency twice"),
        (NewFeature("x", existing=(1, 1)), "it names a dependency twice"),
        (NewFeature("x", existing=(99,)), "depends on feature #99, which is not in the table"),
        (NewFeature("x", existing=(10**30,)), "which is not in the table"),
        (NewFeature("x", existing=tuple(range(MAX_DEPENDENCIES + 1))), "depends on 21 features, at most 20"),
        (NewFeature("x\0y"), "name holds a NUL byte"),
        (NewFeature("x", steps=("ok", "\0")), "steps holds a NUL byte"),
        (NewFeature("x", verify=("\0",)), "verify holds a NUL byte"),
        (NewFeature("x", description="\ud800"), "description is not valid Unicode"),
        (NewFeature("x", priority=10**12), "priority 1000000000000 is beyond"),
        (NewFeature("x", issue_number=10**30), "issue_number 1"),
    ],
)
def test_b5_a_bad_feature_is_named_and_nothing_is_stored(
    store: FeatureStore, bad: NewFeature, said: str
) -> None:
    added(store, "Old feature")
    with pytest.raises(InvalidFeatures) as raised:
        store.add_features([NewFeature("good"), bad])
    assert said in str(raised.value)
    assert [feature.name for feature in store.features()] == ["Old feature"]


def test_b5_a_circle_names_its_members(store: FeatureStore) -> None:
    with pytest.raises(InvalidFeatures) as raised:
        store.add_features(
            [
                NewFeature("a", depends_on=(1,)),
                NewFeature("b", depends_on=(2,)),
                NewFeature("c", depends_on=(1,)),
            ]
        )
    said = str(raised.value)
    assert "in a circle" in said
    assert "feature 2 'b' needs feature 3 'c'" in said
    assert "'a'" not in said
    assert store.features() == []


def test_b5_many_faults_are_counted() -> None:
    with pytest.raises(InvalidFeatures, match="and 15 more"):
        check([NewFeature("")] * 25, names=[], ids=[])


def test_a_long_chain_is_no_recursion() -> None:
    chain = [NewFeature(f"f{i}", depends_on=(i - 1,) if i else ()) for i in range(20_000)]
    check(chain, names=[], ids=[])
    with pytest.raises(InvalidFeatures, match="circle"):
        check([replace(chain[0], depends_on=(19_999,)), *chain[1:]], names=[], ids=[])


@given(st.lists(st.sets(st.integers(0, 7), max_size=4), max_size=8))
def test_b5_a_list_is_refused_exactly_when_it_cannot_be_ordered(graph: list[set[int]]) -> None:
    new = [NewFeature(f"f{i}", depends_on=tuple(needs)) for i, needs in enumerate(graph)]
    left = dict(enumerate(graph))
    while ready := [node for node, needs in left.items() if not needs & left.keys()]:
        for node in ready:
            del left[node]
    in_range = all(need < len(graph) for needs in graph for need in needs)
    try:
        check(new, names=[], ids=[])
    except InvalidFeatures:
        assert left or not in_range
    else:
        assert not left
        assert in_range


def test_an_unknown_feature_is_not_found(store: FeatureStore) -> None:
    with pytest.raises(NotFound, match="no feature 3"):
        store.feature(3)
    with pytest.raises(NotFound, match="no batch zz"):
        store.batch("zz")
    with pytest.raises(StoreError):
        store.feature(10**30)


def test_an_answer_makes_the_feature_pending(store: FeatureStore) -> None:
    [fid] = added(store, "a")
    with pytest.raises(StoreError, match=f"#{fid} does not wait for an answer: it is pending"):
        store.answer(fid, "blue")
    planned(store, "k1", fid)
    attempt = started(store, "k1", fid)
    store.end_attempt(attempt.id, Ended(Result.NEEDS_INPUT, questions={fid: "Which colour?"}), max_attempts=1)
    asked = store.feature(fid)
    assert (asked.status, asked.question, asked.answer) == (FeatureStatus.NEEDS_INPUT, "Which colour?", None)
    for bad in ("  ", "a\0b", "\ud800"):
        with pytest.raises(StoreError, match="The answer to feature"):
            store.answer(fid, bad)
    answered = store.answer(fid, "blue")
    assert answered == store.feature(fid)
    assert (answered.status, answered.question, answered.answer) == (
        FeatureStatus.PENDING, "Which colour?", "blue"
    )  # fmt: skip


# Batches


def test_planning_claims_pending_features(store: FeatureStore) -> None:
    ids = added(store, "a", "b", "c")
    batch = planned(store, "k1", ids[1], ids[0])
    assert batch.feature_ids == (ids[1], ids[0])
    assert (batch.status, batch.checks, batch.notes) == (BatchStatus.PLANNED, (), ())
    feature = store.feature(ids[0])
    assert (feature.status, feature.batch_key, feature.branch_name) == (
        FeatureStatus.PENDING, "k1", "autoforge/x-k1"
    )  # fmt: skip
    before = everything(store)
    assert not store.plan_batch(Batch("k2", "autoforge/y", (ids[2], ids[0])))
    assert everything(store) == before
    with pytest.raises(NotFound, match="#77"):
        store.plan_batch(Batch("k3", "autoforge/z", (ids[2], 77)))
    with pytest.raises(StoreError):
        store.plan_batch(Batch("k1", "autoforge/same-key", (ids[2],)))
    assert everything(store) == before


def test_planning_refuses_what_is_not_pending(store: FeatureStore, table_url: str) -> None:
    ids = added(store, "a", "b")
    behind(table_url, f"UPDATE features SET status = 'skipped' WHERE id = {ids[1]}")
    assert not store.plan_batch(Batch("k1", "b", tuple(ids)))
    assert store.batches() == []


def test_a_saved_batch_comes_back_whole(store: FeatureStore) -> None:
    ids = added(store, "a", "b", "c")
    for key, fid in zip(("p1", "p2", "k1"), ids, strict=True):
        planned(store, key, fid)
    full = replace(
        store.batch("k1"),
        branch="autoforge/moved",
        status=BatchStatus.PUSHED,
        base_branch="main",
        base_sha="1" * 40,
        head_sha="2" * 40,
        merge_sha="3" * 40,
        worktree_path="/somewhere",
        pr_number=4,
        pr_url="https://forge/4",
        pr_status=PrStatus.DRAFT,
        parents=(Parent("p2", "t2"), Parent("p1", "t1")),
        checks=(CHECK, RAN),
        summary="done",
        notes=("red baseline",),
        rounds=2,
        check_signature="sig",
        pushed_sha="p" * 40,
        last_error="no",
    )
    store.save_batch(full)
    saved = store.batch("k1")
    assert replace(saved, updated_at=full.updated_at) == full
    store.save_batch(replace(saved, parents=(Parent("p1", "t9"),), feature_ids=()))
    again = store.batch("k1")
    assert (again.parents, again.feature_ids) == ((Parent("p1", "t9"),), (ids[2],))
    assert [batch.key for batch in store.batches()] == ["p1", "p2", "k1"]
    with pytest.raises(NotFound, match="no batch zz"):
        store.save_batch(Batch("zz", "b", ()))


def test_a_planned_batch_can_be_dropped(store: FeatureStore) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", *ids)
    store.drop_planned("k1")
    assert store.batches() == []
    assert [(f.batch_key, f.branch_name, f.status) for f in store.features()] == [
        (None, None, FeatureStatus.PENDING)
    ] * 2
    planned(store, "k2", *ids)
    store.end_attempt(started(store, "k2", *ids).id, Ended(Result.LIMITED), max_attempts=3)
    before = everything(store)
    with pytest.raises(StoreError, match="cannot be dropped"):
        store.drop_planned("k2")
    assert everything(store) == before
    with pytest.raises(NotFound):
        store.drop_planned("k1")


def test_dropping_gives_a_released_feature_back_to_the_batch_it_stands_on(store: FeatureStore) -> None:
    ids = added(store, "a", "b")
    batch = planned(store, "k1", *ids)
    attempt = started(store, "k1", *ids)
    passed(store, "k1", ids[0], "c1")
    store.end_attempt(attempt.id, Ended(Result.PARTIAL, "b is hard"), max_attempts=3)
    store.save_batch(replace(store.batch("k1"), status=BatchStatus.PUSHED))
    released = store.feature(ids[1])
    assert (released.batch_key, released.attempts) == ("k1", 1)
    planned(store, "k2", ids[1])
    store.drop_planned("k2")
    again = store.feature(ids[1])
    assert (again.batch_key, again.branch_name) == ("k1", batch.branch)
