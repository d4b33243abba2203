"""Feature lists of older tools become features; what could not be kept as it was is told, never silently lost."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from .errors import InvalidFeatures
from .feature import MAX_DEPENDENCIES, Feature, FeatureStatus, PrStatus
from .legacy_item import Item, as_number, as_text, shown
from .new_features import CONTROL, MAX_NAME, folded, one_line

_OURS = frozenset({"depends_on", "verify", "issue_number"})  # keys that only our own lists have
_MARKS = frozenset({"id", "passes", "in_progress"})  # keys that only older tools write
_REFINEMENTS = frozenset(
    {"pending", "draft", "refined_code", "refined_edge", "refined_perf", "refined_security", "polished"}
)
_KNOWN = _MARKS | {
    "priority", "category", "name", "description", "steps", "dependencies", "depends_on_indices", "branch_name",
    "needs_human_input", "human_input_request", "human_input_response", "refinement_state", "last_tested_at",
    "commit_sha", "pr_number", "pr_url", "pr_status",
}  # fmt: skip
_SHA = re.compile(r"[0-9a-fA-F]{40}\Z")


@dataclass(frozen=True)
class Legacy:
    """`notes` tell a person what was not taken over as it was."""

    features: tuple[Feature, ...]
    notes: tuple[str, ...]


def is_legacy(items: object) -> bool:
    """Whether it is a list as older tools wrote it."""
    entries = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    ours = any(_OURS & item.keys() for item in entries)
    return not ours and any(_MARKS & item.keys() for item in entries)


def from_items(values: Sequence[object]) -> Legacy:
    """Items of a feature_list.json, or rows of a table. Raises InvalidFeatures when there is none."""
    notes: list[str] = []
    given = {place: value for place, value in enumerate(values, 1) if isinstance(value, Mapping)}
    if not given:
        raise InvalidFeatures("The list of the older tool holds no features: nothing was imported.")
    if len(given) < len(values):
        notes.append(f"entries that were no features are left out: {len(values) - len(given)}")
    ids = _ids(given)
    items = {place: Item(ids[place], value, notes) for place, value in given.items()}
    features = _uniquely_named([_feature(place, item) for place, item in items.items()], notes)
    known = set(ids.values())
    needs = {item.id: _dependencies(item, ids, known) for item in items.values()}
    for feature_id, need in _closing(needs):
        needs[feature_id].remove(need)
        notes.append(f"#{feature_id}: the dependency on #{need} closed a circle and is left out")
    features = [replace(f, dependencies=tuple(sorted(needs[f.id]))) for f in features]
    return Legacy(tuple(features), (*notes, *_remarks(features, given.values())))


def _ids(given: Mapping[int, Mapping[str, object]]) -> dict[int, int]:
    """By place, the id of each: its own, else its place, else a free one."""
    ids: dict[int, int] = {}
    taken: set[int] = set()
    for place, value in given.items():
        own = as_number(value.get("id"))
        if own is not None and own > 0 and own not in taken:
            ids[place] = own
            taken.add(own)
    free = max([*taken, *given])
    for place in [place for place in given if place not in ids]:
        if place in taken:
            free += 1
        ids[place] = free if place in taken else place
        taken.add(ids[place])
    return ids


def _feature(place: int, item: Item) -> Feature:
    if item.values.get("id") is not None and as_number(item.values["id"]) != item.id:
        item.note(f"its id was {shown(item.values['id'])}, which cannot be kept")
    status, now = _status(item), datetime.now(UTC)
    priority, pr_status = item.number("priority"), item.word("pr_status", set(PrStatus))
    return Feature(
        id=item.id,
        priority=place if priority is None else priority,
        category=_line(item, "category") or "uncategorized",
        name=_name(place, item),
        description=item.text("description"),
        steps=tuple(text for step in item.entries("steps") if (text := as_text(step).strip())),
        verify=(),
        evidence=(),
        status=status,
        refinement=item.word("refinement_state", _REFINEMENTS) or "",
        branch_name=item.text("branch_name") or None,
        commit_sha=_commit(item),
        pr_number=item.number("pr_number"),
        pr_url=item.text("pr_url") or None,
        pr_status=PrStatus(pr_status) if pr_status else None,
        batch_key=None,
        attempts=0,
        last_error=None,
        question=item.question(),
        answer=None if status is FeatureStatus.NEEDS_INPUT else item.answer(),
        issue_number=None,
        last_tested_at=item.time("last_tested_at"),
        created_at=now,
        updated_at=now,
    )


def _status(item: Item) -> FeatureStatus:
    if item.flag("passes"):
        return FeatureStatus.PASSED
    if item.flag("needs_human_input"):
        if item.question():
            return FeatureStatus.NEEDS_INPUT
        item.note("it waited for a person, but its question is lost: it is pending")
    if item.flag("in_progress"):
        item.note("it was in progress and is pending")
    return FeatureStatus.PENDING


def _commit(item: Item) -> str | None:
    sha = item.text("commit_sha").strip()
    if sha and not _SHA.match(sha):
        item.note(f"commit_sha was {shown(sha)}, no full commit id")
    return sha.lower() if _SHA.match(sha) else None


def _name(place: int, item: Item) -> str:
    name = _line(item, "name")
    if not name:
        item.note(f'it had no name and is called "Feature {place}"')
        return f"Feature {place}"
    if len(name) > MAX_NAME:
        item.note(f"its name was longer than {MAX_NAME} characters and is cut")
    return name[:MAX_NAME].rstrip()


def _line(item: Item, key: str) -> str:
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", one_line(item.text(key)))


def _uniquely_named(features: Sequence[Feature], notes: list[str]) -> list[Feature]:
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # the last one that was tried for a name
    result = []
    for feature in features:
        name, stem = feature.name, feature.name[: MAX_NAME - 12]
        number = numbers.get(folded(stem), 1)
        while folded(name) in taken:
            number += 1
            name = f"{stem} ({number})"
        numbers[folded(stem)] = number
        if name != feature.name:
            notes.append(f"#{feature.id}: its name was taken and is now {shown(name)}")
        taken.add(folded(name))
        result.append(replace(feature, name=name))
    return result


def _dependencies(item: Item, ids: Mapping[int, int], known: Collection[int]) -> list[int]:
    """`ids` by place from 1. Everything that cannot be a dependency is noted."""
    wanted = [(as_number(entry), entry) for entry in item.entries("dependencies")]
    places = [(as_number(entry), entry) for entry in item.entries("depends_on_indices")]
    wanted += [(ids.get(place + 1) if place is not None else None, entry) for place, entry in places]
    found: dict[int, None] = {}
    for need, entry in wanted:
        if need not in known or need is None:
            item.note(f"it depended on {shown(entry)}, which is not in the list: left out")
        elif need == item.id:
            item.note("it depended on itself: left out")
        else:
            found[need] = None
    if len(found) > MAX_DEPENDENCIES:
        left = ", ".join(f"#{need}" for need in [*found][MAX_DEPENDENCIES:][:10])
        item.note(
            f"it had {len(found)} dependencies, at most {MAX_DEPENDENCIES} are possible: left out from {left} on"
        )
    return [*found][:MAX_DEPENDENCIES]


def _closing(needs: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """The dependencies without which there is no circle: found depth first, without recursion."""
    closing = []
    done: set[int] = set()
    for root in needs:
        open_ = {root: iter(needs[root])} if root not in done else {}
        while open_:
            node, rest = next(reversed(open_.items()))
            for need in rest:
                if need in open_:
                    closing.append((node, need))
                elif need not in done:
                    open_[need] = iter(needs[need])
                    break
            else:
                del open_[node]
                done.add(node)
    return closing


def _remarks(features: Sequence[Feature], values: Iterable[Mapping[str, object]]) -> Iterator[str]:
    passed = [f for f in features if f.status is FeatureStatus.PASSED]
    if passed:
        yield f"{len(passed)} of {len(features)} features count as passed because the older tool says so: nothing was verified here"
    for f in passed:
        if f.pr_status in (PrStatus.OPEN, PrStatus.DRAFT):
            yield f"#{f.id}: its pull request #{f.pr_number} was open: merge it before you build on it"
    left = {str(key) for value in values for key, one in value.items() if one and key not in _KNOWN}
    if left:
        yield f"left out, because they mean nothing here: {', '.join(map(shown, sorted(left)[:10]))}"
