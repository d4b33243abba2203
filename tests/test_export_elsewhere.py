"""An export that is read where it was not written: what was built counts only where its commits are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Crew, diligent
from tests.builds import add, build, chain
from tests.conftest import commit, run
from tests.invoke import invoke


@pytest.fixture
def exported(opened: Callable[..., Any], clone: Path, tmp_path: Path) -> Path:
    """What a build of two stacked features has left."""
    project = opened(batch_size=1)
    add(project, *chain("One", "Two"))
    assert build(project, Crew(diligent)).exit_code == 0
    path = tmp_path / "table.json"
    assert invoke(clone, "features", "export", str(path)).code == 0
    return path


def other(tmp_path: Path, *flags: str) -> Path:
    folder = tmp_path / "other"
    run("git", "clone", "-q", *flags, f"file://{tmp_path / 'app'}", str(folder), cwd=tmp_path)
    return folder


def statuses(folder: Path) -> list[str]:
    return [f["status"] for f in json.loads(invoke(folder, "status", "--json").out)["features"]]


def test_what_passed_elsewhere_is_pending_where_its_commit_is_not(exported: Path, tmp_path: Path) -> None:
    folder = other(tmp_path, "--single-branch", "-b", "main")
    ended = invoke(folder, "features", "import", str(exported))
    assert ended.code == 0
    assert "#1 had passed on" in ended.out
    assert "which this repository does not have: it is pending" in " ".join(ended.out.split())
    assert statuses(folder) == ["pending", "pending"]


def test_it_has_passed_where_its_commit_is(exported: Path, tmp_path: Path) -> None:
    folder = other(tmp_path)
    assert "does not have" not in invoke(folder, "features", "import", str(exported)).out
    assert statuses(folder) == ["passed", "passed"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("head_sha", "--output=/tmp/x", "names the commit"),
        ("base_sha", "main", "names the commit"),
        ("branch", "--help", "names the branch"),
        ("worktree_path", "/tmp/x", "worktree_path"),
        ("parents", [{"key": "SELF", "tip": "a" * 40}], "in a circle"),
        ("feature_ids", [1, 1], "a feature twice"),
    ],
)
def test_nothing_strange_gets_into_gits_arguments(
    exported: Path, tmp_path: Path, key: str, value: object, said: str
) -> None:
    data = json.loads(exported.read_text())
    batch = data["batches"][0]
    batch[key] = json.loads(json.dumps(value).replace("SELF", batch["key"]))
    exported.write_text(json.dumps(data))
    folder = other(tmp_path)
    ended = invoke(folder, "features", "import", str(exported))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert json.loads(invoke(folder, "status", "--json").out)["features"] == []


def test_a_list_with_ids_is_not_taken_for_an_older_tools(clone: Path, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(
        json.dumps(
            [{"id": 1, "name": "A", "verify": ["make t"]}, {"id": 2, "name": "B", "depends_on": ["A"]}]
        )
    )
    ended = invoke(clone, "features", "import", str(path))
    assert ended.code == 2
    assert "id" in ended.err


def test_a_table_has_one_place_wherever_a_command_is_started(clone: Path) -> None:
    commit(clone, {"autoforge.toml": '[database]\nurl = "sqlite:///features.db"\n'})
    ended = invoke(clone, "features", "add", "One")
    assert ended.code == 2
    assert "a file by its whole path" in ended.err
