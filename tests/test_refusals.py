"""What a person's disk, table or terminal can do to a command: one clear error, and nothing half done."""

import json
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from autoforge.project import Project
from db.feature import NewFeature
from tests.builds import add
from tests.conftest import commit
from tests.invoke import CONSOLE_SCRIPT, invoke, refused, succeed

Opened = Callable[..., Project]


@pytest.fixture
def app(clone: Path) -> Path:
    succeed(clone, "features", "add", "One", "--step", "it works", "--verify", "true")
    return clone


def change(folder: Path, assignment: str) -> None:
    table = sqlite3.connect(folder / ".git" / "autoforge" / "features.db")
    table.execute(f"UPDATE features SET {assignment}")
    table.commit()
    table.close()


# The disk


def test_b6_init_leaves_a_link_to_nothing(clone: Path) -> None:
    (clone / "autoforge.toml").symlink_to("nowhere")
    assert "exists already; it was left as it is" in refused(clone, "init")
    assert (clone / "autoforge.toml").is_symlink()


def test_b6_init_on_a_full_disk_leaves_nothing(clone: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    done = subprocess.run(
        [*CONSOLE_SCRIPT, "init", "--verify", "x" * 5000],
        cwd=clone,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard)),
    )
    assert (done.returncode, done.stdout, done.stderr.count("cannot be written")) == (2, "", 1)
    assert not (clone / "autoforge.toml").exists()
    succeed(clone, "init")
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == (soft, hard)


def test_b6_init_takes_only_text(clone: Path) -> None:
    assert "not UTF-8" in refused(clone, "init", "--verify", "\udcff")
    assert not (clone / "autoforge.toml").exists()


@pytest.mark.parametrize("name", ["lock", "runs"])
def test_b6_a_build_that_cannot_write_its_state_says_so(opened: Opened, clone: Path, name: str) -> None:
    add(opened(), NewFeature("One"))
    state = clone / ".git" / "autoforge"
    if (state / name).is_dir():
        shutil.rmtree(state / name)
    (state / name).unlink(missing_ok=True)
    (state / name).mkdir() if name == "lock" else (state / name).write_text("")
    commit(clone, {"autoforge.toml": '[verify]\ncommands = ["true"]\n'})
    ended = invoke(clone, "build", "--land")
    assert (ended.code, ended.err.count("error: ")) == (1, 1)
    assert f"error: {state / name}" in ended.err
    assert "cannot be written" in ended.err


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("arguments", [("status",), ("features", "list", "--json")])
def test_b6_output_that_cannot_be_written_is_said(app: Path, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*CONSOLE_SCRIPT, *arguments],
            cwd=app,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=30,
        )
    assert (done.returncode, done.stderr.count(b"error: The output cannot be written")) == (1, 1)


# The table


@pytest.mark.parametrize(
    "assignment",
    ["steps = '{'", "steps = '5'", "evidence = '[1]'", "verify = '{\"a\": 1}'", "created_at = 'soon'"],
)
def test_b6_what_autoforge_did_not_write_into_the_table_is_told(app: Path, assignment: str) -> None:
    change(app, assignment)
    said = refused(app, "status")
    assert "features.db holds what autoforge did not write" in said


@pytest.mark.parametrize(("command", "code"), [("reset", 0), ("retry", 2)])
def test_b6_a_batch_that_is_gone_is_no_bug(app: Path, command: str, code: int) -> None:
    change(app, "batch_key = 'gone', status = 'passed'")
    ended = invoke(app, "features", command, "1")
    assert (ended.code, "bug" in ended.err) == (code, False)


@pytest.mark.parametrize("command", [("show",), ("edit", "--name", "x"), ("skip",), ("depend", "1")])
def test_a_number_that_no_table_can_hold_is_nobodys(app: Path, command: tuple[str, ...]) -> None:
    said = refused(app, "features", *command, "99999999999999999999")
    assert "There is no feature" in said
    assert "99999999999999999999." in said


# The terminal


def test_names_and_categories_are_one_line(app: Path) -> None:
    succeed(app, "features", "add", "A\nb", "--category", "docs\n2   fake  passed")
    exported = json.loads(succeed(app, "features", "export"))
    assert [(f["name"], f["category"]) for f in exported["features"][1:]] == [("A b", "docs 2 fake passed")]


def test_an_import_draws_no_false_rows(app: Path, tmp_path: Path) -> None:
    exported = json.loads(succeed(app, "features", "export"))
    exported["features"][0].update(name="x\n2   fake  passed", category="a\nb")
    (tmp_path / "table.json").write_text(json.dumps(exported))
    succeed(app, "features", "rm", "1")
    succeed(app, "features", "import", str(tmp_path / "table.json"))
    [feature] = json.loads(succeed(app, "features", "export"))["features"]
    assert (feature["name"], feature["category"]) == ("x 2 fake passed", "a b")


def test_json_has_no_invisible_characters(app: Path) -> None:
    text = "a\x9bb\u202ec\x7f\nÄ"
    succeed(app, "features", "edit", "1", "--description", text)
    out = succeed(app, "features", "show", "1", "--json")
    assert r"a\u009bb\u202ec\u007f\nÄ" in out
    read: Mapping[str, object] = json.loads(out)
    assert read["description"] == text


def test_one_feature_is_no_features(app: Path, tmp_path: Path) -> None:
    assert "Exported 1 feature to" in succeed(app, "features", "export", str(tmp_path / "x.json"))
