"""The words of commits and pull requests, made from values: what a reviewer reads first."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from db.feature import Batch, Feature
from git_workflow.diff import Diff
from prompts import render

BODY_LIMIT = 60_000  # GitHub takes 65,536 characters
TYPES = {"bug": "fix", "bugfix": "fix", "fix": "fix", "docs": "docs", "documentation": "docs", "test": "test"}
TYPES |= {
    "tests": "test",
    "refactor": "refactor",
    "performance": "perf",
    "perf": "perf",
    "chore": "chore",
    "ci": "ci",
}
ZERO_WIDTH = "\u200b"
CLOSING = re.compile(r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+(?=\S*#\d|https?://)", re.IGNORECASE)
STACK_START, STACK_END = "<!-- autoforge:stack -->", "<!-- autoforge:stack:end -->"


@dataclass(frozen=True)
class StackEntry:
    """Another batch of the stack, as a PR shows it."""

    branch: str
    title: str
    number: int | None
    url: str | None


@dataclass(frozen=True)
class Facts:
    """What a PR body needs beside batch and features. `tries` counts attempts, `cost_usd` None: not known."""

    diff: Diff
    target: str
    parents: tuple[StackEntry, ...] = ()
    children: tuple[StackEntry, ...] = ()
    is_join: bool = False
    cost_usd: float | None = None
    minutes: float = 0.0
    tries: int = 1


def _one_line(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _type(feature: Feature) -> str:
    return TYPES.get(feature.category.strip().lower(), "feat")


def title(features: Sequence[Feature]) -> str:
    """A conventional title for the features that passed."""
    kinds = {_type(feature) for feature in features}
    names = [feature.name.strip() for feature in features]
    text = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return _one_line(f"{kinds.pop() if len(kinds) == 1 else 'feat'}: {_lower_first(text)}", 100)


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:] if len(text) > 1 and text[1].islower() else text


def commit_message(feature: Feature, batch_key: str, summary: str) -> str:
    subject = _one_line(f"{_type(feature)}: {_lower_first(feature.name.strip())}", 72)
    trailers = f"Autoforge-Feature: {feature.id}\nAutoforge-Batch: {batch_key}"
    body = harmless(summary).strip()
    return "\n\n".join(part for part in (subject, body, trailers) if part) + "\n"


def harmless(text: str) -> str:
    """An agent's words for a commit or PR: no mention calls a person, no keyword closes an issue, no HTML hides."""
    text = text.replace("\r\n", "\n").replace("<!--", "&lt;!--")
    text = re.sub(r"(?<![\w`])@(?=[A-Za-z0-9])", "@" + ZERO_WIDTH, text)
    return CLOSING.sub(lambda found: found[0] + ZERO_WIDTH, text)


def body(batch: Batch, features: Sequence[Feature], waiting: Sequence[Feature], facts: Facts) -> str:
    """The PR's Markdown. `features` passed, `waiting` belong to the batch and did not."""
    text = render(
        "pr_body",
        batch=batch,
        features=features,
        waiting=waiting,
        facts=facts,
        summary=_one_line_paragraphs(harmless(batch.summary)),
        shown={
            f.id: {e.step for e in f.evidence if e.exit_code == 0 and e.step is not None} for f in features
        },
        evidence={f.id: [e for e in f.evidence if e.exit_code == 0] for f in features},
        harmless=harmless,
        stack=stack(facts),
    )
    if len(text) > BODY_LIMIT:
        text = (
            text[:BODY_LIMIT].rsplit("\n", 1)[0]
            + "\n\n*Cut here: GitHub's limit. The rest is in the commits.*\n"
        )
    return text


def _one_line_paragraphs(text: str) -> str:
    return _one_block(text.strip()[:3000])


def _one_block(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def stack(facts: Facts) -> str:
    """The part of a PR body that changes when its neighbours do, between its markers."""
    inner = render("pr_stack", facts=facts)
    return f"{STACK_START}\n{inner.strip()}\n{STACK_END}"


def with_stack(text: str, facts: Facts) -> str:
    """The body with its stack part made new; a person's edits elsewhere stay."""
    before, start, rest = text.partition(STACK_START)
    _, end, after = rest.partition(STACK_END)
    return before + stack(facts) + after if start and end else text


def by_id(features: Sequence[Feature]) -> Mapping[int, Feature]:
    return {feature.id: feature for feature in features}
