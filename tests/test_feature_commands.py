"""The commands that change, bring in and take out features."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoforge import exchange
from autoforge.project import Project, table
from tests.agents import Crew, diligent
from tests.builds import build
from tests.invoke import refused, succeed


def written_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_table_moves_to_another_repository(clone: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(clone), str(tmp_path / "next")], check=True)
    succeed(clone, "features", "add", "One", "--step", "a")
    succeed(clone, "features", "add", "Two", "--depends-on", "1")
    file = tmp_path / "out.json"
    assert succeed(clone, "features", "export", str(file)) == f"Exported 2 features to {file}.\n"
    assert "exists already" in refused(clone, "features", "export", str(file))
    assert "does not end in .json" in refused(clone, "features", "export", str(tmp_path / "x"))
    assert "cannot be written" in refused(clone, "features", "export", str(tmp_path / "no" / "x.json"))
    assert json.loads(succeed(clone, "features", "export")) == json.loads(file.read_text())
    assert succeed(tmp_path / "next", "features", "import", str(file)) == "Imported 2 features: #1 to #2.\n"
    listed = succeed(clone, "features", "list", "--json")
    assert succeed(tmp_path / "next", "features", "list", "--json") == listed


def test_b33_an_older_tools_files_are_imported_with_a_report(clone: Path, tmp_path: Path) -> None:
    file = tmp_path / "feature_list.json"
    file.write_text(json.dumps([{"name": "Old", "passes": True}, {"name": "Next", "dependencies": [1, 9]}]))
    assert succeed(clone, "features", "import", str(file)).splitlines() == [
        "Imported 2 features: #1 to #2.",
        "  #2: it depended on '9', which is not in the list: left out",
        "  1 of 2 features count as passed because the older tool says so: nothing was verified here",
    ]
    with closing(sqlite3.connect(tmp_path / "features.db")) as old, old:
        old.execute("CREATE TABLE features (id, name, dependencies)")
        old.executemany("INSERT INTO features VALUES (?, ?, '[77]')", [(n, f"t{n}") for n in range(1, 26)])
    out = succeed(clone, "features", "import", str(tmp_path / "features.db")).splitlines()
    assert out[:2] == [
        "Imported 25 features: #3 to #27.",
        "  #1 is #3 here, and so on: the table has features already",
    ]
    assert (out[2], out[-1]) == (
        "  #1: it depended on '77', which is not in the list: left out",
        "  and 6 more",
    )
    file.write_text("[]")
    assert "holds no features" in refused(clone, "features", "import", str(file))
    file.write_text("[{}, 3]")
    assert "Imported feature #28." in succeed(clone, "features", "import", str(file))


def test_a_plain_list_is_imported_as_before(clone: Path) -> None:
    (clone / "f.yaml").write_text("- name: One\n- {name: Two, depends_on: [One]}\n")
    assert succeed(clone, "features", "import", str(clone / "f.yaml")) == "Imported 2 features: #1 to #2.\n"
    (clone / "f.json").write_text('{"features": [{"name": "Three", "dependencies": ["Two"]}]}')
    assert succeed(clone, "features", "import", str(clone / "f.json")) == "Imported feature #3.\n"
    assert "unknown key" in refused(
        clone, "features", "import", str(written_text(clone / "g.json", '[{"nam": 1}]'))
    )


def test_what_an_older_tool_passed_is_built_upon(opened: Callable[..., Project], tmp_path: Path) -> None:
    project = opened()
    file = written_text(tmp_path / "feature_list.json", '[{"passes": true}, {"dependencies": [1]}]')
    with table(project) as store:
        exchange.take_in(file, store, lambda _: True)
    assert build(project, Crew(diligent)).exit_code == 0


def test_every_change_has_its_command(clone: Path) -> None:
    for name in ("One", "Two", "Three"):
        succeed(clone, "features", "add", name)
    assert (
        succeed(clone, "features", "edit", "1", "--name", "Uno", "--step", "a", "--step", "b")
        == "Changed feature #1.\n"
    )
    succeed(clone, "features", "edit", "1", "--no-steps", "--verify", "make", "--priority", "-2")
    shown = json.loads(succeed(clone, "features", "show", "1", "--json"))
    assert (shown["name"], shown["steps"], shown["verify"], shown["priority"]) == ("Uno", [], ["make"], -2)
    assert succeed(clone, "features", "depend", "3", "1", "2") == "Feature #3 depends on #1, #2.\n"
    assert "#1 needs #3 needs #1" in refused(clone, "features", "depend", "1", "3")
    assert succeed(clone, "features", "undepend", "3", "2") == "Feature #3 no longer depends on #2.\n"
    assert "Skipped #1, #2." in succeed(clone, "features", "skip", "1", "2")
    assert "Pending again: #1." in succeed(clone, "features", "retry", "1")
    assert "As new: #2." in succeed(clone, "features", "reset", "2")
    assert "--cascade" in refused(clone, "features", "rm", "1")
    assert succeed(clone, "features", "rm", "1", "--cascade") == "Removed #1, #3.\n"
    assert "Nothing to change" in refused(clone, "features", "edit", "2")
    assert "at once" in refused(clone, "features", "edit", "2", "--step", "a", "--no-steps")
    assert "no feature #9" in refused(clone, "features", "edit", "9", "--name", "x")


def test_the_list_can_be_narrowed(clone: Path) -> None:
    assert "no features yet" in succeed(clone, "features", "list", "--search", "x")
    succeed(clone, "features", "add", "Alpha", "--category", "bug", "--description", "with ÄPFEL")
    succeed(clone, "features", "add", "Beta", "--depends-on", "1")
    succeed(clone, "features", "add", "Gamma")
    succeed(clone, "features", "skip", "3")

    def ids(*arguments: str) -> list[int]:
        return [
            f["id"] for f in json.loads(succeed(clone, "features", "list", "--json", *arguments))["features"]
        ]

    assert ids() == [1, 2, 3]
    assert ids("--category", "BUG") == [1]
    assert ids("--search", "äpfel") == [1]
    assert ids("--status", "skipped", "--status", "pending", "--search", "mm") == [3]
    assert ids("--status", "passed") == []
    assert "No feature matches." in succeed(clone, "features", "list", "--status", "passed")
    assert "Alpha" not in succeed(clone, "features", "list", "--category", "feature")
    assert "There is no status 'done'; expected pending, " in refused(
        clone, "features", "list", "--status", "done"
    )


def test_a_blocked_feature_is_found_as_blocked(clone: Path) -> None:
    succeed(clone, "features", "add", "A")
    succeed(clone, "features", "add", "B", "--depends-on", "1")
    succeed(clone, "features", "skip", "1")
    listed = json.loads(succeed(clone, "features", "list", "--json", "--status", "blocked"))
    assert [f["id"] for f in listed["features"]] == [2]


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from autoforge.commands import feature_edits\n"
        "print([m for m in ('sqlalchemy', 'git', 'alembic', 'claude_agent_sdk') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "name", ["import", "export", "list", "edit", "rm", "skip", "retry", "reset", "depend", "undepend"]
)
def test_every_command_has_a_help_of_at_most_80_columns(name: str, tmp_path: Path) -> None:
    out = succeed(tmp_path, "features", name, "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert name in succeed(tmp_path, "features", "--help")
    assert "..." not in succeed(tmp_path, "features", "--help").split("Commands:")[-1]
