"""The demo is the acceptance test: everything real but what the model says, on the command that people run."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.conftest import RUN, run
from tests.invoke import CONSOLE_SCRIPT, refused, succeed

pytestmark = pytest.mark.claude


@dataclass(frozen=True)
class Demo:
    """What it left in its folder."""

    folder: Path
    output: str
    status: dict[str, list[dict[str, str]]]

    @property
    def app(self) -> Path:
        return self.folder / "app"

    @property
    def origin(self) -> Path:
        return self.folder / "origin.git"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo") / "new"
    home = tmp_path_factory.mktemp("home")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COLUMNS": "80", RUN: str(os.getpid())}
    env |= {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "PYENV_ROOT")}
    done = subprocess.run(
        [*CONSOLE_SCRIPT, "demo", "--dir", str(folder)],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Demo(folder, done.stdout, json.loads(succeed(folder / "app", "status", "--json")))


def files(demo: Demo, base: str, head: str) -> set[str]:
    return set(run("git", "diff", "--name-only", f"{base}...{head}", cwd=demo.origin).split())


def test_all_six_features_pass_and_it_says_what_is_scripted(demo: Demo) -> None:
    assert "Scripted: what the model says." in demo.output
    assert "6 of 6 features passed." in demo.output
    assert [f["status"] for f in demo.status["features"]] == ["passed"] * 6
    assert demo.output.count("→ PR #") >= 3


def test_a_pull_request_is_stacked_and_one_is_on_a_join(demo: Demo) -> None:
    batches = {b["key"]: b for b in demo.status["batches"]}
    assert len(batches) >= 3
    assert all(b["pr_number"] for b in batches.values())
    heads = set(
        run("git", "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", cwd=demo.origin).split()
    )
    assert {b["branch"] for b in batches.values()} <= heads
    branches = {b["branch"] for b in batches.values()}
    assert any(b["base_branch"] in branches for b in batches.values())
    [joined] = [b for b in batches.values() if len(b["parents"]) > 1]
    assert joined["base_branch"].startswith("autoforge/join-")
    for parent in joined["parents"]:
        run(
            "git",
            "merge-base",
            "--is-ancestor",
            batches[parent["key"]]["branch"],
            joined["branch"],
            cwd=demo.origin,
        )  # type: ignore[index]


def test_each_pull_request_shows_only_its_own_change(demo: Demo) -> None:
    seen: set[str] = set()
    for batch in demo.status["batches"]:
        changed = files(demo, batch["base_branch"], batch["branch"])
        assert changed
        assert not changed & seen
        seen |= changed


def test_every_feature_has_a_commit_of_its_own_with_its_trailers(demo: Demo) -> None:
    commits = [f["commit_sha"] for f in demo.status["features"]]
    assert len(set(commits)) == 6
    for feature in demo.status["features"]:
        trailers = run("git", "log", "-1", "--format=%(trailers)", feature["commit_sha"], cwd=demo.origin)
        assert trailers == f"Autoforge-Feature: {feature['id']}\nAutoforge-Batch: {feature['batch_key']}"


def test_one_mistake_was_mended_in_the_same_session(demo: Demo) -> None:
    refused_once = []
    for transcript in sorted(demo.app.glob(".git/autoforge/runs/*/*-1.jsonl")):
        text = transcript.read_text()
        if "has not passed" in text and text.index("has not passed") < text.rindex("has passed as commit"):
            refused_once.append(transcript)
    assert len(refused_once) == 1
    assert [f["attempts"] for f in demo.status["features"]] == [1] * 6


def test_main_and_the_checkout_are_as_before_and_nothing_is_left(demo: Demo) -> None:
    for place in (demo.app, demo.origin):
        assert run("git", "rev-list", "--count", "main", cwd=place) == "1"
    assert run("git", "status", "--porcelain", cwd=demo.app) == ""
    assert len(run("git", "worktree", "list", cwd=demo.app).splitlines()) == 1
    assert not (demo.folder / "app.worktrees").exists()
    assert not (demo.app / ".git" / "autoforge" / "lock.json").exists()
    assert "demo-token" not in "".join(
        file.read_text() for file in demo.app.glob(".git/autoforge/runs/*/*log")
    )
    below = [
        p for p in psutil.process_iter(["cmdline"]) if str(demo.folder) in " ".join(p.info["cmdline"] or [])
    ]
    assert below == []


def test_a_second_build_does_nothing(demo: Demo) -> None:
    before = run("git", "for-each-ref", cwd=demo.app)
    assert "6 of 6 features passed." in succeed(demo.app, "build", "--auto-pr")
    assert run("git", "for-each-ref", cwd=demo.app) == before


def test_a_folder_that_is_not_empty_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ended = refused_demo(tmp_path)
    assert "is not an empty folder" in ended
    assert "is not an empty folder" in refused_demo(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "x"


def refused_demo(folder: Path) -> str:
    return refused(folder.parent, "demo", "--dir", str(folder))
