"""Open issues as features: names, acceptance steps, dependencies, category and priority; pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from autoforge.cycles import arrows, find_cycles
from autoforge.errors import UsageError
from autoforge.issue_body import Body, Reference, read, seen
from autoforge.pull_request import TYPES
from db.feature import MAX_DEPENDENCIES, NewFeature
from db.new_features import MAX_NAME, folded
from git_workflow.forge import Issue

_SHOWN = 10
_PRIORITY = re.compile(r"(?:priority(?:\s*[:/_-]\s*|\s*)p?(\d{1,4})|p(\d))")


@dataclass(frozen=True)
class Known:
    """What the table holds: folded names, and the ids of the features made from an issue, by its number."""

    names: frozenset[str]
    ids: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Mapped:
    """`notes` tell a person what was left out or is not as in the issue."""

    features: tuple[NewFeature, ...]
    notes: tuple[str, ...]


def to_features(found: Sequence[Issue], known: Known, *, slug: str, label: str | None) -> Mapped:
    """In order of their numbers, without those in the table. `slug`: the repository's owner/name.

    Raises UsageError when issues wait for each other or depend on too many.
    """
    fresh = sorted((one for one in found if one.number not in known.ids), key=lambda one: one.number)
    bodies = [read(one.body) for one in fresh]
    places = {one.number: place for place, one in enumerate(fresh)}
    needs = {one.number: _numbers(body, slug) for one, body in zip(fresh, bodies, strict=True)}
    _check(needs, places, known)
    names = dict(_names(fresh, known.names))
    features = [
        _feature(one, names[one.number], body, needs=needs[one.number], places=places, known=known)
        for one, body in zip(fresh, bodies, strict=True)
    ]
    notes = [*_about_known(found, known)] if found else [f"there is no {_kind(label)}"]
    for one, body in zip(fresh, bodies, strict=True):
        notes += _about_name(one, names[one.number])
        notes += dict.fromkeys(
            _about_needs(one.number, body, slug=slug, there={*places, *known.ids}, label=label)
        )
    return Mapped(tuple(features), tuple(notes))


def _feature(
    issue: Issue,
    name: str,
    body: Body,
    *,
    needs: Sequence[int],
    places: Mapping[int, int],
    known: Known,
) -> NewFeature:
    title = _title(issue)
    whole = [title] if len(title) > MAX_NAME else []
    return NewFeature(
        name=name,
        description="\n\n".join(part for part in (*whole, body.description) if part),
        steps=body.steps,
        category=_category(issue.labels),
        priority=_priority(issue.labels),
        depends_on=tuple(places[number] for number in needs if number in places),
        existing=tuple(_stored(needs, known)),
        issue_number=issue.number,
    )


def _stored(needs: Sequence[int], known: Known) -> list[int]:
    return [feature_id for number in needs for feature_id in known.ids.get(number, ())]


def _title(issue: Issue) -> str:
    return " ".join(seen(issue.title).split()) or f"Issue #{issue.number}"


def _names(fresh: Sequence[Issue], taken: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Each one's number, and its title as a name that nothing else has."""
    used = set(taken)
    for issue in fresh:
        title = _title(issue)
        name = title if len(title) <= MAX_NAME else title[: MAX_NAME - 1].rstrip() + "…"
        for n in count(1):
            if folded(name) not in used:
                break
            mark = f" (#{issue.number})" if n == 1 else f" (#{issue.number}, {n})"
            name = title[: MAX_NAME - len(mark)].rstrip() + mark
        used.add(folded(name))
        yield issue.number, name


def _category(labels: Sequence[str]) -> str:
    """The first label that names a kind of work; `kind/bug` and `type: bug` name one as well."""
    words = (re.split(r"[:/]", label.casefold())[-1].strip() for label in labels)
    return next((word for word in words if word in TYPES), "feature")


def _priority(labels: Sequence[str]) -> int | None:
    found = [_PRIORITY.fullmatch(label.strip().casefold()) for label in labels]
    return min((int(one[1] or one[2]) for one in found if one), default=None)


def _is_ours(reference: Reference, slug: str) -> bool:
    return reference.slug.casefold() in ("", slug.casefold())


def _numbers(body: Body, slug: str) -> list[int]:
    return list(dict.fromkeys(need.number for need in body.needs if _is_ours(need, slug)))


def _check(needs: Mapping[int, Sequence[int]], places: Mapping[int, int], known: Known) -> None:
    faults = []
    for number, wanted in needs.items():
        many = sum(need in places for need in wanted) + len(_stored(wanted, known))
        if many > MAX_DEPENDENCIES:
            faults.append(
                f"issue #{number} depends on {many} others, at most {MAX_DEPENDENCIES} are possible"
            )
    faults += [f"these issues wait for each other: {arrows(cycle)}" for cycle in find_cycles(needs)]
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise UsageError(
            f"Nothing was stored: {'; '.join(faults[:_SHOWN] + more)}. Remove dependencies from the issues' texts, or "
            "leave issues out with --label."
        )


def _kind(label: str | None) -> str:
    return f'open issue with the label "{label}"' if label else "open issue"


def _about_known(found: Sequence[Issue], known: Known) -> Iterator[str]:
    numbers = sorted(one.number for one in found if one.number in known.ids)
    if numbers:
        shown = ", ".join([f"#{number}" for number in numbers[:_SHOWN]] + ["…"] * (len(numbers) > _SHOWN))
        yield f"in the table already, and left as it is there: issue{'s' * (len(numbers) > 1)} {shown}"


def _about_name(issue: Issue, name: str) -> Iterator[str]:
    if name != (title := _title(issue)):
        why = "is too long for a name" if len(title) > MAX_NAME else "is the name of another feature"
        yield f'issue #{issue.number}: its title {why}: it is called "{name}"'


def _about_needs(number: int, body: Body, *, slug: str, there: set[int], label: str | None) -> Iterator[str]:
    for need in body.needs:
        if not _is_ours(need, slug):
            where = f"{need.slug}#{need.number}, which is in another repository"
        elif need.number not in there:
            where = f"#{need.number}, which is no {_kind(label)}"
        else:
            continue
        yield f"issue #{number} depends on {where}: left out"
