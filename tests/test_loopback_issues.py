"""The loopback GitHub's issues and comments, through PyGithub."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def test_issues_and_pull_requests_share_numbers(world: World) -> None:
    repo = world.repo()
    assert repo.create_issue("First").number == 1
    assert world.feature("a").number == 2
    assert repo.create_issue("Second", body="why", labels=["bug"]).number == 3
    assert world.feature("b").number == 4
    assert [(one.number, one.html_url.split("/")[-2]) for one in repo.get_issues()] == [
        (4, "pull"),
        (3, "issues"),
        (2, "pull"),
        (1, "issues"),
    ]
    pull, issue = repo.get_issue(2), repo.get_issue(3)
    assert pull.pull_request is not None
    assert pull.pull_request.html_url == f"{world.server.url}/octo/demo/pull/2"
    assert (issue.pull_request, issue.body, [label.name for label in issue.labels]) == (None, "why", ["bug"])
    refused(404, repo.get_issue, 9)
    refused(404, repo.get_pull, 3)


def test_issues_are_filtered_and_sorted(world: World) -> None:
    repo = world.repo()
    repo.create_issue("One", labels=["bug", "p1"])
    repo.create_issue("Two", labels=["bug"])
    repo.create_issue("Three").edit(state="closed")
    repo.get_issue(2).create_comment("me too")
    assert [one.number for one in repo.get_issues()] == [2, 1]
    assert [one.number for one in repo.get_issues(state="closed")] == [3]
    assert [one.number for one in repo.get_issues(state="all", direction="asc")] == [1, 2, 3]
    assert [one.number for one in repo.get_issues(labels=["bug"])] == [2, 1]
    assert [one.number for one in repo.get_issues(labels=["Bug", "p1"])] == [1]
    assert [one.number for one in repo.get_issues(state="all", sort="comments")] == [2, 3, 1]
    assert [one.number for one in repo.get_issues(since=datetime.now(UTC) + timedelta(hours=1))] == []
    assert "does not filter issues by creator" in refused(501, lambda: list(repo.get_issues(creator="ada")))


def test_issues_come_in_pages(world: World) -> None:
    for number in range(5):
        world.repo().create_issue(f"Issue {number}")
    client = world.client()
    client.per_page = 2
    world.server.log.clear()
    found = list(client.get_repo("octo/demo").get_issues(direction="asc"))
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    assert [entry.query["page"] for entry in world.server.requests("GET", "/issues")[1:]] == ["2", "3"]


def test_an_issue_is_edited_and_closed(world: World) -> None:
    issue = world.repo().create_issue("One", labels=["bug"])
    issue.edit(title="Better", body="more", labels=["later"], state="closed")
    seen = world.repo().get_issue(1)
    assert (seen.title, seen.body, seen.state, seen.state_reason) == ("Better", "more", "closed", "completed")
    assert [label.name for label in seen.labels] == ["later"]
    assert seen.closed_at is not None
    seen.edit(state="open")
    assert (seen.state, seen.closed_at) == ("open", None)
    world.feature()
    assert "by PATCH /repos/OWNER/NAME/pulls" in refused(501, world.repo().get_issue(2).edit, title="x")


def test_issues_and_pull_requests_are_commented_and_labelled(world: World) -> None:
    world.repo().create_issue("One")
    world.feature()
    for number, kind in ((1, "issues"), (2, "pull")):
        issue = world.repo().get_issue(number)
        comment = issue.create_comment("noted")
        assert comment.html_url == f"{world.server.url}/octo/demo/{kind}/{number}#issuecomment-{comment.id}"
        issue.add_to_labels("bug")
        again = world.repo().get_issue(number)
        assert [(one.user.login, one.body) for one in again.get_comments()] == [("ada", "noted")]
        assert ([label.name for label in again.get_labels()], again.comments) == (["bug"], 1)
    refused(
        404,
        world.repo().get_issue(2).requester.requestJsonAndCheck,
        "GET",
        "/repos/octo/demo/issues/9/comments",
    )


@pytest.mark.parametrize("how", ["merge", "push"])
def test_a_merge_closes_the_issues_that_it_names(world: World, how: str) -> None:
    for _ in range(4):
        world.repo().create_issue("Wanted")
    world.repo().create_issue("Not wanted").edit(state="closed")
    long_ago = replace(world.origin.issues[5], closed_at="2025-01-01T00:00:00Z")
    world.origin.issues[5] = long_ago
    pull = world.feature()
    pull.edit(body="Closes #1, fixed: #2 and resolves #5; discloses #3, see #4.")
    if how == "merge":
        pull.merge()
    else:
        world.push("feat:main")
    assert [one.number for one in world.repo().get_issues()] == [4, 3]
    assert world.origin.issues[5] == long_ago


def test_a_merge_into_another_branch_closes_no_issue(world: World) -> None:
    world.repo().create_issue("Wanted")
    world.feature("parent")
    child = world.feature("child", base="parent")
    child.edit(body="Closes #1")
    child.merge()
    assert world.repo().get_issue(1).state == "open"
