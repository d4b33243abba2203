"""GitHub as a forge, through PyGithub, the only importer of it."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import github
import requests
import urllib3
from github.GithubException import GithubException
from github.PullRequest import PullRequest as GithubPull

from git_workflow.errors import ForgeFailed
from git_workflow.forge import Forge, PullRequest

T = TypeVar("T")
TIMEOUT_S = 30
LONGEST_WAIT_S = 60
BACK_OFF_S = 0.5  # waits 0, 1, 2, 4, 8 s between the tries
# What PyGithub raises for a proxy's page, a redirect to another host or a broken body.
NOT_GITHUB = (
    github.BadAttributeException,
    AssertionError,
    AttributeError,
    RuntimeError,
    TypeError,
    ValueError,
)
RETRIED = (429, 500, 502, 503, 504)


def connect(
    *, api_url: str, slug: str, token: str, seconds_between_writes: float = 1.0, retry_total: int = 5
) -> Forge:
    """The repository `slug` (owner/name) behind this API. Sends no request yet."""
    parts = urlsplit(api_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ForgeFailed(
            f"{api_url!r} is not the address of a GitHub API: give one such as https://api.github.com."
        )
    client = github.Github(
        auth=github.Auth.Token(token) if token else None,
        base_url=api_url.rstrip("/"),
        lazy=True,
        per_page=10,
        retry=_BoundedRetry(
            total=retry_total,
            backoff_factor=BACK_OFF_S,
            backoff_max=LONGEST_WAIT_S,
            secondary_rate_wait=LONGEST_WAIT_S,
            max_rate_limit_wait=LONGEST_WAIT_S,
            status_forcelist=list(RETRIED),
            allowed_methods=frozenset({"GET", "POST", "PATCH"}),
            raise_on_status=False,  # the last answer says more than "too many errors"
        ),
        seconds_between_requests=0,
        seconds_between_writes=seconds_between_writes,
        timeout=TIMEOUT_S,
    )
    return _GitHub(client, slug)


class _BoundedRetry(github.GithubRetry):
    """Gives up at once when the server asks for a longer wait than LONGEST_WAIT_S."""

    def increment(  # type: ignore[override]  # as GithubRetry narrows it
        self,
        method: str | None = None,
        url: str | None = None,
        response: urllib3.HTTPResponse | None = None,
        *rest: Any,
        **named: Any,
    ) -> urllib3.Retry:
        if response is not None and (self.get_retry_after(response) or 0) > LONGEST_WAIT_S:
            response.drain_conn()
            raise GithubException(response.status, None, dict(response.headers))
        return super().increment(method, url, response, *rest, **named)


class _GitHub:
    """One connection; the lock makes it safe for threads and keeps the pace between writes."""

    def __init__(self, client: github.Github, slug: str) -> None:
        self._slug = slug
        self._repository = client.get_repo(slug)
        self._lock = threading.Lock()

    def find(self, head_branch: str) -> PullRequest | None:
        return self._do(
            f"look for the pull request of {head_branch}", lambda: self._newest(head_branch, state="all")
        )

    def get(self, number: int) -> PullRequest:
        return self._do(
            f"read pull request #{number}", lambda: _value(self._repository.get_pull(number).complete())
        )

    def open(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        def create() -> PullRequest:
            try:
                made = self._repository.create_pull(base, head, title=title, body=body, draft=draft)
            except GithubException as error:
                existing = self._newest(head, state="open", base=base) if _exists_already(error) else None
                if existing is None:
                    raise
                return existing
            return _value(made)

        return self._do(f"open a pull request from {head} into {base}", create)

    def edit(self, number: int, *, title: str | None = None, body: str | None = None) -> PullRequest:
        if title is None and body is None:
            return self.get(number)
        kept = github.GithubObject.NotSet

        def change() -> PullRequest:
            pull = self._repository.get_pull(number)
            pull.edit(title=kept if title is None else title, body=kept if body is None else body)
            return _value(pull)

        return self._do(f"edit pull request #{number}", change)

    def _newest(self, branch: str, *, state: str, base: str | None = None) -> PullRequest | None:
        owner = self._slug.partition("/")[0]
        filters = {"state": state, "head": f"{owner}:{branch}"} | ({"base": base} if base else {})
        pulls = self._repository.get_pulls(sort="created", direction="desc", **filters)
        return next((_value(pull) for pull in pulls.get_page(0) if _is_ours(pull, branch)), None)

    def _do(self, doing: str, action: Callable[[], T]) -> T:
        with self._lock:
            try:
                return action()
            except GithubException as error:
                raise _refused(error, f"Could not {doing} in {self._slug}") from error
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                raise ForgeFailed(
                    f"Could not {doing} in {self._slug}: GitHub cannot be reached ({_cause(error)}). "
                    "Check the network and the address of the API, then try again."
                ) from error
            except NOT_GITHUB as error:
                raise ForgeFailed(
                    f"Could not {doing} in {self._slug}: the answer is not GitHub's ({_cause(error)}). "
                    "Check the address of the API and any proxy between."
                ) from error


def _is_ours(pull: GithubPull, branch: str) -> bool:
    """Neither from a fork of the same owner, nor another branch because the filter was not understood."""
    repository = pull.head.repo
    return pull.head.ref == branch and repository is not None and repository.id == pull.base.repo.id


def _value(pull: GithubPull) -> PullRequest:
    if not isinstance(pull.html_url, str) or pull.head is None or pull.base is None:
        raise ValueError("no pull request in it")
    merged = pull.merged_at is not None
    return PullRequest(
        number=pull.number,
        url=pull.html_url,
        state=pull.state,
        draft=bool(pull.draft),
        merged=merged,
        head_branch=pull.head.ref,
        head_sha=pull.head.sha,
        base_branch=pull.base.ref,
        title=pull.title,
        body=pull.body or "",
        merge_sha=pull.merge_commit_sha if merged else None,
    )


def _exists_already(error: GithubException) -> bool:
    return error.status == 422 and "pull request already exists" in _said(error)


def _said(error: GithubException) -> str:
    """The API's own words: the message, then what each of its errors adds."""
    data = error.data if isinstance(error.data, dict) else {}
    details = [
        one if isinstance(one, str) else one.get("message") or f"{one.get('field')} is {one.get('code')}"
        for one in data.get("errors") or []
        if isinstance(one, str | dict)
    ]
    return ": ".join(filter(None, [data.get("message") or error.message, "; ".join(details)]))


def _refused(error: GithubException, what: str) -> ForgeFailed:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return ForgeFailed(f"{what}: {_advice(error, headers)}", status=error.status)


def _advice(error: GithubException, headers: dict[str, str]) -> str:
    said = _said(error)
    later = f" in {headers['retry-after']} s" if "retry-after" in headers else " later"
    match error.status:
        case 401:
            return "GitHub refuses the token (401). It is wrong or has expired: give a valid one."
        case 403 | 429 if _is_rate_limit(error, headers):
            return f"GitHub's rate limit is reached ({error.status}). Try again{later}."
        case 403 if "GitHub Actions is not permitted" in said:
            return f"{said} (403) Allow it in the repository's settings under Actions, General."
        case 403:
            needed = headers.get("x-accepted-github-permissions", "pull_requests=write, contents=write")
            return f"the token lacks a permission (403: {said}). It needs {needed}."
        case 404:
            return "not found (404). It does not exist, or the token cannot see it: check both."
        case 422:
            return f"GitHub refuses it (422): {said}."
        case status if status >= 500:
            return f"GitHub has trouble ({f'{status} {said}'.strip()}). Try again{later}."
        case status:
            return f"GitHub answers {status}: {said}."


def _is_rate_limit(error: GithubException, headers: dict[str, str]) -> bool:
    limited = isinstance(error, github.RateLimitExceededException) or "rate limit" in _said(error).lower()
    return (
        limited
        or error.status == 429
        or "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
    )


def _cause(error: BaseException) -> str:
    """The innermost reason, in one short line."""
    inner = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__ or inner
    return (str(inner).splitlines() or [type(inner).__name__])[0][:200] or type(inner).__name__
