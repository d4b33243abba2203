"""What a stack needs of GitHub: retarget, reopen, ready, a note, and all that is open."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from git_workflow.errors import ForgeFailed
from git_workflow.forge import Forge
from git_workflow.github import connect
from tests.harness.github import Fault
from tests.harness.world import World, running_world

COMMENTS = "/repos/octo/demo/issues/1/comments"
GRAPHQL = "/graphql"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def forge(world: World, *, token: str = "writer", retry_total: int = 0, api: str = "") -> Forge:
    return connect(
        api_url=world.server.url + api,
        slug="octo/demo",
        token=token,
        seconds_between_writes=0,
        retry_total=retry_total,
    )


def notes(world: World) -> list[str]:
    return [one.body for one in world.repo().get_pull(1).get_issue_comments()]


def test_edit_retargets(world: World) -> None:
    world.feature("one")
    world.feature("two", base="one")
    edited = forge(world).edit(2, base="main", title="Two")
    assert (edited.base_branch, edited.title, edited.body) == ("main", "Two", "why")
    assert world.repo().get_pull(2).base.ref == "main"


def test_a_base_that_does_not_exist_is_refused(world: World) -> None:
    world.feature("one")
    with pytest.raises(ForgeFailed, match=r"edit pull request #1.*'gone' was not found") as caught:
        forge(world).edit(1, base="gone")
    assert caught.value.status == 422
    assert world.repo().get_pull(1).base.ref == "main"


def test_reopen_after_the_base_was_put_back(world: World) -> None:
    world.feature("one")
    world.feature("two", base="one")
    world.push(":one")
    github = forge(world)
    assert github.get(2).state == "closed"
    with pytest.raises(ForgeFailed, match=r"reopen pull request #2.*one branch has been deleted") as caught:
        github.reopen(2)
    assert caught.value.status == 422
    world.push("one:one")
    opened = github.reopen(2)
    assert (opened.number, opened.state, opened.base_branch) == (2, "open", "one")
    assert github.reopen(2) == opened  # once more changes nothing


def test_a_head_that_moved_is_not_reopened(world: World) -> None:
    world.feature("one").edit(state="closed")
    world.commit("one", "more.txt")
    world.commit("one", "other.txt", start="main")
    world.push("+one:one")
    with pytest.raises(ForgeFailed, match="force-pushed or recreated") as caught:
        forge(world).reopen(1)
    assert caught.value.status == 422


@pytest.mark.parametrize("api", ["", "/api/v3"])
def test_a_draft_becomes_ready_once(world: World, api: str) -> None:
    world.commit("one", "one.txt", start="main")
    world.push("one")
    github = forge(world, api=api)
    github.open(head="one", base="main", title="One", body="why", draft=True)
    github.ready(1)
    github.ready(1)
    assert world.repo().get_pull(1).draft is False
    assert len(world.server.requests("POST", GRAPHQL)) == 1


@pytest.mark.parametrize(
    ("kind", "status", "says"),
    [
        ("FORBIDDEN", 403, "the token lacks a permission (403: Said.)"),
        ("INSUFFICIENT_SCOPES", 403, "the token lacks a permission"),
        ("RATE_LIMITED", 429, "rate limit is reached"),
        ("NOT_FOUND", 404, "not found (404)"),
        ("UNPROCESSABLE", 422, "refuses it (422): Said."),
        ("ODD", 400, "answers 400: Said."),
    ],
)
def test_p4_a_refusal_of_graphql_is_told_as_one_of_rest(
    world: World, kind: str, status: int, says: str
) -> None:
    world.feature("one").convert_to_draft()
    content = f'{{"data": null, "errors": [{{"type": "{kind}", "message": "Said."}}]}}'
    world.server.faults.append(Fault("POST", GRAPHQL, 200, content=content))
    with pytest.raises(ForgeFailed) as caught:
        forge(world).ready(1)
    assert caught.value.status == status
    assert says in str(caught.value)


def test_p4_a_reader_may_not_write(world: World) -> None:
    world.feature("one").convert_to_draft()
    github = forge(world, token="reader")
    for call in (
        lambda: github.ready(1),
        lambda: github.reopen(1),
        lambda: github.edit(1, base="main"),
        lambda: github.comment(1, "note"),
    ):
        with pytest.raises(ForgeFailed, match="It needs pull_requests=write") as caught:
            call()
        assert caught.value.status == 403
    assert world.repo().get_pull(1).draft is True
    assert notes(world) == []


def test_one_note_is_left_once(world: World) -> None:
    world.feature("one")
    github = forge(world)
    github.comment(1, "Moved to `main`.\n")
    github.comment(1, "Moved to `main`.\n")
    github.comment(1, "Moved again.")
    assert [note.strip() for note in notes(world)] == ["Moved to `main`.", "Moved again."]
    with pytest.raises(ForgeFailed, match="comment on pull request #9") as caught:
        github.comment(9, "lost")
    assert caught.value.status == 404


@pytest.mark.parametrize("drop", [True, False])
def test_p1_a_lost_answer_leaves_no_second_note(world: World, drop: bool) -> None:
    world.feature("one")
    world.server.faults.append(Fault("POST", COMMENTS, 502, drop=drop, handled=True))
    github = forge(world, retry_total=3)
    with pytest.raises(ForgeFailed) as caught:
        github.comment(1, "Moved.")
    assert caught.value.status == (0 if drop else 502)
    github.comment(1, "Moved.")
    assert notes(world) == ["Moved."]


def test_p4_a_note_that_was_refused_for_a_while_is_tried_again(world: World) -> None:
    world.feature("one")
    world.server.faults.append(Fault("POST", COMMENTS, 403, headers={"retry-after": "0"}))
    forge(world, retry_total=1).comment(1, "Moved.")
    assert notes(world) == ["Moved."]


def test_p1_lost_answers_to_what_may_be_repeated_do_no_harm(world: World) -> None:
    pull = world.feature("one")
    pull.convert_to_draft()
    pull.edit(state="closed")
    github = forge(world, retry_total=1)
    for method, path, call in (
        ("PATCH", ".*/pulls/1", lambda: github.reopen(1)),
        ("PATCH", ".*/pulls/1", lambda: github.edit(1, title="B")),
        ("POST", GRAPHQL, lambda: github.ready(1)),
    ):
        world.server.faults.append(Fault(method, path, drop=True, handled=True))
        call()
    left = world.repo().get_pull(1)
    assert (left.state, left.title, left.draft) == ("open", "B", False)


def test_all_that_is_open_in_few_calls(world: World) -> None:
    world.feature("one")
    first = world.origin.pulls[1]
    world.origin.pulls.update({n: replace(first, number=n, id=n) for n in range(2, 104)})
    world.repo().get_pull(7).edit(state="closed")
    world.server.log.clear()
    pulls = forge(world).open_pulls()
    assert {pull.number for pull in pulls} == set(range(1, 104)) - {7}
    assert {(pull.head_branch, pull.state, pull.draft) for pull in pulls} == {("one", "open", False)}
    assert len(world.server.log) == 2
