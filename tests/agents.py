"""Agents below the CLI seam: they work in the session's worktree and call the real gate tools."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Answer, Tool
from autoforge.attempt import Events
from db.feature import Result

COST_USD = 0.5


@dataclass
class Agent:
    """What a test's agent can do in one session."""

    session: Session
    tools: Mapping[str, Tool]
    events: Events
    stop: asyncio.Event
    features: tuple[tuple[int, str], ...]

    def write(self, name: str, content: str) -> Path:
        path = self.session.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    async def call(self, tool: str, **arguments: Any) -> Answer:
        return await self.tools[tool].call(arguments)

    async def passed(self, feature_id: int, *commands: str, step: int = 1) -> Answer:
        evidence = [{"step": step, "command": command} for command in commands]
        return await self.call(
            "feature_passed", id=feature_id, evidence=evidence, summary=f"built {feature_id}"
        )


Work = Callable[[Agent], Awaitable[SessionEnd | None]]


@dataclass
class Crew:
    """An AgentRun for a build; remembers its sessions and how many ran at once."""

    work: Work
    sessions: list[Session] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def __call__(
        self, session: Session, tools: Sequence[Tool], events: Events, stop: asyncio.Event
    ) -> SessionEnd:
        self.sessions.append(session)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        found = re.findall(r"^### Feature (\d+): (.+)$", session.prompt, re.MULTILINE)
        features = tuple((int(number), name) for number, name in found)
        try:
            ended = await self.work(Agent(session, {t.name: t for t in tools}, events, stop, features))
        finally:
            self.at_once -= 1
        return ended or SessionEnd(Result.PASSED, cost_usd=COST_USD, turns=3, text="Built it.")


async def diligent(agent: Agent) -> None:
    """Writes one file a feature and passes it."""
    for feature_id, name in agent.features:
        agent.write(f"src/f{feature_id}.txt", f"{name}\n")
        answer = await agent.passed(feature_id, f"grep -q . src/f{feature_id}.txt")
        assert not answer.is_error, answer.text
