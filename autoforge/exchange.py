"""What comes into the feature table from outside: our own exports, lists, older tools' files, issues."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoforge import export, feature_file, issues
from autoforge.data_file import parse
from autoforge.errors import UsageError
from autoforge.project import Project, connect
from db import legacy, legacy_table
from db.feature import Batch, Feature, FeatureStatus
from db.legacy import Legacy
from db.new_features import folded

if TYPE_CHECKING:
    from db.features import FeatureTable

LEGACY_LIST = "feature_list.json"
MAX_BYTES = 100_000_000  # of an export; a list that a person writes is smaller


@dataclass(frozen=True)
class Imported:
    """The ids of what was stored, in the file's order, and what a person should know about it."""

    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def take_in(path: Path, table: "FeatureTable", has_commit: Callable[[str], bool]) -> Imported:
    """Store what the file holds, all of it or nothing. `has_commit`: whether this repository has it.

    Raises UsageError and StoreError.
    """
    if _is_database(path):
        return _restore_legacy(table, legacy_table.read(path))
    data = parse(path, max_bytes=MAX_BYTES) if path.suffix.lower() == ".json" else None
    if isinstance(data, dict) and "autoforge" in data:
        return _take_export(*export.load(data, path.name), table, has_commit)
    if isinstance(data, dict) and data.keys() == {"features"}:
        data = data["features"]
    if legacy.is_legacy(data) or (path.name == LEGACY_LIST and isinstance(data, list)):
        assert isinstance(data, list)
        return _restore_legacy(table, legacy.from_items(data))
    known = {folded(f.name): f.id for f in table.features()}
    return Imported(tuple(table.add_features(feature_file.read(path, known))))


def _take_export(
    features: list[Feature], batches: list[Batch], table: "FeatureTable", has_commit: Callable[[str], bool]
) -> Imported:
    """What was built counts only where its commits are: they are what its status says something about."""
    running = [f.id for f in features if f.status is FeatureStatus.RUNNING]
    features = [replace(f, status=FeatureStatus.PENDING) if f.id in running else f for f in features]
    here = _with_commits(batches, has_commit)
    gone = {b.key for b in batches} - {b.key for b in here}
    lost = [f for f in features if f.batch_key in gone]
    features = [_undone(f) if f.batch_key in gone else f for f in features]
    ids = table.restore(features, here)
    notes = [f"#{ids[i]} was running and is pending" for i in running]
    notes += [
        f"#{ids[f.id]} had passed on {f.commit_sha[:8]}, which this repository does not have: it is pending. To keep "
        f"it, fetch {f.branch_name} and import into a new table"
        for f in lost
        if f.status is FeatureStatus.PASSED and f.commit_sha
    ]
    return Imported(tuple(ids.values()), tuple(notes))


def _with_commits(batches: Sequence[Batch], has_commit: Callable[[str], bool]) -> list[Batch]:
    """Those that can go on here, and whose parents can."""
    here = [b for b in batches if all(map(has_commit, _needed(b)))]
    while True:
        keys = {b.key for b in here} | {p.key for b in batches for p in b.parents} - {b.key for b in batches}
        standing = [b for b in here if all(p.key in keys for p in b.parents)]
        if len(standing) == len(here):
            return here
        here = standing


def _needed(batch: Batch) -> list[str]:
    needed = [batch.merge_sha] if batch.merge_sha else [batch.base_sha, batch.head_sha]
    return [sha for sha in needed if sha]


def _undone(feature: Feature) -> Feature:
    status = FeatureStatus.PENDING if feature.status is FeatureStatus.PASSED else feature.status
    nothing: dict[str, Any] = dict.fromkeys(
        ("branch_name", "commit_sha", "pr_number", "pr_url", "pr_status", "batch_key", "last_tested_at")
    )
    return replace(feature, status=status, evidence=(), **nothing)


def take_issues(project: Project, table: "FeatureTable", *, label: str | None) -> Imported:
    """Store the open issues of the remote's repository, all of them that are new or nothing.

    Raises UsageError, StoreError and ForgeFailed.
    """
    remote, forge = project.settings.remote, connect(project)
    if project.slug is None:
        raise UsageError(
            f"The remote {remote} is no known GitHub repository: there are no issues to import. For GitHub Enterprise "
            "set `github.api_url`."
        )
    if forge is None:
        raise UsageError("GitHub needs a token that may read the repository's issues: set GITHUB_TOKEN.")
    found, features = forge.issues(label), table.features()
    ids: dict[int, list[int]] = {}
    for feature in features:
        if feature.issue_number is not None:
            ids.setdefault(feature.issue_number, []).append(feature.id)
    known = issues.Known(frozenset(folded(f.name) for f in features), ids)
    mapped = issues.to_features(found, known, slug=project.slug, label=label)
    return Imported(tuple(table.add_features(mapped.features)) if mapped.features else (), mapped.notes)


def _is_database(path: Path) -> bool:
    """What cannot be read is left to the reader of text files, which says why."""
    try:
        return legacy_table.is_database(path)
    except (OSError, ValueError):
        return False


def _restore_legacy(table: "FeatureTable", found: Legacy) -> Imported:
    ids = table.restore(found.features)
    moved = [(old, new) for old, new in ids.items() if old != new]
    notes = (
        [f"#{moved[0][0]} is #{moved[0][1]} here, and so on: the table has features already"] if moved else []
    )
    return Imported(tuple(ids.values()), (*notes, *found.notes))
