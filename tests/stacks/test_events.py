"""Random stacks and random histories of what people do to them and where a sync is cut off."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.reviews import sync
from tests.stacks.cut import cut_off
from tests.stacks.holds import followed
from tests.stacks.people import ACTIONS
from tests.stacks.world import World, fill

EXAMPLES = int(os.environ.get("EVENTS", "8"))
RANDOM = "EVENTS" in os.environ


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 8))
    return [sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(size)]


EVENTS = st.lists(
    st.tuples(st.sampled_from([*ACTIONS, "merges", "sync", "cut"]), st.integers(0, 7), st.integers(0, 11)),
    max_size=10,
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not RANDOM,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
@given(graphs(), st.integers(0, 2), st.tuples(st.booleans(), st.booleans()), EVENTS)
def test_stacks_follow_whatever_people_do(
    begin: Callable[[], World],
    graph: list[list[int]],
    late: int,
    switches: tuple[bool, bool],
    events: list[tuple[str, int, int]],
) -> None:
    world = begin()
    world.forged.retarget_on_base_delete, world.forged.delete_branch_on_merge = switches
    fill(world, graph, late)
    for name, which, choice in events:
        if name == "sync":
            note(f"sync {followed(world)}")
        elif name == "cut":
            if where := cut_off(world, 1 + which * 23 + choice * 2, after=bool(choice % 2)):
                sync(world.project)
            note(f"cut {where}: {followed(world, cut=bool(where))}")
        else:
            table_ = world.batches()
            batch = table_[which % len(table_)]
            did = ACTIONS[name](world, batch, choice)
            note(f"{name} {batch.branch} {choice}: {did}")
    note(f"sync {followed(world)}")
