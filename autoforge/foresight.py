"""What a build would do: pure simulation, every attempt passing, nothing started or stored."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoforge import plan
from autoforge.leading import Options
from autoforge.project import Project, target_branch
from db.feature import UNFINISHED, Batch, BatchStatus, FeatureStatus, Parent
from db.nodes import Node
from db.store import FeatureStore
from git_workflow.base import Tip


@dataclass(frozen=True)
class Step:
    """One batch of a wave. Keys, and so branches of new batches, are drawn again by the real build."""

    branch: str
    features: tuple[str, ...]
    base: str


def foresee(project: Project, store: FeatureStore, options: Options) -> list[list[Step]]:
    """Waves of batches: what is in one wave can run at the same time.

    As if all attempts took equally long; a build fills each slot as soon as it is free.
    """
    features, batches = store.nodes(), store.batches()
    names = {f.id: f"#{f.id} {f.name}" for f in features}
    if options.features:
        chosen = plan.selection(features, options.features)
        features = [f for f in features if f.id in chosen or f.status is FeatureStatus.PASSED]
    target = target_branch(project)
    waves = []
    while wave := _wave(project, features, batches):
        below = {batch.key: _below(batch, features, batches) for batch in wave}
        waves.append([_step(batch, names, below[batch.key], target) for batch in wave])
        done = {b.key: _done(b, below[b.key]) for b in wave}
        batches = [b for b in batches if b.key not in done] + list(done.values())
        owner = {i: b.key for b in wave for i in b.feature_ids}
        features = [
            f._replace(status=FeatureStatus.PASSED, batch_key=owner[f.id]) if f.id in owner else f
            for f in features
        ]
    return waves


def _done(batch: Batch, below: Sequence[Tip]) -> Batch:
    parents = batch.parents or tuple(Parent(tip.key, tip.sha) for tip in below)
    return replace(batch, status=BatchStatus.OPENED, head_sha=batch.key, parents=parents)


def _wave(project: Project, features: Sequence[Node], batches: Sequence[Batch]) -> list[Batch]:
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


def _below(batch: Batch, features: Sequence[Node], batches: Sequence[Batch]) -> list[Tip]:
    """The parents that no other parent contains."""
    tips = plan.parents(batch, features, batches).tips
    by_key = {b.key: b for b in batches}
    contained: set[str] = set()
    todo = [parent.key for tip in tips for parent in by_key[tip.key].parents]
    while todo:
        key = todo.pop()
        if key in by_key and key not in contained:
            contained.add(key)
            todo += [parent.key for parent in by_key[key].parents]
    return [tip for tip in tips if tip.key not in contained]


def _step(batch: Batch, names: Mapping[int, str], below: Sequence[Tip], target: str) -> Step:
    built = tuple(names[i] for i in batch.feature_ids)
    if batch.status in UNFINISHED and batch.base_branch:
        return Step(batch.branch, built, batch.base_branch)
    branches = [tip.branch for tip in below]
    base = target if not below else branches[0] if len(below) == 1 else "a join of " + " and ".join(branches)
    return Step(batch.branch, built, base)


def as_json(step: Step) -> dict[str, Any]:
    return dataclasses.asdict(step)
