"""GitHub as a forge, through PyGithub, the only importer of it."""

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import github
import requests
import urllib3
from github.CheckRun import CheckRun
from github.Commit import Commit
from github.CommitStatus import CommitStatus
from github.GithubException import GithubException
from github.Issue import Issue as GithubIssue
from github.PaginatedList import PaginatedList
from github.PullRequest import PullRequest as GithubPull
from github.PullRequestReview import PullRequestReview

from git_workflow import refusal
from git_workflow.errors import ForgeFailed
from git_workflow.forge import Checks, Decision, Forge, Issue, PullRequest, Review

T = TypeVar("T")
PER_PAGE = 100  # the most that the API gives
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
WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
VERDICTS = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")
PASSED = ("success", "neutral", "skipped")
FAILED = ("failure", "error", "cancelled", "timed_out", "action_required", "startup_failure")


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
        per_page=PER_PAGE,
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
    """Gives up at once on a longer wait than LONGEST_WAIT_S, and on a comment that may have been left already."""

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
        unclear = response is None or response.status >= 500
        if unclear and method == "POST" and (url or "").endswith("/comments"):
            raise urllib3.exceptions.MaxRetryError(named["_pool"], url or "", named.get("error"))
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

    def open_pulls(self) -> list[PullRequest]:
        pulls = self._repository.get_pulls(state="open")
        return self._do("list the open pull requests", lambda: [_value(pull) for pull in pulls])

    def edit(
        self, number: int, *, title: str | None = None, body: str | None = None, base: str | None = None
    ) -> PullRequest:
        given = {"title": title, "body": body, "base": base}
        return self._change(
            number, "edit", {name: value for name, value in given.items() if value is not None}
        )

    def reopen(self, number: int) -> PullRequest:
        return self._change(number, "reopen", {"state": "open"})

    def ready(self, number: int) -> None:
        def mark() -> None:
            pull = self._repository.get_pull(number).complete()
            if _value(pull).draft:
                pull.mark_ready_for_review()

        self._do(f"mark pull request #{number} as ready", mark)

    def comment(self, number: int, body: str) -> None:
        def leave() -> None:
            issue = self._repository.get_issue(number)
            if body.strip() not in ((one.body or "").strip() for one in issue.get_comments()):
                issue.create_comment(body)

        self._do(f"comment on pull request #{number}", leave)

    def review_state(self, number: int) -> Review:
        pull = self._repository.get_pull(number)
        return self._do(
            f"read the reviews of pull request #{number}", lambda: Review(_decision(pull.get_reviews()))
        )

    def checks(self, sha: str) -> Checks:
        commit = self._repository.get_commit(sha)
        return self._do(
            f"read the checks of {sha[:12]}", lambda: _counted([*_runs(commit), *_statuses(commit)])
        )

    def issues(self, label: str | None) -> list[Issue]:
        chosen = [label] if label else github.GithubObject.NotSet
        found = self._repository.get_issues(state="open", labels=chosen, sort="created", direction="asc")
        return self._do(
            "list the open issues", lambda: [_issue(one) for one in found if not _is_pull_request(one)]
        )

    def _change(self, number: int, verb: str, fields: dict[str, str]) -> PullRequest:
        if not fields:
            return self.get(number)

        def change() -> PullRequest:
            pull = self._repository.get_pull(number)
            pull.edit(**fields)  # type: ignore[arg-type]
            return _value(pull)

        return self._do(f"{verb} pull request #{number}", change)

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
                status, advice = refusal.explain(error.status, error.message, error.data, error.headers)
                raise ForgeFailed(f"Could not {doing} in {self._slug}: {advice}", status=status) from error
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                raise ForgeFailed(
                    f"Could not {doing} in {self._slug}: GitHub cannot be reached ({refusal.cause(error)}). "
                    "Check the network and the address of the API, then try again."
                ) from error
            except NOT_GITHUB as error:
                raise ForgeFailed(
                    f"Could not {doing} in {self._slug}: the answer is not GitHub's ({refusal.cause(error)}). "
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
    return error.status == 422 and "pull request already exists" in refusal.said(error.message, error.data)


def _word(value: object) -> str:
    """PyGithub makes an empty object of anything that a proxy answers."""
    if not isinstance(value, str):
        raise ValueError("something is missing in it")
    return value


def _decision(reviews: Iterable[PullRequestReview]) -> Decision:
    """`reviews` oldest first, as the API lists them."""
    latest: dict[str, str] = {}
    for review in reviews:
        if _word(review.state) in VERDICTS:
            who = review.user.login if review.user else f"#{review.id}"  # the account is deleted
            counts = review.state != "APPROVED" or review.author_association in WRITERS
            latest[who] = review.state if counts else "DISMISSED"
    if "CHANGES_REQUESTED" in latest.values():
        return "changes_requested"
    return "approved" if "APPROVED" in latest.values() else "none"


def _runs(commit: Commit) -> Iterable[tuple[str, str]]:
    """(name, how it ended) of each check run, the latest of its name."""
    runs: Iterable[CheckRun] = commit.get_check_runs()
    return ((_word(run.name), run.conclusion if run.status == "completed" else "running") for run in runs)


def _statuses(commit: Commit) -> Iterable[tuple[str, str]]:
    """PyGithub's get_combined_status knows one page only."""
    url = f"{commit.url}/status"
    statuses = PaginatedList(CommitStatus, commit.requester, url, None, list_item="statuses")
    return ((_word(status.context), _word(status.state)) for status in statuses)


def _counted(results: Collection[tuple[str, str]]) -> Checks:
    """What has neither passed nor failed is running, whatever the API calls it."""
    failures = tuple(name for name, result in results if result in FAILED)
    passed = sum(result in PASSED for _, result in results)
    return Checks(passed=passed, running=len(results) - passed - len(failures), failures=failures)


def _is_pull_request(issue: GithubIssue) -> bool:
    """The absence of the field `pull_request` would cost a request each."""
    return issue.html_url.rpartition("/")[0].endswith("/pull")


def _issue(issue: GithubIssue) -> Issue:
    return Issue(
        number=issue.number,
        title=issue.title,
        body=issue.body or "",
        labels=tuple(label.name for label in issue.labels),
        state=issue.state,
    )
