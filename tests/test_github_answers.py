"""What reviewers, checks and issues come to: answers as GitHub describes them, given by the test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from autoforge.demo.github import Account, Repository
from autoforge.demo.github.answers import Links
from autoforge.demo.github.represent import repository, user
from git_workflow.errors import ForgeFailed
from git_workflow.forge import Checks, Forge, Issue
from git_workflow.github import connect
from tests.harness.github import Fault, ValidatingGitHub

REPOSITORY = "/repos/octo/demo"
SHA = "5" * 40
REVIEWS = f"{REPOSITORY}/pulls/1/reviews"
RUNS = f"{REPOSITORY}/commits/{SHA}/check-runs"
STATUSES = f"{REPOSITORY}/commits/{SHA}/status"
ISSUES = f"{REPOSITORY}/issues"
WEB = "http://127.0.0.1"
LINKS = Links(WEB, WEB)
COMBINED = {
    "state": "pending",
    "sha": SHA,
    "repository": repository(LINKS, Repository(1, "octo", "demo", Path(), "main")),
    "commit_url": f"{WEB}/commit",
    "url": f"{WEB}/status",
}
AT = "2026-01-02T03:04:05Z"
Items = dict[str, list[dict[str, Any]]]


@pytest.fixture
def items() -> Items:
    """What the forge lists at each path, in the order of the API."""
    return {path: [] for path in (REVIEWS, RUNS, STATUSES, ISSUES)}


@pytest.fixture
def server(items: Items) -> Iterator[ValidatingGitHub]:
    made = ValidatingGitHub({"token": Account("ada")})

    async def answer(request: Request) -> JSONResponse:
        path = request.url.path
        size, page = (int(request.query_params.get(name, "1")) for name in ("per_page", "page"))
        part, rest = items[path][(page - 1) * size : page * size], items[path][page * size :]
        link = f'<{made.url}{path}?per_page={size}&page={page + 1}>; rel="next"'
        return JSONResponse(_listing(path, part, len(items[path])), headers={"link": link} if rest else {})

    routes = [Route(path, answer) for path in items]
    made.start(wrap=lambda app: Starlette(routes=[*routes, Mount("/", app)]))
    yield made
    made.stop()
    assert made.violations == []


def _listing(path: str, part: list[dict[str, Any]], total: int) -> object:
    if path == RUNS:
        return {"total_count": total, "check_runs": part}
    if path == STATUSES:
        return COMBINED | {"total_count": total, "statuses": part}
    return part


@pytest.fixture
def forge(server: ValidatingGitHub) -> Forge:
    return connect(
        api_url=server.url, slug="octo/demo", token="token", seconds_between_writes=0, retry_total=0
    )


def review(who: str | None, state: str, association: str = "COLLABORATOR") -> dict[str, Any]:
    return {
        "id": 1,
        "node_id": "PRR_1",
        "user": user(LINKS, Account(who)) if who else None,
        "body": "",
        "state": state,
        "commit_id": SHA,
        "html_url": f"{WEB}/review",
        "pull_request_url": f"{WEB}/pull",
        "author_association": association,
        "_links": {"html": {"href": WEB}, "pull_request": {"href": WEB}},
    }


def check_run(name: str, conclusion: str | None, status: str = "completed") -> dict[str, Any]:
    output = {"title": None, "summary": None, "text": None, "annotations_count": 0, "annotations_url": WEB}
    nothing = dict.fromkeys(["html_url", "details_url", "started_at", "completed_at", "external_id", "app"])
    return nothing | {
        "id": 1,
        "node_id": "CR_1",
        "head_sha": SHA,
        "name": name,
        "url": f"{WEB}/run",
        "status": status,
        "conclusion": conclusion,
        "check_suite": {"id": 1},
        "output": output,
        "pull_requests": [],
    }


def status(context: str, state: str) -> dict[str, Any]:
    return {
        "id": 1,
        "node_id": "SC_1",
        "url": f"{WEB}/status",
        "state": state,
        "context": context,
        "created_at": AT,
        "updated_at": AT,
        **dict.fromkeys(["description", "target_url", "avatar_url"]),
    }


def issue(number: int, *labels: str, body: str | None = "why", pull: bool = False) -> dict[str, Any]:
    url = f"{WEB}{ISSUES}/{number}"
    named = [
        {"id": 1, "node_id": "LA", "url": url, "name": n, "description": None, "color": "0", "default": False}
        for n in labels
    ]
    links = dict.fromkeys(["url", "html_url", "diff_url", "patch_url"], url)
    return {
        "id": number,
        "node_id": f"I_{number}",
        "number": number,
        "title": f"Issue {number}",
        "body": body,
        "labels": named,
        "state": "open",
        "locked": False,
        "comments": 0,
        "user": user(LINKS, Account("ada")),
        "created_at": AT,
        "updated_at": AT,
        **dict.fromkeys(["assignee", "milestone", "closed_at"]),
        **dict.fromkeys(["url", "comments_url", "events_url", "labels_url", "repository_url"], url),
        "html_url": f"{WEB}/octo/demo/{'pull' if pull else 'issues'}/{number}",
        **({"pull_request": links} if pull else {}),
    }


@pytest.mark.parametrize(
    ("reviews", "decision"),
    [
        ([], "none"),
        ([review("ada", "APPROVED")], "approved"),
        ([review("ada", "CHANGES_REQUESTED")], "changes_requested"),
        ([review("ada", "CHANGES_REQUESTED"), review("ada", "APPROVED")], "approved"),
        ([review("ada", "APPROVED"), review("ada", "CHANGES_REQUESTED")], "changes_requested"),
        ([review("ada", "CHANGES_REQUESTED"), review("bob", "APPROVED")], "changes_requested"),
        ([review("ada", "APPROVED"), review("bob", "APPROVED")], "approved"),
        ([review("ada", "APPROVED"), review("ada", "COMMENTED")], "approved"),
        ([review("ada", "CHANGES_REQUESTED"), review("ada", "COMMENTED")], "changes_requested"),
        ([review("ada", "COMMENTED")], "none"),
        ([review("ada", "PENDING")], "none"),
        ([review("ada", "DISMISSED")], "none"),
        ([review("ada", "CHANGES_REQUESTED"), review("ada", "DISMISSED")], "none"),
        ([review("ada", "DISMISSED"), review("bob", "APPROVED")], "approved"),
        ([review(None, "CHANGES_REQUESTED"), review("ada", "APPROVED")], "changes_requested"),
        ([review("eve", "APPROVED", "NONE")], "none"),
        ([review("eve", "APPROVED", "CONTRIBUTOR")], "none"),
        ([review("eve", "CHANGES_REQUESTED", "NONE")], "changes_requested"),
        ([review("eve", "CHANGES_REQUESTED", "NONE"), review("eve", "APPROVED", "NONE")], "none"),
        ([review("ada", "APPROVED", "OWNER"), review("eve", "COMMENTED", "NONE")], "approved"),
        ([review("ada", "APPROVED", "MEMBER")], "approved"),
        ([review("ada", "CHANGES_REQUESTED"), *[review("bob", "COMMENTED")] * 250], "changes_requested"),
        ([*[review("bob", "COMMENTED")] * 250, review("ada", "APPROVED")], "approved"),
    ],
)
def test_the_latest_verdict_of_each_reviewer_counts(
    forge: Forge, items: Items, reviews: list[dict[str, Any]], decision: str
) -> None:
    items[REVIEWS] += reviews
    assert forge.review_state(1).decision == decision


def test_checks_count_runs_and_statuses(forge: Forge, server: ValidatingGitHub, items: Items) -> None:
    assert forge.checks(SHA) == Checks(passed=0, running=0)
    assert len(server.log) == 2
    items[RUNS] += [check_run(name, name) for name in ("success", "neutral", "skipped")]
    items[RUNS] += [check_run(n, n) for n in ("failure", "cancelled", "timed_out", "action_required")]
    for waiting in ("queued", "in_progress", "waiting", "requested", "pending"):
        items[RUNS].append(check_run(waiting, None, waiting))
    items[STATUSES] += [status(f"ci/{s}", s) for s in ("success", "failure", "error", "pending")]
    checks = forge.checks(SHA)
    assert (checks.passed, checks.failed, checks.running) == (4, 6, 6)
    assert checks.failures == (
        "failure",
        "cancelled",
        "timed_out",
        "action_required",
        "ci/failure",
        "ci/error",
    )


def test_a_run_that_starts_again_is_not_passed(forge: Forge, items: Items) -> None:
    items[RUNS].append(check_run("test", "success", "in_progress"))
    items[RUNS].append(check_run("lint", None))
    assert forge.checks(SHA) == Checks(passed=0, running=2)


def test_no_check_is_overlooked_on_a_later_page(forge: Forge, server: ValidatingGitHub, items: Items) -> None:
    items[RUNS] += [*[check_run("test", "success")] * 230, check_run("last run", "failure")]
    items[STATUSES] += [*[status("ci", "success")] * 130, status("last status", "error")]
    assert forge.checks(SHA) == Checks(passed=360, running=0, failures=("last run", "last status"))
    assert len(server.log) == 5


def test_issues_of_all_pages_without_pull_requests(
    forge: Forge, server: ValidatingGitHub, items: Items
) -> None:
    items[ISSUES] += [issue(n, pull=n % 2 == 0) for n in range(1, 201)]
    items[ISSUES].append(issue(201, "bug", "P1", body=None))
    found = forge.issues(None)
    assert [one.number for one in found] == list(range(1, 202, 2))
    assert found[0] == Issue(1, "Issue 1", "why", (), "open")
    assert found[-1] == Issue(201, "Issue 201", "", ("bug", "P1"), "open")
    queries = [entry.query for entry in server.log]
    assert len(queries) == 3
    assert (queries[0]["state"], queries[0]["direction"]) == ("open", "asc")
    assert "labels" not in queries[0]


def test_a_label_is_the_forges_to_filter(forge: Forge, server: ValidatingGitHub) -> None:
    assert forge.issues("good first issue") == []
    assert server.log[0].query["labels"] == "good first issue"


def test_p4_a_refusal_says_what_was_wanted(forge: Forge, server: ValidatingGitHub) -> None:
    for call, doing in (
        (lambda: forge.review_state(1), "read the reviews of pull request #1"),
        (lambda: forge.checks(SHA), "read the checks of 555555555555"),
        (lambda: forge.issues(None), "list the open issues"),
        (lambda: forge.open_pulls(), "list the open pull requests"),
    ):
        needs = {"x-accepted-github-permissions": "checks=read"}
        for status_, says in ((403, "It needs checks=read"), (404, "not found"), (503, "has trouble")):
            server.faults[:] = [Fault("GET", ".*", status_, headers=needs)]
            with pytest.raises(ForgeFailed, match=f"Could not {doing} in octo/demo: .*{says}") as caught:
                call()
            assert caught.value.status == status_
        for content in ("<html>Log in</html>", "{broken", '"text"', "[7]"):
            server.faults[:] = [Fault("GET", ".*", 200, content=content)]
            with pytest.raises(ForgeFailed, match=r"not GitHub's|contains no URL"):
                call()
