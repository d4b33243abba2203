"""The gate's tools: whose turn it is, what is taken from an agent's words, and what an interruption leaves."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from autoforge.agent.tools import Answer
from db.store import FeatureStore
from tests.bench import BRANCH, KEY, Bench, make
from tests.conftest import run


@pytest.fixture
def bench(clone: Path, store: FeatureStore, tmp_path: Path) -> Bench:
    return make(clone, store, tmp_path)


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ("test -e one", "a list of objects"),
        ({"step": 1, "command": "true"}, "a list of objects"),
        (["true"], "`step` is the number"),
        ([{"step": 0, "command": "true"}], "from 1 to 2"),
        ([{"step": 3, "command": "true"}], "from 1 to 2"),
        ([{"step": True, "command": "true"}], "from 1 to 2"),
        ([{"step": "1", "command": "true"}], "from 1 to 2"),
        ([{"step": 1, "command": " "}], "a shell command"),
        ([{"step": 1}], "a shell command"),
        ([{"step": 1, "command": "true\0"}], "a shell command"),
        ([{"step": 1, "command": "echo \ud800"}], "a shell command"),
        ([{"step": 2, "command": "git push origin main"}], "evidence for step 2"),
    ],
)
def test_evidence_that_cannot_be_used_is_refused_without_a_commit(
    bench: Bench, evidence: object, said: str
) -> None:
    bench.write("one")
    answer = bench("feature_passed", id=1, evidence=evidence)
    assert answer.is_error
    assert said in answer.text
    assert bench.git("rev-parse", "HEAD") == bench.base


def test_words_that_git_cannot_hold_do_not_end_the_session(bench: Bench) -> None:
    bench.write("one")
    assert not bench.passed(1, "test -e one", summary="a\0b \ud800 \x07").is_error
    assert not bench("ask_human", id=2, question="why\0 \udc80?").is_error
    assert bench.gate.questions[2] == "why ??"


@pytest.mark.parametrize("given", [4, "1", True, None, 1.5])
def test_a1_only_the_batchs_own_features_are_taken(bench: Bench, given: object) -> None:
    bench.write("one")
    for tool in ("feature_passed", "feature_failed", "ask_human"):
        answer = bench(tool, id=given, evidence=[], reason="x", question="x")
        assert answer.is_error
        assert "not one of yours" in answer.text


def test_features_are_passed_once_in_order_and_after_what_they_depend_on(bench: Bench) -> None:
    bench.write("one")
    assert "depends on 1" in bench.passed(2, "true").text
    assert "Feature 1 comes first" in bench.passed(3, "true").text
    assert not bench.passed(1, "true").is_error
    assert "passed already" in bench.passed(1, "true").text
    bench.write("two")
    assert not bench.passed(2, "true").is_error
    bench.write("three")
    assert "Every feature is decided" in bench.passed(3).text
    shas = [bench.gate.passed[n].commit_sha for n in (1, 2, 3)]
    assert bench.git("rev-list", "--reverse", f"{bench.base}..{BRANCH}").split() == shas


@pytest.mark.parametrize(("tool", "key"), [("feature_failed", "reason"), ("ask_human", "question")])
def test_the_work_on_a_feature_that_is_left_does_not_get_into_the_next_ones_commit(
    bench: Bench, tool: str, key: str
) -> None:
    bench.write("committed")
    bench.git("add", "-A")
    bench.git("commit", "-qm", "wip")
    bench.write("one")
    bench.write("README.md", "half done\n")
    assert bench.passed(1, "false").is_error

    answer = bench(tool, **{"id": 1, key: "it cannot be"})

    ref = f"refs/autoforge/saved/{KEY}/1-feature-1"
    assert ref in answer.text
    assert "Go on with feature 3" in answer.text
    assert bench.state()[0] == bench.base
    assert bench.git("status", "--porcelain") == ""
    kept = bench.git("diff", "--name-only", bench.base, ref).split()
    assert kept == ["README.md", "committed", "one"]
    bench.write("three")
    assert not bench.passed(3).is_error
    assert bench.git("diff", "--name-only", bench.base, "HEAD") == "three"
    assert 1 not in bench.gate.last_red


def test_the_work_on_the_last_feature_stays_for_the_next_try(bench: Bench) -> None:
    bench.write("one")
    assert not bench.passed(1, "true").is_error
    bench("feature_failed", id=2, reason="no")
    bench.write("three", "half")
    answer = bench("feature_failed", id=3, reason="no")
    assert "Every feature is decided" in answer.text
    assert (bench.path / "three").read_text() == "half"


def test_work_that_cannot_be_kept_is_not_taken_away(bench: Bench) -> None:
    (bench.path / "nested").mkdir()
    run("git", "init", "-q", cwd=bench.path / "nested")
    bench.write("one")
    answer = bench("feature_failed", id=1, reason="no")
    assert (bench.path / "one").exists() is answer.is_error
    assert (bench.path / "nested" / ".git").is_dir()


def test_a_feature_that_waits_for_a_failed_one_needs_no_word(bench: Bench) -> None:
    assert "Go on with feature 3" in bench("feature_failed", id=1, reason="no").text
    answer = bench("feature_failed", id=2, reason="its base is missing")
    assert not answer.is_error
    assert "waits for 1" in answer.text
    assert 2 not in bench.gate.failed


def test_the_last_word_on_a_feature_counts(bench: Bench) -> None:
    bench("ask_human", id=1, question="which?")
    bench("feature_failed", id=1, reason="no")
    assert (bench.gate.questions, bench.gate.failed) == ({}, {1: "no"})
    bench.write("one")
    assert not bench.passed(1, "true").is_error
    assert bench.gate.failed == {}
    assert bench("ask_human", id=2, question=" ").is_error


def test_two_calls_at_once_run_one_after_the_other(bench: Bench) -> None:
    bench.write("one")
    log = bench.path.parent / "log"
    slow = f"echo start >> {log}; python3 -c 'import time; time.sleep(0.2)'; echo end >> {log}"
    bench.write("slow.sh", slow)

    async def both() -> list[Answer]:
        evidence = [{"step": 1, "command": "sh slow.sh"}]
        calls = [bench.call("feature_passed", id=n, evidence=evidence) for n in (1, 2)]
        return list(await asyncio.gather(*calls))

    first, second = asyncio.run(both())
    assert not first.is_error
    assert not second.is_error  # nothing new, but shown: it starts after the first has passed
    assert log.read_text().split() == ["start", "end", "start", "end"]


def test_cancelled_while_it_verifies_it_takes_the_commit_back_and_ends_the_command(bench: Bench) -> None:
    bench.write("one")
    pid = bench.path.parent / "pid"
    bench.write("hang.sh", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60\n")
    before = bench.state()

    async def cancel() -> None:
        evidence = [{"step": 1, "command": "sh hang.sh"}]
        call = asyncio.ensure_future(bench.call("feature_passed", id=1, evidence=evidence))
        while not pid.exists():
            await asyncio.wait({call}, timeout=0.02)
        assert bench.git("rev-parse", "HEAD") != bench.base
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert call.cancelled()

    asyncio.run(cancel())
    assert bench.state() == before
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_cancelled_while_it_commits_it_takes_the_commit_back(bench: Bench, clone: Path) -> None:
    started, go_on = bench.path.parent / "started", bench.path.parent / "go-on"
    os.mkfifo(go_on)
    hook = clone / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {started}\nread line < {go_on}\n")
    hook.chmod(0o755)
    bench.write("one")
    before = bench.state()

    async def cancel() -> None:
        call = asyncio.ensure_future(bench.call("feature_passed", id=1, evidence=[]))
        while not started.exists():
            await asyncio.wait({call}, timeout=0.02)
        for _ in range(2):  # as a TaskGroup that ends and whoever waits for it would
            call.cancel()
            await asyncio.wait({call}, timeout=0.02)
        await asyncio.to_thread(go_on.write_text, "\n")
        await asyncio.wait({call})
        assert call.cancelled()

    asyncio.run(cancel())
    assert bench.state() == before
