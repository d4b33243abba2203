"""What tests of the feature table write into it, and a way around it."""

from sqlalchemy import create_engine

from db.feature import Attempt, Batch, Evidence, Kind, NewFeature
from db.lease import Owner
from db.store import FeatureStore

RAN = Evidence(command="pytest -q", exit_code=0, duration_s=1.5, step=0)
CHECK = Evidence(command="ruff check .", exit_code=0, duration_s=0.25)

ME = Owner("b1", "here", 11, 1.25)


def led(store: FeatureStore) -> FeatureStore:
    """The same table, for who leads: no build can follow."""
    return store.under(store.take_lease(ME, ttl_s=3600, is_alive=lambda _: True))


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


def behind(url: str, statement: str) -> list[tuple[object, ...]]:
    """What another program does to the table."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            done = connection.exec_driver_sql(statement)
            return [tuple(row) for row in done] if done.returns_rows else []
    finally:
        engine.dispose()
