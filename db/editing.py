"""A person's changes to features: what each asks of their rows, and what it does to them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from .errors import InvalidFeatures, StoreError
from .feature import MAX_DEPENDENCIES, UNFINISHED, UNMERGED, BatchStatus, FeatureStatus
from .models import BatchRow, DependencyRow, FeatureRow, MemberRow, ParentRow
from .new_features import field_fault, folded, one_line
from .rows import locked_features

MAX_NUMBER = 1_000_000_000
_MAX_SHOWN = 10
_BUSY = {
    FeatureStatus.RUNNING: "is running: wait until its attempt has ended, or stop the build",
    FeatureStatus.PASSED: "has passed: `autoforge features reset` makes it start again",
}
_DEFINING = ("name", "description", "steps", "verify")


def edit(session: Session, feature_id: int, changes: Mapping[str, object]) -> FeatureRow:
    """Write these columns. What an agent was told, or what was verified, stays as it was then.

    Raises NotFound, StoreError and InvalidFeatures.
    """
    [row] = locked_features(session, [feature_id])
    if row.status in _BUSY and (fixed := [name for name in _DEFINING if name in changes]):
        _refuse([f"the {' and '.join(fixed)} cannot change, feature #{row.id} {_BUSY[row.status]}"])
    lines = {column: one_line(str(changes[column])) for column in ("name", "category") if column in changes}
    changes = {**changes, **lines}
    if faults := [*_faults(session, row, changes)]:
        raise InvalidFeatures(f"Nothing was changed in feature #{feature_id}: {'; '.join(faults)}.")
    for column, value in changes.items():
        setattr(row, column, value)
    return row


def _faults(session: Session, row: FeatureRow, changes: Mapping[str, object]) -> Iterable[str]:
    for column, value in changes.items():
        for text in [value] if isinstance(value, str) else value if isinstance(value, tuple) else []:
            if fault := field_fault(column, text):
                yield fault
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            yield f"{column} {value} is beyond {MAX_NUMBER}"
    if isinstance(name := changes.get("name"), str):
        others = session.execute(select(FeatureRow.id, FeatureRow.name).where(FeatureRow.id != row.id))
        yield from (
            f"the name is that of #{i} already" for i, other in others if folded(other) == folded(name)
        )


def skip(session: Session, ids: Sequence[int]) -> None:
    """Pending, failed or asking: it is not built, and what depends on it waits."""
    rows = locked_features(session, ids)
    _refuse(_busy(rows))
    for row in rows:
        row.status = FeatureStatus.SKIPPED


def retry(session: Session, ids: Sequence[int]) -> None:
    """It is pending with all its attempts, and keeps its last error.

    One that passed in a batch whose pull request was closed starts again on a new branch.
    """
    rows = locked_features(session, ids)
    batches = _batches(session, rows)
    again = [
        row for row in rows if row.status is FeatureStatus.PASSED and _in(row, batches, {BatchStatus.CLOSED})
    ]
    _refuse(_busy(row for row in rows if row not in again))
    for row in again:
        _forget_work(row)
    for row in rows:
        row.status, row.attempts = FeatureStatus.PENDING, 0


def reset(session: Session, ids: Sequence[int]) -> None:
    """Forget everything but the definition; branches and commits stay. An unfinished batch keeps its features.

    A batch in which nothing passed is left is closed by the next build.
    """
    rows = locked_features(session, ids)
    batches = _batches(session, rows)
    _refuse(f"feature #{row.id} {why}" for row in rows if (why := _not_to_reset(session, row, batches, ids)))
    for row in rows:
        held = (row.batch_key, row.branch_name) if _in(row, batches, UNFINISHED) else (None, None)
        _forget_work(row)
        row.batch_key, row.branch_name = held
        row.status, row.attempts, row.refinement = FeatureStatus.PENDING, 0, ""
        row.last_error = row.question = row.answer = None


def _not_to_reset(
    session: Session, row: FeatureRow, batches: Mapping[str, BatchStatus], ids: Sequence[int]
) -> str | None:
    """What has passed leaves a branch that is published only together with all that is on its commits."""
    if row.status is FeatureStatus.RUNNING:
        return _BUSY[row.status]
    if row.status is not FeatureStatus.PASSED or row.batch_key is None:
        return None
    status, passed = batches.get(row.batch_key), f"has passed on {row.branch_name}"
    if status in UNFINISHED:
        return f"{passed}, which is not finished: `autoforge build` first"
    if status is BatchStatus.OPENED:
        return (
            f"{passed}, whose pull request #{row.pr_number} is open: merge or close it, then `autoforge sync`"
        )
    if status is None or status not in UNMERGED:
        return None
    above = _built_on(session, row.batch_key)
    if begun := [each.branch for each in above if each.status in UNFINISHED]:
        return f"{passed}, which {' and '.join(begun)} is built on: `autoforge build` first"
    keys = [row.batch_key, *(each.key for each in above)]
    query = select(FeatureRow.id).where(
        FeatureRow.batch_key.in_(keys), FeatureRow.status == FeatureStatus.PASSED, FeatureRow.id.not_in(ids)
    )
    if others := session.scalars(query.order_by(FeatureRow.id)).all():
        words = " ".join(map(str, sorted({*ids, *others})))
        return (
            f"{passed}, whose commits {_list(others)} needs: reset them together (`autoforge features reset {words}`), "
            "or publish them (`autoforge build --auto-pr`)"
        )
    return None


def _built_on(session: Session, key: str) -> list[BatchRow]:
    """The batches that have the commits of this one, and that count."""
    counts = UNFINISHED | UNMERGED | {BatchStatus.FOLDED}
    rows = session.execute(
        select(ParentRow.parent_key, BatchRow)
        .join(BatchRow, BatchRow.key == ParentRow.batch_key)
        .where(BatchRow.status.in_(counts))
    ).all()
    found: dict[str, BatchRow] = {}
    keys = [key]
    for below in keys:  # grows while it is read
        new = {row.key: row for parent, row in rows if parent == below and row.key not in found}
        found |= new
        keys += new
    return list(found.values())


def _forget_work(row: FeatureRow) -> None:
    row.batch_key = row.branch_name = row.commit_sha = row.last_tested_at = None
    row.pr_number = row.pr_url = row.pr_status = None
    row.evidence = ()


def remove(session: Session, ids: Sequence[int], *, cascade: bool) -> list[int]:
    """Remove them, with `cascade` all that depends on them too; answers which.

    The attempts keep the numbers, which no other feature gets.
    """
    followers: dict[int, list[int]] = {}
    for feature_id, need in _needs(session):
        followers.setdefault(need, []).append(feature_id)
    gone, seen = list(ids), set(ids)
    for feature_id in gone if cascade else ():  # grows while it is read
        gone += [each for each in followers.get(feature_id, ()) if each not in seen]
        seen.update(followers.get(feature_id, ()))
    rows = locked_features(session, gone)
    unfinished = (
        select(MemberRow.feature_id, BatchRow.branch)
        .join(BatchRow, BatchRow.key == MemberRow.batch_key)
        .where(MemberRow.feature_id.in_(gone), BatchRow.status.in_(UNFINISHED))
    )
    left = {i: sorted(set(followers.get(i, ())) - seen) for i in gone}
    _refuse(
        [
            *_busy(rows),
            *(
                f"feature #{i} belongs to {branch}, which is not finished: skip it, and remove it after the next build"
                for i, branch in session.execute(unfinished)
            ),
            *(
                f"feature #{i} is needed by {_list(waiting)}: remove these too (--cascade), or `autoforge features undepend`"
                for i, waiting in left.items()
                if waiting
            ),
        ]
    )
    session.execute(delete(DependencyRow).where(DependencyRow.feature_id.in_(gone)))
    session.execute(delete(MemberRow).where(MemberRow.feature_id.in_(gone)))
    session.execute(delete(FeatureRow).where(FeatureRow.id.in_(gone)))
    return gone


def depend(session: Session, feature_id: int, on: Sequence[int]) -> None:
    """Let the feature wait for others. Raises NotFound, StoreError and InvalidFeatures."""
    row, *_ = locked_features(session, [feature_id, *on])
    _refuse(_busy([row]))
    if _in(row, _batches(session, [row]), UNFINISHED):
        _refuse(
            [
                f"feature #{row.id} belongs to {row.branch_name}, which is not finished and was begun without "
                f"{_list(on)}: skip it, build, then retry it and try again"
            ]
        )
    needs: dict[int, list[int]] = {}
    for each, need in _needs(session):
        needs.setdefault(each, []).append(need)
    mine = needs.get(feature_id, [])
    faults = [f"feature #{feature_id} depends on #{need} already" for need in on if need in mine]
    if len(mine) + len(on) > MAX_DEPENDENCIES:
        faults.append(
            f"it would depend on {len(mine) + len(on)} features, at most {MAX_DEPENDENCIES} are allowed"
        )
    for need in on:
        if way := _way(needs, need, feature_id):
            circle = " needs ".join(f"#{each}" for each in (feature_id, *way))
            faults.append(f"they would wait for each other in a circle: {circle}")
    if faults:
        raise InvalidFeatures(f"Nothing was changed: {'; '.join(faults)}.")
    session.add_all(DependencyRow(feature_id=feature_id, depends_on_id=need) for need in on)


def undepend(session: Session, feature_id: int, on: Sequence[int]) -> None:
    """Let the feature no longer wait for others. Raises NotFound and InvalidFeatures."""
    row, *_ = locked_features(session, [feature_id, *on])
    mine = {need.depends_on_id: need for need in row.needs}
    if missing := [need for need in on if need not in mine]:
        raise InvalidFeatures(
            f"Nothing was changed: feature #{feature_id} does not depend on {_list(missing)}."
        )
    for need in on:
        session.delete(mine[need])


def _way(needs: Mapping[int, Sequence[int]], start: int, goal: int) -> list[int]:
    """The shortest way from one feature to what it needs, both included; none: empty."""
    came_from = {start: start}
    for node in (queue := [start]):  # grows while it is read
        if node == goal:
            way = [goal]
            while way[-1] != start:
                way.append(came_from[way[-1]])
            return way[::-1]
        fresh = [need for need in needs.get(node, ()) if need not in came_from]
        came_from |= dict.fromkeys(fresh, node)
        queue += fresh
    return []


def _needs(session: Session) -> Sequence[tuple[int, int]]:
    return [(a, b) for a, b in session.execute(select(DependencyRow.feature_id, DependencyRow.depends_on_id))]


def _batches(session: Session, rows: Iterable[FeatureRow]) -> Mapping[str, BatchStatus]:
    keys = {row.batch_key for row in rows if row.batch_key}
    found = session.execute(select(BatchRow.key, BatchRow.status).where(BatchRow.key.in_(keys)))
    return {row.key: row.status for row in found}


def _in(row: FeatureRow, batches: Mapping[str, BatchStatus], statuses: Collection[BatchStatus]) -> bool:
    return batches.get(row.batch_key or "") in statuses


def _busy(rows: Iterable[FeatureRow]) -> list[str]:
    return [f"feature #{row.id} {_BUSY[row.status]}" for row in rows if row.status in _BUSY]


def _refuse(faults: Iterable[str]) -> None:
    """Raise StoreError with the faults, if there are any."""
    faults = list(faults)
    if faults:
        more = [f"and {len(faults) - _MAX_SHOWN} more"] if len(faults) > _MAX_SHOWN else []
        raise StoreError(f"Nothing was changed: {'; '.join(faults[:_MAX_SHOWN] + more)}.")


def _list(ids: Iterable[int]) -> str:
    return ", ".join(f"#{each}" for each in ids)
