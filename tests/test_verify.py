"""Verify commands run in order and stop at the first failure, which is told in few words."""

import asyncio
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from autoforge.process import Finished
from autoforge.verify import failure_text, run_commands


def run(folder: Path, *commands: str, timeout_s: float = 20.0) -> tuple[Finished, ...]:
    env = {"PATH": os.environ["PATH"]}
    return asyncio.run(run_commands(commands, cwd=folder, env=env, timeout_s=timeout_s))


def test_all_run_in_order(tmp_path: Path) -> None:
    finished = run(tmp_path, "echo a >> log", "echo b >> log; cat log")
    assert [one.exit_code for one in finished] == [0, 0]
    assert finished[-1].output == "a\nb\n"
    assert failure_text(finished) == ""


def test_nothing_runs_behind_a_failure(tmp_path: Path) -> None:
    finished = run(tmp_path, "true", "echo broken >&2; exit 4", "touch ran")
    assert [one.exit_code for one in finished] == [0, 4]
    assert not (tmp_path / "ran").exists()
    text = failure_text(finished)
    assert text == "`echo broken >&2; exit 4` failed with exit code 4. Its output:\nbroken"


def test_no_commands_no_results(tmp_path: Path) -> None:
    assert run(tmp_path) == ()
    assert failure_text(()) == ""


def test_a_timeout_is_a_failure_even_with_exit_code_0(tmp_path: Path) -> None:
    command = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    finished = run(tmp_path, command, "touch ran", timeout_s=0.5)
    assert [(one.exit_code, one.timed_out) for one in finished] == [(0, True)]
    assert not (tmp_path / "ran").exists()
    assert "timed out after 1 s. It printed nothing." in failure_text(finished)


@given(
    output=st.text(max_size=500),
    command=st.text(min_size=1, max_size=300),
    limit=st.integers(min_value=100, max_value=400),
)
def test_the_text_keeps_to_its_limit_and_to_the_tail(output: str, command: str, limit: int) -> None:
    text = failure_text([Finished(command, 1, output, 0.1)], limit)
    assert len(text) <= limit
    assert "failed with exit code 1" in text
    if output.strip():
        assert text.endswith(output.strip()[-10:])
