"""One session of the claude CLI: started, followed, interrupted in time, and its end told as a value."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import claude_agent_sdk
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLINotFoundError,
    HookContext,
    HookMatcher,
    Message,
    RateLimitEvent,
    ResultMessage,
    TextBlock,
    ToolUseBlock,
)
from claude_agent_sdk.types import HookInput, HookJSONOutput

from autoforge.agent import guard
from autoforge.agent.tools import SERVER, Broken, Tool, server
from autoforge.errors import AgentMissing
from autoforge.events import Event, EventKind
from autoforge.log import redact
from db.feature import Result

log = logging.getLogger("autoforge.agent")

TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "TodoWrite")
EDITING = ("Write", "Edit")  # allowed by the permission mode, within the worktree
LEAVE_S = 2.0  # to take an interrupt, and again for the result after it
LOG_IN = "Log in with `claude`, or set ANTHROPIC_API_KEY, and build again."
UNAVAILABLE = {"authentication_failed", "billing_error", "model_not_found"}
PAUSES = {"rate_limit", "server_error", "overloaded"}
TERMINAL = {"error_max_turns": Result.TURNS, "error_max_budget_usd": Result.MONEY}


@dataclass(frozen=True)
class Session:
    """What a session is started with. `env` is complete but for what the CLI adds; `session_id` is a UUID of ours."""

    batch: str
    cwd: Path
    prompt: str
    rules: str
    session_id: str
    cli_path: Path
    transcript: Path
    policy: guard.Policy
    env: Mapping[str, str] = field(repr=False)
    model: str | None
    max_turns: int
    max_cost_usd: float
    timeout_s: float
    builtin: tuple[str, ...] = TOOLS


@dataclass(frozen=True)
class SessionEnd:
    """`result` PASSED means only that the session ended by itself; `cost_usd` None: not known."""

    result: Result
    reason: str = ""
    cost_usd: float | None = None
    turns: int = 0
    text: str = ""
    resets_at: datetime | None = None


@dataclass
class _Heard:
    """What has come from the CLI so far."""

    result: ResultMessage | None = None
    error: str | None = None
    resets_at: datetime | None = None
    limited: bool = False
    turns: int = 0
    text: str = ""
    trouble: deque[str] = field(default_factory=lambda: deque(maxlen=10))  # what the CLI wrote to stderr


def find_cli() -> Path:
    """The CLI of the SDK's wheel, else one on PATH. Raises AgentMissing."""
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if bundled.is_file():
        return bundled
    found = shutil.which("claude")
    if found is None:
        raise AgentMissing(
            "The claude CLI was not found. Install it: pip install --force-reinstall claude-agent-sdk"
        )
    return Path(found)


async def run(
    session: Session, tools: Sequence[Tool], events: "asyncio.Queue[Event]", stop: asyncio.Event
) -> SessionEnd:
    """Run one session to its end; `stop` interrupts it. Raises what one of our own tools raised."""
    broken, heard, halt = Broken(), _Heard(), asyncio.Event()
    broken.stop.append(halt.set)
    cause: Result | None = None
    try:
        with session.transcript.open("a", encoding="utf-8") as transcript:
            async with ClaudeSDKClient(_options(session, tools, broken, events, heard)) as client:
                await client.query(session.prompt)
                reader = asyncio.create_task(_read(client, session, heard, events, transcript))
                cause = await _until(client, reader, (stop, halt), session.timeout_s)
    except CLINotFoundError as error:
        return SessionEnd(Result.UNAVAILABLE, str(error))
    except ClaudeSDKError as error:
        log.warning("batch=%s the claude CLI ended: %s %s", session.batch, error, list(heard.trouble))
        heard.trouble.append(str(error).partition("\n")[0])
    if broken.error:
        raise broken.error
    return _end(heard, cause, session)


async def _until(
    client: ClaudeSDKClient, reader: "asyncio.Task[None]", stops: Sequence[asyncio.Event], timeout_s: float
) -> Result | None:
    """Wait for the session's end; interrupt it when a stop is set or the time is over."""
    waits = [asyncio.create_task(stop.wait()) for stop in stops]
    try:
        tasks: set[asyncio.Task[Any]] = {reader, *waits}
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if reader in done:
            await reader
            return None
        with contextlib.suppress(TimeoutError, ClaudeSDKError):  # it hangs, or has ended meanwhile
            await asyncio.wait_for(client.interrupt(), LEAVE_S)
        await asyncio.wait({reader}, timeout=LEAVE_S)
        return Result.INTERRUPTED if done else Result.TIMEOUT
    finally:
        for task in (reader, *waits):
            task.cancel()
        await asyncio.gather(reader, *waits, return_exceptions=True)


async def _read(
    client: ClaudeSDKClient,
    session: Session,
    heard: _Heard,
    events: "asyncio.Queue[Event]",
    transcript: TextIO,
) -> None:
    async for message in client.receive_response():
        transcript.write(redact(json.dumps(_plain(message), default=str)) + "\n")
        transcript.flush()
        _hear(message, heard)
        for event in _tell(message, session):
            events.put_nowait(event)


def _plain(message: Message) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"at": at, "type": type(message).__name__, **dataclasses.asdict(message)}


def _hear(message: Message, heard: _Heard) -> None:
    if isinstance(message, AssistantMessage):
        heard.turns += 1
        heard.error = message.error
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        heard.text = "\n".join(texts) or heard.text
    elif isinstance(message, RateLimitEvent) and message.rate_limit_info.status == "rejected":
        heard.limited = True
        if message.rate_limit_info.resets_at:
            heard.resets_at = datetime.fromtimestamp(message.rate_limit_info.resets_at, UTC)
    elif isinstance(message, ResultMessage):
        heard.result = message


def _tell(message: Message, session: Session) -> list[Event]:
    if not isinstance(message, AssistantMessage):
        return []
    told = []
    for block in message.content:
        if isinstance(block, TextBlock) and block.text.strip():
            told.append(Event(EventKind.TEXT, session.batch, block.text.strip()))
        elif isinstance(block, ToolUseBlock) and not block.name.startswith(f"mcp__{SERVER}__"):
            told.append(Event(EventKind.TOOL, session.batch, _shorten(block)))
    return told


def _shorten(block: ToolUseBlock) -> str:
    for key in ("file_path", "command", "pattern", "path", "description"):
        if isinstance(value := block.input.get(key), str):
            return f"{block.name} {' '.join(value.split())[:120]}"
    return block.name


def _end(heard: _Heard, cause: Result | None, session: Session) -> SessionEnd:
    result = heard.result
    if result is None:
        kind = cause or Result.CRASHED
        reason = _why(kind, session) if cause else "\n".join([_why(kind, session), *heard.trouble])
        return SessionEnd(kind, redact(reason), None, heard.turns, heard.text)
    kind, reason = Result.PASSED, ""
    if cause:
        kind, reason = cause, _why(cause, session)
    elif result.is_error or result.subtype in TERMINAL:
        kind = _failure(heard, result)
        reason = (
            "; ".join([*(result.errors or []), *([result.result] if result.result else [])]) or result.subtype
        )
        reason = _why(kind, session) if kind in TERMINAL.values() else reason
        reason = f"{reason}. {LOG_IN}" if heard.error == "authentication_failed" else reason
    return SessionEnd(kind, redact(reason), result.total_cost_usd, heard.turns, heard.text, heard.resets_at)


def _failure(heard: _Heard, result: ResultMessage) -> Result:
    if result.subtype in TERMINAL:
        return TERMINAL[result.subtype]
    if heard.error in UNAVAILABLE or result.api_error_status in (401, 403):
        return Result.UNAVAILABLE
    status = result.api_error_status or 0
    if heard.limited or heard.error in PAUSES or status == 429 or status >= 500:
        return Result.LIMITED
    return Result.FAILED


def _why(kind: Result, session: Session) -> str:
    return {
        Result.TIMEOUT: f"the session did not end within {session.timeout_s:g} s",
        Result.TURNS: f"the session used its {session.max_turns} turns",
        Result.MONEY: f"the session used its ${session.max_cost_usd:.2f}",
        Result.INTERRUPTED: "the session was interrupted",
    }.get(kind, "the claude CLI ended without a result")


def _options(
    session: Session, tools: Sequence[Tool], broken: Broken, events: "asyncio.Queue[Event]", heard: _Heard
) -> ClaudeAgentOptions:
    async def before_tool(data: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        if data["hook_event_name"] != "PreToolUse":
            return {}
        why = guard.decide(session.policy, data["tool_name"], data["tool_input"], cwd=Path(data["cwd"]))
        if why is None:
            return {}
        events.put_nowait(Event(EventKind.DENIED, session.batch, f"{data['tool_name']}: {why}"))
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": why,
            }
        }

    return ClaudeAgentOptions(
        cwd=session.cwd,
        cli_path=session.cli_path,
        model=session.model,
        session_id=session.session_id,
        system_prompt={"type": "preset", "preset": "claude_code", "append": session.rules},
        setting_sources=["project"],
        strict_mcp_config=True,
        verbatim_prompts=True,
        permission_mode="acceptEdits",
        tools=list(session.builtin),
        allowed_tools=[*(tool for tool in session.builtin if tool not in EDITING), f"mcp__{SERVER}__*"],
        mcp_servers={SERVER: server(tools, broken)},
        hooks={
            "PreToolUse": [HookMatcher(matcher=None, hooks=[before_tool], timeout=30, on_failure="block")]
        },
        max_turns=session.max_turns,
        max_budget_usd=session.max_cost_usd,
        env=dict(session.env),
        stderr=heard.trouble.append,
    )
