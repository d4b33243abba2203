"""Which function answers which request of the API."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from autoforge.demo.github import checks, contents, issues, pulls, represent, reviews
from autoforge.demo.github.answers import Answer, ApiError, Call, Json, Links
from autoforge.demo.github.follow import follow
from autoforge.demo.github.repository import Account, Repository

NUMBER = r"/(\d+)"
ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", "", contents.repository),
    ("GET", "/branches", contents.branches),
    ("GET", "/branches/(.+)", contents.branch),
    ("GET", "/commits/(.+)/check-runs", checks.runs),
    ("GET", "/commits/(.+)/status", checks.combined_status),
    ("POST", "/check-runs", checks.create_run),
    ("POST", "/statuses/([0-9a-f]{40})", checks.create_status),
    ("GET", "/commits/([^/]+(?:/[^/]+)*)", contents.commit),
    ("GET", "/git/ref/(.+)", contents.ref),
    ("POST", "/git/refs", contents.create_ref),
    ("PATCH", "/git/refs/(.+)", contents.move_ref),
    ("DELETE", "/git/refs/(.+)", contents.delete_ref),
    ("GET", "/pulls", pulls.listing),
    ("POST", "/pulls", pulls.create),
    ("GET", f"/pulls{NUMBER}", pulls.get),
    ("PATCH", f"/pulls{NUMBER}", pulls.edit),
    ("GET", f"/pulls{NUMBER}/merge", pulls.is_merged),
    ("PUT", f"/pulls{NUMBER}/merge", pulls.merge),
    ("GET", f"/pulls{NUMBER}/files", pulls.files),
    ("GET", f"/pulls{NUMBER}/commits", pulls.commits),
    ("GET", f"/pulls{NUMBER}/reviews", reviews.listing),
    ("POST", f"/pulls{NUMBER}/reviews", reviews.create),
    ("GET", "/issues", issues.listing),
    ("POST", "/issues", issues.create),
    ("GET", f"/issues{NUMBER}", issues.get),
    ("PATCH", f"/issues{NUMBER}", issues.edit),
    ("GET", f"/issues{NUMBER}/comments", issues.comments),
    ("POST", f"/issues{NUMBER}/comments", issues.add_comment),
    ("GET", f"/issues{NUMBER}/labels", issues.labels),
    ("POST", f"/issues{NUMBER}/labels", issues.add_labels),
)
DISCUSSION = rf"/issues|/issues{NUMBER}/comments|/pulls{NUMBER}/reviews"
MUTATIONS = {"markPullRequestReadyForReview": False, "convertPullRequestToDraft": True}


def in_repository(call: Call, method: str, path: str) -> Answer:
    """`path` is what follows /repos/OWNER/NAME."""
    if method != "GET" and not _may(call.account, method, path):
        raise ApiError(403, _not_accessible(call.account))
    for verb, pattern, handler in ROUTES:
        found = re.fullmatch(pattern, path) if verb == method else None
        if found:
            with call.repository.lock:
                follow(call.repository)
                return handler(call, *found.groups())
    raise ApiError(501, f"The loopback GitHub does not answer {method} /repos/OWNER/NAME{path}")


def _may(account: Account, method: str, path: str) -> bool:
    discusses = method == "POST" and re.fullmatch(DISCUSSION, path)
    return account.may_write or bool(account.may_discuss and discusses)


def elsewhere(method: str, path: str, *, account: Account, links: Links) -> Answer:
    if (method, path) == ("GET", "/user"):
        if account.app:
            raise ApiError(403, _not_accessible(account))
        return 200, represent.private_user(links, account)
    if (method, path) == ("GET", "/rate_limit"):
        limit = rate_limit()
        return 200, {"resources": {"core": limit, "search": limit}, "rate": limit}
    raise ApiError(501, f"The loopback GitHub does not answer {method} {path}")


def rate_limit() -> dict[str, int]:
    return {"limit": 5000, "remaining": 4999, "reset": int(time.time()) + 3600, "used": 1}


def _not_accessible(account: Account) -> str:
    return f"Resource not accessible by {'integration' if account.app else 'personal access token'}"


def graphql(body: Any, repositories: Mapping[str, Repository], *, account: Account, links: Links) -> Answer:
    """The two mutations that turn a pull request into a draft and back, in the form PyGithub sends."""
    query, variables = (
        (body.get("query", ""), body.get("variables", {})) if isinstance(body, dict) else ("", {})
    )
    named = re.match(r"mutation Mutation\(\$input: \w+!\) \{ (\w+)\(input: \$input\)", query)
    mutation = named[1] if named else ""
    if mutation not in MUTATIONS:
        raise ApiError(501, f"The loopback GitHub does not answer the GraphQL query {query[:80]!r}")
    draft, node = MUTATIONS[mutation], variables.get("input", {}).get("pullRequestId")
    for repository in repositories.values():
        with repository.lock:
            found = (p for p in repository.pulls.values() if represent.node_id(repository, p) == node)
            pull = next(found, None)
            if pull is None:
                continue
            if not account.may_write:
                return 200, _graphql_error("FORBIDDEN", _not_accessible(account))
            call = Call(repository, account, links, {}, body)
            pulls.set_draft(call, str(pull.number), draft=draft)
        return 200, {"data": {mutation: {"clientMutationId": None, "pullRequest": {"isDraft": draft}}}}
    return 200, _graphql_error("NOT_FOUND", f"Could not resolve to a node with the global id of '{node}'")


def _graphql_error(kind: str, message: str) -> Json:
    return {"data": None, "errors": [{"type": kind, "message": message}]}
