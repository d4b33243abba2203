"""What a person does to a feature's status, also while a build runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from autoforge import lock, report
from autoforge.project import Project, table
from db.feature import Batch, BatchStatus, FeatureStatus, Kind, NewFeature
from db.store import FeatureStore
from tests.agents import Agent, Crew, diligent
from tests.builds import add, build, chain, features
from tests.conftest import run
from tests.standings import (
    ASKS,
    FAILED,
    GIVEN_UP,
    PASSED,
    PENDING,
    RUNNING,
    SKIPPED,
    added,
    begin,
    refused,
    stand,
)
from tests.tables import led


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url))
    yield opened
    opened.close()


# The status


@pytest.mark.parametrize("status", FeatureStatus)
def test_skipping(store: FeatureStore, status: FeatureStatus) -> None:
    ids = [stand(store, PENDING), stand(store, status)] if status is not PENDING else [stand(store, status)]
    if status in (RUNNING, PASSED):
        refused(
            store,
            lambda: store.skip(ids),
            f"feature #2 {'is running' if status is RUNNING else 'has passed'}",
        )
    else:
        store.skip([*ids, *ids])
        assert {store.feature(i).status for i in ids} == {SKIPPED}


def test_a_dependent_of_a_skipped_feature_says_why_it_waits(store: FeatureStore) -> None:
    added(store, (), (1,), (2,))
    store.skip([1])
    made = report.make(*store.snapshot(), cost_usd=0)
    assert made.blocked[2] == "waits for #1, which was skipped"
    assert made.exit_code == 1
    assert set(made.blocked) == {2, 3}


@pytest.mark.parametrize("status", FeatureStatus)
def test_retrying(store: FeatureStore, status: FeatureStatus) -> None:
    id_ = stand(store, status)
    before = store.feature(id_)
    if status in (RUNNING, PASSED):
        refused(
            store,
            lambda: store.retry([id_]),
            f"feature #{id_} {'is running' if status is RUNNING else 'has passed'}",
        )
        return
    store.retry([id_])
    after = store.feature(id_)
    assert after == replace(before, status=PENDING, attempts=0, updated_at=after.updated_at)
    assert after.last_error == ("it broke" if status is FAILED else None)
    assert store.plan_batch(Batch("new", "autoforge/new", (id_,)))


def test_s5_what_passed_in_a_closed_batch_starts_again_on_a_new_branch(store: FeatureStore) -> None:
    id_ = stand(store, PASSED, BatchStatus.CLOSED)
    history = store.batches(), store.attempts()
    store.retry([id_])
    after = store.feature(id_)
    assert (after.status, after.attempts, after.batch_key, after.branch_name) == (PENDING, 0, None, None)
    assert (after.commit_sha, after.pr_number, after.pr_status, after.evidence) == (None, None, None, ())
    assert (store.batches(), store.attempts()) == history
    assert store.plan_batch(Batch("new", "autoforge/new", (id_,)))
    assert store.feature(id_).branch_name == "autoforge/new"


@pytest.mark.parametrize("status", [PENDING, FAILED, ASKS, SKIPPED])
def test_a_reset_forgets_everything_but_the_definition(store: FeatureStore, status: FeatureStatus) -> None:
    id_ = stand(store, status)
    history = store.batches(), store.attempts()
    store.reset([id_])
    fresh, after = stand(store, PENDING), store.feature(id_)
    same = {name: getattr(after, name) for name in ("id", "name", "priority", "created_at", "updated_at")}
    assert after == replace(store.feature(fresh), **same)
    assert (store.batches(), store.attempts()) == history


@pytest.mark.parametrize(
    "batch", [b for b in BatchStatus if b not in (BatchStatus.PLANNED, BatchStatus.FAILED)]
)
def test_a_reset_of_what_passed_leaves_its_batch_alone(store: FeatureStore, batch: BatchStatus) -> None:
    id_ = stand(store, PASSED, batch)
    said = {
        BatchStatus.WORKING: "which is not finished: `autoforge build` first",
        BatchStatus.OPENED: "whose pull request #4 is open: merge or close it, then `autoforge sync`",
    }
    if batch in said:
        refused(store, lambda: store.reset([id_]), f"has passed on autoforge/k{id_}, {said[batch]}")
        return
    before = store.batches()
    store.reset([id_])
    assert (store.feature(id_).status, store.feature(id_).batch_key) == (PENDING, None)
    assert store.batches() == before


def test_a_reset_between_two_attempts_stays_in_its_batch(store: FeatureStore) -> None:
    added(store, ())
    store.end_attempt(begin(store, "k", 1), GIVEN_UP, max_attempts=3)
    store.reset([1])
    feature = store.feature(1)
    assert (feature.attempts, feature.last_error, feature.batch_key) == (0, None, "k")
    again = store.start_attempt(batch_key="k", feature_ids=[1], kind=Kind.CODE, build_id="b", session_id="s")
    assert (again.number, again.feature_ids) == (2, (1,))
    refused(store, lambda: store.reset([1]), "feature #1 is running")


# While a build runs


def test_a_build_sees_changes_at_its_next_step(opened: Callable[..., Project]) -> None:
    project = opened(concurrency=1, batch_size=1)
    add(project, *[NewFeature(name) for name in ("One", "Two", "Three", "Four")])

    async def work(agent: Agent) -> None:
        if agent.features[0][1] == "One":
            with table(project) as other:
                other.skip([2])
                other.edit(3, name="Third", description="said later")
                other.remove([4])
                other.add_features([NewFeature("Five", existing=(3,))])
        await diligent(agent)

    crew = Crew(work)
    assert build(project, crew).exit_code == 0
    assert [name for session in crew.sessions for name in ("One", "Third", "Five") if f": {name}\n" in session.prompt] == [
        "One", "Third", "Five"
    ]  # fmt: skip
    assert "said later" in crew.sessions[1].prompt
    assert [(f.name, f.status) for f in features(project)] == [
        ("One", PASSED), ("Two", SKIPPED), ("Third", PASSED), ("Five", PASSED)
    ]  # fmt: skip


def test_a_retried_feature_is_built_again(opened: Callable[..., Project]) -> None:
    project = opened(max_attempts=1)
    add(project, *chain("One", "Two"))

    async def idle(agent: Agent) -> None:
        return None

    assert build(project, Crew(idle)).exit_code == 1
    assert [f.status for f in features(project)] == [FAILED, PENDING]
    with table(project) as store:
        store.retry([1])
    assert build(project, Crew(diligent)).exit_code == 0


def test_a_closed_feature_gets_a_new_branch_and_the_old_one_stays(opened: Callable[..., Project]) -> None:
    project = opened()
    add(project, NewFeature("One"))
    build(project, Crew(diligent))
    with table(project) as opened_, lock.lease(opened_, "b") as (store, _):
        [old] = store.batches()
        store.save_batch(replace(old, status=BatchStatus.CLOSED))
        store.retry([1])
    assert build(project, Crew(diligent)).exit_code == 0
    [feature] = features(project)
    assert feature.branch_name not in (None, old.branch)
    heads = run(
        "git", "for-each-ref", "--format=%(refname:short)", "refs/heads/autoforge", cwd=project.folder
    )
    assert {old.branch, feature.branch_name} <= set(heads.split())
