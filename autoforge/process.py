"""Runs commands that cannot outlive us, and ends what an earlier crash left running."""

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import psutil

MARKER = "AUTOFORGE_BUILD"
"""Environment marker that every child carries; its value is the build's id."""

REPO_MARKER = "AUTOFORGE_REPO"
"""Its companion; its value is the repository's git common directory."""

END_LIMIT_S = 15.0  # the guard's own limits (2 s for the command, 10 s for killing) fit into it

T = TypeVar("T")


@dataclass(frozen=True)
class Finished:
    """A command that has ended. When `timed_out`, the exit code is that of being ended by us."""

    command: str
    exit_code: int
    output: str  # stdout and stderr as they came; the middle is left out when it is long
    duration_s: float
    timed_out: bool = False


def guard_command(command: Sequence[str]) -> list[str]:
    """The argv that runs `command` below a tree guard that watches this process, its direct parent to be."""
    script = Path(__file__).parent / "agent" / "tree_guard.py"
    return [sys.executable, "-I", "-S", str(script), str(os.getpid()), "--", *command]


def write_cli_wrapper(path: Path, real_cli: Path) -> Path:
    """Write a script that runs `real_cli` below a tree guard; only this process may start it."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(guard_command([str(real_cli)]))} "$@"\n')
    return path


async def run_shell(
    command: str, *, cwd: Path, env: Mapping[str, str], timeout_s: float, output_limit: int = 20_000
) -> Finished:
    """Run `/bin/sh -c command` with `env` as the complete environment and no input; `output_limit` in bytes.

    Nothing that it started is left when this returns or is cancelled.
    """
    argv = guard_command(["/bin/sh", "-c", command])
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        spawn = asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        process = await _to_the_end(spawn, undo=_end)
        timed_out = await _wait(process, timeout_s)
        return Finished(
            command=command,
            exit_code=process.returncode if process.returncode is not None else -1,
            output=_head_and_tail(output, output_limit),
            duration_s=time.monotonic() - started,
            timed_out=timed_out,
        )


async def _wait(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    """Wait until it ends or is ended; True when time ran out."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        await _to_the_end(_end(process))
        return True
    except asyncio.CancelledError:
        await _to_the_end(_end(process))
        raise
    return False


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(END_LIMIT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _to_the_end(
    work: Coroutine[Any, Any, T], *, undo: Callable[[T], Coroutine[Any, Any, None]] | None = None
) -> T:
    """Finish `work` however often we are cancelled meanwhile; then undo it and be cancelled."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if not cancelled:
        return task.result()
    if undo is not None and task.exception() is None:
        await _to_the_end(undo(task.result()))
    raise asyncio.CancelledError


def _head_and_tail(file: BinaryIO, limit: int) -> str:
    """Read by position: whoever still holds the file shares our offset."""
    descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
    if size <= limit:
        return os.pread(descriptor, size, 0).decode(errors="replace")
    head = os.pread(descriptor, limit // 2, 0).decode(errors="replace")
    tail = os.pread(descriptor, limit - limit // 2, size - (limit - limit // 2)).decode(errors="replace")
    return f"{head}\n… {size - limit} bytes left out …\n{tail}"


def reap(
    build: str | None = None,
    *,
    repo: str | None = None,
    except_build: str | None = None,
    below: Path | None = None,
    grace_s: float = 2.0,
) -> list[int]:
    """End this user's processes that carry the marker and fit everything given; answers their pids. Blocking.

    `build` and `repo` are the markers' values, `except_build` spares a build, `below` holds their working folder.
    Never ends us or our ancestors.
    """
    if build is None and repo is None and below is None:
        raise ValueError(
            "reap needs a build, a repository or a folder; else it would end every build of this user"
        )
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid in spared or process.uids().real != os.getuid():
                continue
            marks = process.environ()
            if _fits(marks, build=build, repo=repo, except_build=except_build) and _is_below(process, below):
                found.append(process)
        except (psutil.Error, OSError):  # it has ended meanwhile, or is not ours to look at
            continue
    _end_all(found, grace_s)
    return [process.pid for process in found]


def _fits(marks: Mapping[str, str], *, build: str | None, repo: str | None, except_build: str | None) -> bool:
    value = marks.get(MARKER)
    return (
        value is not None
        and value != except_build
        and build in (None, value)
        and repo in (None, marks.get(REPO_MARKER))
    )


def _is_below(process: psutil.Process, folder: Path | None) -> bool:
    return folder is None or Path(process.cwd()).is_relative_to(folder.resolve())


def _end_all(processes: Iterable[psutil.Process], grace_s: float) -> None:
    """SIGTERM, then SIGKILL. Looks instead of waiting: to wait for a child of ours would steal its exit code."""
    left = [process for process in processes if _signal(process, signal.SIGTERM)]
    for number, limit_s in ((None, grace_s), (signal.SIGKILL, 2.0)):
        if number is not None:
            left = [process for process in left if _signal(process, number)]
        deadline = time.monotonic() + limit_s
        while (left := [process for process in left if _is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(0.02)


def _signal(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        process.send_signal(number)
    except (psutil.Error, OSError):
        return False
    return True


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (psutil.Error, OSError):
        return True


def host_id() -> str:
    """Names the machine and, on Linux, its boot and process namespace: only within these a pid means a process."""
    facts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        facts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(facts)


def start_time(pid: int) -> float | None:
    """When the process began, in seconds since the epoch; None when there is none or it is dead and not buried."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except (psutil.Error, ValueError, OverflowError):
        return None
