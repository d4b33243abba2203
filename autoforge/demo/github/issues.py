"""The issue part of the API, in which every pull request is an issue too: lists, comments and labels."""

from dataclasses import replace
from typing import Any

from autoforge.demo.github import represent, represent_issue
from autoforge.demo.github.answers import Answer, ApiError, Call
from autoforge.demo.github.repository import Comment, Issue, Pull, now

FILTERS = {"state", "labels", "since", "sort", "direction", "per_page", "page"}


def listing(call: Call) -> Answer:
    unwritten = sorted(set(call.query) - FILTERS)
    if unwritten:
        raise ApiError(501, f"The loopback GitHub does not filter issues by {', '.join(unwritten)}")
    repository = call.repository
    everything: list[Issue | Pull] = [*repository.issues.values(), *repository.pulls.values()]
    wanted = [one for one in everything if _is_wanted(call, one)]
    order = call.query.get("sort", "created")
    wanted.sort(key=lambda one: _rank(one, order), reverse=call.query.get("direction", "desc") == "desc")
    return 200, [represent_issue.issue(call.links, repository, one) for one in wanted]


def _is_wanted(call: Call, one: Issue | Pull) -> bool:
    state = call.query.get("state", "open")
    labels = {name.casefold() for name in call.query.get("labels", "").split(",") if name}
    return (
        state in ("all", one.state)
        and labels <= {name.casefold() for name in one.labels}
        and one.updated_at >= call.query.get("since", "")
    )


def _rank(one: Issue | Pull, order: str) -> tuple[object, ...]:
    first = {"updated": one.updated_at, "comments": len(one.comments)}
    return (first[order], one.number) if order in first else (one.number,)


def get(call: Call, number: str) -> Answer:
    return 200, represent_issue.issue(call.links, call.repository, call.issue(number))


def create(call: Call) -> Answer:
    """Labels that somebody may not set are dropped without a word, as on GitHub."""
    repository = call.repository
    issue = Issue(
        id=next(repository.ids),
        number=repository.next_number(),
        title=call.required("title"),
        body=call.field("body"),
        author=call.account,
        created_at=now(),
        updated_at=now(),
        labels=_named(call, call.field("labels")) if call.account.may_write else (),
    )
    call.keep(issue)
    return 201, represent_issue.issue(call.links, repository, issue)


def edit(call: Call, number: str) -> Answer:
    issue = call.issue(number)
    if isinstance(issue, Pull):
        raise ApiError(
            501, "The loopback GitHub edits a pull request by PATCH /repos/OWNER/NAME/pulls/NUMBER"
        )
    changed = {name: call.body[name] for name in ("title", "body", "state") if call.field(name) is not None}
    if call.field("labels") is not None:
        changed["labels"] = _named(call, call.field("labels"))
    if changed.get("state", issue.state) != issue.state:
        changed["closed_at"] = now() if changed["state"] == "closed" else None
    issue = replace(issue, updated_at=now(), **changed)
    call.keep(issue)
    return 200, represent_issue.issue(call.links, call.repository, issue)


def comments(call: Call, number: str) -> Answer:
    issue = call.issue(number)
    return 200, [
        represent_issue.comment(call.links, call.repository, issue, comment) for comment in issue.comments
    ]


def add_comment(call: Call, number: str) -> Answer:
    issue = call.issue(number)
    comment = Comment(next(call.repository.ids), call.account, call.required("body"), now())
    call.keep(replace(issue, comments=(*issue.comments, comment), updated_at=now()))
    return 201, represent_issue.comment(call.links, call.repository, issue, comment)


def labels(call: Call, number: str) -> Answer:
    return 200, [represent.label(call.links, call.repository, name) for name in call.issue(number).labels]


def add_labels(call: Call, number: str) -> Answer:
    """Takes both of GitHub's forms: `{"labels": [...]}` and the bare list."""
    issue = call.issue(number)
    given = call.field("labels") if isinstance(call.body, dict) else call.body
    named = tuple(dict.fromkeys([*issue.labels, *_named(call, given)]))
    call.keep(replace(issue, labels=named, updated_at=now()))
    return labels(call, number)


def _named(call: Call, given: Any) -> tuple[str, ...]:
    """The labels, which come into being when they are named for the first time."""
    names = [one if isinstance(one, str) else one["name"] for one in given or []]
    for name in names:
        call.repository.labels.setdefault(name, next(call.repository.ids))
    return tuple(dict.fromkeys(names))
