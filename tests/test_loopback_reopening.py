"""Which closed pull requests the loopback GitHub opens again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


@pytest.mark.parametrize("how", ["amended", "added to"])
def test_a_head_that_moved_while_closed_cannot_be_reopened(world: World, how: str) -> None:
    pull = world.feature()
    before = pull.head.sha
    pull.edit(state="closed")
    if how == "amended":
        world.git("commit", "-q", "--amend", "-m", "other")
    else:
        world.commit("feat", "more.txt")
    world.push("+feat")
    message = "state cannot be changed. The feat branch was force-pushed or recreated."
    assert message in refused(422, pull.edit, state="open")
    assert world.repo().get_pull(1).head.sha == before
    world.push(f"+{before}:feat")
    pull.edit(state="open")
    assert pull.state == "open"


def test_reopening_is_refused_while_the_base_is_gone(world: World) -> None:
    world.feature("parent").merge()
    child = world.feature("child", base="parent")
    world.push(":parent")
    assert "The parent branch has been deleted." in refused(422, child.edit, state="open")
    assert "closed pull request" in refused(422, child.edit, base="main", state="open")
    world.push("parent")
    child.edit(state="open")
    child.edit(base="main")
    assert (child.state, child.base.ref) == ("open", "main")


def test_reopening_is_refused_while_the_head_is_gone(world: World) -> None:
    pull = world.feature()
    world.push(":feat")
    assert world.origin.pulls[1].state == "closed"
    assert "The feat branch has been deleted." in refused(422, pull.edit, state="open")
    world.push("feat")
    pull.edit(state="open")
    assert pull.state == "open"


def test_a_recreated_head_is_another_branch(world: World) -> None:
    pull = world.feature()
    world.push(":feat")
    world.commit("feat", "other.txt", start="main")
    world.push("feat")
    assert "force-pushed or recreated" in refused(422, pull.edit, state="open")
    assert world.origin.pulls[1].head_sha == pull.head.sha == world.tip("refs/pull/1/head")


@pytest.mark.parametrize("why", ["nothing new", "unrelated", "a twin"])
def test_reopening_needs_what_opening_needs(world: World, why: str) -> None:
    pull = world.feature()
    pull.edit(state="closed")
    if why == "nothing new":
        world.push("feat:main")
        said = "There are no new commits between base branch 'main' and head branch 'feat'"
    elif why == "unrelated":
        world.git("checkout", "-q", "--orphan", "fresh")
        world.git("commit", "-q", "--allow-empty", "-m", "Afresh")
        world.push("+fresh:main")
        said = "The feat branch has no history in common with main."
    else:
        world.repo().create_pull("main", "feat", title="Twin")
        said = "A pull request already exists for base branch 'main' and head branch 'feat'"
    assert said in refused(422, pull.edit, state="open")
    assert (world.origin.pulls[1].state, world.origin.pulls[1].merged) == ("closed", False)
