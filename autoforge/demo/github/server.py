"""The server: tokens, addresses and the way from an HTTP request to its answer."""

import base64
import binascii
import json
import re
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from autoforge.demo.github import git, routes, smart_http
from autoforge.demo.github.answers import Answer, ApiError, Call, Links
from autoforge.demo.github.repository import Account, Repository

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
PAGED = ("check_runs", "statuses")  # lists that stand in an object beside their total_count
STOP_TIMEOUT_S = 10.0


class LoopbackGitHub:
    """Repositories behind one address on 127.0.0.1. Its state lives as long as the object, not the server."""

    def __init__(self, tokens: Mapping[str, Account]) -> None:
        self.tokens = dict(tokens)
        self.repositories: dict[str, Repository] = {}
        self.url = ""
        self.app: ASGIApp = Starlette(routes=[Route("/{path:path}", self._answer, methods=METHODS)])
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def add_repository(
        self, owner: str, name: str, path: Path, *, default_branch: str = "main"
    ) -> Repository:
        """Creates a bare repository at `path`, or adopts the one that is there with its own default branch."""
        default_branch = git.create(path, default_branch)
        number = len(self.repositories) + 1
        repository = Repository(number, owner, name, path, default_branch)
        self.repositories[repository.slug] = repository
        return repository

    def start(self, port: int = 0, *, wrap: Callable[[ASGIApp], ASGIApp] | None = None) -> str:
        """Serve from a thread; answers the address, which accepts connections from now on."""
        listener = _listener(port)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = wrap(self.app) if wrap else self.app
        config = uvicorn.Config(app, log_config=None, log_level="error", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="loopback-github", daemon=True
        )
        self._thread.start()
        return self.url

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(STOP_TIMEOUT_S)
        self._server = self._thread = None

    def account(self, authorization: str) -> Account | None:
        """Whom an Authorization header names: basic with the token as password, bearer, or token."""
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":
            try:
                value = base64.b64decode(value).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
        return self.tokens.get(value)

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(self._answer_blocking, request, body)

    def _answer_blocking(self, request: Request, body: bytes) -> Response:
        asked = smart_http.split(request.url.path)
        if asked:
            return self._git(request, body, asked)
        try:
            status, content = self._api(request, body)
        except ApiError as error:
            status, content = error.status, error.body()
        headers = {f"x-ratelimit-{name}": str(value) for name, value in routes.rate_limit().items()}
        content, link = self._paged(request, content)
        headers |= {"link": link} if link else {}
        return (
            JSONResponse(content, status, headers) if content is not None else Response(None, status, headers)
        )

    def _git(self, request: Request, body: bytes, asked: tuple[str, str]) -> Response:
        slug, rest = asked
        authorization = request.headers.get("authorization", "")
        answer = smart_http.serve(
            self.repositories.get(slug),
            smart_http.GitRequest(request.method, rest, request.url.query, request.headers, body),
            self.account(authorization),
            named=bool(authorization),
        )
        return Response(answer.body, answer.status, answer.headers)

    def _api(self, request: Request, body: bytes) -> Answer:
        prefix, path = self._split_prefix(request.url.path)
        authorization = request.headers.get("authorization", "")
        account = self.account(authorization)
        if account is None:
            raise ApiError(401, "Bad credentials" if authorization else "Requires authentication")
        links = Links(self.url + prefix, self.url)
        content = _parsed(body)
        if (request.method, path) == ("POST", "/graphql"):
            return routes.graphql(content, self.repositories, account=account, links=links)
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        if not found:
            return routes.elsewhere(request.method, path, account=account, links=links)
        repository = self.repositories.get(found[1])
        if repository is None:
            raise ApiError(404, "Not Found")
        call = Call(repository, account, links, dict(request.query_params), content)
        return routes.in_repository(call, request.method, found[2] or "")

    @staticmethod
    def _split_prefix(path: str) -> tuple[str, str]:
        """GitHub Enterprise has its API below /api/v3 and GraphQL at /api/graphql."""
        if path == "/api/graphql":
            return "/api/v3", "/graphql"
        return ("/api/v3", path.removeprefix("/api/v3")) if path.startswith("/api/v3/") else ("", path)

    def _paged(self, request: Request, content: Any) -> tuple[Any, str]:
        """The content with its list, if it is or has one, cut to the page, and the Link header."""
        if isinstance(content, list):
            return self._page(request, content)
        for name in PAGED:
            if isinstance(content, dict) and name in content:
                page, link = self._page(request, content[name])
                return content | {name: page}, link
        return content, ""

    def _page(self, request: Request, items: list[Any]) -> tuple[list[Any], str]:
        """The page that was asked for, and the Link header, empty when there is only one."""
        size = min(max(_number(request, "per_page", 30), 1), 100)
        page, last = max(_number(request, "page", 1), 1), max(-(-len(items) // size), 1)
        numbers = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        if page >= last:
            del numbers["next"], numbers["last"]
        if page == 1:
            del numbers["prev"], numbers["first"]
        address = request.url.replace(netloc=self.url.removeprefix("http://"))
        links = [
            f'<{address.include_query_params(page=number)}>; rel="{rel}"' for rel, number in numbers.items()
        ]
        return items[(page - 1) * size : page * size], ", ".join(links)


def _listener(port: int) -> socket.socket:
    # asyncio switches Nagle's delay (40 ms an answer) off only where the protocol is spelled out.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() else default


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError as error:
        raise ApiError(400, "Problems parsing JSON") from error
