"""Values of the table for tests that need no table."""

from dataclasses import fields, replace
from datetime import UTC, datetime

from db.feature import Batch, BatchStatus, Feature, FeatureStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = {field.name: None for field in fields(Feature)} | {
    "category": "feature",
    "description": "",
    "refinement": "",
    "steps": (),
    "verify": (),
    "evidence": (),
    "attempts": 0,
    "created_at": NOW,
    "updated_at": NOW,
    "dependencies": (),
}


def feature(
    number: int, name: str = "", status: FeatureStatus = FeatureStatus.PENDING, **other: object
) -> Feature:
    known = {"id": number, "priority": number, "name": name or f"F{number}", "status": status}
    return Feature(**{**EMPTY, **known, **other})  # type: ignore[arg-type]


def passed(number: int, key: str, **other: object) -> Feature:
    return feature(number, status=FeatureStatus.PASSED, batch_key=key, commit_sha=f"{number:040x}", **other)


def batch(key: str, *feature_ids: int, status: BatchStatus = BatchStatus.OPENED, **other: object) -> Batch:
    made = Batch(key, f"autoforge/{key}", feature_ids, status, base_sha=f"base-{key}", head_sha=f"head-{key}")
    return replace(made, **other)  # type: ignore[arg-type]
