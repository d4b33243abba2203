"""A plan in the making: features that the planning agent proposes, checked as they come, stored only when complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoforge.agent.tools import Answer, Tool
from db.errors import InvalidFeatures
from db.feature import MAX_DEPENDENCIES, Feature, NewFeature
from db.new_features import check, folded

KEYS = {"name", "description", "steps", "category", "priority", "depends_on", "verify"}


@dataclass(frozen=True)
class Count:
    """How many features are wanted; None: as many as the specification needs."""

    lowest: int | None = None
    highest: int | None = None


@dataclass
class Draft:
    """Lives as long as the planning session. Nothing of it is in the table before it is complete."""

    existing: Sequence[Feature]
    count: Count
    features: list[NewFeature] = field(default_factory=list)
    verify: tuple[str, ...] = ()
    complete: bool = False

    def tools(self) -> list[Tool]:
        return [
            Tool("features_create", _CREATE, _CREATE_SCHEMA, self.features_create),
            Tool("plan_complete", _COMPLETE, _COMPLETE_SCHEMA, self.plan_complete),
        ]

    async def features_create(self, arguments: Mapping[str, Any]) -> Answer:
        given = arguments.get("features")
        if self.complete:
            return Answer("The plan is complete already: end with one sentence about it.", is_error=True)
        if not isinstance(given, list) or not given:
            return Answer("`features` is a list of at least one feature.", is_error=True)
        faults: list[str] = []
        added: list[NewFeature] = []
        for number, item in enumerate(given, 1):
            try:
                added.append(self._feature(item, [*self.features, *added]))
            except ValueError as error:
                faults.append(f"feature {number}: {error}")
        faults = faults or self._faults([*self.features, *added])
        if faults:
            return Answer("Nothing was created.\n- " + "\n- ".join(faults[:20]), is_error=True)
        self.features += added
        return Answer(f"{len(added)} features created, {len(self.features)} in all. {self._next()}")

    def _feature(self, item: object, planned: Sequence[NewFeature]) -> NewFeature:
        if not isinstance(item, Mapping):
            raise ValueError("it is not an object")
        if unknown := sorted(set(item) - KEYS):
            raise ValueError(f"there is no key `{unknown[0]}`; the keys are {', '.join(sorted(KEYS))}")
        name = _text(item, "name", required=True)
        if (twin := self._twin(name, _texts(item, "steps"), planned)) is not None:
            raise ValueError(f"it is there already: {twin}. Propose only what is missing")
        steps = _texts(item, "steps")
        if not steps:
            raise ValueError("`steps` needs at least one acceptance step that a command can show")
        own, stored = self._dependencies(_texts(item, "depends_on"), planned)
        priority = item.get("priority")
        if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
            raise ValueError("`priority` is a whole number, lower is earlier")
        return NewFeature(
            name=name,
            description=_text(item, "description", required=True),
            steps=steps,
            category=_text(item, "category") or "feature",
            priority=priority,
            verify=_texts(item, "verify"),
            depends_on=own,
            existing=stored,
        )

    def _twin(self, name: str, steps: Sequence[str], planned: Sequence[NewFeature]) -> str | None:
        """A feature with this name or with the same acceptance steps."""
        meaning = frozenset(map(folded, steps))
        known: list[Feature | NewFeature] = [*self.existing, *planned]
        for other, other_steps in ((f.name, f.steps) for f in known):
            same_steps = meaning and meaning == frozenset(map(folded, other_steps))
            if folded(other) == folded(name) or same_steps:
                return other
        return None

    def _dependencies(
        self, given: Sequence[str], planned: Sequence[NewFeature]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        names = {folded(f.name): n for n, f in enumerate(planned)}
        stored = {folded(f.name): f.id for f in self.existing}
        unknown = [name for name in given if folded(name) not in names and folded(name) not in stored]
        if unknown:
            raise ValueError(f"`depends_on` names {unknown[0]!r}, which is no earlier feature")
        if len(given) > MAX_DEPENDENCIES:
            raise ValueError(f"`depends_on` has {len(given)} names, at most {MAX_DEPENDENCIES} are possible")
        wanted = dict.fromkeys(map(folded, given))
        own = tuple(names[name] for name in wanted if name in names)
        return own, tuple(stored[name] for name in wanted if name not in names)

    def _faults(self, features: Sequence[NewFeature]) -> list[str]:
        """What the table would refuse, told before anything is stored."""
        if self.count.highest is not None and len(features) > self.count.highest:
            return [f"that would be {len(features)} features; at most {self.count.highest} are wanted"]
        try:
            check(features, names=[f.name for f in self.existing], ids=[f.id for f in self.existing])
        except InvalidFeatures as error:
            return [str(error)]
        return []

    async def plan_complete(self, arguments: Mapping[str, Any]) -> Answer:
        lowest = self.count.lowest or (0 if self.existing else 1)
        if len(self.features) < lowest:
            return Answer(
                f"There are {len(self.features)} features; at least {lowest} are wanted.", is_error=True
            )
        try:
            self.verify = _texts(arguments, "verify_commands")
        except ValueError as error:
            return Answer(str(error), is_error=True)
        self.complete = True
        return Answer("The plan is complete. End with one sentence about it.")

    def _next(self) -> str:
        return "Create the rest, or call plan_complete when nothing is missing."


def _text(item: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = item.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value.strip()):
        raise ValueError(f"`{key}` is a text{' and may not be empty' if required else ''}")
    return value.strip()


def _texts(item: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = item.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError(f"`{key}` is a list of texts, none of them empty")
    return tuple(one.strip() for one in value)


_CREATE = "Add features to the plan, all of them or none. A dependency names a feature that exists or stands earlier in the plan."
_COMPLETE = "Say that the plan is complete. Without this call nothing is stored."
_STRINGS = {"type": "array", "items": {"type": "string"}}
_CREATE_SCHEMA = {
    "type": "object",
    "properties": {
        "features": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "short and unique"},
                    "description": {
                        "type": "string",
                        "description": "what is wanted and why, in two to five sentences",
                    },
                    "steps": {**_STRINGS, "description": "acceptance steps; a shell command can show each"},
                    "category": {
                        "type": "string",
                        "description": "area; `bug` and `docs` name the kind of change",
                    },
                    "priority": {"type": "integer", "description": "lower is earlier"},
                    "depends_on": {**_STRINGS, "description": "names of features that must be there first"},
                    "verify": {**_STRINGS, "description": "commands of its own that must exit 0"},
                },
                "required": ["name", "description", "steps"],
            },
        }
    },
    "required": ["features"],
}
_COMPLETE_SCHEMA = {
    "type": "object",
    "properties": {
        "verify_commands": {
            **_STRINGS,
            "description": "what shows that the whole project works, when none is configured",
        }
    },
}
