"""Turns an import file into features, all checked, or says which item is wrong and what is expected."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoforge.cycles import find_cycles
from autoforge.data_file import describe, parse, quote
from autoforge.errors import UsageError
from db.feature import MAX_DEPENDENCIES, NewFeature
from db.new_features import MAX_NAME, folded

MAX_NUMBER = 2**31 - 1  # what every database can store

_KEYS = ("name", "description", "steps", "category", "priority", "verify", "depends_on", "issue_number")
_ALIASES = {"dependencies": "depends_on", "depends_on_indices": "depends_on"}
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class _Names:
    items: Mapping[str, int]  # folded name -> index in the file
    known: Mapping[str, int]  # folded name -> id in the table
    shown: Sequence[str]


def read(path: Path, known: Mapping[str, int]) -> list[NewFeature]:
    """The features of a file in its order; `known`: the stored features' folded names and their ids.

    Raises UsageError, and nothing else whatever the file holds.
    """
    items = [_checked(f"{path.name}: item {n}", item) for n, item in enumerate(_items(path), 1)]
    names = _names(path.name, items, known)
    features = [
        _feature(f"{path.name}: item {n} ({quote(name)})", name, item, names=names)
        for n, (name, item) in enumerate(zip(names.shown, items, strict=True), 1)
    ]
    for cycle in find_cycles({i: feature.depends_on for i, feature in enumerate(features)}):
        arrows = " → ".join(quote(features[i].name) for i in (*cycle[:10], cycle[0]))
        raise UsageError(
            f"{path.name}: these items wait for each other: {arrows}. Remove one of their dependencies."
        )
    return features


def _items(path: Path) -> list[object]:
    data = parse(path)
    if isinstance(data, dict):
        others = [key for key in data if key not in ("features", "feature")]
        if others or len(data) != 1:
            key = f" with the key {quote(others[0])}" if others else ""
            raise UsageError(
                f'{path.name} holds an object{key}; expected a list of features, or "features" alone with such a list.'
            )
        data = next(iter(data.values()))
    if not isinstance(data, list):
        raise UsageError(f"{path.name} holds {describe(data)}; expected a list of features.")
    if not data:
        raise UsageError(f"{path.name} holds no features.")
    return data


def _checked(where: str, item: object) -> dict[str, object]:
    """The item under its canonical keys, without those that have no value."""
    if not isinstance(item, dict):
        raise UsageError(f"{where} is {describe(item)}; expected an object with a name.")
    if isinstance(item.get("name"), str):
        where = f"{where} ({quote(item['name'])})"
    result: dict[str, object] = {}
    for key, value in item.items():
        canonical = _ALIASES.get(key, key) if isinstance(key, str) else None
        if canonical not in _KEYS:
            expected = _closest(key, (*_KEYS, *_ALIASES)) or f"Expected {', '.join(_KEYS)}."
            raise UsageError(f"{where} has the unknown key {quote(key)}. {expected}")
        if canonical in result:
            raise UsageError(f"{where}, {key} means the same as another key of it; use {canonical} alone.")
        if value is not None:
            result[canonical] = value
    return result


def _names(file: str, items: Sequence[Mapping[str, object]], known: Mapping[str, int]) -> _Names:
    places: dict[str, int] = {}
    shown = []
    for index, item in enumerate(items):
        where = f"{file}: item {index + 1}"
        if "name" not in item:
            raise UsageError(f"{where} has no name.")
        name = " ".join(_string(f"{where}, name", item["name"]).split())
        if len(name) > MAX_NAME:
            raise UsageError(
                f"{where}, name is longer than {MAX_NAME} characters; put the rest into the description."
            )
        if (twin := places.setdefault(folded(name), index)) != index:
            raise UsageError(f"{where}, name: {quote(name)} is the name of item {twin + 1} as well.")
        if folded(name) in known:
            raise UsageError(f"{where}, name: {quote(name)} exists already as #{known[folded(name)]}.")
        shown.append(name)
    return _Names(items=places, known=known, shown=shown)


def _feature(where: str, name: str, item: Mapping[str, object], *, names: _Names) -> NewFeature:
    depends_on, existing = _dependencies(f"{where}, depends_on", item.get("depends_on"), names)
    return NewFeature(
        name=name,
        description=_string(f"{where}, description", item.get("description", ""), empty_ok=True),
        steps=_strings(f"{where}, steps", item.get("steps")),
        category=" ".join(_string(f"{where}, category", item.get("category", "feature")).split()),
        priority=_number(f"{where}, priority", item.get("priority"), lowest=-MAX_NUMBER),
        verify=_strings(f"{where}, verify", item.get("verify")),
        depends_on=depends_on,
        existing=existing,
        issue_number=_number(f"{where}, issue_number", item.get("issue_number"), lowest=1),
    )


def _dependencies(where: str, value: object, names: _Names) -> tuple[tuple[int, ...], tuple[int, ...]]:
    indices: dict[int, None] = {}
    ids: dict[int, None] = {}
    for entry in _entries(where, value):
        if isinstance(entry, int) and not isinstance(entry, bool):
            if not 0 <= entry < len(names.shown):
                raise UsageError(
                    f"{where}: a number is an item's place in this file counted from 0: expected "
                    f"0 ({quote(names.shown[0])}) to {len(names.shown) - 1} ({quote(names.shown[-1])}), or a name."
                )
            indices[entry] = None
            continue
        name = folded(_string(where, entry))
        if name in names.items:
            indices[names.items[name]] = None
        elif name in names.known:
            ids[names.known[name]] = None
        else:
            expected = (
                _closest(name, (*names.items, *names.known)) or "Expected the name of an item or a feature."
            )
            raise UsageError(f"{where}: there is no feature {quote(entry)}. {expected}")
    if len(indices) + len(ids) > MAX_DEPENDENCIES:
        raise UsageError(
            f"{where} has {len(indices) + len(ids)} entries; at most {MAX_DEPENDENCIES} are possible."
        )
    return tuple(indices), tuple(ids)


def _strings(where: str, value: object) -> tuple[str, ...]:
    return tuple(_string(f"{where}, entry {n}", entry) for n, entry in enumerate(_entries(where, value), 1))


def _entries(where: str, value: object) -> list[object]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise UsageError(f"{where} is {describe(value)}; expected a list.")
    return value


def _string(where: str, value: object, *, empty_ok: bool = False) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where} is {describe(value)}; expected text (in quotes).")
    if found := _UNSTORABLE.search(value):
        raise UsageError(f"{where} has the character U+{ord(found[0]):04X}; remove it.")
    if not (empty_ok or value.strip()):
        raise UsageError(f"{where} is empty; expected text.")
    return value.strip()


def _number(where: str, value: object, *, lowest: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{where} is {describe(value)}; expected a whole number.")
    if not lowest <= value <= MAX_NUMBER:
        raise UsageError(f"{where} is out of range; expected {lowest} to {MAX_NUMBER}.")
    return value


def _closest(wrong: object, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(wrong[:MAX_NAME], names, 1) if isinstance(wrong, str) else []
    return f"Did you mean {quote(close[0])}?" if close else ""
