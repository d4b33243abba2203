"""A sync whose process is gone at some step: a call of git or the forge, a write into the table."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from db.store import FeatureStore
from git_workflow import github as forge_client
from git_workflow.command import Git
from tests.reviews import sync
from tests.stacks.world import World

STEPS = (
    (Git, "attempt"),
    (forge_client._GitHub, "_do"),
    *((FeatureStore, name) for name in ("save_batch", "move_batches", "publish_again", "set_pull_request")),
)


class Cut(Exception):
    """The process is gone here."""


def cut_off(world: World, at: int | tuple[str, ...], *, after: bool) -> str | None:
    """Run one that ends at its `at`-th step, before or after that step's effect; answers the step, None: it ended.

    `at`: the number of the step, or everything that it is the first to name.
    """
    calls = itertools.count(1)
    gone = []

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if gone:
                raise Cut
            number, texts = next(calls), " ".join(arg for arg in args if isinstance(arg, str))
            ends = number == at if isinstance(at, int) else all(part in texts for part in at)
            if ends and not after:
                gone.append(args)
                raise Cut
            answer = real(*args, **named)
            if ends:
                gone.append(args)
                raise Cut
            return answer

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STEPS:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            sync(world.project)
        except Cut:
            return f"{'after' if after else 'before'} {gone[0][1:]}"
    return None
