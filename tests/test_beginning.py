"""An empty repository: planned as a new project, and built on a first commit without files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge import planner
from autoforge.demo.github import Repository
from autoforge.errors import UsageError
from autoforge.events import Event
from autoforge.project import Project
from db.feature import NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, batches, build
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import succeed


async def skeleton(agent: Agent) -> None:
    """The first feature makes what the verify command needs."""
    for feature_id, name in agent.features:
        agent.write("check.sh" if name == "Skeleton" else f"f{feature_id}.txt", "true\n")
        answer = await agent.passed(feature_id, "true")
        assert not answer.is_error, answer.text


def test_w5_an_empty_repository_is_built_from_a_first_commit_without_files(
    tmp_path: Path, clone: Path, opened: Callable[..., Project], forged: Repository, github: ValidatingGitHub
) -> None:
    empty = github.add_repository("octo", "empty", tmp_path / "empty.git")
    run("rm", "-rf", ".git", cwd=clone)
    run("git", "init", "-q", "-b", "main", cwd=clone)
    run("git", "remote", "add", "origin", f"{github.url}/octo/empty.git", cwd=clone)
    (clone / "notes.txt").write_text("mine\n")
    project = opened(token=TOKEN, api_url=github.url, batch_size=1)
    assert planner.ground(project).greenfield
    add(project, NewFeature("Skeleton"), NewFeature("More", depends_on=(0,)))

    report = build(project, Crew(skeleton), auto_pr=True)

    assert report.exit_code == 0, report.open
    assert run("git", "ls-tree", "main", cwd=empty.path) == ""
    first, second = batches(project)
    assert (first.base_branch, second.base_branch) == ("main", first.branch)
    assert {(p.head, p.base) for p in empty.pulls.values()} == {
        (first.branch, "main"),
        (second.branch, first.branch),
    }
    assert (clone / "notes.txt").read_text() == "mine\n"
    assert run("git", "status", "--porcelain", "notes.txt", cwd=clone) == "?? notes.txt"


@pytest.fixture
def empty(clone: Path) -> Path:
    """The clone as `git init` makes it, with one file that is staged and one that is not."""
    run("rm", "-rf", ".git", cwd=clone)
    run("git", "init", "-q", "-b", "main", cwd=clone)
    (clone / "notes.txt").write_text("mine\n")
    run("git", "add", "README.md", cwd=clone)
    return clone


def untouched(empty: Path) -> bool:
    status = run("git", "status", "--porcelain", "README.md", "notes.txt", cwd=empty)
    return status == "A  README.md\n?? notes.txt"


def test_w5_an_empty_repository_without_a_remote_is_built_as_well(
    empty: Path, opened: Callable[..., Project]
) -> None:
    (empty / "check.sh").unlink()
    project = opened(batch_size=1)
    assert planner.ground(project).greenfield
    add(project, NewFeature("Skeleton"), NewFeature("More", depends_on=(0,)))
    told: list[Event] = []

    report = build(project, Crew(skeleton), show=told.append)

    assert report.exit_code == 0, report.open
    assert "main was empty" in told[0].text
    first, second = batches(project)
    assert (first.base_branch, second.base_branch) == ("main", first.branch)
    assert first.base_sha == run("git", "rev-parse", "main", cwd=empty)
    assert run("git", "ls-tree", "main", cwd=empty) == ""
    assert untouched(empty)
    assert build(project, Crew(skeleton)).exit_code == 0
    assert run("git", "rev-list", "--count", "main", cwd=empty) == "1"


def test_w5_what_is_not_to_be_pushed_is_not_pushed(
    empty: Path, tmp_path: Path, opened: Callable[..., Project]
) -> None:
    there = tmp_path / "there.git"
    run("git", "init", "-q", "--bare", str(there), cwd=tmp_path)
    run("git", "remote", "add", "origin", str(there), cwd=empty)
    project = opened()
    add(project, NewFeature("Skeleton"))
    assert build(project, Crew(skeleton)).exit_code == 0
    assert run("git", "for-each-ref", cwd=there) == ""
    assert planner.ground(project).target is not None
    assert untouched(empty)


def test_w5_a_remote_that_has_commits_is_what_is_built_on(
    empty: Path, origin: Path, opened: Callable[..., Project]
) -> None:
    run("git", "remote", "add", "origin", str(origin), cwd=empty)
    project = opened()
    add(project, NewFeature("More"))
    assert build(project, Crew(skeleton)).exit_code == 0
    assert batches(project)[0].base_sha == run("git", "rev-parse", "main", cwd=origin)
    assert run("git", "branch", "--list", "main", cwd=empty) == ""


def test_w5_a_target_that_nobody_stands_on_is_not_made(empty: Path, opened: Callable[..., Project]) -> None:
    project = opened(target="develop")
    add(project, NewFeature("More"))
    with pytest.raises(UsageError, match="There is no branch develop"):
        build(project, Crew(skeleton))
    assert run("git", "for-each-ref", "refs/heads", cwd=empty) == ""


def test_w5_an_empty_repository_gets_its_configuration(empty: Path) -> None:
    out = succeed(empty, "init", "--verify", "sh check.sh")
    assert "autoforge build --land" in out
    assert 'target = "main"' in (empty / "autoforge.toml").read_text()
    assert run("git", "for-each-ref", cwd=empty) == ""
