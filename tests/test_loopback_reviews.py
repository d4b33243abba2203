"""The loopback GitHub's reviews, and who may say what, through PyGithub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from github.PullRequest import PullRequest

from autoforge.demo.github import Account
from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        made.server.tokens["bob"] = Account("bob")
        made.server.tokens["eve"] = Account("eve", may_write=False, may_discuss=True)
        yield made


def as_(world: World, token: str) -> PullRequest:
    return world.repo(token).get_pull(1)


def test_reviews_are_listed_oldest_first(world: World) -> None:
    world.feature()
    head = world.tip("feat")
    as_(world, "bob").create_review(body="why so?", event="REQUEST_CHANGES")
    as_(world, "writer").create_review(body="because", event="COMMENT")
    later = world.commit("feat", "more.txt")
    world.push("feat")
    as_(world, "bob").create_review(event="APPROVE")
    reviews = list(as_(world, "writer").get_reviews())
    assert [(one.user.login, one.state, one.body, one.commit_id) for one in reviews] == [
        ("bob", "CHANGES_REQUESTED", "why so?", head),
        ("ada", "COMMENTED", "because", head),
        ("bob", "APPROVED", "", later),
    ]
    assert reviews[0].html_url.startswith(f"{world.server.url}/octo/demo/pull/1#pullrequestreview-")


def test_reviews_that_are_refused(world: World) -> None:
    world.feature()
    own = as_(world, "writer")
    assert "Can not approve your own" in refused(422, own.create_review, event="APPROVE")
    assert "Can not request changes on your own" in refused(
        422, own.create_review, body="no", event="REQUEST_CHANGES"
    )
    assert "can't be blank" in refused(422, as_(world, "bob").create_review, event="REQUEST_CHANGES")
    world.origin.app_may_open_pulls = False
    said = refused(422, as_(world, "actions").create_review, event="APPROVE")
    assert "not permitted to approve" in said
    assert "pending" in refused(501, as_(world, "bob").create_review, body="later")
    assert list(own.get_reviews()) == []


def test_who_may_write_is_told_beside_what_they_say(world: World) -> None:
    world.server.tokens["octo"] = Account("octo")
    world.feature()
    for token in ("octo", "bob", "eve", "actions"):
        pull = as_(world, token)
        pull.create_review(event="APPROVE")
        pull.create_issue_comment("fine")
    pull = as_(world, "writer")
    expected = {"octo": "OWNER", "bob": "COLLABORATOR", "eve": "NONE", "github-actions[bot]": "NONE"}
    assert {one.user.login: one.author_association for one in pull.get_reviews()} == expected
    _, said = pull.requester.requestJsonAndCheck("GET", f"{pull.issue_url}/comments")
    assert {one["user"]["login"]: one["author_association"] for one in said} == expected


def test_anybody_may_discuss_but_not_change_a_public_repository(world: World) -> None:
    world.feature()
    eve = world.repo("eve")
    assert [label.name for label in eve.create_issue("Mine", labels=["bug"]).labels] == []
    pull = eve.get_pull(1)
    pull.create_issue_comment("hello")
    for change in (lambda: pull.edit(title="mine"), pull.merge, lambda: pull.add_to_labels("bug")):
        refused(403, change)
    assert "denied to eve" in world.push("main:x", token="eve", check=False)
    refused(403, world.repo("reader").create_issue, "No")
