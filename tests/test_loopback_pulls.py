"""The loopback GitHub's open pull requests: another base, branches that move, the merge and its message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def test_another_base_gives_other_commits_and_another_verdict(world: World) -> None:
    world.commit("release", "feat.txt", "other\n", start="main")
    world.push("release")
    world.feature("parent")
    pull = world.feature("feat", base="parent")
    assert (pull.commits, pull.mergeable, pull.base.sha) == (1, True, world.tip("parent"))
    pull.edit(base="release")
    assert (pull.commits, pull.mergeable, pull.base.sha) == (2, False, world.tip("release"))
    pull.edit(base="main")
    assert (pull.commits, pull.mergeable, pull.base.sha) == (2, True, world.tip("main"))
    assert pull.head.sha == world.tip("feat")


@pytest.mark.parametrize("why", ["missing", "nothing new", "a twin"])
def test_a_base_that_is_refused(world: World, why: str) -> None:
    world.feature("parent")
    pull = world.feature("child", base="parent")
    said = "Proposed base branch 'other' was not found"
    if why == "nothing new":
        world.push("child:other")
        said = "There are no new commits between base branch 'other' and head branch 'child'"
    elif why == "a twin":
        world.push("main:other")
        world.repo().create_pull("other", "child", title="Twin")
        said = "A pull request already exists for base branch 'other' and head branch 'child'"
    assert said in refused(422, pull.edit, base="other")
    assert (world.origin.pulls[2].state, world.origin.pulls[2].base) == ("open", "parent")


@pytest.mark.parametrize("force", [False, True])
def test_an_open_pull_request_follows_its_head_at_once(world: World, force: bool) -> None:
    world.feature()
    tip = world.commit("feat", "more.txt", start="main" if force else "")
    world.push("+feat" if force else "feat")
    pull = world.origin.pulls[1]
    assert (pull.state, pull.head_sha, world.tip("refs/pull/1/head")) == ("open", tip, tip)
    assert world.tip("refs/pull/1/merge^2") == tip


def test_a_moved_base_is_followed_at_once(world: World) -> None:
    world.feature("parent")
    world.feature("child", base="parent")
    tip = world.commit("parent", "more.txt")
    world.push("parent")
    assert (world.origin.pulls[2].base_sha, world.tip("refs/pull/2/merge^1")) == (tip, tip)


def test_a_merge_is_held_to_the_head_that_was_seen(world: World) -> None:
    pull = world.feature()
    seen = pull.head.sha
    tip = world.commit("feat", "more.txt")
    world.push("feat")
    assert "Head branch was modified" in refused(409, pull.merge, sha=seen)
    assert world.origin.pulls[1].state == "open"
    assert pull.merge(sha=tip).merged


def test_the_message_of_a_squash(world: World) -> None:
    world.feature("plain").merge(merge_method="squash")
    edited = world.feature("edited")
    edited.merge("Why it matters.", "Better title", merge_method="squash")
    for branch in ("full", "bare"):
        world.commit(branch, f"{branch}.txt", start="main")
        world.git("commit", "-q", "--amend", "-m", f"Add {branch}", "-m", "A long story.")
        world.push(branch)
        pull = world.repo().create_pull("main", branch, title="Another title")
        pull.merge(*([""] if branch == "bare" else []), merge_method="squash")
    world.commit("two", "a.txt", start="main")
    world.commit("two", "b.txt")
    world.push("two")
    world.repo().create_pull("main", "two", title="Two").merge(merge_method="squash")
    world.git("fetch", "-q", world.remote(), "main")
    messages = world.git("log", "-5", "--format=%B%x00", "FETCH_HEAD").split("\0")
    assert [message.strip() for message in messages[:5]] == [
        "Two (#5)\n\n* Add a.txt\n\n* Add b.txt",
        "Add bare (#4)",
        "Add full (#3)\n\nA long story.",
        "Better title\n\nWhy it matters.",
        "Add plain.txt (#1)",
    ]
