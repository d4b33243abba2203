"""What can be started and what it stands on; and that the simulation of a build says what a build does."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoforge import foresight, plan
from autoforge import settings as configuration
from autoforge.leading import Options
from autoforge.project import Project, table
from db.feature import Batch, BatchStatus, Feature, FeatureStatus, NewFeature, Parent
from db.nodes import Node
from tests.agents import Agent, Crew, diligent
from tests.builds import add, batches, build
from tests.values import batch, feature, passed

S = BatchStatus
Opened = Callable[..., Project]


@pytest.mark.parametrize(
    ("status", "publish", "usable"),
    [
        (S.PLANNED, False, False),
        (S.WORKING, False, False),
        (S.BUILT, False, True),
        (S.BUILT, True, False),
        (S.PUSHED, True, True),
        (S.OPENED, True, True),
        (S.MERGED, True, True),
        (S.FOLDED, True, True),
        (S.CLOSED, False, False),
        (S.FAILED, False, False),
    ],
)
def test_what_others_can_be_built_on(status: BatchStatus, publish: bool, usable: bool) -> None:
    held = [batch("a", 1, 2, status=status)]
    features = [passed(1, "a"), feature(2, batch_key="a")]
    assert plan.available(features, held, publish=publish) == ({1} if usable else set())


def test_what_passed_without_a_batch_can_be_built_on() -> None:
    assert plan.available([feature(1, status=FeatureStatus.PASSED), feature(2)], [], publish=True) == {1}


def test_a_selection_takes_what_it_depends_on() -> None:
    features = [feature(1), feature(2, dependencies=(1,)), feature(3), feature(4, dependencies=(2, 9))]
    assert plan.selection(features, [4]) == {1, 2, 4}


def test_a_begun_batch_goes_on_with_what_can_be_worked_on() -> None:
    features = [
        passed(1, "a"),
        feature(2, batch_key="a", dependencies=(1,)),
        feature(3, batch_key="a", dependencies=(2, 8)),
        feature(4, status=FeatureStatus.NEEDS_INPUT, batch_key="b"),
        feature(5, batch_key="b", dependencies=(4,)),
        feature(8),
    ]
    begun = [batch("a", 1, 2, 3, status=S.WORKING), batch("b", 4, 5, status=S.WORKING)]
    assert [(b.key, ids) for b, ids in plan.unfinished(features, begun, set())] == [("a", (2,))]


def stands_on(*below: Batch, depends_on: tuple[int, ...] = (1,)) -> plan.Parents:
    features = [passed(i, b.key) for b in below for i in b.feature_ids]
    mine = feature(9, dependencies=depends_on)
    return plan.parents(Batch("new", "autoforge/new", (9,)), [*features, mine], below)


def test_a_batch_stands_on_unmerged_work_or_needs_what_was_merged() -> None:
    on = stands_on(batch("a", 1))
    assert [(t.key, t.branch, t.sha) for t in on.tips] == [("a", "autoforge/a", "head-a")]
    assert stands_on(batch("a", 1, status=S.MERGED, merge_sha="m")) == plan.Parents((), ("m",))
    assert stands_on(batch("a", 1, status=S.CLOSED)) == plan.Parents((), ())


def test_folded_work_is_on_its_parents_branch() -> None:
    root = batch("a", 1)
    folded = batch(
        "b", 2, status=S.FOLDED, base_branch=root.branch, merge_sha="m", parents=(Parent("a", "head-a"),)
    )
    on = stands_on(root, folded, depends_on=(2,))
    assert [(t.key, t.branch, t.sha) for t in on.tips] == [("a", root.branch, "head-a")]
    merged = replace(root, status=S.MERGED, merge_sha="t")
    assert stands_on(merged, folded, depends_on=(2,)) == plan.Parents((), ("t",))


def test_an_empty_batch_on_a_join_is_in_all_its_parents() -> None:
    left, right = batch("l", 1), batch("r", 2)
    both = (Parent("l", "head-l"), Parent("r", "head-r"))
    empty = batch("e", 3, status=S.FOLDED, base_branch="autoforge/join-1", merge_sha="j", parents=both)
    on = stands_on(left, right, empty, depends_on=(3,))
    assert {(t.key, t.sha) for t in on.tips} == {("l", "head-l"), ("r", "head-r")}


def test_a_feature_that_did_not_pass_is_stacked_on_the_batch_it_was_planned_with() -> None:
    first = batch("a", 1, 9)
    on = stands_on(first, depends_on=())
    assert [t.key for t in on.tips] == ["a"]


@pytest.mark.parametrize(
    ("statuses", "over", "status"),
    [
        ((FeatureStatus.PASSED, FeatureStatus.PASSED), False, S.BUILT),
        ((FeatureStatus.PASSED, FeatureStatus.SKIPPED), False, S.BUILT),
        ((FeatureStatus.PASSED, FeatureStatus.PENDING), False, S.WORKING),
        ((FeatureStatus.PASSED, FeatureStatus.PENDING), True, S.BUILT),
        ((FeatureStatus.FAILED, FeatureStatus.FAILED), True, S.FAILED),
        ((FeatureStatus.FAILED, FeatureStatus.PENDING), True, S.WORKING),
        ((FeatureStatus.NEEDS_INPUT, FeatureStatus.PENDING), True, S.WORKING),
    ],
)
def test_where_a_batch_stands_after_an_attempt(
    statuses: tuple[FeatureStatus, ...], over: bool, status: BatchStatus
) -> None:
    features = [feature(n, status=s, batch_key="a") for n, s in enumerate(statuses)]
    assert plan.next_status(batch("a", 0, 1, status=S.WORKING), features, over=over) is status


class Table:
    """As much of a store as the simulation reads."""

    def __init__(self, features: list[Feature]) -> None:
        self.all = [Node(*(getattr(f, name) for name in Node._fields)) for f in features]

    def nodes(self) -> list[Node]:
        return self.all

    def batches(self) -> list[Batch]:
        return []


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_feature_is_in_one_wave_after_everything_that_it_depends_on(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    features = []
    for n in range(count):
        below = data.draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        features.append(feature(n, dependencies=tuple(below), category=data.draw(st.sampled_from("ab"))))
    slots, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    waves = simulate(features, slots, size)
    seen: list[int] = []
    for wave in waves:
        assert 1 <= len(wave) <= slots
        before = set(seen)
        for step in wave:
            inside: set[int] = set()
            assert 1 <= len(step) <= size
            for i in step:
                assert set(features[i].dependencies) <= before | inside
                inside.add(i)
            seen += step
    assert sorted(seen) == list(range(count))


def fixed(slots: int, size: int) -> object:
    """As much of a project as the simulation reads."""
    configured = configuration.Settings(concurrency=slots, batch_size=size, target="main")
    return SimpleNamespace(settings=configured, remote=None)


def simulate(features: list[Feature], slots: int, size: int) -> list[list[list[int]]]:
    waves = foresight.foresee(fixed(slots, size), Table(features), Options())  # type: ignore[arg-type]
    return [[[int(name.split()[0][1:]) for name in step.features] for step in wave] for wave in waves]


def test_the_simulation_builds_on_a_parent_only_when_no_other_one_contains_it() -> None:
    features = [feature(0), feature(1, dependencies=(0,)), feature(2, dependencies=(1,))]
    features.append(feature(3, dependencies=(0, 2)))
    waves = foresight.foresee(fixed(1, 1), Table(features), Options())  # type: ignore[arg-type]
    [top], [bottom] = waves[-2:]
    assert bottom.base == top.branch


@pytest.mark.parametrize(("size", "joined"), [(1, True), (2, False)])
def test_the_simulation_says_what_a_build_starts_and_on_what(opened: Opened, size: int, joined: bool) -> None:
    """With one slot, where the order does not depend on who is faster."""
    project = opened(concurrency=1, batch_size=size)
    add(
        project,
        NewFeature("Root"),
        NewFeature("Left", depends_on=(0,), category="x"),
        NewFeature("Right", depends_on=(0,), category="y"),
        NewFeature("Bottom", depends_on=(0, 1, 2)),
        NewFeature("Alone"),
        NewFeature("After", depends_on=(4,)),
    )
    with table(project) as store:
        steps = [step for wave in foresight.foresee(project, store, Options()) for step in wave]
    started: list[tuple[str, ...]] = []

    async def remembered(agent: Agent) -> None:
        started.append(tuple(f"#{i} {name}" for i, name in agent.features))
        await diligent(agent)

    assert build(project, Crew(remembered)).exit_code == 0
    assert started == [step.features for step in steps]
    assert len(steps) >= 4
    real = {f"#{b.feature_ids[0]}": b for b in batches(project)}
    for step in steps:
        base = real[step.features[0].split()[0]].base_branch or ""
        expected = step.base.rsplit("-", 1)[0] if "join" not in step.base else "autoforge/join"
        assert base.rsplit("-", 1)[0] == expected
    assert any("join" in step.base for step in steps) is joined
