"""What cannot be done ends with 2, one clear error and an untouched table."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import NewFeature
from tests.builds import add, features
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke, refused, succeed

Opened = Callable[..., Project]
EVERYWHERE = (
    ("init",),
    ("build",),
    ("status",),
    ("answer",),
    ("sync",),
    ("features", "list"),
    ("features", "show", "1"),
    ("features", "add", "x"),
    ("features", "import", "f.json"),
)


@pytest.fixture
def app(clone: Path, opened: Opened) -> Path:
    add(opened(), NewFeature("One"))
    (clone / "autoforge.toml").write_text('[verify]\ncommands = ["sh check.sh"]\n')
    return clone


@pytest.mark.parametrize("command", EVERYWHERE, ids=" ".join)
def test_w5_outside_of_a_repository(command: tuple[str, ...], tmp_path: Path) -> None:
    assert "is not inside a git repository" in refused(tmp_path, *command)
    assert "is not a folder" in refused(tmp_path / "nowhere", *command)
    assert list(tmp_path.iterdir()) == []


def test_w5_a_bare_repository_and_an_empty_one(origin: Path, tmp_path: Path) -> None:
    assert "bare repository" in refused(origin, "status")
    run("git", "init", "-q", "empty", cwd=tmp_path)
    assert "There are no features yet" in refused(tmp_path / "empty", "build")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("target = ", "cannot be read"),
        ("targt = 'main'", "targt: there is no such key"),
        ("[verify]\ncommand = []", "verify.command: there is no such key"),
        ("concurrency = 'many'", "concurrency: "),
        ("[verify]\ncommands = 'pytest'", "verify.commands: "),
        ("verify = 1", "verify: "),
        ("batch_size = 4", "batch_size: "),
        ("branch_prefix = 'a b'", "branch_prefix: "),
        ("[limits]\nbudget_usd = -1", "limits.budget_usd: "),
    ],
)
@pytest.mark.parametrize("command", [("status",), ("build", "--dry-run")], ids=" ".join)
def test_b5_a_configuration_that_is_not_valid(
    app: Path, command: tuple[str, ...], content: str, error: str
) -> None:
    (app / "autoforge.toml").write_text(content)
    told = refused(app, *command)
    assert str(app / "autoforge.toml") in told
    assert error in told


def test_b5_a_variable_that_is_not_valid(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFORGE_CONCURRENCY", "many")
    assert "AUTOFORGE_* variable: concurrency" in refused(app, "status")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('[{"name": "A"}, {"name": "B", "stepz": []}]', 'item 2 ("B") has the unknown key "stepz"'),
        ('[{"name": "A"}, {"name": "a"}]', "item 2, name"),
        ('[{"name": "One"}]', "exists already as #1"),
        ('[{"name": "A", "depends_on": ["Z"]}]', 'no feature "Z"'),
        ("[", "f.json"),
        ("\0" * 100, "f.json"),
    ],
)
def test_b5_an_import_that_is_not_valid_stores_nothing(
    app: Path, opened: Opened, content: str, error: str
) -> None:
    (app / "f.json").write_text(content)
    assert error in refused(app, "features", "import", str(app / "f.json"))
    assert [f.name for f in features(opened())] == ["One"]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (("features", "import", "/nowhere.json"), "/nowhere.json"),
        (("features", "import"), "FILE"),
        (("features", "add", " "), "name is empty"),
        (("features", "add", "x", "--depends-on", "9"), "#9"),
        (("features", "add", "x", "--depends-on", "one"), "--depends-on"),
        (("features", "show", "9"), "no feature 9"),
        (("features", "show", "x"), "ID"),
        (("answer", "9", "x"), "no feature 9"),
        (("answer", "1", "x"), "does not wait for an answer: it is pending"),
        (("answer", "1"), "does not wait for an answer: it is pending"),
        (("init",), "exists already; it was left as it is"),
        (("init", "extra"), "extra"),
        (("status", "--jsn"), "--jsn"),
        (("status", "extra"), "extra"),
        (("sync",), "no known GitHub repository"),
        (("sync", "extra"), "extra"),
        (("build", "--feature", "9"), "no feature #9"),
        (("build", "--batch-size", "4"), "--batch-size"),
        (("build", "--concurrency", "0"), "--concurrency"),
        (("build", "--max-budget", "0"), "--max-budget"),
        (("build", "--max-budget", "nan"), "--max-budget"),
        (("biuld",), "biuld"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_used_is_named(
    app: Path, opened: Opened, command: tuple[str, ...], error: str
) -> None:
    assert error in refused(app, *command)
    assert [f.name for f in features(opened())] == ["One"]
    assert not (app / ".git" / "autoforge" / "runs").exists()


def test_a_build_needs_features_a_verify_command_and_a_remote(clone: Path) -> None:
    assert "no features yet" in refused(clone, "build")
    succeed(clone, "features", "add", "One")
    assert "No verify command" in refused(clone, "build")
    run("git", "remote", "remove", "origin", cwd=clone)
    assert "no remote origin" in refused(clone, "build", "--no-verify", "--auto-pr")
    assert not (clone / ".git" / "autoforge" / "runs").exists()


def test_a4_auto_pr_to_github_needs_a_token(app: Path, forged: Repository, github: ValidatingGitHub) -> None:
    for command in (("build", "--auto-pr"), ("sync",)):
        assert "GITHUB_TOKEN" in refused(app, *command, GITHUB_API_URL=github.url)
    assert succeed(app, "sync", GITHUB_API_URL=github.url, GITHUB_TOKEN=TOKEN)


def test_b6_a_broken_or_newer_table_is_left_as_it_is(app: Path) -> None:
    table = app / ".git" / "autoforge" / "features.db"
    with sqlite3.connect(table) as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    connection.close()
    assert "newer autoforge" in refused(app, "status")
    table.write_bytes(b"no table at all")
    assert "is not an SQLite database" in refused(app, "build")
    assert table.read_bytes() == b"no table at all"


def test_b6_a_table_that_another_process_writes_to_can_be_read(app: Path) -> None:
    connection = sqlite3.connect(app / ".git" / "autoforge" / "features.db")
    connection.execute("begin immediate")
    assert "One" in succeed(app, "status")
    connection.close()


def test_b2_a_second_build_is_refused_with_the_pid_of_the_first(app: Path) -> None:
    state = app / ".git" / "autoforge"
    from autoforge import lock

    with lock.lead(state, "first"):
        assert f"pid {os.getpid()}" in refused(app, "build")
        assert f"A build is running (pid {os.getpid()})." in succeed(app, "status")
    assert "A build is running" not in succeed(app, "status")


def test_json_errors_leave_stdout_empty(app: Path) -> None:
    ended = invoke(app, "build", "--json", "--feature", "9")
    assert (ended.code, ended.out) == (2, "")
    status = json.loads(succeed(app, "status", "--json"))
    assert status["totals"]["pending"] == 1
