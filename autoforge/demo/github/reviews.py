"""Reviews of pull requests: a verdict with a text; comments on lines are not written."""

from dataclasses import replace

from autoforge.demo.github import represent_issue
from autoforge.demo.github.answers import Answer, ApiError, Call
from autoforge.demo.github.repository import Review, now

STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
ON_ONES_OWN = {
    "APPROVE": "Can not approve your own pull request",
    "REQUEST_CHANGES": "Can not request changes on your own pull request",
}


def listing(call: Call, number: str) -> Answer:
    """Oldest first."""
    pull = call.pull(number)
    return 200, [represent_issue.review(call.links, call.repository, pull, one) for one in pull.reviews]


def create(call: Call, number: str) -> Answer:
    pull, event = call.pull(number), call.field("event")
    if event not in STATES or call.field("comments"):
        raise ApiError(501, "The loopback GitHub knows neither pending reviews nor comments on lines")
    why = _refusal(call, event, own=pull.author.login == call.account.login)
    if why:
        raise ApiError(422, "Unprocessable Entity", why)
    review = Review(
        id=next(call.repository.ids),
        author=call.account,
        body=call.field("body") or "",
        state=STATES[event],
        commit_sha=call.field("commit_id") or pull.head_sha,
        submitted_at=now(),
    )
    call.keep(replace(pull, reviews=(*pull.reviews, review), updated_at=now()))
    return 200, represent_issue.review(call.links, call.repository, pull, review)


def _refusal(call: Call, event: str, *, own: bool) -> str | None:
    if own and event in ON_ONES_OWN:
        return ON_ONES_OWN[event]
    if event == "APPROVE" and call.account.app and not call.repository.app_may_open_pulls:
        return "GitHub Actions is not permitted to approve pull requests."
    if event != "APPROVE" and not (call.field("body") or "").strip():
        return "Body can't be blank"
    return None
