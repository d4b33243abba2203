"""What became of the features, in numbers and in words: pure, from the table's values."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoforge import plan, questions, scheduler
from db.feature import UNFINISHED, Batch, BatchStatus, Feature, FeatureStatus, Result


@dataclass(frozen=True)
class Report:
    """`blocked` and `open` say for each feature that has not passed why; `unpublished` for each batch."""

    features: tuple[Feature, ...]
    batches: tuple[Batch, ...]
    cost_usd: float
    blocked: Mapping[int, str]
    open: Mapping[int, str]
    unpublished: Mapping[str, str]
    ending: Result | None = None
    why: str = ""

    def count(self, status: FeatureStatus) -> int:
        return sum(f.status is status and f.id not in self.blocked for f in self.features)

    @property
    def exit_code(self) -> int:
        """0 all passed and published · 1 something is left · 2 no credentials · 4 can go on · 130 interrupted."""
        if self.ending is Result.UNAVAILABLE:
            return 2
        if not (self.blocked or self.open or self.unpublished):
            return 0
        return {Result.MONEY: 4, Result.INTERRUPTED: 130}.get(self.ending or Result.FAILED, 1)


def make(
    features: Sequence[Feature],
    batches: Sequence[Batch],
    *,
    cost_usd: float,
    publish: bool = False,
    forge: bool = False,
    selected: frozenset[int] | None = None,
    ending: Result | None = None,
    why: str = "",
) -> Report:
    """`publish` and `forge`: whether branches should be on the remote and have pull requests."""
    ready = plan.available(features, batches, publish=publish)
    schedule = scheduler.schedule(features, available=ready)
    blocked = scheduler.stuck(features, schedule, held=plan.held(features, batches))
    chosen = [f for f in features if selected is None or f.id in selected]
    ids = {f.id for f in chosen}
    return Report(
        features=tuple(chosen),
        batches=tuple(batches),
        cost_usd=cost_usd,
        blocked={i: reason for i, reason in blocked.items() if i in ids},
        open={f.id: _why_open(f, batches) for f in chosen if f.id not in blocked and _is_open(f)},
        unpublished=_unpublished(batches, chosen, publish=publish, forge=forge),
        ending=ending,
        why=why,
    )


def _is_open(feature: Feature) -> bool:
    return feature.status not in (FeatureStatus.PASSED, FeatureStatus.SKIPPED)


def _why_open(feature: Feature, batches: Sequence[Batch]) -> str:
    if feature.status is FeatureStatus.NEEDS_INPUT:
        asked = questions.from_column(feature.question or "").text
        return f"asks: {asked} (autoforge answer {feature.id} shows and answers it)"
    if feature.status is FeatureStatus.FAILED:
        return f"failed after {feature.attempts} attempts: {feature.last_error or 'no reason given'}"
    if feature.status is FeatureStatus.RUNNING:
        return "is running"
    batch = next((b for b in batches if b.key == feature.batch_key and b.status in UNFINISHED), None)
    return feature.last_error or (batch.last_error if batch else None) or "has not been tried yet"


def _unpublished(
    batches: Sequence[Batch], features: Sequence[Feature], *, publish: bool, forge: bool
) -> dict[str, str]:
    """Batches that should be further than they are, and those whose publishing was tried and failed."""
    passed = {f.batch_key for f in features if f.status is FeatureStatus.PASSED}
    missing = {BatchStatus.BUILT: publish, BatchStatus.PUSHED: forge, BatchStatus.OPENED: False}
    return {
        b.key: _why_unpublished(b)
        for b in batches
        if b.key in passed and b.status in missing and (missing[b.status] or b.last_error)
    }


def _why_unpublished(batch: Batch) -> str:
    if batch.status is BatchStatus.OPENED:
        return f"{batch.branch} is not up to date: {batch.last_error}"
    return (
        f"{batch.branch} is {batch.status} but not published: {batch.last_error or 'the build ended before'}"
    )


def as_json(report: Report) -> dict[str, Any]:
    """The documented shape of `status --json`; later versions only add keys."""
    return {
        "features": [dataclasses.asdict(f) for f in report.features],
        "batches": [dataclasses.asdict(b) for b in report.batches],
        "totals": {
            **{str(s): report.count(s) for s in FeatureStatus},
            "blocked": len(report.blocked),
            "cost_usd": round(report.cost_usd, 4),
        },
        "blocked": {str(i): reason for i, reason in report.blocked.items()},
        "open": {str(i): reason for i, reason in report.open.items()},
        "unpublished": dict(report.unpublished),
    }
