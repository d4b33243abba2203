"""What the loopback GitHub does to pull requests when branches are deleted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, running_world


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
