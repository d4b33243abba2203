"""Our own file of the feature table: everything that is known of features and their batches, without loss."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

from autoforge.cycles import arrows, find_cycles
from autoforge.data_file import describe, quote
from autoforge.errors import UsageError
from db.feature import Batch, Feature
from db.new_features import text_fault

VERSION = 1
MAX_NUMBER = 1_000_000_000
_HEAD: Mapping[str, object] = {"autoforge": "features", "version": VERSION}
_NOT_PORTABLE = ("worktree_path",)
"""Columns of a batch that mean something only on the machine that wrote them."""

V = TypeVar("V")


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
    features = [_value(Feature, item, f"{where}: feature {n}") for n, item in _items(data, "features", where)]
    batches = [_value(Batch, item, f"{where}: batch {n}") for n, item in _items(data, "batches", where)]
    _check_features(features, where)
    _check_batches(batches, where)
    return features, batches


def _check_features(features: Sequence[Feature], where: str) -> None:
    for n, feature in enumerate(features, 1):
        _check(f"{where}: feature {n}", [feature.commit_sha], [feature.branch_name])
        if feature.id < 1:
            raise UsageError(f"{where}: feature {n}, id is {feature.id}; ids are counted from 1.")


def _check_batches(batches: Sequence[Batch], where: str) -> None:
    for n, batch in enumerate(batches, 1):
        shas = [batch.base_sha, batch.head_sha, batch.pushed_sha, batch.merge_sha]
        _check(
            f"{where}: batch {n}", [*shas, *(p.tip for p in batch.parents)], [batch.branch, batch.base_branch]
        )
        if len(set(batch.feature_ids)) < len(batch.feature_ids):
            raise UsageError(f"{where}: batch {n} has a feature twice.")
        if batch.worktree_path:
            raise UsageError(f"{where}: batch {n} has a worktree_path, which means nothing elsewhere.")
    places = {batch.key: n for n, batch in enumerate(batches, 1)}
    below = {places[b.key]: [places[p.key] for p in b.parents if p.key in places] for b in batches}
    if circles := find_cycles(below):
        raise UsageError(f"{where}: batches are built on each other in a circle: {arrows(circles[0])}.")


def _check(where: str, shas: Sequence[str | None], branches: Sequence[str | None]) -> None:
    """What goes into git's arguments is what it says it is."""
    for sha in shas:
        if sha is not None and not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", sha):
            raise UsageError(f"{where} names the commit {quote(sha)}; expected its whole hash.")
    for branch in branches:
        if branch is not None and (not branch or branch.startswith("-")):
            raise UsageError(f"{where} names the branch {quote(branch)}, which git would not take as one.")


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
