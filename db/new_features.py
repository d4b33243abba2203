"""Checks features before they are stored; pure."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from .errors import InvalidFeatures
from .feature import MAX_DEPENDENCIES, NewFeature

MAX_NAME = 200  # a pull request's title has room for 256
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_SHOWN = 10
_MAX_NUMBER = 1_000_000_000  # leaves room below 32 bits for what is counted on from it


def folded(name: str) -> str:
    """What makes two names the same: neither case nor white space tells them apart."""
    return one_line(name).casefold()


def one_line(text: str) -> str:
    return " ".join(text.split())


def text_fault(text: str) -> str | None:
    """Why a text cannot be stored, or None."""
    if "\0" in text:
        return "holds a NUL byte"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode (half of a surrogate pair)"
    return None


def field_fault(field: str, text: str) -> str | None:
    """Why a feature's field cannot hold a text, or None; names and categories are stored as one line."""
    if fault := text_fault(text):
        return f"{field} {fault}"
    if field != "description" and not text.strip():
        return f"{field} is empty"
    line = one_line(text)
    if field in ("name", "category") and (found := CONTROL.search(line)):
        return f"{field} has the character U+{ord(found[0]):04X}: remove it"
    if field == "name" and len(line) > MAX_NAME:
        return f"{field} has {len(line)} characters, at most {MAX_NAME} are allowed: put the rest into the description"
    return None


def check(new: Sequence[NewFeature], *, names: Collection[str], ids: Collection[int]) -> None:
    """Raise InvalidFeatures, which names every item at fault; `names` (any form) and `ids` are in the table."""
    taken = {folded(name): "in the table" for name in names}
    faults: list[str] = []
    for index, item in enumerate(new):
        found = [
            *_faults_of_texts(item),
            *_faults_of_numbers(item),
            *_faults_of_dependencies(item, index=index, count=len(new), ids=ids),
        ]
        key = folded(item.name)
        if key in taken:
            found.append(f"the name is already {taken[key]}")
        elif key:
            taken[key] = f"that of feature {index + 1}"
        faults += [f"{_label(new, index)}: {fault}" for fault in found]
    if not faults:
        faults = _cycle(new)
    if faults:
        more = [f"and {len(faults) - _MAX_SHOWN} more"] if len(faults) > _MAX_SHOWN else []
        raise InvalidFeatures("Nothing was stored. " + "; ".join(faults[:_MAX_SHOWN] + more))


def _faults_of_texts(item: NewFeature) -> Iterator[str]:
    texts = [("name", item.name), ("description", item.description), ("category", item.category)]
    texts += [("steps", step) for step in item.steps] + [("verify", command) for command in item.verify]
    for field, text in texts:
        if fault := field_fault(field, text):
            yield fault


def _faults_of_numbers(item: NewFeature) -> Iterator[str]:
    for field, number in (("priority", item.priority), ("issue_number", item.issue_number)):
        if number is not None and abs(number) > _MAX_NUMBER:
            yield f"{field} {number} is beyond {_MAX_NUMBER}"


def _faults_of_dependencies(
    item: NewFeature, *, index: int, count: int, ids: Collection[int]
) -> Iterator[str]:
    total = len(item.depends_on) + len(item.existing)
    if total > MAX_DEPENDENCIES:
        yield f"it depends on {total} features, at most {MAX_DEPENDENCIES} are allowed"
    if index in item.depends_on:
        yield "it depends on itself"
    yield from _each(
        item.depends_on, lambda at: not 0 <= at < count, "depends on item {}, which is not in the list", 1
    )
    yield from _each(
        item.existing, lambda at: at not in ids, "depends on feature #{}, which is not in the table", 0
    )
    if len(set(item.depends_on)) < len(item.depends_on) or len(set(item.existing)) < len(item.existing):
        yield "it names a dependency twice"


def _each(numbers: Sequence[int], wrong: Callable[[int], bool], message: str, shift: int) -> Iterator[str]:
    return (message.format(number + shift) for number in numbers if wrong(number))


def _cycle(new: Sequence[NewFeature]) -> list[str]:
    try:
        TopologicalSorter({index: item.depends_on for index, item in enumerate(new)}).prepare()
    except CycleError as error:
        # graphlib lists each before the one that needs it
        circle = " needs ".join(_label(new, index) for index in reversed(error.args[1]))
        return [f"features wait for each other in a circle: {circle}"]
    return []


def _label(new: Sequence[NewFeature], index: int) -> str:
    return f"feature {index + 1} {one_line(new[index].name)[:60]!r}"
