"""What the loopback GitHub does to pull requests when branches are deleted, and what it opens again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def by_push(world: World, branch: str) -> None:
    world.git("push", "-q", world.remote(), "--delete", branch)


def by_api(world: World, branch: str) -> None:
    world.repo().get_git_ref(f"heads/{branch}").delete()


Delete = Callable[[World, str], None]
DELETIONS = pytest.mark.parametrize("delete", [by_push, by_api])


@DELETIONS
@pytest.mark.parametrize("retargets", [False, True])
def test_the_head_of_a_merged_pull_request_is_deleted(world: World, delete: Delete, retargets: bool) -> None:
    world.origin.retarget_on_base_delete = retargets
    world.feature("parent").merge(merge_method="squash")
    child = world.feature("child", base="parent")
    delete(world, "parent")
    child.update()
    assert (child.state, child.base.ref) == (("open", "main") if retargets else ("closed", "parent"))
    if retargets:
        assert (child.base.sha, child.mergeable) == (world.tip("main"), True)
        assert world.tip("refs/pull/2/merge^1") == world.tip("main")


@DELETIONS
def test_a_base_that_was_never_merged_closes_whatever_the_setting(world: World, delete: Delete) -> None:
    world.origin.retarget_on_base_delete = True
    world.feature("parent")
    world.feature("child", base="parent")
    delete(world, "parent")
    assert {n: world.origin.pulls[n].state for n in (1, 2)} == {1: "closed", 2: "closed"}


def test_a_child_goes_down_the_whole_stack_that_was_merged(world: World) -> None:
    world.origin.retarget_on_base_delete = True
    one = world.feature("one")
    two = world.feature("two", base="one")
    world.feature("three", base="two")
    two.merge()
    one.merge()
    world.push(":one", ":two")
    assert (world.origin.pulls[3].state, world.origin.pulls[3].base) == ("open", "main")


@pytest.mark.parametrize("why", ["a twin", "no commits"])
def test_a_retarget_that_is_impossible_closes(world: World, why: str) -> None:
    world.origin.retarget_on_base_delete = True
    world.feature("parent").merge()
    child = world.feature("child", base="parent")
    if why == "a twin":
        world.repo().create_pull("main", "child", title="Twin")
    else:
        world.git("fetch", "-q", world.remote(), "main")
        world.git("checkout", "-q", "FETCH_HEAD")
        world.git("merge", "-q", "child")
        world.push("HEAD:main")
    world.push(":parent")
    child.update()
    assert (child.state, child.merged, child.base.ref) == ("closed", False, "parent")


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
def test_merged_heads_are_deleted_where_the_repository_says_so(world: World, method: str) -> None:
    world.origin.delete_branch_on_merge = world.origin.retarget_on_base_delete = True
    parent = world.feature("parent")
    world.feature("child", base="parent")
    assert world.repo().delete_branch_on_merge
    parent.merge(merge_method=method)
    assert (world.tip("refs/heads/parent"), world.tip("refs/heads/child") != "") == ("", True)
    child = world.repo().get_pull(2)
    assert (child.state, child.base.ref, child.base.sha) == ("open", "main", world.tip("main"))
    assert world.tip("refs/pull/1/head") == parent.head.sha


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
