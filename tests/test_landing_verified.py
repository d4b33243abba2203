"""What lands is verified as it will be in the target, and does not land when it is red there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.project import Project
from db.feature import BatchStatus, NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, batches, build
from tests.conftest import commit, run
from tests.landings import built, land, sha

Opened = Callable[..., Project]


def test_what_is_red_on_the_new_target_goes_back_with_what_is_built_on_it(
    opened: Opened, clone: Path
) -> None:
    """`a.txt` and `b.txt` work alone and not together."""
    project = opened(batch_size=1, verify__commands=["echo checking; ! cat a.txt b.txt"])
    new = [NewFeature(f"{name}.txt=1", depends_on=(1,) if name == "c" else ()) for name in "abcd"]
    before = {one.feature_ids[0]: one for one in built(project, *new)}
    assert land(project, "#1").exit_code == 0
    told: list[Event] = []
    landed = land(project, show=told.append)
    assert landed.exit_code == 1
    assert [one.feature_ids for one in landed.batches] == [(4,)]
    after = {one.feature_ids[0]: one for one in batches(project)}
    assert after[2].status is after[3].status is BatchStatus.BUILT
    assert "it is red" in (after[2].last_error or "")
    assert (
        "checking\n1\n1" in next(project.repo.state_dir.glob(f"runs/*/land-{after[2].key}.txt")).read_text()
    )
    assert str(project.repo.state_dir) in (after[2].last_error or "")
    assert landed.left[after[3].key] == f"it is built on {after[2].branch}, which has not landed."
    assert after[3].last_error is None
    kept = run("git", "for-each-ref", "--format=%(refname)", "refs/autoforge/saved/*/landing", cwd=clone)
    assert kept == f"refs/autoforge/saved/{after[2].key}/landing"
    assert not project.worktrees.exists()
    for number in (2, 3):
        assert sha(clone, before[number].branch) == before[number].head_sha
    assert run("git", "ls-tree", "--name-only", "main", cwd=clone).split() == [
        "README.md",
        "a.txt",
        "check.sh",
        "d.txt",
    ]
    assert any(e.kind is EventKind.WARNING and e.batch == after[3].key for e in told)


@pytest.mark.parametrize("evidence", [True, False])
def test_what_has_shown_a_feature_must_be_green_as_well(opened: Opened, clone: Path, evidence: bool) -> None:
    project, command = opened(), "grep -q '# app' README.md"

    async def shows_it(agent: Agent) -> None:
        agent.write("a.txt", "1\n")
        assert not (await agent.passed(1, command if evidence else "true")).is_error

    add(project, NewFeature("A", verify=() if evidence else (command,)))
    assert build(project, Crew(shows_it)).exit_code == 0
    commit(clone, {"README.md": "# other\n"})
    landed = land(project)
    assert "grep" in next(iter(landed.left.values()))
    assert run("git", "ls-tree", "--name-only", "main", cwd=clone).split() == ["README.md", "check.sh"]


def test_a_target_that_moves_meanwhile_is_verified_again(opened: Opened, clone: Path) -> None:
    built(opened(), NewFeature("a.txt=1"))
    runs = clone.parent / "runs"
    move = f"[ -s {runs} ] || git -C {clone} commit -q --allow-empty -m mine; echo run >> {runs}"
    landed = land(opened(verify__commands=[move]))
    assert landed.exit_code == 0
    assert runs.read_text() == "run\nrun\n"
    assert run("git", "log", "-1", "--format=%s", "main^", cwd=clone) == "mine"


def test_files_that_the_commands_leave_keep_it_out(opened: Opened, clone: Path) -> None:
    project = opened()
    [batch] = built(project, NewFeature("a.txt=1"))
    landed = land(opened(verify__commands=["touch left.txt"]))
    assert "left.txt" in landed.left[batch.key]
    assert sha(clone, "main") == sha(clone, "origin/main")


def test_without_verify_commands_nothing_lands_unless_it_is_said(opened: Opened, clone: Path) -> None:
    built(opened(), NewFeature("a.txt=1"))
    project = opened(verify__commands=[])
    with pytest.raises(UsageError, match="--no-verify"):
        land(project)
    assert land(project, no_verify=True).exit_code == 0
    assert "--no-verify" in run("git", "log", "-1", "--format=%b", "main", cwd=clone)


def test_what_is_red_on_the_target_already_counts_unless_that_is_allowed(opened: Opened, clone: Path) -> None:
    built(opened(), NewFeature("a.txt=1"))
    commit(clone, {"broken": "1"})
    assert land(opened()).exit_code == 1
    told: list[Event] = []
    project = opened(verify__allow_red=True, verify__commands=["sh check.sh", "test -e a.txt"])
    assert land(project, show=told.append).exit_code == 0
    assert any("sh check.sh" in event.text for event in told)
