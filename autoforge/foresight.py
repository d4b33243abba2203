"""What a build would do: pure simulation, every attempt passing, nothing started or stored."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoforge import plan
from autoforge.lead import Options
from autoforge.project import Project, target_branch
from db.feature import UNFINISHED, Batch, BatchStatus, Feature, FeatureStatus
from db.store import FeatureStore


@dataclass(frozen=True)
class Step:
    """One batch of a wave. Keys, and so branches of new batches, are drawn again by the real build."""

    branch: str
    features: tuple[str, ...]
    base: str


def foresee(project: Project, store: FeatureStore, options: Options) -> list[list[Step]]:
    """Waves of batches: what is in one wave can run at the same time."""
    features, batches = store.features(), store.batches()
    if options.features:
        chosen = plan.selection(features, options.features)
        features = [f for f in features if f.id in chosen or f.status is FeatureStatus.PASSED]
    target = target_branch(project)
    waves = []
    while wave := _wave(project, features, batches):
        waves.append([_step(batch, features, batches, target) for batch in wave])
        done = {b.key: replace(b, status=BatchStatus.OPENED, head_sha=b.key) for b in wave}
        batches = [b for b in batches if b.key not in done] + list(done.values())
        owner = {i: b.key for b in wave for i in b.feature_ids}
        features = [
            replace(f, status=FeatureStatus.PASSED, batch_key=owner[f.id]) if f.id in owner else f
            for f in features
        ]
    return waves


def _wave(project: Project, features: Sequence[Feature], batches: Sequence[Batch]) -> list[Batch]:
    settings = project.settings
    ready = plan.available(features, batches, publish=False)
    slots = settings.concurrency
    begun = [replace(batch, feature_ids=ids) for batch, ids in plan.unfinished(features, batches, ready)][
        :slots
    ]
    new = plan.new_batches(
        features,
        batches,
        ready_to_use=ready,
        size=settings.batch_size,
        slots=slots - len(begun),
        prefix=settings.branch_prefix,
    )
    return begun + new


def _step(batch: Batch, features: Sequence[Feature], batches: Sequence[Batch], target: str) -> Step:
    names = tuple(f"#{f.id} {f.name}" for f in features if f.id in batch.feature_ids)
    if batch.status in UNFINISHED and batch.base_branch:
        return Step(batch.branch, names, batch.base_branch)
    tips = plan.parents(batch, features, batches).tips
    contained = {p.key for tip in tips for b in batches if b.key == tip.key for p in b.parents}
    below = [tip.branch for tip in tips if tip.key not in contained]
    base = target if not below else below[0] if len(below) == 1 else "a join of " + " and ".join(below)
    return Step(batch.branch, names, base)


def as_json(step: Step) -> dict[str, Any]:
    return dataclasses.asdict(step)
