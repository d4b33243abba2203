"""The gate: what a feature must pass to count, and the commit that it makes."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from autoforge import pull_request, verify
from autoforge.agent import guard
from autoforge.agent.tools import Answer, Tool
from autoforge.events import Event, EventKind, Passed
from autoforge.process import Finished
from db.feature import Batch, Evidence, Feature
from git_workflow import commit
from git_workflow.command import Git
from git_workflow.errors import GitFailed
from git_workflow.naming import saved_ref

T = TypeVar("T")


@dataclass(frozen=True)
class Rules:
    """What the gate demands. `cwd` is where commands run; `env` their complete environment."""

    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    commands: tuple[str, ...]
    timeout_s: float
    protected: tuple[str, ...]
    max_file_bytes: int
    policy: guard.Policy


@dataclass
class Gate:
    """Lives as long as its attempt. `passed`, `failed` and `questions` are what the attempt reports."""

    git: Git
    rules: Rules
    batch: Batch
    features: tuple[Feature, ...]
    since: str  # the last commit that passed, or the base
    attempt: int
    events: "asyncio.Queue[Event]"
    passed: dict[int, Passed] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    questions: dict[int, str] = field(default_factory=dict)
    last_red: dict[int, str] = field(default_factory=dict)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> list[Tool]:
        return [
            Tool("feature_passed", _PASSED, _PASSED_SCHEMA, self.feature_passed),
            Tool("feature_failed", _FAILED, _said("reason"), self.feature_failed),
            Tool("ask_human", _ASK, _said("question"), self.ask_human),
        ]

    async def feature_failed(self, arguments: Mapping[str, Any]) -> Answer:
        return self._set_aside(arguments, "reason", self.failed)

    async def ask_human(self, arguments: Mapping[str, Any]) -> Answer:
        return self._set_aside(arguments, "question", self.questions)

    def _set_aside(self, arguments: Mapping[str, Any], key: str, where: dict[int, str]) -> Answer:
        feature, text = self._own(arguments), str(arguments.get(key) or "").strip()
        if isinstance(feature, Answer):
            return feature
        if not text:
            return Answer(f"Say the {key}.", is_error=True)
        where[feature.id] = text
        self._tell(f"#{feature.id} {'failed' if key == 'reason' else 'asks'}: {text}", feature.id)
        return Answer(f"Noted. {self._next()}")

    async def feature_passed(self, arguments: Mapping[str, Any]) -> Answer:
        async with self._one:
            feature = self._own(arguments)
            if isinstance(feature, Answer):
                return feature
            evidence = self._evidence(feature, arguments.get("evidence") or [])
            if isinstance(evidence, Answer):
                return evidence
            answer = await self._verify(feature, evidence, str(arguments.get("summary") or ""))
            if answer.is_error:
                self.last_red[feature.id] = answer.text
            self._tell(f"#{feature.id} {'red' if answer.is_error else 'passed'}", feature.id)
            return answer

    def _own(self, arguments: Mapping[str, Any]) -> Feature | Answer:
        feature = next((f for f in self.features if f.id == arguments.get("id")), None)
        if feature is None:
            return Answer(f"Feature {arguments.get('id')} is not one of yours. {self._next()}", is_error=True)
        if feature.id in self.passed:
            return Answer(f"Feature {feature.id} has passed already. {self._next()}", is_error=True)
        inside = {f.id for f in self.features}
        waits = [d for d in feature.dependencies if d in inside and d not in self.passed]
        if waits:
            return Answer(
                f"Feature {feature.id} depends on {waits[0]}, which has not passed yet.", is_error=True
            )
        return feature

    def _evidence(
        self, feature: Feature, given: Sequence[Mapping[str, Any]]
    ) -> list[tuple[int, str]] | Answer:
        """Pairs of step (from 0) and command; an Answer when they cannot be used."""
        pairs = []
        for item in given:
            step, command = item.get("step"), str(item.get("command") or "").strip()
            if not isinstance(step, int) or not 1 <= step <= max(len(feature.steps), 1) or not command:
                return Answer(
                    f"evidence: `step` is a number from 1 to {len(feature.steps)} and `command` a shell command.",
                    is_error=True,
                )
            if why := guard.decide_command(self.rules.policy, command):
                return Answer(f"evidence for step {step}: {why}", is_error=True)
            pairs.append((step - 1, command))
        if not (pairs or feature.verify or self.rules.commands):
            return Answer(
                "No command verifies this feature: give evidence, one command a step.", is_error=True
            )
        return pairs

    async def _verify(self, feature: Feature, evidence: Sequence[tuple[int, str]], summary: str) -> Answer:
        message = pull_request.commit_message(feature, self.batch.key, summary)
        self._tell(f"#{feature.id} committing", feature.id)
        made = await _shielded(lambda: self._commit(message))
        if isinstance(made, Answer):
            return made
        sha = made.sha if made else self.since
        if made is None and not (evidence or feature.verify):
            return Answer(
                "Nothing has changed, so there is nothing to pass. If the feature was there already, "
                "show it with evidence commands.",
                is_error=True,
            )
        problem: str | None = "interrupted"
        try:
            problem, passed = await self._check(feature, evidence, sha)
        finally:
            if problem and made:
                await _shielded(lambda: commit.undo(self.git, made))
        if problem or passed is None:
            return Answer(f"Feature {feature.id} has not passed.\n{problem}", is_error=True)
        self.since, self.passed[feature.id] = sha, passed
        self.last_red.pop(feature.id, None)
        self.failed.pop(feature.id, None)
        self.events.put_nowait(
            Event(EventKind.GATE, self.batch.key, f"#{feature.id} verified", feature.id, passed=passed)
        )
        return Answer(f"Feature {feature.id} has passed as commit {sha[:10]}. {self._next()}")

    def _commit(self, message: str) -> commit.Commit | Answer | None:
        limits = self.rules
        problems = commit.stage(self.git, protected=limits.protected, max_file_bytes=limits.max_file_bytes)
        if problems:
            return Answer("This cannot be committed:\n- " + "\n- ".join(problems[:30]), is_error=True)
        name = f"{self.attempt}-agent-{int(time.time())}"
        try:
            return commit.make(
                self.git, since=self.since, saved_ref=saved_ref(self.batch.key, name), message=message
            )
        except GitFailed as error:
            return Answer(f"The commit was refused:\n{error.stderr[-4000:]}", is_error=True)

    async def _check(
        self, feature: Feature, evidence: Sequence[tuple[int, str]], sha: str
    ) -> tuple[str | None, Passed | None]:
        commands = list(dict.fromkeys([*self.rules.commands, *feature.verify, *(c for _, c in evidence)]))
        self._tell(f"#{feature.id} verifying ({len(commands)} commands)", feature.id)
        ran = await verify.run_commands(
            commands, cwd=self.rules.cwd, env=self.rules.env, timeout_s=self.rules.timeout_s
        )
        if any(verify.failed(one) for one in ran):
            return verify.failure_text(ran), None
        if how := await asyncio.to_thread(commit.differs, self.git, sha):
            return f"The commands succeeded, but afterwards {how}\nIgnore or remove what they leave.", None
        by_command = {f.command: f for f in ran}
        shown = [_evidence_of(by_command[command], step) for step, command in evidence]
        own = [_evidence_of(by_command[command], None) for command in feature.verify]
        checks = tuple(_evidence_of(by_command[command], None) for command in self.rules.commands)
        return None, Passed(feature.id, sha, (*shown, *own), checks)

    def _next(self) -> str:
        decided = {*self.passed, *self.failed, *self.questions}
        left = [f.id for f in self.features if f.id not in decided]
        if left:
            return f"Go on with feature {left[0]}."
        return "Every feature is decided: end with a short summary for the reviewer."

    def _tell(self, text: str, feature_id: int) -> None:
        self.events.put_nowait(Event(EventKind.GATE, self.batch.key, text, feature_id))


def _evidence_of(finished: Finished, step: int | None) -> Evidence:
    return Evidence(finished.command, finished.exit_code, round(finished.duration_s, 2), step)


async def _shielded(call: Callable[[], T]) -> T:
    """Run a blocking call to its end, even when we are cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _said(key: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"id": {"type": "integer"}, key: {"type": "string"}},
        "required": ["id", key],
    }


_PASSED = (
    "Say that a feature is done. autoforge commits it, runs the verify and evidence commands and answers."
)
_FAILED = "Say that a feature cannot be done, and why."
_ASK = "Ask a person something that only a person can decide. The feature waits for the answer."
_PASSED_SCHEMA = {
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
