"""Builds that are killed, and what the next one makes of it."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoforge import lock
from autoforge.demo.github import Repository
from autoforge.demo.model import Request, Script, ScriptedModel, Turn
from autoforge.project import Project
from db.feature import BatchStatus, FeatureStatus, NewFeature
from tests.agents import Crew, diligent
from tests.builds import add, batches, build, chain, features
from tests.child import STOP_LIMIT_S, Child
from tests.conftest import TOKEN, run
from tests.harness.github import Fault, ValidatingGitHub
from tests.invoke import CONSOLE_SCRIPT, succeed

Start = Callable[..., Child]
Opened = Callable[..., Project]
CONFIGURATION = """\
batch_size = 1
[verify]
commands = ["sh check.sh"]
[github]
seconds_between_writes = 0
"""


@pytest.fixture
def child(clone: Path, tmp_path: Path) -> Iterator[Start]:
    started = []

    def start(agent: str, **env: str) -> Child:
        (clone / "autoforge.toml").write_text(CONFIGURATION)
        started.append(Child(clone, tmp_path / "go", agent, **env))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def online(opened: Opened, forged: Repository, github: ValidatingGitHub) -> Project:
    return opened(token=TOKEN, api_url=github.url, batch_size=1)


@pytest.fixture
def on_github(github: ValidatingGitHub) -> dict[str, str]:
    return {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url, "AUTO_PR": "1"}


def test_b1_killed_in_the_session_the_work_goes_on_in_the_next_build(
    online: Project, child: Start, on_github: dict[str, str], forged: Repository, origin: Path
) -> None:
    add(online, *chain("First", "Second"))
    first = child("holding", **on_github)
    first.until("holding")
    first.kill()
    assert [f.status for f in features(online)] == [FeatureStatus.RUNNING, FeatureStatus.PENDING]

    assert build(online, Crew(diligent), auto_pr=True).exit_code == 0
    assert [f.attempts for f in features(online)] == [2, 1]
    assert [p.head for p in forged.pulls.values()] == [b.branch for b in batches(online)]
    assert run("git", "show", f"{batches(online)[0].branch}:half.txt", cwd=origin) == "half done"


def test_b1_killed_between_commit_and_push(
    online: Project, child: Start, on_github: dict[str, str], forged: Repository, clone: Path, tmp_path: Path
) -> None:
    add(online, NewFeature("One"))
    pipe, hook = tmp_path / "pushing", clone / ".git" / "hooks" / "pre-push"
    os.mkfifo(pipe)
    hook.write_text(f"#!/bin/sh\necho > {pipe}; exec sleep 60\n")
    hook.chmod(0o755)
    first = child("diligent", **on_github)
    pipe.read_text()
    first.kill()
    hook.unlink()
    assert batches(online)[0].status is BatchStatus.BUILT
    assert features(online)[0].status is FeatureStatus.PASSED

    crew = Crew(diligent)
    assert build(online, crew, auto_pr=True).exit_code == 0
    assert crew.sessions == []
    assert len(forged.pulls) == 1
    assert [f.attempts for f in features(online)] == [1]


@pytest.mark.parametrize("handled", [False, True], ids=["not opened", "opened"])
def test_b1_p1_killed_between_push_and_the_answer_to_the_pull_request(
    online: Project,
    child: Start,
    on_github: dict[str, str],
    github: ValidatingGitHub,
    forged: Repository,
    handled: bool,
) -> None:
    add(online, NewFeature("One"))
    github.faults.append(Fault("POST", ".*/pulls", delay_s=0 if handled else 60, handled=handled, drop=True))
    if handled:  # and nothing after it is answered
        github.faults.append(Fault("*", ".*/pulls.*", delay_s=60, times=0))
    first = child("diligent", **on_github)
    first.until("pushed")
    asked = time.monotonic()
    while not github.requests("POST", "/pulls") and time.monotonic() < asked + STOP_LIMIT_S:
        time.sleep(0.01)
    first.kill()
    github.faults.clear()

    assert build(online, Crew(diligent), auto_pr=True).exit_code == 0
    assert [p.head for p in forged.pulls.values()] == [b.branch for b in batches(online)]
    assert [f.attempts for f in features(online)] == [1]


def test_b1_killed_while_a_feature_is_verified_it_has_not_passed(
    opened: Opened, child: Start, clone: Path, tmp_path: Path
) -> None:
    project = opened()
    pipe = tmp_path / "verifying"
    os.mkfifo(pipe)
    held = f"test -e {tmp_path}/mended || {{ echo > {pipe}; sleep 60; }}"
    add(project, NewFeature("One", verify=(held,)))
    first = child("diligent")
    pipe.read_text()
    below = psutil.Process(first.process.pid).children(recursive=True)
    first.kill()
    assert psutil.wait_procs(below, timeout=STOP_LIMIT_S)[1] == []
    assert features(project)[0].commit_sha is None
    (tmp_path / "mended").touch()
    assert build(project, Crew(diligent)).exit_code == 0
    assert features(project)[0].attempts == 2
    branch = batches(project)[0].branch
    assert run("git", "rev-list", "--count", f"main..{branch}", cwd=clone) == "1"


def test_b2_two_builds_at_once(opened: Opened, child: Start, clone: Path) -> None:
    add(opened(), NewFeature("One"))
    first = child("holding")
    first.until("holding")
    second = child("diligent")
    second.until(f"pid {first.process.pid}")
    assert second.process.wait(STOP_LIMIT_S) == 2
    assert lock.holder(clone / ".git" / "autoforge") == lock.Holder("build", first.process.pid)
    first.go.touch()
    assert first.process.wait(STOP_LIMIT_S) == 0


@pytest.mark.claude
def test_b1_killed_while_the_claude_cli_works(
    model: Callable[[Script], ScriptedModel],
    clone: Path,
    forged: Repository,
    on_github: dict[str, str],
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "working"
    os.mkfifo(pipe)
    hang = f"echo half > half.txt; python3 -c \"open('{pipe}', 'w').write('x'); import time; time.sleep(60)\""

    def script(request: Request) -> Turn:
        second = "half.txt" in request.prompt or (tmp_path / "second").exists()
        claim = {"id": 1, "summary": "s", "evidence": [{"step": 1, "command": "test -s half.txt"}]}
        calls = [("mcp__autoforge__feature_passed", claim)] if second else [("Bash", {"command": hang})]
        return Turn("x", tools=(calls[request.step],)) if request.step < len(calls) else Turn("Done.")

    (clone / "autoforge.toml").write_text(CONFIGURATION)
    succeed(clone, "features", "add", "One")
    env = {
        **os.environ,
        **on_github,
        "ANTHROPIC_BASE_URL": model(script).url,
        "ANTHROPIC_API_KEY": "mock",
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
    }
    command = [*CONSOLE_SCRIPT, "build", "--auto-pr"]
    with subprocess.Popen(command, cwd=clone, env=env, stdout=subprocess.DEVNULL) as first:
        pipe.read_text()
        below = psutil.Process(first.pid).children(recursive=True)
        assert any(process.name() == "claude" for process in below)
        first.kill()
    assert psutil.wait_procs(below, timeout=STOP_LIMIT_S)[1] == []
    (tmp_path / "second").touch()
    second = subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "goes on: its build was killed in attempt 1" in second.stdout
    assert len(forged.pulls) == 1
    assert "attempts: 2" in succeed(clone, "features", "show", "1")
