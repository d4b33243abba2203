"""Checks features before they are stored; pure."""

from collections.abc import Callable, Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from .errors import InvalidFeatures
from .feature import MAX_DEPENDENCIES, NewFeature

_MAX_SHOWN = 10
_MAX_NUMBER = 1_000_000_000  # leaves room below 32 bits for what is counted on from it


def folded(name: str) -> str:
    """What makes two names the same: neither case nor white space tells them apart."""
    return " ".join(name.split()).casefold()


def text_fault(text: str) -> str | None:
    """Why a text cannot be stored, or None."""
    if "\0" in text:
        return "holds a NUL byte"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode (half of a surrogate pair)"
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
    if not item.name.strip():
        yield "the name is empty"
    texts = [("name", item.name), ("description", item.description), ("category", item.category)]
    texts += [("steps", step) for step in item.steps] + [("verify", command) for command in item.verify]
    for field, text in texts:
        if fault := text_fault(text):
            yield f"{field} {fault}"


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
    name = " ".join(new[index].name.split())
    return f"feature {index + 1} {name[:60]!r}"
