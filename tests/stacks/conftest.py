"""Whole stacks on the loopback GitHub, and the people who work on them."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoforge import settings as configuration
from autoforge.demo.github import Account, LoopbackGitHub, Repository
from autoforge.project import Project, open_project, table
from db.feature import NewFeature
from git_workflow import github as forge_client
from tests.agents import Crew, diligent
from tests.builds import add, build
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub
from tests.reviews import Reviewer
from tests.stacks.scene import Person, check
from tests.stacks.world import START, World

Opened = Callable[..., Project]
Stack = Callable[..., Project]


@pytest.fixture
def online(
    opened: Opened, forged: Repository, github: ValidatingGitHub, monkeypatch: pytest.MonkeyPatch
) -> Opened:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)

    def open_(**flags: object) -> Project:
        return opened(token=TOKEN, api_url=github.url, **{"batch_size": 1, **flags})

    return open_


@pytest.fixture
def reviewer(github: ValidatingGitHub) -> Reviewer:
    return Reviewer(github)


@pytest.fixture
def person(github: ValidatingGitHub, forged: Repository, tmp_path: Path) -> Person:
    return Person.cloning(github, tmp_path / "person")


@pytest.fixture
def stack(online: Opened, forged: Repository, origin: Path) -> Callable[..., Project]:
    """A published stack of these features, one in each batch."""

    def make(*wanted: NewFeature, **flags: object) -> Project:
        project = online(**flags)
        add(project, *wanted)
        assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
        check(project, forged, origin)
        return project

    return make


@pytest.fixture(scope="session")
def hub() -> Iterator[LoopbackGitHub]:
    server = LoopbackGitHub({TOKEN: Account("octo")})
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def template(hub: LoopbackGitHub, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    run("git", "remote", "set-url", "origin", f"{hub.url}/octo/app.git", cwd=app)
    with table(on_the_hub(app, hub)):
        return folder


def on_the_hub(app: Path, hub: LoopbackGitHub) -> Project:
    taken = configuration.take({"PATH": os.environ["PATH"], "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url})
    flags = {"verify.commands": [], "github.seconds_between_writes": 0}
    return open_project(app, taken, flags)


@pytest.fixture
def begin(
    template: Path, hub: LoopbackGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], World]:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)
    numbers = itertools.count()

    def make() -> World:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(template, folder, symlinks=True)
        shutil.rmtree(tmp_path / str(int(folder.name) - 1), ignore_errors=True)
        repository = hub.add_repository("octo", "app", folder / "origin.git")
        return World(on_the_hub(folder / "app", hub), folder / "origin.git", repository, Reviewer(hub))

    return make
