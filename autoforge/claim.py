"""What an agent tells the gate about a feature: the tools' inputs, checked."""

from collections.abc import Mapping
from typing import Any

from db.feature import Feature


class Refused(Exception):
    """The gate says no; the message is the answer that the agent reads."""


def feature_id(arguments: Mapping[str, Any]) -> int | None:
    given = arguments.get("id")
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def words(arguments: Mapping[str, Any], key: str) -> str:
    """The text without what neither git nor the table can hold; empty when it is none."""
    given = arguments.get(key)
    text = given if isinstance(given, str) else ""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8").strip()


def evidence(feature: Feature, arguments: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Pairs of step (from 0) and command. Raises Refused."""
    given = arguments.get("evidence")
    if given is not None and not isinstance(given, list):
        raise Refused("`evidence` is a list of objects with `step` and `command`.")
    return [_pair(feature, item) for item in given or ()]


def _pair(feature: Feature, item: object) -> tuple[int, str]:
    fields = item if isinstance(item, Mapping) else {}
    step, command = fields.get("step"), words(fields, "command")
    last = max(len(feature.steps), 1)
    if not isinstance(step, int) or isinstance(step, bool) or not 1 <= step <= last:
        raise Refused(f"evidence: `step` is the number of an acceptance step, from 1 to {last}.")
    if not command or command != str(fields.get("command")).strip():
        raise Refused(f"evidence for step {step}: `command` is a shell command, as text.")
    return step - 1, command


def saying(key: str) -> dict[str, Any]:
    """The input of a tool that takes a feature and a text."""
    return {
        "type": "object",
        "properties": {"id": {"type": "integer"}, key: {"type": "string"}},
        "required": ["id", key],
    }


PASSED = (
    "Say that a feature is done. autoforge commits it, runs the verify and evidence commands and answers."
)
FAILED = "Say that a feature cannot be done, and why."
ASK = "Ask a person something that only a person can decide. The feature waits for the answer."
PASSED_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "description": "the feature's id"},
        "summary": {
            "type": "string",
            "description": "what was done, for the commit message; one to three sentences",
        },
        "evidence": {
            "type": "array",
            "description": "for each acceptance step a shell command that shows it",
            "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "integer", "description": "number of the acceptance step, from 1"},
                    "command": {"type": "string"},
                },
                "required": ["step", "command"],
            },
        },
    },
    "required": ["id", "evidence"],
}
