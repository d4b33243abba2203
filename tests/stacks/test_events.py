"""Random stacks and random histories of what people do to them and where a sync is cut off."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from autoforge import project
from autoforge import settings as configuration
from autoforge.demo.github import Account, LoopbackGitHub
from autoforge.project import table
from git_workflow import github as forge_client
from git_workflow.command import Git
from tests.conftest import TOKEN, commit, run
from tests.reviews import Reviewer, sync
from tests.stacks.holds import holds, picture
from tests.stacks.world import ACTIONS, START, World, fill

EXAMPLES = int(os.environ.get("EVENTS", "8"))
RANDOM = "EVENTS" in os.environ


class Cut(Exception):
    """The process is gone here."""


@pytest.fixture(scope="module")
def github() -> Iterator[LoopbackGitHub]:
    server = LoopbackGitHub({TOKEN: Account("octo")})
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def template(github: LoopbackGitHub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A remote and its clone with an empty feature table."""
    folder = tmp_path_factory.mktemp("template")
    run("git", "init", "-q", "--bare", "-b", "main", "origin.git", cwd=folder)
    run("git", "clone", "-q", "origin.git", "app", cwd=folder)
    app = folder / "app"
    run("git", "config", "user.name", "Tess Ter", cwd=app)
    run("git", "config", "user.email", "tess@example.com", cwd=app)
    run("git", "checkout", "-q", "-B", "main", cwd=app)
    commit(app, START, "start")
    run("git", "push", "-q", "origin", "main", cwd=app)
    run("git", "remote", "set-head", "origin", "main", cwd=app)
    run("git", "remote", "set-url", "origin", f"{github.url}/octo/app.git", cwd=app)
    with table(opened(app, github)):
        return folder


def opened(app: Path, github: LoopbackGitHub) -> project.Project:
    taken = configuration.take(
        {"PATH": os.environ["PATH"], "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}
    )
    flags = {"verify.commands": [], "github.seconds_between_writes": 0}
    return project.open_project(app, taken, flags)


@pytest.fixture
def begin(
    template: Path, github: LoopbackGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], World]:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)
    numbers = itertools.count()

    def make() -> World:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(template, folder, symlinks=True)
        shutil.rmtree(tmp_path / str(int(folder.name) - 1), ignore_errors=True)
        repository = github.add_repository("octo", "app", folder / "origin.git")
        return World(opened(folder / "app", github), folder / "origin.git", repository, Reviewer(github))

    return make


def cut_off(world: World, at: int, after: bool) -> bool:
    """A sync whose process is gone at its `at`-th call of git or the forge, before or after that call's effect."""
    calls = itertools.count(1)
    gone = []

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if gone:
                raise Cut
            ends = next(calls) == at
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
        patch.setattr(Git, "attempt", counted(Git.attempt))
        patch.setattr(forge_client._GitHub, "_do", counted(forge_client._GitHub._do))
        try:
            sync(world.project)
        except Cut:
            note(f"cut off {'after' if after else 'before'} {gone[0][1:]}")
            return True
    return False


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
            followed(world)
        elif name == "cut":
            if cut_off(world, 1 + which * 12 + choice, bool(choice % 2)):
                sync(world.project)
            followed(world)
        else:
            table_ = world.batches()
            batch = table_[which % len(table_)]
            did = ACTIONS[name](world, batch, choice)
            note(f"{name} {batch.branch} {choice}: {did}")
    followed(world)


def followed(world: World) -> None:
    note(f"sync {sync(world.project)}")
    holds(world)
    before = picture(world)
    again = sync(world.project)
    assert picture(world) == before, again
