"""A join that conflicts is resolved once by an agent; the resolution becomes the join."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.agent.session import SessionEnd
from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import FeatureStatus, NewFeature, Result
from tests.agents import Agent, Crew
from tests.builds import add, batches, build, features
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub

DIAMOND = [
    NewFeature("Root"),
    NewFeature("Left", "adds left", depends_on=(0,)),
    NewFeature("Right", "adds right", depends_on=(0,)),
]
DIAMOND.append(NewFeature("Bottom", depends_on=(1, 2)))


@pytest.fixture
def project(opened: Callable[..., Project], forged: Repository, github: ValidatingGitHub) -> Project:
    project = opened(token=TOKEN, api_url=github.url, batch_size=1, max_attempts=2)
    add(project, *DIAMOND)
    return project


async def same_line(agent: Agent) -> None:
    """Every feature changes the same line; the resolver keeps both sides."""
    if not agent.features:
        assert "`words`" in agent.session.prompt
        assert "adds left" in agent.session.prompt
        assert "<<<<<<<" in (agent.session.cwd / "words").read_text()
        assert (await agent.call("conflict_resolved")).is_error
        agent.write("words", "Left Right\n")
        assert not (await agent.call("conflict_resolved")).is_error
        return
    [(feature_id, name)] = agent.features
    agent.write("words" if name != "Bottom" else "bottom", f"{name}\n")
    answer = await agent.passed(feature_id, "true")
    assert not answer.is_error, answer.text


def test_the_resolution_becomes_the_pushed_join_and_the_childs_pr_shows_only_its_own_change(
    project: Project, forged: Repository, origin: Path
) -> None:
    report = build(project, Crew(same_line), auto_pr=True)
    assert report.exit_code == 0, report.open
    bottom = batches(project)[-1]
    base = bottom.base_branch or ""
    assert base.startswith("autoforge/join-")
    assert run("git", "show", f"{base}:words", cwd=origin) == "Left Right"
    assert run("git", "diff", "--name-only", f"{base}...{bottom.branch}", cwd=origin) == "bottom"
    tips = {p.tip for p in bottom.parents}
    assert set(run("git", "show", "-s", "--format=%P", base, cwd=origin).split()) == tips
    assert forged.pulls[bottom.pr_number or 0].base == base
    assert report.cost_usd == pytest.approx(5 * 0.5)
    assert "resolve" not in run("git", "branch", "--list", cwd=project.repo.root)
    assert not project.worktrees.exists()


def test_a_resolution_that_is_red_or_missing_is_no_join(project: Project, origin: Path) -> None:
    async def breaks(agent: Agent) -> SessionEnd | None:
        if agent.features:
            await same_line(agent)
            return None
        agent.write("words", "both\n")
        agent.write("broken", "x")
        answer = await agent.call("conflict_resolved")
        assert "sh check.sh" in answer.text
        return SessionEnd(Result.PASSED, cost_usd=0.1)

    report = build(project, Crew(breaks), auto_pr=True)
    assert report.exit_code == 1
    assert "change the same lines of words" in report.open[4]
    assert [f.status for f in features(project)][3] is FeatureStatus.FAILED
    assert "join" not in run("git", "branch", "--list", cwd=origin)
