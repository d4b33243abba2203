"""The repository's lock: one holder, known by its pid, gone with its process."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoforge import lock
from autoforge.errors import AutoforgeError, BuildActive
from autoforge.lock import Holder
from autoforge.process import start_time
from db.engine import sqlite_url
from db.store import FeatureStore

HOLD = """
import sys
from pathlib import Path
from autoforge import lock
with lock.lead(Path(sys.argv[1]), "other"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the lock until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_b2_the_second_is_refused_with_the_first_ones_pid(
    other: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BuildActive, match=rf"pid {other.pid}\b"), lock.lead(tmp_path, "mine"):
            pass
        assert lock.holder(tmp_path) == Holder("build", other.pid)
    assert lock.holder(tmp_path) is None


def test_b1_a_killed_holder_holds_nothing(other: "subprocess.Popen[str]", tmp_path: Path) -> None:
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        other.kill()
    assert (tmp_path / "lock.json").exists()
    assert lock.holder(tmp_path) is None
    with lock.lead(tmp_path, "mine"):
        assert lock.holder(tmp_path) == Holder("build", os.getpid())
    assert not (tmp_path / "lock.json").exists()


@pytest.mark.parametrize("name", ["lock", "lock.json"])
def test_b6_a_lock_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(AutoforgeError, match=f"{name} cannot be written"), lock.lead(tmp_path, "mine"):
        pass
    (tmp_path / name).rmdir()
    with lock.lead(tmp_path, "mine"):
        pass


def test_b2_a_recycled_pid_is_no_holder(tmp_path: Path) -> None:
    stale = {"pid": os.getpid(), "started": (start_time(os.getpid()) or 0) - 1000, "build": "old"}
    (tmp_path / "lock.json").write_text(json.dumps(stale))
    assert lock.holder(tmp_path) is None
    with lock.lead(tmp_path, "mine"):
        assert lock.holder(tmp_path) == Holder("build", os.getpid())


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"pid": null, "started": null}', '{"pid": -1, "started": 1}']
)
def test_a_lock_file_that_was_cut_off_is_no_holder(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock.json").write_text(content)
    assert lock.holder(tmp_path) is None


def test_to_look_does_not_turn_a_build_away(tmp_path: Path) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            lock.holder(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(200):
            with lock.lead(tmp_path, str(number)):
                pass
    finally:
        done.set()
        looking.join()


def test_it_is_freed_when_the_build_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock.lead(tmp_path, "first"):
        raise ZeroDivisionError
    with lock.lead(tmp_path, "second"):
        pass


def test_b6_a_table_that_cannot_be_written_for_a_while_costs_no_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = sqlite_url(tmp_path / "features.db")

    async def until(what: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not what():
                await asyncio.sleep(0.01)

    async def work(opened: FeatureStore) -> None:
        with lock.lease(opened, "b") as (store, lease):
            keeping = asyncio.create_task(lock.keep(store, lease, ttl_s=0.3))
            with closing(sqlite3.connect(tmp_path / "features.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await until(lambda: "the lease was not renewed" in caplog.text)
            await until(lambda: lease != opened.leader() is not None)
            assert not keeping.done()
            keeping.cancel()

    with closing(FeatureStore.open(url, busy_timeout_s=0)) as opened:
        asyncio.run(work(opened))
