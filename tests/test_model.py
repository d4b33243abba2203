"""The scripted model speaks the Messages API: over HTTP as it is, and to the real CLI."""

import asyncio
import contextlib
import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from autoforge.demo.model import Request, Script, ScriptedModel, Turn

Start = Callable[[Script], ScriptedModel]
PROMPT = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def start() -> Iterator[Start]:
    models = []

    def started(script: Script) -> ScriptedModel:
        models.append(ScriptedModel(script))
        models[-1].start()
        return models[-1]

    yield started
    for model in models:
        model.stop()


def connect(model: ScriptedModel) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)


def call(
    model: ScriptedModel, body: dict | None = None, path: str = "/v1/messages", method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    connection = connect(model)
    try:
        connection.request(method, path, json.dumps(body) if body else None)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def ask(model: ScriptedModel, stream: bool = False, **more: Any) -> tuple[int, dict[str, str], Any]:
    body = {"model": "claude-x", "messages": PROMPT, "stream": stream, **more}
    status, headers, raw = call(model, body)
    return status, headers, events(raw) if stream and status == 200 else json.loads(raw)


def events(raw: bytes) -> list[dict]:
    return [json.loads(part.split("data: ", 1)[1]) for part in raw.decode().split("\n\n") if part]


def test_answers_without_a_stream(start: Start) -> None:
    model = start(lambda request: Turn("hi", usage={"input_tokens": 7, "output_tokens": 3}))
    status, headers, message = ask(model)
    assert status == 200
    assert headers["request-id"].startswith("req_")
    assert message["content"] == [{"type": "text", "text": "hi"}]
    assert (message["model"], message["stop_reason"]) == ("claude-x", "end_turn")
    assert message["usage"]["input_tokens"] == 7
    assert message["usage"]["cache_read_input_tokens"] == 0


def test_streams_text_and_tools(start: Start) -> None:
    text, given = "word " * 30, {"file_path": "a.txt", "content": 'say "hi"\n'}
    model = start(lambda request: Turn(text, tools=(("Write", given),)))
    _, headers, said = ask(model, stream=True)
    assert headers["content-type"].startswith("text/event-stream")
    kinds = [event["type"] for event in said]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert said[0]["message"]["content"] == []
    deltas = [event["delta"] for event in said if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == text
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == given
    blocks = [event["content_block"] for event in said if event["type"] == "content_block_start"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]
    assert said[-2]["delta"]["stop_reason"] == "tool_use"
    assert said[-2]["usage"]["output_tokens"] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_sends_faults_with_their_headers(start: Start, stream: bool) -> None:
    error = {"type": "rate_limit_error", "message": "slow down"}
    model = start(lambda request: Turn(status=429, error=error, headers={"retry-after": "90"}))
    status, headers, body = ask(model, stream=stream)
    assert (status, headers["retry-after"], body["error"]) == (429, "90", error)


@pytest.mark.parametrize("after", [0, 2])
def test_cuts_the_connection(start: Start, after: int) -> None:
    model = start(lambda request: Turn("hi", cut_after=after))
    connection = connect(model)
    connection.request("POST", "/v1/messages", json.dumps({"model": "m", "messages": PROMPT, "stream": True}))
    with pytest.raises((http.client.IncompleteRead, ConnectionError)) as caught:
        connection.getresponse().read()
    connection.close()
    came = caught.value.partial if isinstance(caught.value, http.client.IncompleteRead) else b""
    assert len(events(came)) == after


def test_ends_a_stream_with_an_error(start: Start) -> None:
    error = {"type": "overloaded_error", "message": "busy"}
    model = start(lambda request: Turn("hi", cut_after=1, error=error))
    _, _, said = ask(model, stream=True)
    assert [event["type"] for event in said] == ["message_start", "error"]
    assert said[1]["error"] == error


def test_stop_reason_can_be_given(start: Start) -> None:
    model = start(lambda request: Turn("no", stop_reason="refusal"))
    assert ask(model)[2]["stop_reason"] == "refusal"


def test_counts_tokens_and_takes_a_path_before_the_api(start: Start) -> None:
    model = start(lambda request: Turn(request.path))
    body = {"model": "m", "messages": PROMPT}
    assert json.loads(call(model, body, "/v1/messages/count_tokens")[2]) == {"input_tokens": 1000}
    assert json.loads(call(model, body, "/b/alpha/v1/messages/count_tokens")[2]) == {"input_tokens": 1000}
    message = json.loads(call(model, body, "/b/alpha/v1/messages?beta=true")[2])
    assert message["content"][0]["text"] == "/b/alpha/v1/messages"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
def test_knows_no_other_path(start: Start, method: str) -> None:
    model = start(lambda request: Turn())
    assert call(model, None, "/api/hello", method)[0] == 404
    assert model.log == []


def test_holds_a_turn_until_the_script_lets_it_go(start: Start) -> None:
    asked, said = threading.Event(), threading.Event()

    async def script(request: Request) -> Turn:
        asked.set()
        await asyncio.to_thread(said.wait, 10)
        return Turn("at last")

    model = start(script)
    came: list[Any] = []
    waiting = threading.Thread(target=lambda: came.append(ask(model)[2]))
    waiting.start()
    assert asked.wait(10)
    assert model.log == []
    assert call(model, None, "/other", "GET")[0] == 404, "a held turn must hold nobody else"
    said.set()
    waiting.join(10)
    assert came[0]["content"][0]["text"] == "at last"
    assert [turn.text for _, turn in model.log] == ["at last"]


def test_stops_while_a_turn_is_held(start: Start) -> None:
    asked = threading.Event()

    async def script(request: Request) -> Turn:
        asked.set()
        await asyncio.Event().wait()
        return Turn()

    model = start(script)
    connection = connect(model)
    connection.request("POST", "/v1/messages", json.dumps({"model": "m", "messages": PROMPT}))
    assert asked.wait(10)
    model.stop()
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert connection.getresponse().status == 500
    connection.close()
    with pytest.raises(ConnectionError):
        connect(model).connect()
    model.stop()


def test_stops_as_soon_as_it_was_started_and_starts_again() -> None:
    model = ScriptedModel(lambda request: Turn("hi"))
    for _ in range(2):
        model.start()
        model.stop()
    model.start()
    assert ask(model)[0] == 200
    model.stop()


def test_request_reads_the_conversation() -> None:
    def result(text: str, **more: Any) -> dict:
        return {"type": "tool_result", "content": text, **more}

    request = Request(
        {
            "system": [{"type": "text", "text": "You build."}],
            "tools": [{"name": "Bash"}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "reminder"}, {"type": "text", "text": "do it"}],
                },
                {"role": "system", "content": "- Primary working directory: /a folder/wt\n- Other: x"},
                {"role": "assistant", "content": [{"type": "text", "text": "Working directory: /wrong"}]},
                {"role": "user", "content": [result("one"), result("two", is_error=True)]},
                {"role": "assistant", "content": "more"},
                {"role": "user", "content": [result("three"), {"type": "text", "text": "note"}]},
                {"role": "user", "content": "go on"},
            ],
        }
    )
    assert request.system == "You build."
    assert request.prompt.split("\n") == ["reminder", "do it", "", "note", "go on"]
    assert request.cwd == "/a folder/wt"
    assert request.tools == ["Bash"]
    assert request.step == 2
    assert request.rounds == [[(False, "one"), (True, "two")], [(False, "three")]]
    assert request.results == [(False, "one"), (True, "two"), (False, "three")]
    assert request.last == "three"


def test_request_of_an_empty_conversation() -> None:
    request = Request({"messages": PROMPT})
    assert (request.step, request.results, request.last, request.tools, request.cwd) == (0, [], "", [], None)


# The real CLI


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE")) or name == "IS_SANDBOX":
            monkeypatch.delenv(name)


@pytest.mark.claude
@pytest.mark.usefixtures("bare_environment")
def test_real_cli_works_with_it(start: Start, tmp_path: Path) -> None:
    """Write, Bash and an MCP tool run, and the project's CLAUDE.md reaches the request."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "CLAUDE.md").write_text("Indent with seven spaces.\n")
    tool = ("mcp__autoforge__feature_passed", {"id": 4})
    turns = [
        Turn("Writing.", (("Write", {"file_path": "a.txt", "content": "written"}),)),
        Turn("Looking.", (("Bash", {"command": "cat a.txt", "description": "look"}),)),
        Turn("Claiming.", (tool,)),
        Turn("Built."),
    ]
    model = start(lambda request: turns[min(request.step, 3)])
    claimed, result = asyncio.run(session(model, folder, tmp_path / "config"))
    assert (result.is_error, result.result) == (False, "Built.")
    assert result.total_cost_usd > 0
    assert claimed == [{"id": 4}]
    assert (folder / "a.txt").read_text() == "written"
    first, last = model.log[0][0], model.log[-1][0]
    assert "Build it." in first.prompt
    assert "seven spaces" in first.prompt
    assert "Be exact." in first.system
    assert first.cwd == str(folder)
    assert [error for error, _ in last.results] == [False, False, True]
    assert [text for _, text in last.results[1:]] == ["written", "the gate says no"]


async def session(model: ScriptedModel, folder: Path, config: Path) -> tuple[list[dict], Any]:
    import claude_agent_sdk as sdk

    claimed: list[dict] = []

    @sdk.tool("feature_passed", "Claims a feature.", {"id": int})
    async def passed(given: dict) -> dict:
        claimed.append(given)
        return {"content": [{"type": "text", "text": "the gate says no"}], "is_error": True}

    options = sdk.ClaudeAgentOptions(
        cwd=folder,
        permission_mode="acceptEdits",
        setting_sources=["project"],
        system_prompt={"type": "preset", "preset": "claude_code", "append": "Be exact."},
        verbatim_prompts=True,
        tools=["Bash", "Write"],
        allowed_tools=["Bash", "mcp__autoforge__*"],
        mcp_servers={"autoforge": sdk.create_sdk_mcp_server("autoforge", "1.0.0", [passed])},
        env={
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "mock",
            "CLAUDE_CONFIG_DIR": str(config),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
    )
    async with sdk.ClaudeSDKClient(options) as client:
        await client.query("Build it.")
        messages = [message async for message in client.receive_response()]
    return claimed, messages[-1]
