"""Whole stacks on the loopback GitHub, and the people who work on them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import NewFeature
from git_workflow import github as forge_client
from tests.agents import Crew, diligent
from tests.builds import add, build
from tests.conftest import TOKEN
from tests.harness.github import ValidatingGitHub
from tests.reviews import Reviewer
from tests.stacks.scene import Person, check

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
