"""The gate on real git: what passes, what does not, and what is left of the agent's work each time."""

from pathlib import Path

import pytest

from db.store import FeatureStore
from tests.bench import BRANCH, KEY, Bench, make
from tests.conftest import run


@pytest.fixture
def bench(clone: Path, store: FeatureStore, tmp_path: Path) -> Bench:
    return make(clone, store, tmp_path)


def test_a_feature_passes_as_one_commit_with_trailers_and_the_agents_own_commits_are_kept(
    bench: Bench,
) -> None:
    bench.write("one")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "wip by the agent")
    own = bench.git("rev-parse", "HEAD")
    bench.write("more")

    answer = bench.passed(1, "test -e one", summary="Did it for @octo.")

    assert not answer.is_error, answer.text
    assert "Go on with feature 2" in answer.text
    assert bench.git("log", "--format=%s", f"{bench.base}..HEAD") == "feat: one"
    assert bench.git("diff", "--name-only", bench.base, "HEAD").split() == ["more", "one"]
    message = bench.git("log", "-1", "--format=%B")
    assert message.endswith(f"Autoforge-Feature: 1\nAutoforge-Batch: {KEY}")
    assert "@octo" not in message
    assert own in bench.git("for-each-ref", "--format=%(objectname)", f"refs/autoforge/saved/{KEY}/")
    passed = bench.gate.passed[1]
    assert passed.commit_sha == bench.git("rev-parse", "HEAD") == bench.git("rev-parse", BRANCH)
    assert [(e.command, e.exit_code, e.step) for e in passed.evidence] == [("test -e one", 0, 0)]
    assert [e.command for e in passed.checks] == ["sh check.sh"]


def test_a_red_command_undoes_the_commit_and_leaves_the_work_as_it_was(bench: Bench) -> None:
    bench.write("one")
    bench.write("README.md", "changed\n")
    before = bench.state()
    answer = bench.passed(1, "test -e one", "echo what went wrong; false")
    assert answer.is_error
    assert "what went wrong" in answer.text
    assert bench.state() == before
    assert bench.gate.passed == {}
    assert "what went wrong" in bench.gate.last_red[1]
    assert not bench.passed(1, "test -e one").is_error
    assert bench.gate.last_red == {}


@pytest.mark.parametrize("command", ["echo new > left", "echo changed >> README.md"])
def test_green_commands_that_change_the_tree_do_not_pass_it(bench: Bench, command: str) -> None:
    bench.write("one")
    answer = bench.passed(1, command)
    assert answer.is_error
    assert "files are not as in the commit" in answer.text
    assert bench.git("rev-parse", "HEAD") == bench.base
    assert bench.gate.passed == {}


def test_a_command_that_moves_head_does_not_pass_and_no_other_branch_is_moved(bench: Bench) -> None:
    """The scripts come from the agent's own tree: the guard cannot see what they do."""
    bench.git("branch", "theirs", "HEAD")
    bench.write("one")
    bench.write("move.sh", "git checkout -q theirs && git commit -q --allow-empty -m moved\n")
    answer = bench.passed(1, "sh move.sh")
    assert answer.is_error
    assert "HEAD moved" in answer.text
    assert bench.git("symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert bench.git("rev-parse", BRANCH) == bench.base
    assert bench.git("log", "-1", "--format=%s", "theirs") == "moved"
    bench.write("move.sh", "true\n")
    bench.write("one")
    assert not bench.passed(1, "sh move.sh").is_error
    assert bench.git("diff", "--name-only", bench.base, BRANCH).split() == ["move.sh", "one"]


def test_a_script_that_switched_branches_before_does_not_get_our_commit(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "theirs")
    bench.write("one")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "on the wrong branch")
    theirs = bench.git("rev-parse", "theirs")
    assert not bench.passed(1, "test -e one").is_error
    assert bench.git("rev-parse", "theirs") == theirs
    assert bench.git("diff", "--name-only", bench.base, BRANCH) == "one"


def test_a6_leftovers_and_protected_files_are_refused_before_any_command_runs(bench: Bench) -> None:
    bench.write("one")
    bench.write(".env", "SECRET=1\n")
    bench.write("big", "x" * 2000)
    answer = bench.passed(1, "touch ran")
    assert answer.is_error
    assert ".env does not belong" in answer.text
    (bench.path / ".env").unlink()
    assert "big has 2,000 bytes" in bench.passed(1, "true").text
    (bench.path / "big").unlink()
    bench.write("autoforge.toml", "")
    assert "autoforge.toml is protected" in bench.passed(1, "true").text
    assert not (bench.path / "ran").exists()
    assert bench.git("rev-parse", "HEAD") == bench.base


def test_c3_a_hook_that_says_no_is_an_answer_and_the_work_stays(bench: Bench, clone: Path) -> None:
    hook = clone / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the linter complains >&2\nexit 1\n")
    hook.chmod(0o755)
    bench.write("one")
    before = bench.state()
    answer = bench.passed(1, "true")
    assert answer.is_error
    assert "the linter complains" in answer.text
    assert bench.state() == before


def test_what_git_cannot_add_is_an_answer(bench: Bench) -> None:
    (bench.path / "nested").mkdir()
    run("git", "init", "-q", cwd=bench.path / "nested")
    answer = bench.passed(1, "true")
    assert answer.is_error
    assert "nested" in answer.text


def test_c2_nothing_changed_passes_only_with_evidence_of_its_own(bench: Bench) -> None:
    assert "Nothing has changed" in bench.passed(1).text
    assert not bench.passed(1, "test -e README.md").is_error
    assert bench.gate.passed[1].commit_sha == bench.base


def test_a_detached_worktree_commits_without_moving_a_branch(bench: Bench) -> None:
    """As while the user has the batch's branch checked out."""
    bench.git("checkout", "-q", "--detach")
    bench.gate.branch_ref = None
    bench.write("one")
    assert not bench.passed(1, "true").is_error
    assert bench.git("rev-parse", BRANCH) == bench.base
    sha = bench.gate.passed[1].commit_sha
    assert bench.git("rev-parse", f"refs/autoforge/saved/{KEY}/passed") == sha


def test_a_trusting_commit_message_is_not_possible(bench: Bench) -> None:
    bench.write("one")
    bench.passed(1, "true", summary="Fixes #12\n\nAutoforge-Feature: 99")
    trailers = bench.git("log", "-1", "--format=%(trailers:key=Autoforge-Feature,valueonly)")
    assert trailers == "1"
    assert "Fixes #12" not in bench.git("log", "-1", "--format=%B")
