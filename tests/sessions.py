"""Sessions of the real or a pretended claude CLI, as an attempt starts them."""

import asyncio
import os
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoforge import process, settings
from autoforge.agent import guard, session
from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Tool
from autoforge.environment import Place, for_agent
from autoforge.events import Event

PRETENDED = """\
#!{python}
import json, sys, time
CAPABLE = {{"hook_on_failure_supported": True, "hooks_registered": True}}
def say(message):
    print(message if isinstance(message, str) else json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        if message["request"]["subtype"] != "initialize":
            continue
        answer = {{"subtype": "success", "request_id": message["request_id"], "response": CAPABLE}}
        say({{"type": "control_response", "response": answer}})
    elif message["type"] == "user":
{body}
"""


def place(folder: Path) -> Place:
    scratch = folder.parent / f"{folder.name}-scratch"
    scratch.mkdir(exist_ok=True)
    return Place("build-1", str(folder / ".git"), "k3f9ab", 2, 42000, folder, folder, scratch)


def make(folder: Path, cli: Path, *, name: str = "", **changes: Any) -> Session:
    """A session below a tree guard, in the environment of an agent; `changes` are its fields, `env` is added."""
    there = place(folder)
    taken = settings.take({**os.environ, **changes.pop("env", {})})
    policy = guard.Policy(
        root=folder, tmp=there.scratch, protected=guard.PROTECTED, branch="autoforge/one-k3f9ab"
    )
    made = Session(
        batch=there.batch,
        cwd=folder,
        prompt="Build it.",
        rules="The rules.",
        session_id=str(uuid.uuid4()),
        cli_path=process.write_cli_wrapper(there.scratch / f"claude{name}", cli),
        transcript=there.scratch / f"{name or 'session'}.jsonl",
        policy=policy,
        env=for_agent(taken, there, (), tool_timeout_s=7200),
        model=None,
        max_turns=20,
        max_cost_usd=5.0,
        timeout_s=60,
    )
    return replace(made, **changes)


def pretended(folder: Path, body: str) -> Path:
    """A CLI that does `body` when it gets the prompt; `say` writes one message."""
    path = folder / "pretended"
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    path.write_text(PRETENDED.format(python=sys.executable, body=lines))
    path.chmod(0o755)
    return path


def run(made: Session, *tools: Tool) -> tuple[SessionEnd, list[Event]]:
    """To its end."""
    return asyncio.run(run_all([made], *tools))[0]


async def run_all(
    made: Sequence[Session], *tools: Tool, at_once: int = 2
) -> list[tuple[SessionEnd, list[Event]]]:
    free = asyncio.Semaphore(at_once)

    async def one(each: Session) -> tuple[SessionEnd, list[Event]]:
        events: asyncio.Queue[Event] = asyncio.Queue()
        async with free:
            end = await session.run(each, tools, events, asyncio.Event())
        return end, [events.get_nowait() for _ in range(events.qsize())]

    return list(await asyncio.gather(*map(one, made)))
