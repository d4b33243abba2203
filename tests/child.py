"""A build in a process of its own, with an agent of ours, to be killed: `python -m tests.child FOLDER AGENT`."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from autoforge import lead, leading, lock, project, settings
from autoforge.agent.session import SessionEnd
from autoforge.attempt import OURS
from autoforge.events import Event, EventKind
from db.feature import Result
from tests.agents import Agent, Crew, Work, diligent


async def holding(agent: Agent) -> SessionEnd | None:
    """Leaves work behind, waits for the file `go` beside the repository, and finishes unless it is told to stop."""
    agent.write("half.txt", "half done\n")
    agent.events.put_nowait(Event(EventKind.TEXT, agent.session.batch, "holding"))
    go = Path(os.environ["GO"])
    while not (go.exists() or agent.stop.is_set()):
        await asyncio.sleep(0.02)
    if agent.stop.is_set():
        return SessionEnd(Result.INTERRUPTED, "the session was interrupted", 0.1)
    await diligent(agent)
    return None


async def choosing(agent: Agent) -> SessionEnd | None:
    """Holds what is called so."""
    held = agent.features[0][1].startswith("Hold")
    return await (holding(agent) if held else diligent(agent))


async def limited(agent: Agent) -> SessionEnd:
    return SessionEnd(Result.LIMITED, "a limit", 0.0, resets_at=datetime.now(UTC) + timedelta(hours=1))


async def failing(agent: Agent) -> None:
    """Does nothing."""


STOP_LIMIT_S = 10.0
AGENTS: dict[str, Work] = {w.__name__: w for w in (diligent, holding, choosing, limited, failing)}


def show(event: Event) -> None:
    print(event.kind, event.batch, event.text, flush=True)


def main(folder: str, agent: str) -> int:
    opened = project.open_project(Path(folder), settings.take(os.environ))
    if host := os.environ.get("HOST_ID"):
        lock.host_id = lambda: host
    lease_s = float(os.environ.get("LEASE_S", lock.LEASE_S))
    seams = leading.Seams(agent=Crew(AGENTS[agent]), back_off_s=lambda _: 3600.0, lease_s=lease_s)
    with project.table(opened) as store:
        options = leading.Options(auto_pr="AUTO_PR" in os.environ)
        try:
            return asyncio.run(lead.run(opened, store, options, show, seams)).exit_code
        except OURS as error:
            print(error, flush=True)
            return getattr(error, "exit_code", 1)


class Child:
    """Such a process; `until` reads its events."""

    def __init__(self, clone: Path, go: Path, agent: str, **env: str) -> None:
        self.go = go
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.child", str(clone), agent],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "GO": str(go), **env},
            stdout=subprocess.PIPE,
            text=True,
        )

    def until(self, text: str) -> None:
        assert self.process.stdout is not None
        told = []
        for line in self.process.stdout:
            told.append(line)
            if text in line:
                return
        raise AssertionError(f"{text} did not come: {''.join(told)}")

    def kill(self) -> None:
        """`kill -9`, of this process alone."""
        self.process.kill()
        self.process.wait()

    def end(self, *, by: signal.Signals, times: int = 1) -> int:
        """Its exit code. Signals that come too close together are one, as in every process."""
        for _ in range(times):
            self.process.send_signal(by)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(0.5 if times > 1 else STOP_LIMIT_S)
        return self.process.wait(STOP_LIMIT_S)

    def close(self) -> None:
        """With everything below it, whatever it does."""
        below = (
            psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        )
        self.kill()
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(below, timeout=STOP_LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
