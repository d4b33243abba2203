"""The build that leads dies, stands still or is not alone: another one takes over, and nothing is doubled or lost."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoforge import project, settings
from autoforge.demo.github import Repository
from autoforge.process import host_id
from autoforge.project import Project, table
from db.engine import sqlite_url
from db.feature import Batch, BatchStatus, FeatureStatus, NewFeature
from db.lease import LeaseHeld
from db.store import FeatureStore
from tests.agents import Crew, diligent
from tests.builds import add, batches, build, chain, features
from tests.child import STOP_LIMIT_S, Child
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke
from tests.postgres import Server
from tests.tables import everything

LEASE_S = 2.0
CONFIGURATION = """\
batch_size = 1
concurrency = 2
[verify]
commands = ["sh check.sh"]
[github]
seconds_between_writes = 0
[database]
{database}
"""
Start = Callable[..., Child]
Clone = Callable[[str, str], Path]


@pytest.fixture
def machine(origin: Path, clone: Path, tmp_path: Path) -> Clone:
    """Makes a clone as another machine has it: of the same remote, with the same feature table."""

    def make(name: str, url: str) -> Path:
        folder = tmp_path / name / "app"
        run("git", "clone", "-q", str(origin), str(folder), cwd=tmp_path)
        (folder / "autoforge.toml").write_text(CONFIGURATION.format(database=f"url = '{url}'"))
        return folder

    return make


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[Start]:
    """Starts a build of a machine called `there`, whose processes cannot be asked about here."""
    started = []

    def start(folder: Path, **env: str) -> Child:
        env = {"AUTO_PR": "1", "HOST_ID": "there", "LEASE_S": str(LEASE_S)} | env
        started.append(Child(folder, tmp_path / "go", "choosing", **env))
        return started[-1]

    yield start
    for one in started:
        one.process.send_signal(signal.SIGCONT)
        one.close()


def opened(folder: Path, **env: str) -> Project:
    return project.open_project(folder, settings.take({**os.environ, **env}))


def until_nobody_leads(store: FeatureStore) -> None:
    limit = time.monotonic() + 3 * LEASE_S
    while store.leader() is not None:
        assert time.monotonic() < limit
        time.sleep(0.05)


def refs(folder: Path) -> str:
    return run("git", "for-each-ref", "refs/heads", cwd=folder)


def made_in(folder: Path, batch: Batch) -> list[int]:
    """The features whose commits the branch has, the newest first."""
    lines = run(
        "git",
        "log",
        "--format=%(trailers:key=Autoforge-Feature,valueonly)",
        f"main..{batch.branch}",
        cwd=folder,
    )
    return [int(line) for line in lines.splitlines() if line]


def test_b1_after_a_killed_leader_every_batch_goes_on_from_its_step(
    clone: Path, lead: Start, github: ValidatingGitHub, forged: Repository, origin: Path
) -> None:
    online = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}
    (clone / "autoforge.toml").write_text(CONFIGURATION.format(database=""))
    here = opened(clone, **online)
    add(here, *chain("One", "Hold two", "Four"), NewFeature("Hold three"))
    first = lead(clone, **online)
    for _ in range(2):
        first.until("holding")
    first.kill()
    steps = {b.feature_ids: b for b in batches(here)}
    assert [(f.status, f.attempts) for f in features(here)] == [
        (FeatureStatus.PASSED, 1), (FeatureStatus.RUNNING, 1), (FeatureStatus.PENDING, 0), (FeatureStatus.RUNNING, 1)
    ]  # fmt: skip

    crew = Crew(diligent)
    with pytest.raises(LeaseHeld, match=r"on there\. Wait for it"):
        build(here, crew, auto_pr=True)
    assert (crew.sessions, list(forged.pulls)) == ([], [steps[1,].pr_number])
    with table(here) as store:
        until_nobody_leads(store)
    assert build(here, crew, auto_pr=True).exit_code == 0

    assert [f.attempts for f in features(here)] == [1, 2, 1, 2]
    assert len(crew.sessions) == 3
    after = {b.feature_ids: b for b in batches(here)}
    assert {ids: b.key for ids, b in steps.items()}.items() <= {
        ids: b.key for ids, b in after.items()
    }.items()
    assert sorted(p.head for p in forged.pulls.values()) == sorted(b.branch for b in after.values())
    assert {b.status for b in after.values()} == {BatchStatus.OPENED}
    assert {ids[0]: made_in(origin, b) for ids, b in after.items()} == {
        1: [1],
        2: [2, 1],
        3: [3, 2, 1],
        4: [4],
    }
    for ids in ((2,), (4,)):
        assert run("git", "show", f"{after[ids].branch}:half.txt", cwd=origin) == "half done"
    with table(here) as store:
        assert sorted(a.lease_token or 0 for a in store.attempts()) == [1, 1, 1, 2, 2, 2]


def test_b1_a_leader_that_stood_still_is_followed_and_changes_nothing_afterwards(
    machine: Clone, lead: Start, postgresql: Server, origin: Path
) -> None:
    with postgresql.database() as url, closing(FeatureStore.open(url)) as store:
        there, here = machine("a", url), opened(machine("b", url))
        add(here, *chain("Hold one", "Two"))
        first = lead(there)
        first.until("holding")
        first.process.send_signal(signal.SIGSTOP)
        until_nobody_leads(store)
        assert build(here, Crew(diligent), auto_pr=True).exit_code == 0
        assert [f.attempts for f in features(here)] == [2, 1]
        before = everything(store), refs(origin)

        first.go.touch()
        first.process.send_signal(signal.SIGCONT)
        first.until("This build stood still for so long that it no longer leads, and stopped")
        assert first.process.wait(STOP_LIMIT_S) == 4
        assert (everything(store), refs(origin)) == before
    kept = run("git", "log", "--all", "--format=", "--name-only", cwd=there).splitlines()
    assert "half.txt" in kept or [*there.parent.glob("app.worktrees/*/half.txt")]


def test_b2_a_build_in_another_clone_is_turned_away_while_one_leads(
    machine: Clone, lead: Start, table_url: str
) -> None:
    """With SQLite on the same machine, whose lock file is each clone's own; with PostgreSQL on another one."""
    there, here = machine("a", table_url), machine("b", table_url)
    add(opened(there), NewFeature("Hold one"))
    first = lead(there, HOST_ID=host_id() if table_url.startswith("sqlite") else "there")
    first.until("holding")
    with closing(FeatureStore.open(table_url)) as store:
        before = everything(store)
        ended = invoke(here, "build", "--auto-pr")
        assert (ended.code, everything(store)) == (2, before)
    assert f"process {first.process.pid} on " in ended.err
    assert "Wait for it, or stop it" in ended.err


def test_b1_what_only_the_other_machine_has_is_said_and_not_lost(
    machine: Clone, tmp_path: Path, origin: Path
) -> None:
    url = sqlite_url(tmp_path / "shared.db")
    there, here = opened(machine("a", url)), opened(machine("b", url))
    add(here, NewFeature("One"))
    assert build(there, Crew(diligent)).exit_code == 0
    ended = build(here, Crew(diligent), auto_pr=True)
    assert ended.exit_code == 1
    assert "is not in this clone, but in the one where it was built: run" in str(ended.unpublished)
    assert build(there, Crew(diligent), auto_pr=True).exit_code == 0
    [batch] = batches(here)
    assert made_in(origin, batch) == [1]
