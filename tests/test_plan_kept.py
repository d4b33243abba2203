"""A plan that was paid for is not lost, and what one leaves behind is put away by the next."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from autoforge import lock, planner
from autoforge.commands import plan as command
from autoforge.drafting import Count, Draft
from autoforge.errors import AgentMissing
from autoforge.project import Project, table
from db.errors import StoreError
from db.feature import NewFeature, Result
from git_workflow.worktree import acquire
from tests.agents import Agent, Crew, SessionEnd
from tests.builds import add, features
from tests.conftest import run
from tests.invoke import invoke
from tests.test_planning import draft, plans, proposal


def test_what_cannot_be_stored_can_be_imported(opened: Callable[..., Project], clone: Path) -> None:
    project = opened()
    made = draft(project, Crew(plans))
    add(project, NewFeature("add"))
    with table(project) as store, pytest.raises(StoreError, match=f"autoforge features import {made.path}"):
        command._store(store, made)
    data = json.loads(made.path.read_text())
    assert [(f["name"], f.get("depends_on")) for f in data] == [("Add", None), ("Report", ["Add"])]
    assert invoke(clone, "features", "rm", "1").code == 0
    assert invoke(clone, "features", "import", str(made.path)).code == 0
    assert [f.name for f in features(project)] == ["Add", "Report"]


@pytest.mark.parametrize(("answer", "code"), [("n\n", None), ("", 130)])
def test_a_plan_that_is_not_wanted_is_kept(
    opened: Callable[..., Project],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int | None,
) -> None:
    made = draft(opened(), Crew(plans))

    def asked(_text: str) -> bool:
        if not answer:
            raise typer.Abort
        return answer == "y\n"

    monkeypatch.setattr(typer, "confirm", asked)
    if code is None:
        assert not command._confirmed(made)
    else:
        with pytest.raises(typer.Exit) as ended:
            command._confirmed(made)
        assert ended.value.exit_code == code
    assert (
        f"Nothing was stored. The plan is kept: autoforge features import {made.path}"
        in capsys.readouterr().out
    )


def test_what_a_killed_plan_has_left_is_put_away(opened: Callable[..., Project], clone: Path) -> None:
    project = opened()
    head = run("git", "rev-parse", "HEAD", cwd=clone)
    branch = "autoforge/plan-20260101-000000-dead"
    left = acquire(project.repo, root=project.worktrees, branch=branch, base_sha=head, recorded=None, busy=())
    (left / "note").write_text("x")
    draft(project, Crew(plans))
    assert not project.worktrees.exists()
    assert branch not in run("git", "branch", cwd=clone)
    assert "note" in run(
        "git", "ls-tree", "--name-only", "refs/autoforge/saved/plan/20260101-000000-dead", cwd=clone
    )


def test_without_credentials_it_is_no_plan_that_was_interrupted(opened: Callable[..., Project]) -> None:
    async def unknown(_agent: Agent) -> SessionEnd:
        return SessionEnd(Result.UNAVAILABLE, "Not logged in.", cost_usd=0.0, turns=0, text="")

    with pytest.raises(AgentMissing, match="Not logged in"):
        draft(opened(), Crew(unknown))


def test_names_that_differ_in_a_sign_are_two() -> None:
    asyncio.run(_names())


async def _names() -> None:
    made = Draft([], Count())
    given = [proposal("Support C"), proposal("Support C++"), proposal("🎉"), proposal("🚀")]
    for n, one in enumerate(given):
        one["steps"] = [f"step {n}"]
    answer = await made.features_create(
        {"features": [*given, {**proposal("Docs", "Support C"), "steps": ["docs"]}]}
    )
    assert not answer.is_error, answer.text
    assert made.features[4].depends_on == (0,)
    again = await made.features_create(
        {"features": [{**proposal("K1"), "steps": ["a"]}, {**proposal("k1"), "steps": ["b"]}]}
    )
    assert again.is_error
    await made.plan_complete({})
    assert (await made.features_create({"features": [{**proposal("Late"), "steps": ["late"]}]})).is_error
    assert len(made.features) == 5


def test_a_plan_is_not_told_as_a_build(opened: Callable[..., Project], clone: Path) -> None:
    project = opened()
    add(project, NewFeature("One"))
    with lock.lead(project.repo.state_dir, lock.PLAN):
        assert "A plan is running (pid" in invoke(clone, "status").out
        held = lock.holder(project.repo.state_dir)
        assert held is not None
        assert held.what == "plan"


def test_a_plan_costs_no_more_than_the_smaller_limit(opened: Callable[..., Project]) -> None:
    crew = Crew(plans)
    draft(opened(limits__budget_usd=100.0), crew)
    assert crew.sessions[0].max_cost_usd == 5.0
    draft(opened(limits__budget_usd=1.0), crew)
    assert crew.sessions[1].max_cost_usd == 1.0
    assert crew.sessions[0].builtin == planner.READING
