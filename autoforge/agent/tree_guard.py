"""Runs one command and lets nothing of it outlive its parent: `python -I -S tree_guard.py PARENT_PID [--grace SECONDS] -- COMMAND…`.

A script of its own, standard library only. On Linux whatever the command starts, in its own session too, stays
below the guard (child subreaper) and is killed at once when the command ends or the parent dies. Elsewhere the
parent is looked at twice a second and only the command's process group is killed: a grandchild that left the
group survives, and is found later by its environment marker.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_LIMIT_S = 10.0  # a process stuck in the kernel must not hold the guard for ever


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def open_parent(parent: int) -> int | None:
    """A pidfd on the parent, None where there are none. Ends the guard when the parent is gone already."""
    parent_fd = None
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            parent_fd = os.pidfd_open(parent)
    # after the pidfd: a parent that is still ours cannot have given its pid to another process
    if os.getppid() != parent:
        sys.exit("tree_guard: the process to watch is not the parent or is gone")
    return parent_fd


def watch_signals() -> int:
    """The readable end of a pipe that gets a byte, the signal's number, for each signal."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (*STOPS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable


def start(command: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    guard = os.getpid()
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        return pid
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # for the day that the guard itself is killed
        for number in (*STOPS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        if os.getppid() == guard:
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def let_go() -> None:
    """Close the standard streams, so that their other ends see only what the command does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def collect(pid: int) -> int | None:
    """Bury the dead; the exit status of `pid` when it is among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            dead, ended = os.waitpid(-1, os.WNOHANG)
            if not dead:
                break
            if dead == pid:
                status = ended
    return status


def wait(
    pid: int, *, wake_fd: int, parent_fd: int | None, parent: int | None, timeout_s: float | None
) -> int | None:
    """The status of `pid` once it has ended; None: stop it (a signal, `parent` is gone, or out of time)."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    watched = [wake_fd] if parent_fd is None or parent is None else [wake_fd, parent_fd]
    while (status := collect(pid)) is None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        pause = left if sys.platform == "linux" else min(0.5, left or 0.5)
        ready = select.select(watched, [], [], pause)[0]
        signals = os.read(wake_fd, 4096) if wake_fd in ready else b""
        if parent is not None and (os.getppid() != parent or any(number in STOPS for number in signals)):
            return collect(pid)
    return status


def children() -> list[int]:
    """The direct children (Linux). Only they are killed: their pids are not given away before we bury them."""
    own, found = os.getpid(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            after_name = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if int(after_name[1]) == own:
                found.append(int(folder.name))
    return found


def kill_all(pid: int) -> int | None:
    """Kill until nothing is left below us, generation by generation; the status of `pid` if it died by that."""
    deadline, status = time.monotonic() + KILL_LIMIT_S, None
    if sys.platform != "linux":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    while time.monotonic() < deadline:
        for child in children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        dead = 1
        while dead:
            try:
                dead, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status
            status = ended if dead == pid else status
        time.sleep(0.005)
    return status


def main(parent: int, grace_s: float, command: list[str]) -> int:
    with contextlib.suppress(PermissionError):  # the starter has made the session already
        os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    parent_fd = open_parent(parent)
    wake_fd = watch_signals()
    pid = start(command)
    let_go()
    status = wait(pid, wake_fd=wake_fd, parent_fd=parent_fd, parent=parent, timeout_s=None)
    if status is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        status = wait(pid, wake_fd=wake_fd, parent_fd=None, parent=None, timeout_s=grace_s)
    killed = kill_all(pid)
    code = os.waitstatus_to_exitcode(next((s for s in (status, killed) if s is not None), signal.SIGKILL))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    split = sys.argv.index("--")
    before = sys.argv[1:split]
    seconds = float(before[2]) if before[1:2] == ["--grace"] else 2.0
    sys.exit(main(int(before[0]), seconds, sys.argv[split + 1 :]))
