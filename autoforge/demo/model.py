"""A scripted model behind the Messages API, streamed or not, for the real claude CLI."""

import asyncio
import json
import re
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import uvicorn
from starlette import requests
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Json = Mapping[str, Any]
ToolResult = tuple[bool, str]
"""Whether it is an error, and its text."""

_TEXT_CHUNK = 40
_COUNTED_TOKENS = 1000


@dataclass(frozen=True)
class Turn:
    """One answer of the model, or one fault.

    `tools` are names and inputs. A `status` other than 200 answers with `error`. `cut_after` drops the connection
    after so many events; with an `error` and status 200, the stream ends with that error instead.
    """

    text: str = ""
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Json = field(default_factory=lambda: {"input_tokens": 1000, "output_tokens": 200})
    delay_s: float = 0.0
    status: int = 200
    error: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    stop_reason: str | None = None


@dataclass(frozen=True)
class Request:
    """What the CLI asked. It holds the whole conversation, so a script needs no memory of its own."""

    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = "/v1/messages"

    @property
    def messages(self) -> list[Json]:
        return list(self.body["messages"])

    @property
    def system(self) -> str:
        return _text(self.body.get("system") or "")

    @cached_property
    def prompt(self) -> str:
        """All user text that is no tool result: prompts and the CLI's reminders."""
        return "\n".join(_text(m["content"]) for m in self.messages if m["role"] == "user")

    @property
    def step(self) -> int:
        """How many answers the model has given so far."""
        return len(self.rounds)

    @cached_property
    def rounds(self) -> list[list[ToolResult]]:
        """The tool results that followed each answer of the model."""
        rounds: list[list[ToolResult]] = []
        for message in self.messages:
            if message["role"] == "assistant":
                rounds.append([])
            elif rounds:
                rounds[-1] += _tool_results(message["content"])
        return rounds

    @property
    def results(self) -> list[ToolResult]:
        return [result for results in self.rounds for result in results]

    @property
    def last(self) -> str:
        """The text of the last tool result."""
        return self.results[-1][1] if self.results else ""

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools") or []]

    @property
    def cwd(self) -> str | None:
        """The session's directory. The CLI names it in a message of the role `system`."""
        said = [self.system, *(_text(m["content"]) for m in self.messages if m["role"] != "assistant")]
        found = re.findall(r"[Ww]orking directory:[ \t]*(.+)", "\n".join(said))
        return found[-1].strip() if found else None


Script = Callable[[Request], Turn | Awaitable[Turn]]


class ScriptedModel:
    """The server, from `start` to `stop`. `log` has each request with the turn that answered it."""

    def __init__(self, script: Script) -> None:
        self.log: list[tuple[Request, Turn]] = []
        self.url = ""
        self._script = script
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, port: int = 0) -> str:
        """Listens on loopback, in a thread; 0 takes a free port. Returns the base URL."""
        self._socket = socket.create_server(("127.0.0.1", port))  # from here on clients can connect
        config = uvicorn.Config(
            self._application(),
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="scripted-model", daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        return self.url

    def stop(self) -> None:
        """Ends the server; a turn that is held fails. Does nothing when it does not run."""
        if self._server is None or self._thread is None or self._socket is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()
        self._server = self._thread = self._socket = None

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/{prefix:path}/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
                Route("/{prefix:path}/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
                Route("/{path:path}", _unknown, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    async def _messages(self, http: requests.Request) -> Response:
        request = Request(await http.json(), dict(http.headers), http.url.path)
        said = self._script(request)
        turn = said if isinstance(said, Turn) else await said
        self.log.append((request, turn))
        await asyncio.sleep(turn.delay_s)
        return _respond(request, turn)


async def _count_tokens(_: requests.Request) -> Response:
    return JSONResponse({"input_tokens": _COUNTED_TOKENS})


async def _unknown(http: requests.Request) -> Response:
    return JSONResponse(_error_body({"type": "not_found_error", "message": http.url.path}), 404)


def _respond(request: Request, turn: Turn) -> Response:
    headers = {"request-id": f"req_{uuid.uuid4().hex[:20]}", **turn.headers}
    if turn.status != 200:
        error = turn.error or {"type": "api_error", "message": "scripted error"}
        return JSONResponse(_error_body(error), turn.status, headers)
    message = _message(request, turn)
    if request.body.get("stream"):
        return StreamingResponse(_stream(message, turn), headers=headers, media_type="text/event-stream")
    if turn.cut_after is not None:
        raise ConnectionResetError("cut by the script")
    return JSONResponse(message, headers=headers)


def _message(request: Request, turn: Turn) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if turn.text or not turn.tools:
        blocks.append({"type": "text", "text": turn.text})
    for name, given in turn.tools:
        blocks.append(
            {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": name, "input": given}
        )
    return {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": blocks,
        "stop_reason": turn.stop_reason or ("tool_use" if turn.tools else "end_turn"),
        "stop_sequence": None,
        "usage": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **turn.usage},
    }


async def _stream(message: Json, turn: Turn) -> AsyncIterator[bytes]:
    for number, event in enumerate(_events(message)):
        if number == turn.cut_after:
            if turn.error is None:
                # raised after the headers, it makes the server drop the connection
                raise ConnectionResetError("cut by the script")
            yield _sse("error", {"error": turn.error})
            return
        yield event


def _events(message: Json) -> Iterator[bytes]:
    opening = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield _sse("message_start", {"message": opening})
    for index, block in enumerate(message["content"]):
        empty, deltas = _block(block)
        yield _sse("content_block_start", {"index": index, "content_block": empty})
        for delta in deltas:
            yield _sse("content_block_delta", {"index": index, "delta": delta})
        yield _sse("content_block_stop", {"index": index})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _sse("message_delta", {"delta": ending, "usage": message["usage"]})
    yield _sse("message_stop", {})


def _block(block: Json) -> tuple[Json, list[Json]]:
    """A content block as it starts, and the deltas that fill it."""
    if block["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return {**block, "input": {}}, [delta]
    text = block["text"]
    chunks = [text[start : start + _TEXT_CHUNK] for start in range(0, len(text), _TEXT_CHUNK)]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": chunk} for chunk in chunks]


def _sse(event: str, data: Json) -> bytes:
    return f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()


def _error_body(error: Json) -> dict[str, Any]:
    return {"type": "error", "error": error}


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def _tool_results(content: str | list[Json]) -> list[ToolResult]:
    if isinstance(content, str):
        return []
    results = (block for block in content if block.get("type") == "tool_result")
    return [(bool(result.get("is_error")), _text(result.get("content") or "")) for result in results]
