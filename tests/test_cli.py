"""Every command's ordinary way, and what its output looks like."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from autoforge.project import Project
from db.feature import FeatureStatus, NewFeature
from tests.agents import Agent, Crew, diligent
from tests.builds import add, build, chain, features
from tests.conftest import run
from tests.invoke import CONSOLE_SCRIPT, invoke, succeed

COMMANDS = (
    "init",
    "plan",
    "graph",
    "history",
    "projects",
    "build",
    "status",
    "answer",
    "sync",
    "demo",
    "features",
)
EDITS = ("export", "edit", "rm", "skip", "retry", "reset", "depend", "undepend")
GROUPED = tuple(("features", name) for name in ("import", "add", "list", "show", *EDITS))
LIBRARIES = ("claude_agent_sdk", "git", "github", "sqlalchemy", "alembic", "rich", "starlette", "jinja2")
COLUMNS = {
    "id", "priority", "category", "name", "description", "steps", "verify", "evidence", "status", "refinement",
    "branch_name", "commit_sha", "pr_number", "pr_url", "pr_status", "batch_key", "attempts", "last_error",
    "question", "answer", "issue_number", "last_tested_at", "created_at", "updated_at", "dependencies",
}  # fmt: skip
Opened = Callable[..., Project]


@pytest.fixture
def app(clone: Path) -> Path:
    """A clone with a verify command and three features, one with an unusual name and one with a long one."""
    succeed(clone, "init", "--verify", "sh check.sh")
    succeed(clone, "features", "add", "A [bold]x[/bold] [/y] :bug: 🎉", "--step", "it is there")
    succeed(clone, "features", "add", "n" * 200, "--depends-on", "1", "--description", "Long")
    succeed(clone, "features", "add", "Third", "--category", "docs", "--priority", "1", "--verify", "true")
    return clone


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), *GROUPED], ids=" ".join)
def test_every_command_has_a_help_of_at_most_80_columns(command: tuple[str, ...], tmp_path: Path) -> None:
    out = succeed(tmp_path, *command, "--help")
    assert out.startswith(f"Usage: autoforge {' '.join(command)}".rstrip())
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.partition("Commands:")[2]  # nothing of a summary is cut


def test_help_and_its_speed_do_not_depend_on_the_heavy_libraries() -> None:
    script = (
        "import sys; from autoforge import cli, settings\n"
        "try: cli.run(['build', '--help'], settings.Surroundings())\n"
        f"except SystemExit: print('HEAVY', [m for m in {LIBRARIES!r} if m in sys.modules])"
    )
    assert run(sys.executable, "-c", script, cwd=Path(__file__).parent.parent).endswith("HEAVY []")


def test_init_writes_a_file_that_the_next_command_can_use(clone: Path) -> None:
    out = succeed(clone, "init", "--verify", 'say "hi"', "--verify", "x")
    assert f"Wrote {clone}/autoforge.toml." in out
    assert 'target = "main"' in (clone / "autoforge.toml").read_text()
    assert "no features yet" in succeed(clone, "status")
    assert run("git", "status", "--porcelain", cwd=clone) == "?? autoforge.toml"


def test_init_without_a_verify_command_says_what_is_missing(clone: Path) -> None:
    assert "set `verify.commands`" in succeed(clone, "init")


def test_features_can_be_imported_listed_and_shown(clone: Path) -> None:
    file = clone / "f.yaml"
    file.write_text("- name: One\n  steps: [a, b]\n- name: Two\n  depends_on: [One]\n")
    assert succeed(clone, "features", "import", str(file)) == "Imported 2 features: #1 to #2.\n"
    assert succeed(clone, "features", "list").splitlines()[0].split() == [
        "id", "feature", "status", "needs", "commit", "PR"
    ]  # fmt: skip
    shown = succeed(clone, "features", "show", "2").splitlines()
    assert (shown[0], "depends on: #1" in shown) == ("#2 Two", True)
    assert json.loads(succeed(clone, "features", "show", "1", "--json"))["steps"] == ["a", "b"]
    listed = json.loads(succeed(clone, "features", "list", "--json"))
    assert [f["name"] for f in listed["features"]] == ["One", "Two"]


def test_the_repository_can_be_named_before_and_after_the_command(app: Path, tmp_path: Path) -> None:
    assert "Third" in succeed(tmp_path, "status", "-C", "app")
    (app / "sub").mkdir()
    assert "Third" in succeed(app, "features", "list", "-C", "sub")


def test_status_json_has_the_documented_shape(app: Path) -> None:
    status = json.loads(succeed(app, "status", "--json"))
    assert {"features", "batches", "totals"} <= set(status)
    assert set(status["features"][0]) >= COLUMNS
    assert [f["dependencies"] for f in status["features"]] == [[], [], [1]]
    assert {"passed", "failed", "blocked", "pending", "cost_usd"} <= set(status["totals"])


@pytest.mark.parametrize("columns", [70, 80, 100])
def test_the_table_fits_and_shows_names_as_they_are(
    app: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    head, *rows = succeed(app, "status").splitlines()[:4]
    by_id = {row.split()[0]: row for row in rows}
    assert all(cell_len(line) <= columns and line == line.rstrip() for line in (head, *rows))
    assert "A [bold]x[/bold] [/y] :bug: 🎉" in by_id["1"]
    assert "nnn…" in by_id["2"]
    assert by_id["2"].index("blocked") == by_id["3"].index("pending") == head.index("status")
    assert "n" * 200 in succeed(app, "features", "show", "2")


def test_dry_run_shows_waves_bases_and_branches_and_stores_nothing(app: Path) -> None:
    before = succeed(app, "status", "--json")
    lines = succeed(app, "build", "--dry-run", "--batch-size", "1").splitlines()
    assert [line for line in lines if line.startswith("Wave")] == ["Wave 1, 2 agents at once:", "Wave 2:"]
    based = [line.split(", based on ") for line in lines if ", based on " in line]
    assert [base for _, base in based[:2]] == ["main", "main"]
    assert based[2][1].strip().startswith("autoforge/a-bold-x")
    assert "    #1 A [bold]x[/bold] [/y] :bug: 🎉" in lines
    waves = json.loads(succeed(app, "build", "--dry-run", "--json"))["waves"]
    assert all(set(step) == {"branch", "features", "base"} for wave in waves for step in wave)
    assert succeed(app, "status", "--json") == before
    assert run("git", "branch", "--format=%(refname:short)", cwd=app) == "main"
    assert not (app / ".git" / "autoforge" / "runs").exists()
    assert not app.with_name("app.worktrees").exists()


def test_status_after_a_build_shows_the_stack(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    add(project, *chain("First", "Second"))
    assert build(project, Crew(diligent)).exit_code == 0
    lines = succeed(clone, "status").splitlines()
    assert "2 of 2 features passed. Cost: $1.00" in lines
    tree = lines[lines.index("main") :]
    assert tree[1].startswith("└── autoforge/first-")
    assert tree[2].startswith("    └── autoforge/second-")
    assert tree[2].endswith("[built] #2")
    again = invoke(clone, "build", "--no-verify", "--json")
    assert again.code == 0
    assert json.loads(again.out)["totals"]["passed"] == 2


def test_a_question_is_shown_and_answered(opened: Opened, clone: Path) -> None:
    project = opened()
    add(project, NewFeature("Colour"))

    async def asks(agent: Agent) -> None:
        await agent.call("ask_human", id=1, question="Which\u202e one?")

    build(project, Crew(asks))
    shown = succeed(clone, "answer")
    assert "autoforge answer 1 TEXT" in shown
    assert "Which" in shown
    assert "\u202e" not in shown + succeed(clone, "status") + succeed(clone, "features", "show", "1")
    assert "pending again" in succeed(clone, "answer", "1", " blue ")
    [feature] = features(project)
    assert (feature.status, feature.answer) == (FeatureStatus.PENDING, "blue")
    assert succeed(clone, "answer") == "No feature waits for an answer.\n"


def test_a_reader_that_goes_away_is_no_error(clone: Path) -> None:
    names = [f"feature {number} {'x' * 180}" for number in range(1500)]
    (clone / "f.json").write_text(json.dumps([{"name": name} for name in names]))
    succeed(clone, "features", "import", str(clone / "f.json"))
    for command in (("features", "list", "--json"), ("status",), ("features", "list")):
        with subprocess.Popen(
            [*CONSOLE_SCRIPT, *command], cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.readline()
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait(20) == 0


def test_output_has_no_escapes_and_an_encoding_that_lacks_a_character_does_not_end_it(app: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "iso-8859-1"}
    done = subprocess.run(
        [*CONSOLE_SCRIPT, "status"], cwd=app, env=env, capture_output=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"A [bold]x[/bold] [/y] :bug: ?" in done.stdout
    assert not re.search(rb"\x1b|[^\n] \n", done.stdout)
