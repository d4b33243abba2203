"""Builds that are told to stop: first Ctrl-C, second Ctrl-C, SIGTERM."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoforge import lock
from autoforge.project import Project
from db.feature import FeatureStatus, NewFeature
from tests.agents import Crew, diligent
from tests.builds import add, build, chain, features
from tests.child import STOP_LIMIT_S, Child
from tests.conftest import run

Start = Callable[..., Child]
Opened = Callable[..., Project]


@pytest.fixture
def child(clone: Path, tmp_path: Path) -> Iterator[Start]:
    started = []

    def start(
        agent: str, *, verify: str = "sh check.sh", setup: str = "true", auto_pr: bool = False
    ) -> Child:
        content = f"batch_size = 1\n[verify]\ncommands = ['{verify}']\n[worktree]\nsetup = ['{setup}']\n"
        (clone / "autoforge.toml").write_text(content)
        started.append(Child(clone, tmp_path / "go", agent, **({"AUTO_PR": "1"} if auto_pr else {})))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def held(tmp_path: Path) -> str:
    """A command that says in a pipe called `runs` that it runs, and goes on for a minute."""
    os.mkfifo(tmp_path / "runs")
    return f"echo > {tmp_path}/runs; sleep 60"


def test_the_first_interrupt_lets_agents_finish_and_starts_nothing_new(opened: Opened, child: Start) -> None:
    project = opened()
    add(project, *chain("First", "Second"))
    running = child("holding")
    running.until("holding")
    running.process.send_signal(signal.SIGINT)
    running.go.touch()
    assert running.process.wait(STOP_LIMIT_S) == 130
    assert [f.status for f in features(project)] == [FeatureStatus.PASSED, FeatureStatus.PENDING]
    assert [f.attempts for f in features(project)] == [1, 0]


@pytest.mark.parametrize(("by", "times"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)])
def test_a_second_interrupt_ends_the_agent_and_keeps_its_work(
    opened: Opened, child: Start, clone: Path, by: signal.Signals, times: int
) -> None:
    project = opened()
    add(project, NewFeature("One"))
    running = child("holding")
    running.until("holding")
    assert running.end(by=by, times=times) == 130
    [feature] = features(project)
    assert (feature.status, feature.attempts) == (FeatureStatus.PENDING, 0)
    refs = run("git", "for-each-ref", "--format=%(refname)", "refs/autoforge/saved/*/1", cwd=clone)
    assert run("git", "show", f"{refs}:half.txt", cwd=clone) == "half done"
    assert lock.holder(clone / ".git" / "autoforge") is None
    assert build(project, Crew(diligent)).exit_code == 0


@pytest.mark.parametrize(
    ("agent", "sign", "by"),
    [("limited", "paused until", signal.SIGTERM), ("failing", "agent", signal.SIGINT)],
    ids=["paused", "backing off"],
)
def test_nothing_has_to_be_waited_for(
    opened: Opened, child: Start, agent: str, sign: str, by: signal.Signals
) -> None:
    add(opened(), NewFeature("One"))
    running = child(agent)
    running.until(sign)
    assert running.end(by=by) == 130


@pytest.mark.parametrize("where", ["baseline", "set-up", "verify"])
def test_sigterm_ends_a_command_that_runs(
    opened: Opened, child: Start, tmp_path: Path, held: str, where: str
) -> None:
    project = opened()
    add(project, NewFeature("One", verify=(held,) if where == "verify" else ()))
    commands = {
        "baseline": {"verify": held},
        "set-up": {"setup": f"case $AUTOFORGE_BATCH in trial) ;; *) {held};; esac"},
    }
    running = child("diligent", **commands.get(where, {}))
    (tmp_path / "runs").read_text()
    assert running.end(by=signal.SIGTERM) == 130
    [feature] = features(project)
    assert (feature.status, feature.attempts) == (FeatureStatus.PENDING, 0)


def test_sigterm_ends_a_push_that_hangs(
    opened: Opened, child: Start, clone: Path, tmp_path: Path, held: str
) -> None:
    hook = clone / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\n{held}\n")
    hook.chmod(0o755)
    project = opened()
    add(project, NewFeature("One"))
    running = child("diligent", auto_pr=True)
    (tmp_path / "runs").read_text()
    assert running.end(by=signal.SIGTERM) == 130
    assert features(project)[0].status is FeatureStatus.PASSED
    hook.unlink()
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
