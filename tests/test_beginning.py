"""An empty repository: planned as a new project, and built on a first commit without files."""

from collections.abc import Callable
from pathlib import Path

from autoforge import planner
from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, batches, build
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub


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
