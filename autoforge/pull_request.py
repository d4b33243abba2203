"""The words of commits and pull requests, made from values: what a reviewer reads first."""

import re
from collections.abc import Sequence
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
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
TAG = re.compile(r"<(?=[A-Za-z/!?])")
CLOSING = re.compile(
    r"\b((?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s*)(?=\[?\S*#\d|GH-\d|https?://)", re.IGNORECASE
)
STACK_START, STACK_END = "<!-- autoforge:stack -->", "<!-- autoforge:stack:end -->"
SIZES = ((5000, 100), (1000, 30), (200, 8))  # characters of a text and rows of a list, tried in this order


@dataclass(frozen=True)
class StackEntry:
    """Another batch of the stack, as a PR shows it."""

    branch: str
    title: str
    number: int | None
    url: str | None


@dataclass(frozen=True)
class Clash:
    """Another open branch, or the target, that changes the same lines of these paths."""

    name: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What a PR body needs beside batch and features. `tries` counts attempts, `cost_usd` None: not known."""

    diff: Diff
    target: str
    parents: tuple[StackEntry, ...] = ()
    children: tuple[StackEntry, ...] = ()
    is_join: bool = False
    conflicts: tuple[Clash, ...] = ()
    verified_on: str | None = None  # the last commit on which the verify commands ran; a move makes a new one
    cost_usd: float | None = None
    minutes: float = 0.0
    tries: int = 1


def _one_line(text: str, limit: int) -> str:
    return _cut(" ".join(text.split()), limit)


def _type(feature: Feature) -> str:
    return TYPES.get(feature.category.strip().lower(), "feat")


def title(features: Sequence[Feature]) -> str:
    """A conventional title for the features that passed."""
    kinds = {_type(feature) for feature in features}
    names = [_lower_first(harmless(feature.name.strip())) for feature in features]
    text = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return _one_line(f"{kinds.pop() if len(kinds) == 1 else 'feat'}: {text}", 100)


def _lower_first(text: str) -> str:
    """ "Add a button" becomes "add a button"; "API keys" and "A/B tests" stay."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return text[0].lower() + text[1:] if word == word.capitalize() else text


def commit_message(feature: Feature, batch_key: str, summary: str) -> str:
    subject = _one_line(harmless(f"{_type(feature)}: {_lower_first(feature.name.strip())}"), 72)
    trailers = f"Autoforge-Feature: {feature.id}\nAutoforge-Batch: {batch_key}"
    body = _cut(harmless(summary).strip(), 3000)
    return "\n\n".join(part for part in (subject, body, trailers) if part) + "\n"


def harmless(text: str) -> str:
    """Other people's words in a commit or PR: no mention calls anybody, no keyword closes an issue, no HTML acts."""
    text = TAG.sub("<" + ZERO_WIDTH, text.replace("\r\n", "\n"))
    text = MENTION.sub("@" + ZERO_WIDTH, text)
    return CLOSING.sub(lambda found: found[0] + ZERO_WIDTH, text)


def body(batch: Batch, features: Sequence[Feature], waiting: Sequence[Feature], facts: Facts) -> str:
    """The PR's Markdown, as detailed as GitHub's limit allows. `features` passed, `waiting` did not."""
    texts = (_body(batch, features, waiting, facts, chars=chars, rows=rows) for chars, rows in SIZES)
    return next((text for text in texts if len(text) <= BODY_LIMIT), stack(facts))


def _body(
    batch: Batch,
    features: Sequence[Feature],
    waiting: Sequence[Feature],
    facts: Facts,
    *,
    chars: int,
    rows: int,
) -> str:
    evidence = {f.id: [e for e in f.evidence if e.exit_code == 0] for f in features}
    text = render(
        "pr_body",
        batch=batch,
        features=features,
        waiting=waiting,
        facts=facts,
        shown={f.id: {e.step for e in evidence[f.id]} for f in features},
        evidence=evidence,
        stack=stack(facts),
        rows=rows,
        quote=lambda text: quote(text, chars),
        line=lambda text: _one_line(harmless(text), min(chars, 500)),
        code=lambda text: code(text, min(chars, 500)),
    )
    return re.sub(r" +$", "", re.sub(r"\n{3,}", "\n\n", text), flags=re.MULTILINE)


def quote(text: str, limit: int) -> str:
    """A block quote: no heading, list or open code fence in it reaches what follows."""
    return "\n".join(f"> {line}".rstrip() for line in _cut(harmless(text).strip(), limit).splitlines())


def code(text: str, limit: int) -> str:
    """Inline code that also stands in a table: one line, its own backticks and bars inside."""
    text = TAG.sub("<" + ZERO_WIDTH, _one_line(text, limit)).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def stack(facts: Facts) -> str:
    """The part of a PR body that changes when its neighbours do, between its markers."""
    inner = render(
        "pr_stack",
        facts=facts,
        line=lambda text: _one_line(harmless(text), 200),
        code=lambda text: code(text, 200),
        rows=50,
    )
    inner = re.sub(r"\n{3,}", "\n\n", inner.strip())
    return f"{STACK_START}\n{inner}\n{STACK_END}"


def with_stack(text: str, facts: Facts) -> str:
    """The body with its stack part made new; a person's edits elsewhere stay."""
    before, start, rest = text.partition(STACK_START)
    _, end, after = rest.partition(STACK_END)
    return before + stack(facts) + after if start and end else text
