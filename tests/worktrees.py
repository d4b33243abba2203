"""A repository and its worktrees, as a build would use them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from git_workflow import worktree
from git_workflow.command import Git
from git_workflow.repository import Repository, head_sha, open_repository
from tests.conftest import run

Acquire = Callable[..., Path]
SAVED = "refs/autoforge/saved/k/1"


@pytest.fixture
def repo(clone: Path) -> Repository:
    return open_repository(clone, Git(clone))


@pytest.fixture
def root(clone: Path) -> Path:
    return clone.parent / "app.worktrees"


@pytest.fixture
def acquire(repo: Repository, root: Path) -> Acquire:
    def acquire_(
        branch: str, base: str = "HEAD", recorded: Path | None = None, busy: tuple[Path, ...] = ()
    ) -> Path:
        sha = head_sha(repo.git, base)
        assert sha
        return worktree.acquire(repo, root=root, branch=branch, base_sha=sha, recorded=recorded, busy=busy)

    return acquire_


def on(path: Path) -> str:
    return run("git", "rev-parse", "--abbrev-ref", "HEAD", cwd=path)
