"""The feature table as its callers see it: attempts and history, on each database."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from db.errors import NotFound, SchemaTooNew, StoreError
from db.feature import (
    FREE_RESULTS,
    BatchStatus,
    Ended,
    FeatureStatus,
    Kind,
    Moved,
    Parent,
    PrStatus,
    Result,
)
from db.store import FeatureStore
from tests.tables import CHECK, RAN, added, behind, everything, led, passed, planned, started


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url, busy_timeout_s=5))
    yield opened
    opened.close()


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


def test_an_attempt_leaves_out_what_a_user_skipped(store: FeatureStore, table_url: str) -> None:
    ids = added(store, "a", "b")
    planned(store, "k1", *ids)
    behind(table_url, f"UPDATE features SET status = 'skipped' WHERE id = {ids[1]}")
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


def test_a_repair_leaves_its_batch_and_features_as_they_are(store: FeatureStore) -> None:
    a, b = added(store, "a", "b")
    planned(store, "k1", a)
    planned(store, "k2", b)
    repair = {"batch_key": "k1", "kind": Kind.RESTACK, "build_id": "b1", "session_id": "s"}
    with pytest.raises(StoreError, match="Batch k1 is planned: there is nothing in it to repair"):
        store.start_repair(feature_ids=[a], **repair)
    started(store, "k1", a)
    passed(store, "k1", a, "c1")
    for status in (BatchStatus.BUILT, BatchStatus.PUSHED, BatchStatus.OPENED):
        store.save_batch(replace(store.batch("k1"), status=status))
        before = store.batch("k1"), store.features()
        attempt = store.start_repair(feature_ids=[a], **repair)
        assert (attempt.kind, attempt.feature_ids) == (Kind.RESTACK, (a,))
        assert attempt in store.running_attempts()
        store.end_attempt(attempt.id, Ended(Result.FAILED, "no", cost_usd=0.5), max_attempts=1)
        assert (store.batch("k1"), store.features()) == before
    assert [tried.number for tried in store.attempts("k1")] == [1, 2, 3, 4]
    assert store.spent_usd("b1") == 1.5
    with pytest.raises(StoreError, match="does not belong to batch k1"):
        store.start_repair(feature_ids=[b], **repair)


def test_a_repair_ends_also_when_its_feature_was_removed_meanwhile(store: FeatureStore) -> None:
    [fid] = added(store, "a")
    planned(store, "k1", fid)
    store.end_attempt(started(store, "k1", fid).id, Ended(Result.FAILED), max_attempts=9)
    passed(store, "k1", fid, "c1")
    store.save_batch(replace(store.batch("k1"), status=BatchStatus.BUILT))
    attempt = store.start_repair(
        batch_key="k1", feature_ids=[fid], kind=Kind.RESTACK, build_id="b1", session_id="s"
    )
    store.reset([fid])
    store.remove([fid])
    store.end_attempt(attempt.id, Ended(Result.PASSED), max_attempts=1)
    assert store.running_attempts() == []


def test_moved_batches_are_written_together_with_their_commits(store: FeatureStore) -> None:
    a, b, c = added(store, "a", "b", "c")
    for key, ids in (("k1", (a, b)), ("k2", (c,))):
        planned(store, key, *ids)
        started(store, key, *ids)
        for fid in ids:
            passed(store, key, fid, f"c{fid}")
        store.save_batch(replace(store.batch(key), status=BatchStatus.PUSHED))
    below = replace(store.batch("k1"), head_sha="d2", base_sha="base", notes=("moved",))
    above = replace(store.batch("k2"), head_sha="d3", parents=(Parent("k1", "d2"),))
    before = everything(store)
    with pytest.raises(NotFound, match="no batch gone"):
        store.move_batches([Moved(below, {"c1": "d1"}), Moved(replace(above, key="gone"), {})])
    assert everything(store) == before
    store.move_batches([Moved(below, {"c1": "d1", "c3": "no"}), Moved(above, {"c3": "d3", "c2": "no"})])
    assert [f.commit_sha for f in sorted(store.features(), key=lambda f: f.id)] == ["d1", "c2", "d3"]
    for wanted in (below, above):
        stored = store.batch(wanted.key)
        assert stored == replace(wanted, updated_at=stored.updated_at)


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


def test_b6_a_word_of_a_newer_version_asks_for_an_upgrade(store: FeatureStore, table_url: str) -> None:
    added(store, "a")
    behind(table_url, "UPDATE features SET status = 'dreaming'")
    with pytest.raises(SchemaTooNew, match=r"dreaming.*upgrade autoforge"):
        store.features()
