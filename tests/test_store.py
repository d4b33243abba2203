"""The feature table as its callers see it: real SQLite, several threads and processes."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.engine import sqlite_url
from db.errors import InvalidFeatures, NotFound, SchemaTooNew, StoreError
from db.feature import (
    FREE_RESULTS,
    MAX_DEPENDENCIES,
    Attempt,
    Batch,
    BatchStatus,
    Ended,
    Evidence,
    Feature,
    FeatureStatus,
    Kind,
    NewFeature,
    Parent,
    PrStatus,
    Result,
)
from db.new_features import check
from db.store import FeatureStore

RAN = Evidence(command="pytest -q", exit_code=0, duration_s=1.5, step=0)
CHECK = Evidence(command="ruff check .", exit_code=0, duration_s=0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "features.db"


@pytest.fixture
def store(path: Path) -> Iterator[FeatureStore]:
    opened = FeatureStore.open(sqlite_url(path), busy_timeout_s=5)
    yield opened
    opened.close()


def added(store: FeatureStore, *names: str) -> list[int]:
    return store.add_features([NewFeature(name) for name in names])


def planned(store: FeatureStore, key: str, *ids: int) -> Batch:
    assert store.plan_batch(Batch(key=key, branch=f"autoforge/x-{key}", feature_ids=ids))
    return store.batch(key)


def started(store: FeatureStore, key: str, *ids: int, build: str = "b1") -> Attempt:
    return store.start_attempt(batch_key=key, feature_ids=ids, kind=Kind.CODE, build_id=build, session_id="s")


def passed(store: FeatureStore, key: str, feature_id: int, sha: str) -> None:
    store.record_pass(batch_key=key, feature_id=feature_id, commit_sha=sha, evidence=[RAN], checks=[CHECK])


def everything(store: FeatureStore) -> list[object]:
    return [*store.features(), *store.batches(), *store.attempts(), *store.events()]


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
        (NewFeature(" \t "), "feature 2 '': the name is empty"),
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


def test_planning_refuses_what_is_not_pending(store: FeatureStore, path: Path) -> None:
    ids = added(store, "a", "b")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE features SET status = 'skipped' WHERE id = ?", (ids[1],))
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
        owner="me",
        lease_expires_at=datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        last_error="no",
    )
    store.save_batch(full)
    saved = store.batch("k1")
    assert replace(saved, updated_at=full.updated_at) == full
    assert saved.lease_expires_at == datetime(2030, 1, 1, 10, tzinfo=UTC)
    assert saved.lease_expires_at.tzinfo is UTC
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
    assert store.release_features("k1") == [ids[1]]
    released = store.feature(ids[1])
    assert (released.batch_key, released.attempts) == ("k1", 1)
    planned(store, "k2", ids[1])
    assert store.release_features("k1") == []
    store.drop_planned("k2")
    again = store.feature(ids[1])
    assert (again.batch_key, again.branch_name) == ("k1", batch.branch)


# Attempts


def test_an_attempt_runs_its_pending_features(store: FeatureStore) -> None:
    ids = added(store, "a", "b", "c")
    planned(store, "k1", *ids[:2])
    attempt = started(store, "k1", *ids[:2])
    assert (attempt.number, attempt.feature_ids, attempt.outcome) == (1, tuple(ids[:2]), None)
    assert store.batch("k1").status is BatchStatus.WORKING
    assert [(f.status, f.attempts) for f in store.features()][:2] == [(FeatureStatus.RUNNING, 1)] * 2
    assert store.running_attempts() == store.attempts("k1") == store.attempts() == [attempt]
    with pytest.raises(StoreError, match=r"does not belong to batch k1"):
        started(store, "k1", ids[2])
    assert len(store.attempts()) == 1


def test_an_attempt_leaves_out_what_a_user_skipped(store: FeatureStore, path: Path) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", *ids)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE features SET status = 'skipped' WHERE id = ?", (ids[1],))
    assert started(store, "k1", *ids).feature_ids == (ids[0],)
    assert store.feature(ids[1]).status is FeatureStatus.SKIPPED


def test_a_pass_is_recorded_once(store: FeatureStore) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", *ids)
    first = started(store, "k1", *ids)
    store.end_attempt(first.id, Ended(Result.FAILED, "hard"), max_attempts=3)
    started(store, "k1", *ids)
    assert store.feature(ids[0]).last_error == "hard"
    passed(store, "k1", ids[0], "c1")
    feature, batch = store.feature(ids[0]), store.batch("k1")
    assert (feature.status, feature.commit_sha, feature.evidence) == (FeatureStatus.PASSED, "c1", (RAN,))
    assert (feature.last_error, feature.branch_name) == (None, batch.branch)
    assert (batch.head_sha, batch.checks) == ("c1", (CHECK,))
    passed(store, "k1", ids[1], "c2")
    before = everything(store)
    passed(store, "k1", ids[0], "c1")
    assert everything(store) == before, "a repeated pass must not move the head back"


def test_a1_a_pass_for_a_feature_of_another_batch_is_refused(store: FeatureStore) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", ids[0])
    planned(store, "k2", ids[1])
    with pytest.raises(StoreError, match="does not belong to batch k1"):
        passed(store, "k1", ids[1], "c1")
    with pytest.raises(NotFound):
        passed(store, "k1", 99, "c1")
    assert store.batch("k1").head_sha is None


@pytest.mark.parametrize("result", sorted(set(Result) - FREE_RESULTS))
def test_an_end_counts_for_what_still_runs(store: FeatureStore, result: Result) -> None:
    a, b, c, d = added(store, "a", "b", "c", "d")
    planned(store, "k1", a, b, c)
    planned(store, "k2", d)
    started(store, "k2", d)
    attempt = started(store, "k1", a, b, c)
    passed(store, "k1", a, "c1")
    ended = Ended(result, "why", cost_usd=0.5, turns=7, summary="bye", failed={b: "no way"})
    store.end_attempt(attempt.id, ended, max_attempts=2)
    stored = store.attempts("k1")[0]
    assert (stored.outcome, stored.reason, stored.cost_usd, stored.turns) == (result, "why", 0.5, 7)
    assert stored.ended_at is not None
    assert stored.ended_at >= stored.started_at
    assert store.batch("k1").summary == "bye"
    assert [(f.status, f.attempts, f.last_error) for f in store.features()] == [
        (FeatureStatus.PASSED, 1, None),
        (FeatureStatus.PENDING, 1, "no way"),
        (FeatureStatus.PENDING, 1, "why"),
        (FeatureStatus.RUNNING, 1, None),
    ]
    before = everything(store)
    store.end_attempt(attempt.id, Ended(Result.CRASHED, "again", cost_usd=9), max_attempts=1)
    assert everything(store) == before, "an ended attempt must not change"


@pytest.mark.parametrize("result", sorted(FREE_RESULTS))
def test_a3_a_free_end_costs_no_attempt(store: FeatureStore, result: Result) -> None:
    [fid] = added(store, "a")
    planned(store, "k1", fid)
    for number in (1, 2, 3):
        attempt = started(store, "k1", fid)
        assert attempt.number == number
        store.end_attempt(attempt.id, Ended(result, "limit"), max_attempts=1)
        feature = store.feature(fid)
        assert (feature.status, feature.attempts, feature.last_error) == (FeatureStatus.PENDING, 0, None)


def test_a_feature_fails_when_its_attempts_are_used_up(store: FeatureStore) -> None:
    [fid] = added(store, "a")
    planned(store, "k1", fid)
    for status in (FeatureStatus.PENDING, FeatureStatus.FAILED):
        store.end_attempt(started(store, "k1", fid).id, Ended(Result.TIMEOUT, "slow"), max_attempts=2)
        assert store.feature(fid).status is status
    assert store.running_attempts() == []
    with pytest.raises(NotFound, match="no attempt 99"):
        store.end_attempt(99, Ended(Result.FAILED), max_attempts=2)


def test_money_is_summed_by_build(store: FeatureStore) -> None:
    [fid] = added(store, "a")
    planned(store, "k1", fid)
    assert store.spent_usd() == 0.0
    for build, cost_usd in (("b1", 0.5), ("b1", None), ("b2", 0.25)):
        attempt = started(store, "k1", fid, build=build)
        store.end_attempt(attempt.id, Ended(Result.FAILED, cost_usd=cost_usd), max_attempts=9)
    assert (store.spent_usd(), store.spent_usd("b1"), store.spent_usd("zz")) == (0.75, 0.5, 0.0)


def test_a_pull_request_is_written_to_passed_features_only(store: FeatureStore) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", *ids)
    started(store, "k1", *ids)
    passed(store, "k1", ids[0], "c1")
    store.set_pull_request(
        "k1",
        number=5,
        url="https://f/5",
        status=PrStatus.MERGED,
        batch_status=BatchStatus.MERGED,
        merge_sha="m",
    )
    store.set_pull_request(
        "k1", number=5, url="https://f/5", status=PrStatus.MERGED, batch_status=BatchStatus.MERGED
    )
    batch, one, two = store.batch("k1"), store.feature(ids[0]), store.feature(ids[1])
    assert (batch.status, batch.merge_sha) == (BatchStatus.MERGED, "m")
    for value in (batch, one):
        assert (value.pr_number, value.pr_url, value.pr_status) == (5, "https://f/5", PrStatus.MERGED)
    assert (two.pr_number, two.pr_url, two.pr_status) == (None, None, None)


# History and text


def test_events_are_kept(store: FeatureStore, tmp_path: Path) -> None:
    for number in range(4):
        store.record_event(
            build_id="b", batch_key="gone" if number % 2 else None, name="n", data={"i": number}
        )
    store.record_event(build_id="b", batch_key=None, name="odd", data={"path": tmp_path, "text": "\0\ud800"})
    assert [event.data.get("i") for event in store.events(limit=3)] == [2, 3, None]
    assert [event.data for event in store.events(batch_key="gone")] == [{"i": 1}, {"i": 3}]
    assert store.events()[-1].data["path"] == str(tmp_path)


def test_an_agents_odd_text_is_stored(store: FeatureStore) -> None:
    [fid] = added(store, "a")
    planned(store, "k1", fid)
    store.end_attempt(
        started(store, "k1", fid).id, Ended(Result.FAILED, "a\0b\ud800", summary="\0"), max_attempts=3
    )
    assert store.feature(fid).last_error == "a\N{REPLACEMENT CHARACTER}b?"


def test_b6_a_word_of_a_newer_version_asks_for_an_upgrade(store: FeatureStore, path: Path) -> None:
    added(store, "a")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE features SET status = 'dreaming'")
    with pytest.raises(SchemaTooNew, match=r"dreaming.*upgrade autoforge"):
        store.features()


# Threads and processes

PLAN = """
import sys
from db.feature import Batch
from db.store import FeatureStore
url, me = sys.argv[1], sys.argv[2]
store = FeatureStore.open(url)
ids = [feature.id for feature in store.features()]
sys.stdin.readline()
won = [i for i in ids if store.plan_batch(Batch(f"{me}-{i}", f"autoforge/{me}-{i}", (i,)))]
print(*won)
store.close()
"""


def test_b2_eight_processes_claim_every_feature_once(store: FeatureStore, path: Path) -> None:
    ids = added(store, *(f"f{number}" for number in range(24)))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PLAN, sqlite_url(path), f"p{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [int(word) for process in processes for word in process.communicate(timeout=60)[0].split()]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(won) == ids
    assert sorted(fid for batch in store.batches() for fid in batch.feature_ids) == ids
    assert all(feature.batch_key for feature in store.features())


def test_many_threads_write_and_read(store: FeatureStore) -> None:
    def work(number: int) -> None:
        [fid] = added(store, f"f{number}")
        planned(store, f"k{number}", fid)
        store.end_attempt(started(store, f"k{number}", fid).id, Ended(Result.LIMITED), max_attempts=1)
        store.features()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(32)))
    assert len(store.attempts()) == len(store.features()) == 32
    assert len({feature.priority for feature in store.features()}) == 32


def test_readers_are_not_blocked_by_an_open_writer(path: Path) -> None:
    with closing(FeatureStore.open(sqlite_url(path), busy_timeout_s=0)) as store:
        [fid] = added(store, "a")
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE features SET name = 'not yet'")
            assert store.feature(fid).name == "a"
            assert [feature.name for feature in store.features()] == ["a"]
            with closing(FeatureStore.open(sqlite_url(path), busy_timeout_s=0)) as other:
                assert other.spent_usd() == 0.0
            with pytest.raises(StoreError, match=r"features\.db is locked by another process: try again"):
                added(store, "b")
            writer.execute("ROLLBACK")
        assert len(added(store, "b")) == 1


def test_b6_a_table_removed_while_open_is_not_replaced(store: FeatureStore, path: Path) -> None:
    store.close()
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(StoreError, match="moved or removed"):
        store.features()
    assert not path.exists()


def test_b6_a_full_disk_is_said(store: FeatureStore, path: Path) -> None:
    added(store, "a")
    with store._database.write() as session:  # the page limit holds for its connection only
        pages = session.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
        session.connection().exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full: free some space"):
        store.add_features([NewFeature("big", "x" * 1_000_000)])
    assert [feature.name for feature in store.features()] == ["a"]
