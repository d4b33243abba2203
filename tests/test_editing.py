"""What a person changes in the feature table: definitions, dependencies, removal."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from db.errors import InvalidFeatures, NotFound
from db.feature import BatchStatus, FeatureStatus, NewFeature
from db.store import FeatureStore
from tests.standings import GIVEN_UP, PASSED, RUNNING, added, begin, refused, stand
from tests.tables import led


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url))
    yield opened
    opened.close()


# The definition


def test_an_edit_changes_what_was_given(store: FeatureStore) -> None:
    [id_] = added(store, ())
    before = store.feature(id_)
    after = store.edit(id_, name="  New \n name ", steps=["a", "b"], priority=-3)
    assert after == store.feature(id_)
    assert after == replace(
        before, name="New name", steps=("a", "b"), priority=-3, updated_at=after.updated_at
    )
    assert after.updated_at > before.updated_at
    store.edit(id_, name="NEW NAME", description="", steps=[], verify=["make"], category="bug\n 2")
    last = store.feature(id_)
    assert last.category == "bug 2"
    assert (last.name, last.description, last.steps, last.verify) == ("NEW NAME", "", (), ("make",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": " \t"}, "name is empty"),
        ({"name": "f2"}, "the name is that of #2 already"),
        ({"name": "a\0"}, "name holds a NUL byte"),
        ({"description": "\ud800"}, "description is not valid Unicode"),
        ({"steps": ["ok", " "]}, "steps is empty"),
        ({"verify": ["\0"]}, "verify holds a NUL byte"),
        ({"category": ""}, "category is empty"),
        ({"name": "x" * 201}, "name has 201 characters"),
        ({"category": "a\x1bb"}, "category has the character U+001B"),
        ({"priority": -(10**10)}, "priority -10000000000 is beyond"),
    ],
)
def test_b5_a_bad_edit_is_refused(store: FeatureStore, changes: dict[str, object], said: str) -> None:
    added(store, (), ())
    refused(store, lambda: store.edit(1, **changes), said, InvalidFeatures)  # type: ignore[arg-type]
    refused(store, lambda: store.edit(9, **changes), "no feature #9", NotFound)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [RUNNING, PASSED])
def test_what_was_verified_keeps_its_definition(store: FeatureStore, status: FeatureStatus) -> None:
    id_ = stand(store, status)
    for change in ({"name": "x"}, {"description": "x"}, {"steps": ["x"]}, {"verify": ["x"]}):
        refused(
            store, lambda change=change: store.edit(id_, **change), f"the {next(iter(change))} cannot change"
        )  # type: ignore[misc]
    assert store.edit(id_, priority=7, category="bug").priority == 7


# Removal


def test_removing_what_others_need_is_refused_with_their_names(store: FeatureStore) -> None:
    added(store, (), (1,), (1, 2), ())
    refused(store, lambda: store.remove([1]), "feature #1 is needed by #2, #3: ")
    refused(store, lambda: store.remove([1, 2]), "feature #1 is needed by #3: ")
    refused(store, lambda: store.remove([4, 9]), "no feature #9", NotFound)
    assert store.remove([3, 2, 1, 3]) == [3, 2, 1]
    assert [f.id for f in store.features()] == [4]


def test_a_cascade_takes_all_dependents(store: FeatureStore) -> None:
    added(store, (), (1,), (2,), (1, 3), ())
    assert sorted(store.remove([2], cascade=True)) == [2, 3, 4]
    assert [f.id for f in store.features()] == [1, 5]


@pytest.mark.parametrize("status", [RUNNING, PASSED])
def test_what_runs_or_has_passed_is_not_removed(store: FeatureStore, status: FeatureStatus) -> None:
    id_ = stand(store, status)
    [first] = store.add_features([NewFeature("first")])
    refused(store, lambda: store.remove([first, id_]), f"feature #{id_} ")


def test_removal_keeps_the_history_and_never_gives_a_number_again(store: FeatureStore) -> None:
    added(store, (), ())
    attempt = begin(store, "k", 1, 2)
    store.record_pass(batch_key="k", feature_id=1, commit_sha="c" * 40, evidence=[], checks=[])
    store.end_attempt(attempt, GIVEN_UP, max_attempts=1)
    refused(store, lambda: store.remove([2]), "feature #2 belongs to autoforge/k, which is not finished")
    store.save_batch(replace(store.batch("k"), status=BatchStatus.OPENED))
    store.remove([2])
    assert store.batch("k").feature_ids == (1,)
    assert [a.feature_ids for a in store.attempts()] == [(1, 2)]
    assert store.add_features([NewFeature("F2")]) == [3]


# Dependencies


def test_a_circle_is_refused_and_named(store: FeatureStore) -> None:
    added(store, (), (1,), (2,), ())
    refused(
        store, lambda: store.depend(1, [4, 3]), "in a circle: #1 needs #3 needs #2 needs #1", InvalidFeatures
    )
    refused(store, lambda: store.depend(1, [1]), "in a circle: #1 needs #1", InvalidFeatures)
    refused(store, lambda: store.depend(3, [2]), "#3 depends on #2 already", InvalidFeatures)
    refused(store, lambda: store.depend(3, [77]), "no feature #77", NotFound)
    store.depend(3, [4, 1, 4])
    assert store.feature(3).dependencies == (1, 2, 4)
    refused(store, lambda: store.undepend(3, [2, 3]), "#3 does not depend on #3", InvalidFeatures)
    store.undepend(3, [2, 1])
    store.undepend(2, [1])
    store.depend(1, [3])
    assert [store.feature(i).dependencies for i in (1, 2, 3)] == [(3,), (), (4,)]


def test_there_are_at_most_20_dependencies(store: FeatureStore) -> None:
    ids = store.add_features([NewFeature(f"f{n}") for n in range(22)])
    store.depend(ids[0], ids[1:20])
    refused(store, lambda: store.depend(ids[0], ids[20:]), "21 features, at most 20", InvalidFeatures)
    store.depend(ids[0], ids[20:21])


def test_b28_a_long_chain_is_no_circle(store: FeatureStore) -> None:
    ids = store.add_features([NewFeature(f"f{n}", depends_on=(n - 1,) if n else ()) for n in range(1500)])
    [last] = store.add_features([NewFeature("last")])
    store.depend(last, [ids[-1]])
    refused(store, lambda: store.depend(ids[0], [last]), f"#{ids[0]} needs #{last} needs", InvalidFeatures)


def test_dependencies_are_accepted_exactly_when_there_is_an_order(store: FeatureStore) -> None:
    added(store, *[()] * 7)
    drawn, edges = random.Random(5), set[tuple[int, int]]()
    for _ in range(60):
        edge = (drawn.randint(1, 7), drawn.randint(1, 7))
        below = {edge[1]}
        while more := {b for a, b in edges if a in below} - below:
            below |= more
        if edge in edges or edge[0] in below:
            refused(store, lambda edge=edge: store.depend(edge[0], [edge[1]]), "", InvalidFeatures)  # type: ignore[misc]
        else:
            store.depend(edge[0], [edge[1]])
            edges.add(edge)
    assert {(f.id, d) for f in store.features() for d in f.dependencies} == edges


def test_two_people_cannot_close_a_circle_together(store: FeatureStore, table_url: str) -> None:
    added(store, *[()] * 20)
    other = FeatureStore.open(table_url)

    def tried(store: FeatureStore, feature: int, on: int) -> int:
        try:
            store.depend(feature, [on])
        except InvalidFeatures:
            return 0
        return 1

    with ThreadPoolExecutor(2) as both:
        for n in range(1, 20, 2):
            ways = both.submit(tried, store, n, n + 1), both.submit(tried, other, n + 1, n)
            assert sum(way.result() for way in ways) == 1
    other.close()


@pytest.mark.parametrize("status", [RUNNING, PASSED])
def test_what_was_built_gets_no_new_dependency(store: FeatureStore, status: FeatureStatus) -> None:
    id_ = stand(store, status)
    [other] = store.add_features([NewFeature("other")])
    refused(store, lambda: store.depend(id_, [other]), f"feature #{id_} ")


def test_s1_a_branch_that_was_begun_gets_no_new_dependency(store: FeatureStore) -> None:
    added(store, (), ())
    store.end_attempt(begin(store, "k", 1), GIVEN_UP, max_attempts=3)
    refused(
        store, lambda: store.depend(1, [2]), "autoforge/k, which is not finished and was begun without #2"
    )
    store.save_batch(replace(store.batch("k"), status=BatchStatus.FAILED))
    store.depend(1, [2])
