"""How long one look for the next batches takes, beside the same done naively.

Run from the repository: .venv/bin/python -m benchmarks.scheduling

Each feature depends on 3 earlier ones (random, fixed seed); the first 5 in 100 have passed and are available. One pass
is what a build does at each step, the table already read: rank all ready features and plan batches for 5 slots.
Times are CPU milliseconds of this process, the best of 5 passes. The naive pass walks from each ready feature to all
that wait for it and back to its roots; of 100,000 only 20 ready features are walked and the time is scaled to all of
them (marked ~). Up to there both must rank alike. Above EXACT_UP_TO open features ours counts paths, the naive pass
still counts features.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autoforge.scheduler import EXACT_UP_TO, plan_batches, schedule
from db.feature import FeatureStatus

SIZES = (1_000, 10_000, 100_000)
SLOTS, SIZE, PASSES, SAMPLE, WALK_ALL_UP_TO = 5, 3, 5, 20, 10_000


@dataclass(frozen=True)
class Row:
    """What scheduling asks of a feature."""

    id: int
    priority: int
    category: str
    status: FeatureStatus
    dependencies: tuple[int, ...]


def features(count: int) -> list[Row]:
    dice = random.Random(count)
    done = count // 20
    return [
        Row(
            id=i,
            priority=dice.randrange(1000),
            category=dice.choice(("api", "ui", "data")),
            status=FeatureStatus.PASSED if i <= done else FeatureStatus.PENDING,
            dependencies=tuple(sorted({dice.randrange(1, i) for _ in range(3)})) if i > 3 else (),
        )
        for i in range(1, count + 1)
    ]


def ours(rows: list[Row], available: frozenset[int]) -> tuple[int, ...]:
    plan = schedule(rows, available=available)
    plan_batches(rows, plan, size=SIZE, slots=SLOTS)
    return plan.ready


def prepared(
    rows: list[Row], available: frozenset[int]
) -> tuple[list[Row], dict[int, Row], dict[int, list[int]]]:
    """The ready features, all features by id, and who waits for whom."""
    by_id = {row.id: row for row in rows}
    dependents: dict[int, list[int]] = {row.id: [] for row in rows}
    for row in rows:
        for d in row.dependencies:
            dependents[d].append(row.id)
    ready = [
        row for row in rows if row.status is FeatureStatus.PENDING and available >= set(row.dependencies)
    ]
    return ready, by_id, dependents


def walk(row: Row, by_id: dict[int, Row], dependents: dict[int, list[int]]) -> tuple[int, int, int, int]:
    seen: set[int] = set()
    todo = list(dependents[row.id])
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += dependents[i]
    depth, level = -1, {row.id}
    while level:
        depth += 1
        level = {d for i in level for d in by_id[i].dependencies}
    return (-len(seen), depth, row.priority, row.id)


def naive(rows: list[Row], available: frozenset[int]) -> tuple[int, ...]:
    ready, by_id, dependents = prepared(rows, available)
    return tuple(score[-1] for score in sorted(walk(row, by_id, dependents) for row in ready))


def cpu_ms(work: Callable[[], Any], passes: int = PASSES) -> float:
    times = []
    for _ in range(passes):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) * 1000


def naive_ms(rows: list[Row], available: frozenset[int]) -> float:
    if len(rows) <= WALK_ALL_UP_TO:
        return cpu_ms(lambda: naive(rows, available))
    ready, by_id, dependents = prepared(rows, available)
    sample = random.Random(0).sample(ready, min(SAMPLE, len(ready)))
    walks = cpu_ms(lambda: [walk(row, by_id, dependents) for row in sample], passes=1)
    return cpu_ms(lambda: prepared(rows, available)) + walks * len(ready) / len(sample)


def main() -> None:
    print(f"{'features':>9} {'ready':>6} {'ours, ms':>9} {'naive, ms':>10} {'ratio':>7}")
    for count in SIZES:
        rows = features(count)
        available = frozenset(row.id for row in rows if row.status is FeatureStatus.PASSED)
        ready = ours(rows, available)
        if count <= WALK_ALL_UP_TO and ready != naive(rows, available):
            raise SystemExit("The two passes rank the ready features differently.")
        mine, theirs = cpu_ms(lambda: ours(rows, available)), naive_ms(rows, available)  # noqa: B023
        mark = " " if count <= WALK_ALL_UP_TO else "~"
        print(
            f"{count:>9,} {len(ready):>6,} {mine:>9.1f} {mark + format(theirs, ',.0f'):>10} {theirs / mine:>6,.0f}x"
        )
    print(
        f"CPU time, best of {PASSES}; ~ scaled from {SAMPLE} ready features; paths above {EXACT_UP_TO:,} open features."
    )


if __name__ == "__main__":
    main()
