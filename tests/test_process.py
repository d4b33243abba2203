"""Commands end with all that they started, whoever dies first, and leftovers are found by their marker only."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoforge import process
from autoforge.process import (
    MARKER,
    REPO_MARKER,
    Finished,
    guard_command,
    reap,
    run_shell,
    start_time,
    write_cli_wrapper,
)

ENV = {"PATH": os.environ["PATH"]}
GUARD = str(Path(process.__file__).parent / "agent" / "tree_guard.py")


def run(command: str, cwd: Path, timeout_s: float = 20.0, output_limit: int = 20_000, **env: str) -> Finished:
    limits = {"timeout_s": timeout_s, "output_limit": output_limit}
    return asyncio.run(run_shell(command, cwd=cwd, env={**ENV, **env}, **limits))


def until(condition: Callable[[], bool], limit_s: float = 15.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written_pid(file: Path) -> int:
    until(lambda: file.exists() and file.read_text().strip().isdigit())
    return int(file.read_text())


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a test has started; ended after it."""
    popens: list[subprocess.Popen[bytes]] = []
    yield popens
    for popen in popens:
        popen.kill()
        popen.wait()


def sleeper(cwd: Path, **marks: str) -> "subprocess.Popen[bytes]":
    popen = subprocess.Popen(["/bin/sleep", "300"], cwd=cwd, env={**ENV, **marks})
    until(lambda: psutil.Process(popen.pid).cmdline() == ["/bin/sleep", "300"])
    return popen


def test_it_tells_what_happened(tmp_path: Path) -> None:
    done = run('echo out; echo err >&2; pwd; echo "$X"; exit 3', tmp_path, X="given")
    assert done.exit_code == 3
    assert done.output == f"out\nerr\n{tmp_path}\ngiven\n"
    assert not done.timed_out
    assert 0 < done.duration_s < 20


def test_the_environment_is_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "1")
    assert "A_SECRET_OF_OURS" not in run("env", tmp_path).output


@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("kill -9 $$", 137), ("kill $$", 143), ("no-such-command-at-all", 127), ("read line", 1)],
)
def test_exit_codes_are_passed_on(tmp_path: Path, command: str, code: int) -> None:
    assert run(command, tmp_path).exit_code == code


def test_long_output_keeps_head_and_tail(tmp_path: Path) -> None:
    done = run("echo first; yes | head -c 3000000; echo last", tmp_path, output_limit=1000)
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert "2999011 bytes left out" in done.output
    assert len(done.output) < 1100


def test_output_that_is_no_text_is_read_all_the_same(tmp_path: Path) -> None:
    assert run(r"printf 'a\377b'", tmp_path).output == "a\ufffdb"


def test_a5_a_server_that_keeps_stdout_open_holds_nothing(tmp_path: Path) -> None:
    done = run("sleep 300 & echo $! > pid; setsid nohup sh -c 'echo $$ > pid2; exec sleep 300' & "
               "while [ ! -s pid2 ]; do :; done; echo up", tmp_path)  # fmt: skip
    assert done.exit_code == 0
    assert done.output == "up\n"
    assert done.duration_s < 15
    assert not alive(written_pid(tmp_path / "pid"))
    assert not alive(written_pid(tmp_path / "pid2"))


def test_a2_a_hanging_command_is_ended_with_its_tree(tmp_path: Path) -> None:
    done = run("echo before; setsid sleep 300 & echo $! > pid; sleep 300", tmp_path, timeout_s=0.5)
    assert done.timed_out
    assert done.exit_code != 0
    assert done.output == "before\n"
    assert not alive(written_pid(tmp_path / "pid"))


def test_a2_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    done = run("trap '' TERM; echo $$ > pid; while :; do sleep 300; done", tmp_path, timeout_s=0.3)
    assert done.timed_out
    assert done.exit_code == 137
    assert not alive(written_pid(tmp_path / "pid"))


def test_it_may_clean_up_when_it_is_ended(tmp_path: Path) -> None:
    done = run("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done", tmp_path, timeout_s=0.5)
    assert (done.timed_out, done.exit_code, done.output) == (True, 7, "up\nbye\n")


def test_cancelling_ends_the_tree_before_it_goes_on(tmp_path: Path) -> None:
    async def cancelled_twice() -> None:
        task = asyncio.create_task(
            run_shell("sleep 300 & echo $! > pid; wait", cwd=tmp_path, env=ENV, timeout_s=60)
        )
        await asyncio.to_thread(written_pid, tmp_path / "pid")
        task.cancel()
        await asyncio.wait([task], timeout=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(written_pid(tmp_path / "pid"))

    asyncio.run(cancelled_twice())


def test_cancelling_at_once_leaves_nothing(tmp_path: Path) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(
            run_shell("echo $$ > pid; sleep 300", cwd=tmp_path, env={**ENV, MARKER: "at-once"}, timeout_s=60)
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert reap("at-once") == []


PARENT = """
import os, subprocess, sys
from autoforge.process import guard_command
subprocess.Popen(guard_command(["/bin/sh", "-c", sys.argv[1]]), start_new_session=True)
print("started", flush=True)
sys.stdin.read()
"""
TREE = "echo $$ > command; setsid sh -c 'echo $$ > far; exec sleep 300' & sleep 300"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_b1_nothing_outlives_a_killed_parent(tmp_path: Path, number: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, TREE], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    pids = [written_pid(tmp_path / "command"), written_pid(tmp_path / "far")]
    assert all(alive(pid) for pid in pids)
    parent.send_signal(number)
    parent.communicate()
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_killed_guard_takes_its_command_along(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    guard = subprocess.Popen(guard_command(["/bin/sh", "-c", "echo $$ > pid; exec sleep 300"]), cwd=tmp_path)
    started.append(guard)
    pid = written_pid(tmp_path / "pid")
    guard.kill()
    until(lambda: not alive(pid))


def test_the_guard_refuses_a_parent_that_is_not_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", GUARD, "1", "--", "/bin/sh", "-c", "touch ran"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "parent" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_guard_passes_the_streams_through_and_leaves_the_terminal(tmp_path: Path) -> None:
    script = 'read line; echo "got $line"; echo err >&2; ps -o sid= -p $$'
    done = subprocess.run(
        guard_command(["/bin/sh", "-c", script]),
        input="x\n",
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    got, session = done.stdout.splitlines()
    assert got == "got x"
    assert done.stderr == "err\n"
    assert int(session) != os.getsid(0)


def test_the_guard_says_what_it_cannot_start() -> None:
    done = subprocess.run(guard_command(["/no/such/file"]), capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "/no/such/file" in done.stderr


def test_the_cli_wrapper_guards_what_it_runs(tmp_path: Path) -> None:
    cli = tmp_path / "the cli"
    cli.write_text('#!/bin/sh\necho "$#:$1:$2"\nsleep 300 & echo $! > "$3"\n')
    cli.chmod(0o755)
    wrapper = write_cli_wrapper(tmp_path / "it's a wrapper", cli)
    assert wrapper.stat().st_mode & 0o777 == 0o700
    done = subprocess.run(
        [wrapper, "a b", "$c", tmp_path / "pid"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3:a b:$c\n"
    assert not alive(written_pid(tmp_path / "pid"))
    assert write_cli_wrapper(wrapper, cli) == wrapper  # again, for the next attempt


def test_b1_reap_ends_what_an_earlier_build_left(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    inside, here = tmp_path / "inside", str(tmp_path)
    inside.mkdir()
    old = sleeper(tmp_path, **{MARKER: f"old{here}", REPO_MARKER: here})
    new = sleeper(inside, **{MARKER: f"new{here}", REPO_MARKER: here})
    other = sleeper(tmp_path, **{MARKER: f"old{here}", REPO_MARKER: "/elsewhere"})
    unmarked = sleeper(inside)
    started += [old, new, other, unmarked]
    assert reap(repo=here, except_build=f"new{here}") == [old.pid]
    assert old.wait(5) == -signal.SIGTERM
    assert [popen.poll() for popen in (new, other, unmarked)] == [None, None, None]
    assert reap(repo=here, below=inside) == [new.pid]
    assert reap(f"old{here}") == [other.pid]
    assert unmarked.poll() is None


def test_reap_kills_what_does_not_listen(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    build = f"deaf{tmp_path}"
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w').close(); signal.sigwait([signal.SIGUSR1])"
    popen = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env={**ENV, MARKER: build})
    started.append(popen)
    until((tmp_path / "ready").exists)
    assert reap(build, grace_s=0.1) == [popen.pid]
    assert popen.wait(5) == -signal.SIGKILL


def test_reap_spares_itself_and_its_ancestors(tmp_path: Path) -> None:
    code = "import os; from autoforge.process import reap; print(reap(os.environ['AUTOFORGE_BUILD']))"
    command = f'{sys.executable} -c "{code}"; echo alive'
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**ENV, MARKER: f"self{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\nalive\n", done.stderr


def test_reap_wants_to_know_whose() -> None:
    with pytest.raises(ValueError, match="every build"):
        reap(except_build="mine")


def test_b2_start_times_tell_processes_apart(tmp_path: Path) -> None:
    popen = sleeper(tmp_path)
    began = start_time(popen.pid)
    assert began is not None
    assert abs(began - time.time()) < 60
    assert start_time(popen.pid) == began
    popen.kill()
    until(lambda: not alive(popen.pid))
    assert start_time(popen.pid) is None  # dead, and not buried yet
    popen.wait()
    assert start_time(popen.pid) is None
    assert start_time(-5) is None
