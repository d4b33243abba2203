"""What comes into the feature table and leaves it: its own JSON file without loss, older tools' files, issues."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from autoforge import feature_file, issues
from autoforge.data_file import describe, parse, quote
from autoforge.errors import UsageError
from autoforge.project import Project, connect
from db import legacy, legacy_table
from db.feature import Batch, Feature, FeatureStatus
from db.legacy import Legacy
from db.new_features import text_fault

if TYPE_CHECKING:
    from db.features import FeatureTable

VERSION = 1
LEGACY_LIST = "feature_list.json"
MAX_NUMBER = 1_000_000_000
MAX_BYTES = 100_000_000  # of an export; a list that a person writes is smaller
_HEAD: Mapping[str, object] = {"autoforge": "features", "version": VERSION}
_NOT_PORTABLE = ("worktree_path",)
"""Columns of a batch that mean something only on the machine that wrote them."""

V = TypeVar("V")


@dataclass(frozen=True)
class Imported:
    """The ids of what was stored, in the file's order, and what a person should know about it."""

    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def as_json(features: Sequence[Feature], batches: Sequence[Batch]) -> dict[str, object]:
    """Every column of the features and of their batches; attempts and events stay where they are."""
    kept = [{k: v for k, v in _plain(batch).items() if k not in _NOT_PORTABLE} for batch in batches]
    return {**_HEAD, "features": [_plain(f) for f in features], "batches": kept}


def save(path: Path, data: Mapping[str, object]) -> None:
    """Write a new file, one line for each item, so that exports can be compared. Raises UsageError."""
    if path.suffix.lower() != ".json":
        raise UsageError(f"{path} does not end in .json, so it could not be imported: choose another name.")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(
                "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(data[key])}" for key in data) + "\n}\n"
            )
    except FileExistsError as error:
        raise UsageError(f"{path} exists already: remove it, or choose another name.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror or error}).") from error


def _lines(value: object) -> str:
    items = value if isinstance(value, list) else []
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n{lines}\n]" if items else json.dumps(value)


def take_in(path: Path, table: "FeatureTable") -> Imported:
    """Store what the file holds, all of it or nothing. Raises UsageError and StoreError."""
    if _is_database(path):
        return _restore_legacy(table, legacy_table.read(path))
    data = parse(path, max_bytes=MAX_BYTES) if path.suffix.lower() == ".json" else None
    if isinstance(data, dict) and "autoforge" in data:
        features, batches = load(data, path.name)
        running = [f.id for f in features if f.status is FeatureStatus.RUNNING]
        features = [replace(f, status=FeatureStatus.PENDING) if f.id in running else f for f in features]
        ids = table.restore(features, batches)
        return Imported(tuple(ids.values()), tuple(f"#{ids[i]} was running and is pending" for i in running))
    if isinstance(data, dict) and data.keys() == {"features"}:
        data = data["features"]
    if legacy.is_legacy(data) or (path.name == LEGACY_LIST and isinstance(data, list)):
        assert isinstance(data, list)
        return _restore_legacy(table, legacy.from_items(data))
    known = {feature_file.fold(f.name): f.id for f in table.features()}
    return Imported(tuple(table.add_features(feature_file.read(path, known))))


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
    known = issues.Known(frozenset(feature_file.fold(f.name) for f in features), ids)
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


def load(data: Mapping[str, object], where: str) -> tuple[list[Feature], list[Batch]]:
    """The values of an export. Raises UsageError, whatever it holds."""
    version = data.get("version")
    if data.get("autoforge") != "features" or version != VERSION:
        raise UsageError(
            f"{where} is an export of version {quote(str(version))}, this autoforge reads version {VERSION}: "
            "upgrade autoforge, or export it again."
        )
    if unknown := sorted(data.keys() - {*_HEAD, "features", "batches"}):
        raise UsageError(f"{where} has the unknown key {quote(unknown[0])}.")
    return (
        [_value(Feature, item, f"{where}: feature {n}") for n, item in _items(data, "features", where)],
        [_value(Batch, item, f"{where}: batch {n}") for n, item in _items(data, "batches", where)],
    )


def _items(data: Mapping[str, object], key: str, where: str) -> list[tuple[int, object]]:
    items = data.get(key, [])
    if not isinstance(items, list):
        raise UsageError(f"{where}, {key} is {describe(items)}; expected a list.")
    return list(enumerate(items, 1))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _value(kind: type[V], item: object, where: str) -> V:
    """A frozen value from an object with its fields; those with a default may be missing."""
    if not isinstance(item, dict):
        raise UsageError(f"{where} is {describe(item)}; expected an object.")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    if unknown := [key for key in item if key not in known]:
        raise UsageError(f"{where} has the unknown key {quote(unknown[0])}.")
    if missing := [name for name, f in known.items() if name not in item and _is_required(f)]:
        raise UsageError(f"{where} has no {missing[0]}.")
    return kind(**{name: _read(known[name].type, value, f"{where}, {name}") for name, value in item.items()})


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _read(hint: Any, value: object, where: str) -> Any:
    if get_origin(hint) is UnionType:
        [inner] = [each for each in get_args(hint) if each is not type(None)]
        return None if value is None else _read(inner, value, where)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise UsageError(f"{where} is {describe(value)}; expected a list.")
        return tuple(_read(get_args(hint)[0], each, f"{where}, entry {n}") for n, each in enumerate(value, 1))
    if is_dataclass(hint):
        return _value(hint, value, where)  # type: ignore[arg-type]
    if issubclass(hint, StrEnum):
        return _one_of(hint, value, where)
    return _SCALARS[hint](value, where)


def _one_of(words: type[StrEnum], value: object, where: str) -> StrEnum:
    if not isinstance(value, str) or value not in set(words):
        raise UsageError(f"{where} is {quote(value)}; expected {', '.join(words)}.")
    return words(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where} is {describe(value)}; expected text.")
    if fault := text_fault(value):
        raise UsageError(f"{where} {fault}.")
    return value


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_NUMBER:
        raise UsageError(f"{where} is {quote(str(value))}; expected a whole number up to {MAX_NUMBER}.")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        raise UsageError(f"{where} is {describe(value)}; expected a number.")
    return float(value)


def _time(value: object, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"{where} is {quote(value)}; expected a time with its zone.")
    return found


_SCALARS: Mapping[Any, Callable[[object, str], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    datetime: _time,
}
