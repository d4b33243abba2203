"""The feature table leaves as a JSON file and comes back whole."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge import exchange, export
from autoforge.data_file import MAX_BYTES
from autoforge.errors import UsageError
from db.engine import sqlite_url
from db.errors import InvalidFeatures, StoreError
from db.feature import (
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
from db.store import FeatureStore
from tests.tables import led


@pytest.fixture
def other(tmp_path: Path) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(sqlite_url(tmp_path / "other.db")))
    yield opened
    opened.close()


def fill(store: FeatureStore) -> None:
    """Two stacked batches, a failed feature and one that asks: no column is as it was made."""
    new = [
        NewFeature("One", "Döner 🥙", ("a", "b"), "bug", 3, ("make",), issue_number=12),
        NewFeature("Two", depends_on=(0,)),
        NewFeature("Three", depends_on=(0, 1)),
        NewFeature("Four", priority=-4),
    ]
    store.add_features(new)
    for key, id_ in (("k1", 1), ("k2", 2)):
        store.plan_batch(Batch(key, f"autoforge/{key}", (id_,)))
        tried = store.start_attempt(
            batch_key=key, feature_ids=[id_], kind=Kind.CODE, build_id="b", session_id="s"
        )
        ran = [Evidence("true", 0, 0.25, 0), Evidence("make", 0, 1.5)]
        store.record_pass(batch_key=key, feature_id=id_, commit_sha=f"{id_}" * 40, evidence=ran, checks=ran)
        store.end_attempt(tried.id, Ended(Result.PASSED, cost_usd=1.0, summary="done"), max_attempts=3)
    parents = (Parent("k1", "1" * 40),)
    store.save_batch(
        replace(
            store.batch("k2"), parents=parents, base_sha="b" * 40, notes=("n",), rounds=2, worktree_path="/w"
        )
    )
    store.set_pull_request(
        "k1", number=7, url="u", status=PrStatus.MERGED, batch_status=BatchStatus.MERGED, merge_sha="e" * 40
    )
    store.plan_batch(Batch("k3", "autoforge/k3", (3, 4)))
    tried = store.start_attempt(
        batch_key="k3", feature_ids=[3, 4], kind=Kind.CODE, build_id="b", session_id="s"
    )
    store.end_attempt(tried.id, Ended(Result.FAILED, "no", questions={4: "Which?"}), max_attempts=1)


def written(store: FeatureStore, path: Path) -> Path:
    export.save(path, export.as_json(*store.snapshot()))
    return path


take_in = partial(exchange.take_in, has_commit=lambda _: True)


# There and back


def test_every_column_comes_back(store: FeatureStore, other: FeatureStore, tmp_path: Path) -> None:
    fill(store)
    file = written(store, tmp_path / "a.json")
    assert take_in(file, other).ids == (4, 1, 2, 3)
    features, batches = store.snapshot()
    assert other.snapshot() == (features, [replace(b, worktree_path=None) for b in batches])
    assert other.nodes() == store.nodes()
    again = written(other, tmp_path / "b.json")
    assert again.read_bytes() == file.read_bytes()


def test_a_table_with_features_gives_new_ids(
    store: FeatureStore, other: FeatureStore, tmp_path: Path
) -> None:
    fill(store)
    other.add_features([NewFeature("Here before")])
    take_in(written(store, tmp_path / "a.json"), other)
    by_name = {f.name: f for f in other.features()}
    assert {name: f.id for name, f in by_name.items()} == {
        "Here before": 1,
        "Four": 2,
        "One": 3,
        "Two": 4,
        "Three": 5,
    }
    assert by_name["Three"].dependencies == (3, 4)
    assert by_name["Two"].batch_key == "k2"
    assert other.batch("k3").feature_ids == (5, 2)


def test_what_was_running_is_pending_where_nothing_runs(
    store: FeatureStore, other: FeatureStore, tmp_path: Path
) -> None:
    store.add_features([NewFeature("One")])
    store.plan_batch(Batch("k", "b", (1,)))
    store.start_attempt(batch_key="k", feature_ids=[1], kind=Kind.CODE, build_id="b", session_id="s")
    imported = take_in(written(store, tmp_path / "a.json"), other)
    assert imported.notes == ("#1 was running and is pending",)
    assert other.feature(1).status is FeatureStatus.PENDING


def test_a_large_table_comes_back(store: FeatureStore, other: FeatureStore, tmp_path: Path) -> None:
    """Larger than a list that a person may import."""
    store.add_features([NewFeature(f"Feature {n}", "what is wanted " * 3500) for n in range(220)])
    file = written(store, tmp_path / "a.json")
    assert MAX_BYTES < file.stat().st_size < exchange.MAX_BYTES
    assert len(take_in(file, other).ids) == 220
    assert other.snapshot() == store.snapshot()


def test_a_list_of_a_persons_stays_limited(other: FeatureStore, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"name": "x", "description": "y" * MAX_BYTES}]))
    with pytest.raises(UsageError, match="larger than 10 MB"):
        take_in(file, other)
    file.write_bytes(b" " * (exchange.MAX_BYTES + 1))
    with pytest.raises(UsageError, match="larger than 100 MB"):
        take_in(file, other)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NUMBER = st.integers(-1000, 1000)
TIME = st.datetimes(timezones=st.just(UTC))
EVIDENCE = st.builds(Evidence, TEXT, NUMBER, st.floats(0, 1000), st.none() | NUMBER)
DRAWN = {
    int: NUMBER, str: TEXT, datetime: TIME, int | None: st.none() | NUMBER, str | None: st.none() | TEXT,
    datetime | None: st.none() | TIME,
    tuple[str, ...]: st.lists(TEXT, max_size=2).map(tuple), tuple[int, ...]: st.lists(NUMBER, max_size=2).map(tuple),
    tuple[Evidence, ...]: st.lists(EVIDENCE, max_size=2).map(tuple), FeatureStatus: st.sampled_from(FeatureStatus),
    PrStatus | None: st.none() | st.sampled_from(PrStatus),
}  # fmt: skip


@given(st.builds(Feature, **{f.name: DRAWN[f.type] for f in fields(Feature)}))  # type: ignore[index]
def test_a_file_loses_nothing(feature: Feature) -> None:
    feature = replace(
        feature,
        id=abs(feature.id) + 1,
        commit_sha=None if feature.commit_sha is None else "a" * 40,
        branch_name=None if feature.branch_name is None else f"b{feature.branch_name}",
    )
    data = json.loads(json.dumps(export.as_json([feature], [])))
    assert export.load(data, "x") == ([feature], [])


# Faults


def changed(store: FeatureStore, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    fill(store)
    data = json.loads(written(store, path.with_name("whole.json")).read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(version=2), 'is an export of version "2", this autoforge reads version 1'),
        (lambda d: d.update(autoforge="songs"), "is an export of version"),
        (lambda d: d.update(extra=1), 'has the unknown key "extra"'),
        (lambda d: d.update(features={}), "features is an object; expected a list"),
        (lambda d: d["features"].append(3), "feature 5 is a number; expected an object"),
        (lambda d: d["features"][0].pop("name"), "feature 1 has no name"),
        (lambda d: d["features"][0].update(nmae=1), 'feature 1 has the unknown key "nmae"'),
        (lambda d: d["features"][1].update(name=None), "feature 2, name is nothing; expected text"),
        (lambda d: d["features"][0].update(name="ONE"), "the name is already"),
        (lambda d: d["features"][0].update(last_error="a\0"), "feature 1, last_error holds a NUL byte"),
        (lambda d: d["features"][0].update(priority=True), 'priority is "True"; expected a whole number'),
        (lambda d: d["features"][0].update(priority=10**12), "expected a whole number up to"),
        (lambda d: d["features"][0].update(status="done"), 'status is "done"; expected pending, running'),
        (lambda d: d["features"][0].update(created_at="2026-01-01"), "expected a time with its zone"),
        (lambda d: d["features"][1]["evidence"][0].update(duration_s="x"), "evidence, entry 1, duration_s is text"),
        (lambda d: d["features"][1]["evidence"][0].update(duration_s=10**400), "expected a number"),
        (lambda d: d["features"][1].update(steps="a"), "steps is text; expected a list"),
        (lambda d: d["features"][1].update(dependencies=[99]), "feature #1: there is no feature #99"),
        (lambda d: d["features"][1].update(dependencies=[3]), "in a circle"),
        (lambda d: d["features"][1].update(id=2), "is there twice"),
        (lambda d: d["features"][1].update(batch_key="zz"), "there is no batch zz"),
        (lambda d: d["batches"][0].update(feature_ids=[9]), "batch k1: there is no feature #9"),
        (lambda d: d["batches"][1].update(parents=[{"key": "q", "tip": "a" * 40}]), "batch k2: there is no batch q"),
        (lambda d: d["batches"].append(d["batches"][0]), "is there twice"),
    ],
)  # fmt: skip
def test_b5_a_faulty_export_stores_nothing(
    store: FeatureStore,
    other: FeatureStore,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    said: str,
) -> None:
    file = changed(store, tmp_path / "a.json", change)
    with pytest.raises((UsageError, InvalidFeatures)) as raised:
        take_in(file, other)
    assert said in str(raised.value)
    assert other.snapshot() == ([], [])


def test_b5_the_same_export_twice_is_refused(store: FeatureStore, tmp_path: Path) -> None:
    fill(store)
    before = store.snapshot()
    with pytest.raises(InvalidFeatures, match="batch k1 is in the table already"):
        take_in(written(store, tmp_path / "a.json"), store)
    assert store.snapshot() == before


JUNK = (
    b"",
    b"\x00" * 100,
    b"{",
    b"[" * 100_000,
    b'{"autoforge": 1}',
    b"[]",
    b"junk" * 2_600_000,
    b"\xff\xfe",
)


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".db", ""])
def test_b5_junk_of_any_name_is_one_clear_error(other: FeatureStore, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"junk{suffix}"
    for content in JUNK:
        file.write_bytes(content)
        with pytest.raises((UsageError, StoreError), match="junk"):
            take_in(file, other)
        assert other.features() == []
