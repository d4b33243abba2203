"""Real git in a temporary home, no credentials in the environment, and nothing left running after a test."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from autoforge import project, settings
from autoforge.demo.github import Account, Repository
from autoforge.demo.model import Script, ScriptedModel
from autoforge.project import Project
from db.engine import sqlite_url
from db.store import FeatureStore
from git_workflow.command import Git
from tests import postgres
from tests.harness.github import ValidatingGitHub
from tests.tables import led

PREFIXES = ("ANTHROPIC_", "CLAUDE", "GITHUB_", "GH_", "ACTIONS_", "RUNNER_", "GIT_", "AUTOFORGE_", "XDG_")
RUN = "TEST_RUN_OF_AUTOFORGE"  # several runs of the suite may share a machine
DATE = "2026-01-02T03:04:05+00:00"
TOKEN = "ghp_" + "t" * 36


@pytest.fixture(autouse=True)
def surroundings_of_a_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIXES) or name == "IS_SANDBOX":
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Tess Ter\n\temail = tess@example.com\n[init]\n\tdefaultBranch = main\n"
        '[commit]\n\tgpgsign = false\n[protocol "file"]\n\tallow = always\n'
    )
    pyenv = Path.home() / ".pyenv"
    if pyenv.is_dir():  # its shims look for it in the home
        monkeypatch.setenv("PYENV_ROOT", os.environ.get("PYENV_ROOT", str(pyenv)))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv(RUN, str(os.getpid()))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    left = []
    for process in psutil.process_iter():
        try:
            marks = process.environ()
            ours = marks.get(RUN) == str(os.getpid()) and "AUTOFORGE_BUILD" in marks
            if ours and process.pid != os.getpid():
                left.append((process.pid, process.cmdline()))
                process.kill()
        except (psutil.Error, OSError):
            continue
    assert left == []


def run(*command: str, cwd: Path, **env: str) -> str:
    """A command that must succeed; its standard output."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def commit(folder: Path, files: dict[str, str], message: str = "change") -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    run("git", "add", "-A", cwd=folder)
    run("git", "commit", "-qm", message, cwd=folder, **dates)
    return run("git", "rev-parse", "HEAD", cwd=folder)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    path = tmp_path / "origin.git"
    run("git", "init", "-q", "--bare", str(path), cwd=tmp_path)
    return path


@pytest.fixture
def clone(tmp_path: Path, origin: Path) -> Path:
    """A clone with one commit on main, which is on the remote as well."""
    path = tmp_path / "app"
    run("git", "clone", "-q", str(origin), str(path), cwd=tmp_path)
    commit(path, {"README.md": "# app\n", "check.sh": "test ! -e broken\n"}, "chore: start")
    run("git", "push", "-q", "origin", "main", cwd=path)
    run("git", "remote", "set-head", "origin", "main", cwd=path)
    return path


@pytest.fixture
def git(clone: Path) -> Git:
    return Git(clone)


@pytest.fixture
def github() -> Iterator[ValidatingGitHub]:
    """A loopback GitHub that checks every request and answer against GitHub's own description."""
    server = ValidatingGitHub({TOKEN: Account("octo"), "reader": Account("rita", may_write=False)})
    server.start()
    yield server
    server.stop()
    assert server.violations == []


@pytest.fixture
def forged(github: ValidatingGitHub, origin: Path, clone: Path) -> Repository:
    """The clone's origin, served by the loopback GitHub."""
    repository = github.add_repository("octo", "app", origin)
    run("git", "remote", "set-url", "origin", f"{github.url}/octo/app.git", cwd=clone)
    return repository


@pytest.fixture
def model() -> Iterator[Callable[[Script], ScriptedModel]]:
    started = []

    def start(script: Script) -> ScriptedModel:
        server = ScriptedModel(script)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def opened(clone: Path) -> Callable[..., Project]:
    """Opens the clone as a project; keyword arguments are flags with `__` for the dot."""

    def open_(token: str | None = None, api_url: str | None = None, **flags: object) -> Project:
        taken = settings.take(dict(os.environ))
        taken = replace(taken, token=token, api_url=api_url)
        given = {"verify.commands": ["sh check.sh"], "github.seconds_between_writes": 0}
        given |= {name.replace("__", "."): value for name, value in flags.items()}
        return project.open_project(clone, taken, given)

    return open_


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FeatureStore]:
    """A feature table of its own, in the hands of who leads."""
    opened = led(FeatureStore.open(sqlite_url(tmp_path / "features.db")))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgres.Server]:
    with postgres.server() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def table_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a feature table is or can be made, once on each database."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "features.db")
    else:
        with request.getfixturevalue("postgresql").database() as url:
            yield url
