"""git over HTTP: clone, fetch and push through `git http-backend`."""

import re
from dataclasses import dataclass

from starlette.datastructures import Headers

from autoforge.demo.github import git
from autoforge.demo.github.follow import follow
from autoforge.demo.github.repository import Account, Repository

GIT_PATH = r"/([^/]+)/([^/]+?)(?:\.git)?(/info/refs|/git-upload-pack|/git-receive-pack)"


@dataclass(frozen=True)
class GitRequest:
    method: str
    path: str  # what follows the repository's name
    query: str
    headers: Headers
    body: bytes

    @property
    def is_push(self) -> bool:
        return "git-receive-pack" in (self.path + self.query)


@dataclass(frozen=True)
class GitAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


def split(path: str) -> tuple[str, str] | None:
    """(owner/name, rest) when git asks for this path, with or without `.git`."""
    found = re.fullmatch(GIT_PATH, path)
    return (f"{found[1]}/{found[2]}", found[3]) if found else None


def serve(
    repository: Repository | None, request: GitRequest, account: Account | None, *, named: bool
) -> GitAnswer:
    """`named`: credentials were sent; without a valid account GitHub refuses them even for public reads."""
    wants_name = repository is None or repository.private or request.is_push
    if account is None and (named or wants_name):
        return _refusal(401, "Invalid username or token.")
    if repository is None:
        return _refusal(404, "Repository not found.")
    if request.is_push and account is not None and not account.may_write:
        return _refusal(403, f"Permission to {repository.slug}.git denied to {account.login}.")
    answer = _backend(repository, request, account)
    if request.is_push and request.method == "POST":
        with repository.lock:
            follow(repository)
    return answer


def _refusal(status: int, message: str) -> GitAnswer:
    headers = {"content-type": "text/plain"}
    if status == 401:
        headers["www-authenticate"] = 'Basic realm="GitHub"'
    return GitAnswer(status, headers, message.encode())


def _backend(repository: Repository, request: GitRequest, account: Account | None) -> GitAnswer:
    path = repository.path.resolve()
    env = {
        "GIT_PROJECT_ROOT": str(path.parent),
        "PATH_INFO": f"/{path.name}{request.path}",
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": request.query,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_USER": account.login if account else "",
        "LOOPBACK_APP": "1" if account and account.app else "",
        "LOOPBACK_PROTECTED": " ".join(sorted(repository.protected)),
    }
    done = git.run(path, "http-backend", stdin=request.body, env=env)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    pairs = (line.partition(": ") for line in head.decode("latin-1").split("\r\n") if line)
    headers = {name.lower(): value for name, _, value in pairs}
    status = int(headers.pop("status", "200").split()[0])
    return GitAnswer(status, headers, body)
