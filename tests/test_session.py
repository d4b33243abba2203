"""Sessions of the claude CLI: how each end is told, and that nothing of one is left."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from autoforge.agent import session
from autoforge.agent.tools import Answer, Tool
from autoforge.demo.model import Request, Script, ScriptedModel, Turn
from autoforge.events import EventKind
from db.feature import Result
from tests import sessions

Start = Callable[[Script], ScriptedModel]
RESULT = {
    "type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False,
    "num_turns": 1, "session_id": "s", "total_cost_usd": 0.25, "result": "done",
}  # fmt: skip
SAID = {
    "type": "assistant", "session_id": "s", "parent_tool_use_id": None,
    "message": {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello"}]},
}  # fmt: skip
LIMIT = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "4000000000",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "retry-after": "3600",
}


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("Bash", {"command": command, "description": "x", **more})


def error(status: int, kind: str, message: str, **headers: str) -> Turn:
    given = {"x-should-retry": "false", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return Turn(status=status, error={"type": kind, "message": message}, headers=given)


def access(model: ScriptedModel, folder: Path, name: str = "x") -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": f"{model.url}/{name}",
        "ANTHROPIC_API_KEY": "mock",
        "CLAUDE_CONFIG_DIR": str(folder.parent / "claude"),
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


FAULTS: Mapping[str, tuple[Turn, Result, str]] = {
    "401": (error(401, "authentication_error", "invalid x-api-key"), Result.UNAVAILABLE, session.LOG_IN),
    "429": (error(429, "rate_limit_error", "slow down"), Result.LIMITED, "slow down"),
    "usage": (
        Turn(status=429, error={"type": "rate_limit_error", "message": "limit"}, headers=LIMIT),
        Result.LIMITED,
        "limit",
    ),
    "529": (error(529, "overloaded_error", "Overloaded"), Result.LIMITED, "Overloaded"),
    "credit": (
        error(400, "invalid_request_error", "Your credit balance is too low to access the API."),
        Result.UNAVAILABLE,
        "redit balance",
    ),
    "cut": (Turn("cut", cut_after=2), Result.LIMITED, "API Error"),
    "turns": (Turn("again", tools=(bash("true"),)), Result.TURNS, "its 2 turns"),
    "money": (Turn("again", tools=(bash("true"),)), Result.MONEY, "its $0.02"),
    "text": (Turn("I hit a rate limit: 429 overloaded, usage limit reached."), Result.PASSED, ""),
}


@pytest.mark.claude
def test_a2_a3_a4_how_each_end_is_told(model: Start, clone: Path) -> None:
    server = model(lambda request: FAULTS[request.path.split("/")[1]][0])

    def make(name: str) -> session.Session:
        env = access(server, clone, name)
        if name == "usage":
            env |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-mock"}
        more: dict[str, Any] = {"turns": {"max_turns": 2}, "money": {"max_cost_usd": 0.02}}.get(name, {})
        return sessions.make(clone, session.find_cli(), name=name, env=env, **more)

    ends = asyncio.run(sessions.run_all([make(name) for name in FAULTS]))
    told = {name: end for name, (end, _) in zip(FAULTS, ends, strict=True)}
    assert {name: end.result for name, end in told.items()} == {n: f[1] for n, f in FAULTS.items()}
    for name, (_, _, reason) in FAULTS.items():
        assert reason in told[name].reason, name
    assert told["usage"].resets_at is not None
    assert told["usage"].resets_at.timestamp() == 4_000_000_000
    assert told["429"].resets_at is None
    assert told["money"].cost_usd is not None
    assert told["money"].cost_usd > 0.02


@pytest.mark.claude
def test_a6_rules_denials_and_tools_reach_the_model(model: Start, clone: Path) -> None:
    (clone / "CLAUDE.md").write_text("House rule: tabs are forbidden.\n")
    outside = clone.parent / "outside.txt"

    def script(request: Request) -> Turn:
        calls = (
            bash("git push origin HEAD"),
            ("Write", {"file_path": str(outside), "content": "x"}),
            ("mcp__autoforge__slow", {"id": 7}),
            bash("echo $MCP_TOOL_TIMEOUT > told.txt"),
        )
        return Turn("next", tools=(calls[request.step],)) if request.step < len(calls) else Turn("All done.")

    async def slow(arguments: Mapping[str, Any]) -> Answer:
        await asyncio.sleep(2)
        return Answer(f"Took {arguments['id']}.")

    server = model(script)
    tool = Tool("slow", "Is slow.", {"type": "object", "properties": {"id": {"type": "integer"}}}, slow)
    made = sessions.make(clone, session.find_cli(), env=access(server, clone))
    end, events = sessions.run(made, tool)

    assert (end.result, end.text) == (Result.PASSED, "All done.")
    last = server.log[-1][0]
    assert "House rule: tabs are forbidden." in json.dumps(last.body)
    assert "The rules." in last.system
    (push_denied, push), (write_denied, _), (slow_denied, took), _ = last.results
    assert (push_denied, write_denied, slow_denied) == (True, True, False)
    assert "push" in push
    assert took == "Took 7."
    assert not outside.exists()
    assert [e.text.split(":")[0] for e in events if e.kind is EventKind.DENIED] == ["Bash", "Write"]
    assert (clone / "told.txt").read_text() == "7200000\n"
    assert len(made.transcript.read_text().splitlines()) > 8


@pytest.mark.claude
def test_a2_a5_time_is_up_and_what_it_left_running_ends(model: Start, clone: Path, tmp_path: Path) -> None:
    left = "nohup sleep 301 > /dev/null 2>&1 & setsid sleep 302 & (setsid env -i sleep 303 &) ; echo started"
    hang = "python3 -c 'import time; time.sleep(304)'"

    def script(request: Request) -> Turn:
        calls = [bash(left)] + ([bash(hang)] if "/hang/" in request.path else [])
        return Turn("x", tools=(calls[request.step],)) if request.step < len(calls) else Turn("done")

    server = model(script)
    leaves = sessions.make(clone, session.find_cli(), name="leave", env=access(server, clone, "leave"))
    hangs = sessions.make(
        clone, session.find_cli(), name="hang", env=access(server, clone, "hang"), timeout_s=6
    )
    takes_no_interrupt = sessions.pretended(tmp_path, f"say({SAID!r})\ntime.sleep(305)")
    deaf = sessions.make(clone, takes_no_interrupt, name="deaf", timeout_s=1)
    started = time.monotonic()
    (one, _), (other, _), (third, _) = asyncio.run(sessions.run_all([leaves, hangs, deaf], at_once=3))
    assert time.monotonic() - started < 20
    assert (third.result, third.text) == (Result.TIMEOUT, "Hello")
    assert one.result is Result.PASSED
    assert (other.result, other.reason) == (Result.TIMEOUT, "the session did not end within 6 s")
    asleep = [p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[:1] == ["sleep"]]
    assert [p.info["cmdline"] for p in asleep if p.info["cmdline"][1] in ("301", "302", "303")] == []


@pytest.mark.claude
def test_a_tool_that_fails_ends_the_session_and_its_error_is_raised(model: Start, clone: Path) -> None:
    async def breaks(arguments: Mapping[str, Any]) -> Answer:
        raise ZeroDivisionError("of ours")

    server = model(lambda request: Turn("again", tools=(("mcp__autoforge__breaks", {}),)))
    made = sessions.make(clone, session.find_cli(), env=access(server, clone))
    with pytest.raises(ZeroDivisionError, match="of ours"):
        sessions.run(made, Tool("breaks", "Breaks.", {"type": "object", "properties": {}}, breaks))
    assert len(server.log) <= 2


def test_a7_messages_of_an_unknown_kind_are_ignored(clone: Path, tmp_path: Path) -> None:
    odd = {"type": "hologram", "data": {"deep": [1, None]}}
    cli = sessions.pretended(tmp_path, f"for m in ({odd!r}, {SAID!r}, {odd!r}, {RESULT!r}): say(m)")
    end, _ = sessions.run(sessions.make(clone, cli))
    assert (end.result, end.text, end.cost_usd, end.turns) == (Result.PASSED, "Hello", 0.25, 1)


def test_a2_a_cli_that_crashes_says_why_and_its_secrets_are_not_told(clone: Path, tmp_path: Path) -> None:
    body = "print('cannot map sk-ant-api03-abcdefgh', file=sys.stderr); sys.exit(9)"
    end, _ = sessions.run(sessions.make(clone, sessions.pretended(tmp_path, body)))
    assert (end.result, end.cost_usd) == (Result.CRASHED, None)
    assert end.reason.startswith("the claude CLI ended without a result\ncannot map [redacted]\n")


def test_a4_a_cli_that_is_not_there_is_no_crash(clone: Path, tmp_path: Path) -> None:
    made = sessions.make(clone, tmp_path / "nowhere", cli_path=tmp_path / "nowhere")
    end, _ = sessions.run(made)
    assert end.result is Result.UNAVAILABLE
