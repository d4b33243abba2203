"""The loopback GitHub for tests: every exchange checked against GitHub's own description, faults on request."""

import asyncio
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from autoforge.demo.github import Account, LoopbackGitHub
from autoforge.demo.github.smart_http import split as is_git

DESCRIPTION = Path(__file__).with_name("github-openapi.min.json")
# Where GitHub takes what its description does not say.
KNOWN_GAPS = (("POST", r"/repos/.+/issues/\d+/labels"),)  # PyGithub posts the bare list of names
# Any operation may answer these, whether its description says so or not.
GENERIC = frozenset({401, 403, 404, 429}) | frozenset(range(500, 600))
# Parameters that may hold slashes, which a path template cannot: where they start and how they end.
SLASHED = r"(/git/refs?/|/branches/|/compare/|/contents/|/labels/|/commits/)(.+?)(/check-runs|/status|$)"


@dataclass
class Fault:
    """What happens to the next `times` requests that match, instead of an answer.

    `path` is a pattern for the whole path. `drop` closes the connection without an answer. `handled`: the request
    takes effect first, and only its answer is lost.
    """

    method: str
    path: str
    status: int = 500
    message: str = "fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    delay_s: float = 0.0
    drop: bool = False
    handled: bool = False
    content: str | None = None  # this text as HTML instead of GitHub's JSON

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("*", method) and bool(re.fullmatch(self.path, path))


@dataclass(frozen=True)
class Entry:
    """One request as it arrived; `body` is the parsed JSON, None for git's own."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    scheme: str  # of the Authorization header, lower case


class ValidatingGitHub(LoopbackGitHub):
    """Collects in `violations` what GitHub's description does not allow; tests assert that it stays empty."""

    def __init__(self, tokens: Mapping[str, Account]) -> None:
        super().__init__(tokens)
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.log: list[Entry] = []

    def start(self, port: int = 0, *, wrap: Callable[[ASGIApp], ASGIApp] | None = None) -> str:
        return super().start(port, wrap=lambda app: _Validator(self, wrap(app) if wrap else app))

    def requests(self, method: str = "", path: str = "") -> list[Entry]:
        """What the log holds for this method and this end of a path."""
        return [e for e in self.log if method in ("", e.method) and e.path.endswith(path)]

    def take_fault(self, method: str, path: str) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.matches(method, path)), None)
        if fault:
            fault.times -= 1
        return fault


class _Validator:
    """The ASGI layer between the server and the application."""

    def __init__(self, github: ValidatingGitHub, app: ASGIApp) -> None:
        self.github = github
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> object:
        request = Request(scope, receive)
        body = await request.body()
        path = request.url.path.removeprefix("/api/v3")
        checked = not is_git(path) and not path.endswith("/graphql")
        self.github.log.append(_entry(request, path, None if is_git(path) else body))
        fault = self.github.take_fault(request.method, path)
        if fault:
            await asyncio.sleep(fault.delay_s)
            if fault.handled:
                await self._application(scope, body)
            if fault.drop:
                return "closed"  # uvicorn closes the connection of an application that returns something
        response = _answer(fault) if fault else await self._checked(request, path, body, checked=checked)
        await response(scope, receive, send)
        return None

    async def _checked(self, request: Request, path: str, body: bytes, *, checked: bool) -> Response:
        if not checked:
            return await self._application(request.scope, body)
        described = _described(request, path, body)
        if not any(request.method == method and re.fullmatch(gap, path) for method, gap in KNOWN_GAPS):
            wrong = await asyncio.to_thread(_violations, described, None)
            if wrong:
                self.github.violations += [f"{request.method} {path} request: {one}" for one in wrong]
                return JSONResponse({"message": f"Invalid request.\n\n{wrong[0]}"}, 422)
        response = await self._application(request.scope, body)
        if response.status_code not in GENERIC:
            wrong = await asyncio.to_thread(_violations, described, response)
            self.github.violations += [
                f"{request.method} {path} {response.status_code}: {one}" for one in wrong
            ]
        return response

    async def _application(self, scope: Scope, body: bytes) -> Response:
        """The application's whole answer."""
        messages: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in messages[1:])
        response = Response(content, messages[0]["status"])
        response.raw_headers = MutableHeaders(raw=messages[0]["headers"]).raw
        return response


def _entry(request: Request, path: str, body: bytes | None) -> Entry:
    scheme = request.headers.get("authorization", "").partition(" ")[0].lower()
    try:
        parsed = json.loads(body) if body else None
    except ValueError:
        parsed = body
    return Entry(request.method, path, dict(request.query_params), parsed, scheme)


def _answer(fault: Fault) -> Response:
    if fault.content is not None:
        return Response(fault.content, fault.status, dict(fault.headers), media_type="text/html")
    return JSONResponse(
        {"message": fault.message, "documentation_url": "https://docs.github.com/rest"},
        fault.status,
        dict(fault.headers),
    )


@functools.cache
def _openapi() -> OpenAPI:
    return OpenAPI.from_dict(json.loads(DESCRIPTION.read_text(encoding="utf-8")))


def _described(request: Request, path: str, body: bytes) -> MockRequest:
    plain = re.sub(SLASHED, lambda found: found[1] + found[2].replace("/", "~") + found[3], path)
    return MockRequest(
        "http://127.0.0.1",
        request.method.lower(),
        plain,
        args=dict(request.query_params),
        data=body or None,
        content_type="application/json",
    )


def _violations(request: MockRequest, response: Response | None) -> list[str]:
    """What is wrong with the request, or with the response to it."""
    try:
        if response is None:
            _openapi().validate_request(request)
        else:
            answer = MockResponse(
                bytes(response.body), status_code=response.status_code, content_type="application/json"
            )
            _openapi().validate_response(request, answer)
    except OpenAPIError as error:
        cause = error.__cause__ or error
        reasons = getattr(cause, "schema_errors", None) or [cause]
        return [_reason(error, one) for one in list(reasons)[:5]]
    return []


def _reason(error: OpenAPIError, reason: Any) -> str:
    where = "/".join(map(str, getattr(reason, "absolute_path", ())))
    return f"{type(error).__name__} {where} {str(getattr(reason, 'message', reason))[:200]}"
