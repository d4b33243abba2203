"""What one look for the next batches costs, beside the same done naively.

Run from the repository: .venv/bin/python -m benchmarks.scheduling

Each feature depends on 3 earlier ones (random, fixed seed); of 100 the first 5 have passed, in pairs, in open pull
requests. One look is what a build does whenever a slot is free: read the table (SQLite, in a temporary folder), rank
all that is ready and plan batches for 5 slots. Naively, whole features and batches are read, and the rank is found by
a walk from each ready feature to all that wait for it and back to its roots. Both must rank alike. Times are CPU
milliseconds of this process, the best of 5 looks (naively of 2). Of 100,000 features the naive look is made once, only
20 ready ones are walked, and the time is scaled to all of them (marked ~).
"""

import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autoforge.plan import available, new_batches, unfinished
from autoforge.scheduler import schedule
from db.engine import sqlite_url
from db.feature import Batch, BatchStatus, Feature, FeatureStatus
from db.nodes import Standing
from db.store import FeatureStore

SIZES = (1_000, 10_000, 100_000)
SLOTS, SIZE, LOOKS, NAIVE_LOOKS, SAMPLE, WALK_ALL_UP_TO = 5, 3, 5, 2, 20, 10_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DESCRIPTION = "What a person wrote about the feature, and what an agent is to know of it. " * 5
NOTHING = dict.fromkeys(
    ("commit_sha", "pr_number", "pr_url", "pr_status", "last_error", "question", "answer", "issue_number")
)


def table(count: int) -> tuple[list[Feature], list[Batch]]:
    dice = random.Random(count)
    done = count // 20
    features = [
        Feature(
            id=i,
            priority=dice.randrange(1000),
            category=dice.choice(("api", "ui", "data")),
            name=f"Feature {i}",
            description=DESCRIPTION,
            steps=("It is there.", "It works."),
            verify=(),
            evidence=(),
            status=FeatureStatus.PASSED if i <= done else FeatureStatus.PENDING,
            refinement="",
            branch_name=None,
            batch_key=f"batch-{(i + 1) // 2}" if i <= done else None,
            attempts=0,
            last_tested_at=None,
            created_at=NOW,
            updated_at=NOW,
            dependencies=tuple(sorted({dice.randrange(1, i) for _ in range(3)})) if i > 3 else (),
            **NOTHING,
        )
        for i in range(1, count + 1)
    ]
    members = [(i, i + 1) if i < done else (i,) for i in range(1, done + 1, 2)]
    batches = [
        Batch(f"batch-{n}", f"autoforge/batch-{n}", ids, BatchStatus.OPENED)
        for n, ids in enumerate(members, 1)
    ]
    return features, batches


# What a build does


def look(standing: Standing) -> list[Batch]:
    """As in autoforge.lane.next_batches."""
    ready = available(standing.features, standing.batches, publish=True)
    begun = unfinished(standing.features, standing.unfinished, ready)
    return new_batches(
        standing.features,
        standing.unfinished,
        ready_to_use=ready,
        size=SIZE,
        slots=SLOTS - len(begun),
        prefix="autoforge/",
    )


# The same naively


class Walks:
    """The ready features, and who waits for whom."""

    def __init__(self, features: list[Feature], batches: list[Batch]) -> None:
        usable = available(features, batches, publish=True)
        self.by_id = {f.id: f for f in features}
        self.dependents: dict[int, list[int]] = {f.id: [] for f in features}
        for f in features:
            for d in f.dependencies:
                self.dependents[d].append(f.id)
        self.ready = [
            f for f in features if f.status is FeatureStatus.PENDING and usable >= set(f.dependencies)
        ]

    def score(self, feature: Feature) -> tuple[int, int, int, int]:
        seen: set[int] = set()
        todo = list(self.dependents[feature.id])
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo += self.dependents[i]
        depth, level = -1, {feature.id}
        while level:
            depth += 1
            level = {d for i in level for d in self.by_id[i].dependencies}
        return (-len(seen), depth, feature.priority, feature.id)


def rank(features: list[Feature], batches: list[Batch]) -> tuple[int, ...]:
    walks = Walks(features, batches)
    return tuple(score[-1] for score in sorted(map(walks.score, walks.ready)))


def rank_ms(features: list[Feature], batches: list[Batch]) -> float:
    if len(features) <= WALK_ALL_UP_TO:
        return cpu_ms(lambda: rank(features, batches), NAIVE_LOOKS)
    walks = Walks(features, batches)
    sample = random.Random(0).sample(walks.ready, min(SAMPLE, len(walks.ready)))
    walking = cpu_ms(lambda: [walks.score(feature) for feature in sample], 1)
    return cpu_ms(lambda: Walks(features, batches), 1) + walking * len(walks.ready) / len(sample)


def cpu_ms(work: Callable[[], Any], looks: int = LOOKS) -> float:
    times = []
    for _ in range(looks):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) * 1000


def measure(store: FeatureStore, count: int) -> None:
    together = cpu_ms(
        lambda: look(store.standing())
    )  # first: what else is in memory is not walked for garbage
    standing = store.standing()
    ours = [cpu_ms(store.standing), cpu_ms(lambda: look(standing)), together]
    usable = available(standing.features, standing.batches, publish=True)
    ready = schedule(standing.features, available=usable).ready
    features, batches = store.snapshot()
    if count <= WALK_ALL_UP_TO and ready != rank(features, batches):
        raise SystemExit("The two rank the ready features differently.")
    read = cpu_ms(store.snapshot, NAIVE_LOOKS if count <= WALK_ALL_UP_TO else 1)
    ranked = rank_ms(features, batches)
    mark = "" if count <= WALK_ALL_UP_TO else "~"
    for name, mine, theirs in zip(("read", "pass", "both"), ours, (read, ranked, read + ranked), strict=True):
        about = ("" if name == "read" else mark) + format(theirs, ",.0f")
        print(f"{count:>9,} {len(ready):>6,}  {name} {mine:>9.1f} {about:>10} {theirs / mine:>6,.0f}x")


def main() -> None:
    print(f"{'features':>9} {'ready':>6}  {'':4} {'ours, ms':>9} {'naive, ms':>10} {'ratio':>7}")
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            store = FeatureStore.open(sqlite_url(Path(folder) / "features.db"))
            store.restore(*table(count))
            measure(store, count)
            store.close()
    print(f"CPU time, best of {LOOKS}; ~ scaled from {SAMPLE} ready features.")


if __name__ == "__main__":
    main()
