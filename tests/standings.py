"""Features at each place where they can stand, made by what a build does; and how a refusal is checked."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from db.errors import StoreError
from db.feature import Batch, BatchStatus, Ended, Evidence, FeatureStatus, Kind, NewFeature, PrStatus, Result
from db.store import FeatureStore

PENDING, RUNNING, PASSED, FAILED, ASKS, SKIPPED = FeatureStatus
GIVEN_UP = Ended(Result.FAILED, "it broke")
RAN = Evidence("true", 0, 0.1, 0)


def added(store: FeatureStore, *needs: tuple[int, ...]) -> list[int]:
    """One feature for each tuple of ids that it needs."""
    return [
        store.add_features([NewFeature(f"F{n}", "d", ("s",), existing=need)])[0]
        for n, need in enumerate(needs, 1)
    ]


def begin(store: FeatureStore, key: str, *ids: int) -> int:
    assert store.plan_batch(Batch(key, f"autoforge/{key}", ids))
    return store.start_attempt(
        batch_key=key, feature_ids=ids, kind=Kind.CODE, build_id="b", session_id="s"
    ).id


def stand(store: FeatureStore, status: FeatureStatus, batch: BatchStatus = BatchStatus.OPENED) -> int:
    """A feature with this status; one that passed is in such a batch."""
    [id_] = store.add_features([NewFeature(f"A {status} one after {len(store.nodes())}", "d", ("s",))])
    key = f"k{id_}"
    if status is SKIPPED:
        store.skip([id_])
    elif status is not PENDING:
        attempt = begin(store, key, id_)
        if status is PASSED:
            store.record_pass(
                batch_key=key, feature_id=id_, commit_sha="c" * 40, evidence=[RAN], checks=[RAN]
            )
        if status is not RUNNING:
            questions = {id_: "Which?"} if status is ASKS else {}
            store.end_attempt(attempt, replace(GIVEN_UP, questions=questions), max_attempts=1)
            store.save_batch(
                replace(store.batch(key), status=batch if status is PASSED else BatchStatus.FAILED)
            )
        if status is PASSED and batch is not BatchStatus.WORKING:
            store.set_pull_request(key, number=4, url="u", status=PrStatus.OPEN, batch_status=batch)
    assert store.feature(id_).status is status
    return id_


def refused(
    store: FeatureStore, action: Callable[[], object], said: str, kind: type[StoreError] = StoreError
) -> None:
    before = store.snapshot(), store.attempts()
    with pytest.raises(kind) as raised:
        action()
    assert said in str(raised.value)
    assert (store.snapshot(), store.attempts()) == before
