"""What the random histories have found, each as the shortest history that shows it."""

from collections.abc import Callable

import pytest

from db.feature import Batch, BatchStatus, PrStatus
from tests.stacks import people
from tests.stacks.cut import cut_off
from tests.stacks.holds import followed
from tests.stacks.world import Graph, World, fill

Begin = Callable[..., World]
CHAIN, DIAMOND = ((), (0,), (1,)), ((), (0,), (0,), (1, 2))
TWO_BELOW = ((), (), (0, 1))


@pytest.fixture
def stands(begin: Callable[[], World]) -> Begin:
    def make(graph: Graph, late: int = 0) -> World:
        world = begin()
        fill(world, graph, late)
        return world

    return make


def at(world: World, number: int) -> Batch:
    return world.batches()[number]


def test_a_child_that_waits_is_brought_back_to_its_base_when_somebody_retargets_it(stands: Begin) -> None:
    world = stands(CHAIN)
    assert people.closes(world, at(world, 0), 0)
    assert people.retargets(world, at(world, 1), 0)
    told = followed(world)
    assert f"#2 now targets {at(world, 0).branch}" in told


def test_what_was_merged_into_a_join_does_not_keep_the_join_and_is_kept_here(stands: Begin) -> None:
    world = stands(TWO_BELOW)
    join = at(world, 2).base_branch or ""
    assert people.merges(world, at(world, 1), 0)
    assert people.merges(world, at(world, 2), 0)
    there = world.heads()[join]
    followed(world)
    assert join not in world.heads()
    saved = f"refs/autoforge/saved/joins/{join.rsplit('/', 1)[-1]}"
    assert world.project.repo.git.run("rev-parse", saved) == there


@pytest.mark.parametrize("after", [False, True])
def test_a_new_pull_request_for_the_same_work_is_opened_although_the_sync_before_was_cut_off(
    stands: Begin, after: bool
) -> None:
    world = stands(TWO_BELOW)
    assert people.merges(world, at(world, 1), 0)
    assert people.merges(world, at(world, 2), 0)
    assert cut_off(world, (f"look for the pull request of {at(world, 2).branch}-2",), after=after)
    assert at(world, 2).status is BatchStatus.BUILT
    followed(world, cut=True)
    assert at(world, 2).status is BatchStatus.OPENED


def test_a_commit_of_a_person_on_a_branch_whose_publishing_was_interrupted_is_published_with_it(
    stands: Begin,
) -> None:
    world = stands(((),), late=1)
    assert people.adds(world, at(world, 0), 0)
    followed(world)
    assert at(world, 0).status is BatchStatus.OPENED


def test_a_pull_request_that_left_its_join_is_ready_in_the_table_as_well(stands: Begin) -> None:
    world = stands(TWO_BELOW)
    for below in (0, 1):
        assert people.merges(world, at(world, below), 0)
    followed(world)
    assert at(world, 2).pr_status is PrStatus.OPEN


def test_a_pull_request_that_left_its_join_is_ready_although_the_sync_was_cut_off(stands: Begin) -> None:
    world = stands(TWO_BELOW)
    for below in (0, 1):
        assert people.merges(world, at(world, below), 0)
    assert cut_off(world, ("edit pull request #3",), after=True)
    followed(world, cut=True)
    assert not world.forged.pulls[3].draft


def test_what_was_merged_into_a_branch_goes_on_with_it_when_that_went_into_a_join(stands: Begin) -> None:
    world = stands((*TWO_BELOW, (2,)))
    assert people.merges(world, at(world, 3), 0)
    assert people.adds(world, at(world, 2), 2)
    assert people.merges(world, at(world, 2), 1)
    followed(world)
    assert [b.status for b in world.batches()][2:] == [BatchStatus.OPENED, BatchStatus.FOLDED]
    assert len(world.forged.pulls) == 5


def test_what_was_merged_into_a_branch_waits_with_it_when_that_is_closed(stands: Begin) -> None:
    world = stands(CHAIN)
    assert people.merges(world, at(world, 1), 0)
    followed(world)
    before = at(world, 2)
    assert people.closes(world, at(world, 0), 0)
    told = followed(world)
    assert any(
        f"{at(world, 1).branch} was merged into {at(world, 0).branch}, which was closed" in t for t in told
    )
    assert [b.status for b in world.batches()][:2] == [BatchStatus.CLOSED] * 2
    assert (at(world, 2).head_sha, at(world, 2).base_branch) == (before.head_sha, before.base_branch)
    assert people.reopens(world, at(world, 0), 0)
    followed(world)
    assert at(world, 1).status is BatchStatus.FOLDED


def test_what_was_merged_into_a_branch_that_it_did_not_stand_on_is_followed_there(stands: Begin) -> None:
    world = stands(((), (), (0,), (2,)))
    elsewhere = at(world, 1).branch
    assert world.forged.pulls[3].base != elsewhere
    world.reviewer.edit(3, base=elsewhere)
    assert people.merges(world, at(world, 2), 0)
    followed(world)
    assert (at(world, 2).status, at(world, 3).base_branch) == (BatchStatus.FOLDED, elsewhere)


def test_a_child_that_waits_for_what_has_no_branch_now_stays_where_the_forge_has_put_it(
    stands: Begin,
) -> None:
    world = stands(CHAIN)
    world.forged.retarget_on_base_delete = world.forged.delete_branch_on_merge = True
    assert people.closes(world, at(world, 0), 0)
    assert people.merges(world, at(world, 1), 0)
    assert world.forged.pulls[3].base == at(world, 0).branch
    followed(world)
    assert (at(world, 2).base_branch, at(world, 2).last_error) == (at(world, 0).branch, None)


def test_a_move_that_was_cut_off_before_it_reached_the_branch_is_not_taken_for_a_persons(
    stands: Begin,
) -> None:
    world = stands(((), (0,)), late=1)
    assert people.merges(world, at(world, 0), 0)
    assert cut_off(world, ("update-ref", f"refs/heads/{at(world, 1).branch}"), after=False)
    assert at(world, 1).base_branch == "main"
    told = followed(world, cut=True)
    assert not any("by somebody" in line for line in told)
    assert at(world, 1).status is BatchStatus.OPENED
