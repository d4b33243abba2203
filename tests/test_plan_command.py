"""`autoforge plan` through the real claude CLI, on specifications of three styles, and its refusals."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoforge.demo.model import Request, Script, ScriptedModel, Turn
from autoforge.progress.lines import counted
from tests.conftest import commit, run
from tests.invoke import refused, succeed

CLI_TOOL = "# wordcount\n\nA command line tool that counts words.\n\n- `wordcount FILE` prints the number\n"
WEB_SERVICE = """<project_specification>
  <project_name>Shortener</project_name>
  <core_features><links>- User can shorten a link</links></core_features>
</project_specification>
"""
CHANGE = "The check script should accept a folder. Today it looks at the current one only.\n"


def feature(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name}.",
        "steps": [f"{name} works"],
        "depends_on": list(needs),
        **more,
    }


def planner(*names: str) -> Script:
    """Calls wrongly at first, mends it, and completes the plan."""
    good = [feature(name, *names[:n]) for n, name in enumerate(names)]

    def script(request: Request) -> Turn:
        calls = (
            ("features_create", {"features": [{**good[0], "depends_on": ["Nowhere"]}]}),
            ("features_create", {"features": good}),
            ("plan_complete", {"verify_commands": ["python3 -m unittest"]}),
        )
        if request.step == 1:
            assert "no earlier feature" in request.last
        if request.step >= len(calls):
            return Turn("Planned.")
        name, arguments = calls[request.step]
        return Turn("next", tools=((f"mcp__autoforge__{name}", arguments),))

    return script


@pytest.mark.claude
def test_three_specifications_become_features(
    model: Callable[[Script], ScriptedModel], clone: Path, tmp_path: Path
) -> None:
    for number, (text, names, words) in enumerate(
        [
            (CLI_TOOL, ("Skeleton", "Count words"), "prints the number"),
            (WEB_SERVICE, ("Shorten links",), "User can shorten a link"),
            (CHANGE, ("Accept a folder", "Say so in the help"), "accept a folder"),
        ]
    ):
        spec = tmp_path / f"spec{number}.md"
        spec.write_text(text)
        server = model(planner(*names))
        done = succeed(
            clone,
            "plan",
            str(spec),
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="sk-ant-mock",
            CLAUDE_CONFIG_DIR=str(tmp_path / "claude"),
        )
        assert f"Stored {counted(len(names), 'feature')}." in done
        assert "An existing code base" in done
        assert "autoforge init --verify 'python3 -m unittest'" in done
        assert words in server.log[0][0].prompt
    stored = json.loads(succeed(clone, "features", "list", "--json"))["features"]
    assert [f["name"] for f in stored] == [
        "Skeleton",
        "Count words",
        "Shorten links",
        "Accept a folder",
        "Say so in the help",
    ]
    assert [f["dependencies"] for f in stored] == [[], [1], [], [], [4]]
    assert run("git", "status", "--porcelain", cwd=clone) == ""
    assert len(run("git", "worktree", "list", cwd=clone).splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.md"], "missing.md cannot be read"),
        (["spec.md", "--count", "0"], "--count 0"),
        (["spec.md", "--count", "9-3"], "--count 9-3"),
        (["spec.md", "--count", "many"], "--count many"),
        (["spec.md", "--review"], "--review asks on the terminal"),
    ],
)
def test_b5_what_cannot_be_planned_is_refused(clone: Path, arguments: list[str], words: str) -> None:
    commit(clone, {"spec.md": CHANGE})
    here = [str(clone / a) if a.endswith(".md") else a for a in arguments]
    assert words in refused(clone, "plan", *here)
    table = clone / ".git" / "autoforge" / "features.db"
    if table.exists():
        assert sqlite3.connect(table).execute("select count(*) from features").fetchone() == (0,)
