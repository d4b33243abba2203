"""Before the first agent: what a crash left, what the forge says, and whether the target is green."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoforge import lead, leading, lock, preflight
from autoforge.build import Build
from autoforge.errors import BaselineRed, UsageError
from autoforge.leading import Options, Seams
from autoforge.project import Project, table
from db.feature import BatchStatus, FeatureStatus, NewFeature
from db.store import FeatureStore
from git_workflow.errors import GitWorkflowError
from git_workflow.worktree import acquire
from tests.agents import Crew, diligent
from tests.builds import add, batches, build, features
from tests.conftest import commit, run

Opened = Callable[..., Project]


def push(clone: Path, files: dict[str, str]) -> None:
    commit(clone, files)
    run("git", "push", "-q", "origin", "main", cwd=clone)


def made(project: Project, store: FeatureStore) -> Build:
    given = {"build_id": leading.new_build_id(), "cli_path": Path()}
    return leading.make(project, store, Options(), lambda _: None, Seams(), **given)  # type: ignore[arg-type]


def test_a_red_target_stops_the_build_and_names_the_output(opened: Opened, clone: Path) -> None:
    push(clone, {"broken": "x", "check.sh": "echo it is broken; test ! -e broken\n"})
    project = opened()
    add(project, NewFeature("A"))
    with pytest.raises(BaselineRed, match="it is broken"):
        build(project, Crew(diligent))
    assert not project.worktrees.exists()
    assert run("git", "branch", "--format=%(refname:short)", cwd=clone) == "main"


def test_commands_that_leave_files_are_found_before_any_money_is_spent(opened: Opened, clone: Path) -> None:
    push(clone, {"check.sh": "mkdir -p cache; echo x > cache/data\n"})
    project = opened()
    add(project, NewFeature("A"))
    crew = Crew(diligent)
    with pytest.raises(BaselineRed, match=r"\.gitignore(.|\n)*cache/data"):
        build(project, crew)
    assert crew.sessions == []
    push(clone, {".gitignore": "cache/\n"})
    assert build(project, Crew(diligent)).exit_code == 0


def test_only_blocked_features_are_left_and_no_command_runs_for_them(opened: Opened, clone: Path) -> None:
    project = opened(max_attempts=1, batch_size=1)
    add(project, NewFeature("A"), NewFeature("B", depends_on=(0,)))

    async def idle(_: object) -> None:
        return None

    assert build(project, Crew(idle)).exit_code == 1
    push(clone, {"broken": "x"})
    report = build(project, Crew(idle))
    assert report.exit_code == 1
    assert report.blocked == {2: "waits for #1, which failed"}


def test_b1_the_worktree_of_a_killed_baseline_is_put_away(opened: Opened, clone: Path) -> None:
    project = opened()
    add(project, NewFeature("A"))
    head = run("git", "rev-parse", "HEAD", cwd=clone)
    branch = "autoforge/trial-20260101-000000-dead-0"
    left = acquire(project.repo, root=project.worktrees, branch=branch, base_sha=head, recorded=None, busy=())
    (left / "half").write_text("x")
    assert build(project, Crew(diligent)).exit_code == 0
    assert not project.worktrees.exists()
    assert branch not in run("git", "branch", cwd=clone)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_baseline_can_be_stopped(opened: Opened, number: signal.Signals, code: int) -> None:
    started = opened().worktrees.parent / "started"
    project = opened(verify__commands=[f"touch {started}; sleep 60"])
    add(project, NewFeature("A"))

    async def stopped() -> int:
        with table(project) as store:
            running = asyncio.ensure_future(
                lead.run(project, store, Options(), lambda _: None, Seams(agent=Crew(diligent)))
            )
            while not started.exists():
                await asyncio.wait({running}, timeout=0.02)
            os.kill(os.getpid(), number)
            return (await asyncio.wait_for(running, 20)).exit_code

    assert asyncio.run(stopped()) == code
    assert features(project)[0].status is FeatureStatus.PENDING
    assert not project.worktrees.exists()


@pytest.mark.parametrize("remote", [True, False])
def test_a_target_that_is_not_there_is_named(opened: Opened, clone: Path, remote: bool) -> None:
    if not remote:
        run("git", "remote", "remove", "origin", cwd=clone)
    project = opened(target="develop")
    with pytest.raises(UsageError, match="develop"):
        preflight.fetch_target(project, "develop")


def test_w8_fetches_are_one_at_a_time_and_not_repeated_within_a_minute(opened: Opened, clone: Path) -> None:
    project = opened()
    fetcher = preflight.TargetFetcher(project, "main")

    async def eight() -> set[str]:
        return {target.sha for target in await asyncio.gather(*(fetcher() for _ in range(8)))}

    head = run("git", "rev-parse", "HEAD", cwd=clone)
    assert asyncio.run(eight()) == {head}
    push(clone, {"x": "y"})
    assert asyncio.run(eight()) == {head}


def test_what_needs_no_forge_does_not_fail_because_of_it(opened: Opened, clone: Path) -> None:
    """The forge's fetch fails as well: the remote is gone."""
    project = opened()
    add(project, NewFeature("A"))
    assert build(project, Crew(diligent)).exit_code == 0

    class Unreachable:
        def get(self, number: int) -> None:
            raise AssertionError("the fetch comes first")

    run("git", "remote", "set-url", "origin", str(clone.parent / "gone.git"), cwd=clone)
    with table(project) as store:
        gone = made(project, store)
        object.__setattr__(gone, "forge", Unreachable())
        with pytest.raises(GitWorkflowError):  # a batch is built and not published
            asyncio.run(preflight.learn(gone))
        [batch] = store.batches()
        with lock.lease(store, "b") as (led, _):
            led.save_batch(replace(batch, status=BatchStatus.MERGED, merge_sha=batch.head_sha))
        assert asyncio.run(preflight.learn(gone))[0].startswith("the state of the pull requests was not read")
        store.add_features([NewFeature("B")])
        with pytest.raises(GitWorkflowError):
            asyncio.run(preflight.learn(gone))
    assert [b.status for b in batches(project)] == [BatchStatus.MERGED]
