"""The gate: what a feature must pass to count, and the commit that it makes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from autoforge import claim, pull_request, questions, verify
from autoforge.agent import guard
from autoforge.agent.tools import Answer, Tool
from autoforge.claim import Refused
from autoforge.events import Event, EventKind, Passed
from db.feature import Batch, Feature
from git_workflow import commit, standing
from git_workflow.command import Git
from git_workflow.errors import GitFailed
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha

T = TypeVar("T")
Step = tuple[int, str]  # an acceptance step, from 0, and the command that shows it


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
    """Lives as long as its attempt. `passed`, `failed`, `questions` and `last_red` are what the attempt reports."""

    git: Git
    rules: Rules
    batch: Batch
    features: tuple[Feature, ...]
    since: str  # the last commit that passed, or the base
    branch_ref: str | None  # where commits go; None: HEAD was detached when the attempt began
    attempt: int
    events: "asyncio.Queue[Event]"
    passed: dict[int, Passed] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    questions: dict[int, str] = field(default_factory=dict)
    last_red: dict[int, str] = field(default_factory=dict)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> list[Tool]:
        return [
            Tool("feature_passed", claim.PASSED, claim.PASSED_SCHEMA, self._alone(self._pass)),
            Tool("feature_failed", claim.FAILED, claim.saying("reason"), self._alone(self._fail)),
            Tool("ask_human", claim.ASK, questions.SCHEMA, self._alone(self._ask)),
        ]

    def _alone(
        self, act: Callable[[Mapping[str, Any]], Awaitable[str]]
    ) -> Callable[[Mapping[str, Any]], Awaitable[Answer]]:
        """One call at a time; what was refused is an answer."""

        async def call(arguments: Mapping[str, Any]) -> Answer:
            async with self._one:
                try:
                    return Answer(await act(arguments))
                except Refused as refused:
                    return Answer(str(refused), is_error=True)

        return call

    async def _pass(self, arguments: Mapping[str, Any]) -> str:
        feature = self._feature(arguments)
        self._check_turn(feature)
        steps = self._evidence(feature, arguments)
        message = pull_request.commit_message(feature, self.batch.key, claim.words(arguments, "summary"))
        try:
            passed = await self._commit_and_verify(feature, steps, message)
        except Refused as refused:
            self.last_red[feature.id] = str(refused)
            self._tell(feature, "red")
            raise
        self.since = passed.commit_sha
        self._decide(feature, self.passed, passed)
        self._tell(feature, "passed", passed)
        return f"Feature {feature.id} has passed as commit {self.since[:10]}. {self._next()}"

    async def _fail(self, arguments: Mapping[str, Any]) -> str:
        reason = claim.words(arguments, "reason")
        if not reason:
            raise Refused("Say the reason.")
        return await self._leave(arguments, self.failed, reason, told=f"failed: {reason}")

    async def _ask(self, arguments: Mapping[str, Any]) -> str:
        asked = questions.parse(arguments)
        return await self._leave(
            arguments, self.questions, questions.to_column(asked), told=f"asks: {asked.text}"
        )

    async def _leave(
        self, arguments: Mapping[str, Any], where: dict[int, str], text: str, *, told: str
    ) -> str:
        feature = self._feature(arguments)
        if waits := self._waits(feature):
            return f"Feature {feature.id} waits for {waits[0]} and needs no word. {self._next()}"
        put_away = ""
        if feature is self._turn() and self._turn(without=feature):
            put_away = await _to_the_end(lambda: self._put_away(feature))
        self._decide(feature, where, text)
        self._tell(feature, told)
        return f"Noted. {put_away}{self._next()}"

    def _put_away(self, feature: Feature) -> str:
        """The next feature starts from what has passed: this one's work must not get into its commit."""
        ref = saved_ref(self.batch.key, f"{self.attempt}-feature-{feature.id}")
        try:
            standing.stand_on(self.git, self.branch_ref, key=self.batch.key)
            what = f"Unfinished work on feature {feature.id}, set aside"
            kept = standing.set_aside(self.git, since=self.since, ref=ref, message=what)
        except GitFailed as error:
            raise Refused(
                f"The work on feature {feature.id} could not be put away: {error.stderr[-2000:]}\n"
                "Mend that and call this again."
            ) from error
        return f"Its unfinished work was taken out of the worktree and is kept on {ref}. " if kept else ""

    def _feature(self, arguments: Mapping[str, Any]) -> Feature:
        wanted = claim.feature_id(arguments)
        feature = next((f for f in self.features if f.id == wanted), None)
        if feature is None:
            raise Refused(f"Feature {arguments.get('id')!r} is not one of yours. {self._next()}")
        if feature.id in self.passed:
            raise Refused(f"Feature {feature.id} has passed already. {self._next()}")
        return feature

    def _check_turn(self, feature: Feature) -> None:
        """In the given order, so that a commit holds the work of one feature."""
        if waits := self._waits(feature):
            raise Refused(f"Feature {feature.id} depends on {waits[0]}, which has not passed yet.")
        turn = self._turn()
        if turn and self.features.index(turn) < self.features.index(feature):
            raise Refused(
                f"Feature {turn.id} comes first: pass it, or call feature_failed or ask_human for it. "
                "Its work would get into this commit."
            )

    def _waits(self, feature: Feature) -> list[int]:
        inside = {f.id for f in self.features}
        return [d for d in feature.dependencies if d in inside and d not in self.passed]

    def _turn(self, without: Feature | None = None) -> Feature | None:
        """The first feature that is not decided and can be worked on."""
        decided = {*self.passed, *self.failed, *self.questions}
        left = (f for f in self.features if f.id not in decided and f is not without)
        return next((f for f in left if not self._waits(f)), None)

    def _evidence(self, feature: Feature, arguments: Mapping[str, Any]) -> list[Step]:
        steps = claim.evidence(feature, arguments)
        for step, command in steps:
            if why := guard.decide_command(self.rules.policy, command, cwd=self.rules.cwd):
                raise Refused(f"evidence for step {step + 1}: {why}")
        if not (steps or feature.verify or self.rules.commands):
            raise Refused("No command verifies this feature: give evidence, one command a step.")
        return steps

    async def _commit_and_verify(self, feature: Feature, steps: Sequence[Step], message: str) -> Passed:
        self._tell(feature, "committing")
        made = await _to_the_end(lambda: self._commit(message), undo=self._undo)
        async with contextlib.AsyncExitStack() as unless_passed:
            unless_passed.push_async_callback(_to_the_end, lambda: self._undo(made))
            if made is None and not (steps or feature.verify):
                raise Refused(
                    "Nothing has changed, so there is nothing to pass. If the feature was there already, "
                    "show it with evidence commands."
                )
            passed = await self._verify(feature, steps, made.sha if made else self.since)
            await _to_the_end(lambda: self._keep(passed.commit_sha))
            unless_passed.pop_all()
        return passed

    def _commit(self, message: str) -> commit.Commit | None:
        limits = self.rules
        try:
            standing.stand_on(self.git, self.branch_ref, key=self.batch.key)
            problems = commit.stage(
                self.git, protected=limits.protected, max_file_bytes=limits.max_file_bytes, since=self.since
            )
            if problems:
                raise Refused("This cannot be committed:\n- " + "\n- ".join(problems[:30]))
            kept = saved_ref(self.batch.key, f"agent-{(head_sha(self.git) or '')[:12]}")
            return commit.make(self.git, since=self.since, saved_ref=kept, message=message)
        except GitFailed as error:
            raise Refused(f"The commit was refused:\n{error.stderr[-4000:]}") from error

    def _undo(self, made: commit.Commit | None) -> None:
        """Take the commit back, on the batch's own branch: a command may have switched to another."""
        if made:
            standing.stand_on(self.git, self.branch_ref, key=self.batch.key)
            commit.undo(self.git, made)

    def _keep(self, sha: str) -> None:
        """What has passed stays reachable, whatever becomes of the branch."""
        self.git.run("update-ref", saved_ref(self.batch.key, "passed"), sha)

    async def _verify(self, feature: Feature, steps: Sequence[Step], sha: str) -> Passed:
        commands = list(dict.fromkeys([*self.rules.commands, *feature.verify, *(c for _, c in steps)]))
        self._tell(feature, f"verifying ({len(commands)} commands)")
        ran = await verify.run_commands(
            commands, cwd=self.rules.cwd, env=self.rules.env, timeout_s=self.rules.timeout_s
        )
        if red := verify.failure_text(ran):
            raise Refused(f"Feature {feature.id} has not passed.\n{red}")
        if how := await asyncio.to_thread(commit.differs, self.git, sha):
            raise Refused(
                f"Feature {feature.id} has not passed.\nThe commands succeeded, but afterwards {how}\n"
                "Ignore or remove what they leave."
            )
        by_command = {one.command: one for one in ran}
        shown = [verify.evidence_of(by_command[command], step) for step, command in steps]
        own = [verify.evidence_of(by_command[command]) for command in feature.verify]
        checks = tuple(verify.evidence_of(by_command[command]) for command in self.rules.commands)
        return Passed(feature.id, sha, (*shown, *own), checks)

    def _decide(self, feature: Feature, where: dict[int, T], what: T) -> None:
        """The last word counts."""
        self.failed.pop(feature.id, None)
        self.questions.pop(feature.id, None)
        self.last_red.pop(feature.id, None)
        where[feature.id] = what

    def _next(self) -> str:
        turn = self._turn()
        if turn:
            return f"Go on with feature {turn.id}."
        return "Every feature is decided: end with a short summary for the reviewer."

    def _tell(self, feature: Feature, text: str, passed: Passed | None = None) -> None:
        text = f"#{feature.id} {text}"
        self.events.put_nowait(Event(EventKind.GATE, self.batch.key, text, feature.id, passed=passed))


async def _to_the_end(call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Finish a blocking call however often we are cancelled meanwhile; then undo it and be cancelled."""
    task, cancelled = asyncio.ensure_future(asyncio.to_thread(call)), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not cancelled:
        return task.result()
    if task.exception() is None and undo:
        await _to_the_end(lambda: undo(task.result()))
    raise asyncio.CancelledError
