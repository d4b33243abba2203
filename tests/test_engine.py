"""Where a feature table can be, and what a server that refuses says."""

import contextlib
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url, text

from autoforge import settings
from autoforge.project import Project, table
from db.engine import SqliteFile, address, sqlite_url
from db.errors import StoreError
from db.filesystem import mount_type, shared_memory_works
from db.store import FeatureStore
from tests.postgres import GUARDED, Server
from tests.tables import added, behind


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=ro&uri=true",
        "mysql://u:secret@h/d",
        "postgresql://u:secret@h:port/d",
    ],
)
def test_b5_a_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(StoreError, match=r"database\.url") as raised:
        FeatureStore.open(url)
    assert "secret" not in everything_said(raised.value)


def everything_said(error: BaseException) -> str:
    """As the log has it, with every cause."""
    return "".join(traceback.format_exception(error))


def test_a_url_round_trip(tmp_path: Path) -> None:
    odd = tmp_path / "a b?c=%41#é&.db"
    assert address(sqlite_url(odd)) == SqliteFile(odd)


# A server that refuses


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/d?password=secret&x=y", "postgres://u:secret@h/d"])
def test_a_postgresql_database_is_named_without_its_password(url: str) -> None:
    assert str(address(url)) == "postgresql://u:***@h/d"


def test_b6_a_server_that_is_not_there(tmp_path: Path) -> None:
    for url in (f"postgresql://u:secret@/d?host={tmp_path}", "postgresql://u:secret@127.0.0.1:1/d"):
        with pytest.raises(StoreError, match=r"cannot be reached: check database\.url") as raised:
            FeatureStore.open(url)
        assert "secret" not in everything_said(raised.value)


def as_role(url: str, name: str, password: str | None = None) -> str:
    return make_url(url).set(username=name, password=password).render_as_string(hide_password=False)


@contextlib.contextmanager
def guarded(server: Server, password: str) -> Iterator[str]:
    """The URL, without its password, of an empty database of a role that the server asks for one."""
    if not server.ours:
        pytest.skip("asks nobody for a password")
    with server.database(empty=True) as url:
        behind(url, f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{password}'")
        behind(url, f"GRANT CREATE ON SCHEMA public TO {GUARDED}")
        yield as_role(url, GUARDED)
        behind(url, f"DROP OWNED BY {GUARDED}")
    behind(server.admin, f"DROP ROLE {GUARDED}")


def test_b6_a_wrong_password(postgresql: Server) -> None:
    wrong = secrets.token_hex()  # not a word of this file, which the traceback shows
    with guarded(postgresql, "right") as url:
        FeatureStore.open(as_role(url, GUARDED, "right")).close()
        with pytest.raises(StoreError, match=r"cannot be reached.*password authentication failed") as raised:
            FeatureStore.open(as_role(url, GUARDED, wrong))
    assert wrong not in everything_said(raised.value)
    assert "\n" not in str(raised.value)


def test_b6_the_password_of_the_environment(postgresql: Server, opened: Callable[..., Project]) -> None:
    right, wrong = secrets.token_hex(), secrets.token_hex()

    def begun(url: str, **variables: str) -> Project:
        return replace(opened(database__url=url), surroundings=settings.take(dict(variables)))

    with guarded(postgresql, right) as url:
        project = begun(url, PGPASSWORD=right)
        with table(project) as store:
            added(store, "a")
        assert right not in repr(project)
        with table(begun(as_role(url, GUARDED, right), PGPASSWORD=wrong)) as store:
            assert [feature.name for feature in store.features()] == ["a"], "the URL's own counts"
        for without in (begun(url, PGPASSWORD=wrong), begun(url)):
            with pytest.raises(StoreError, match="cannot be reached") as raised, table(without):
                pass
            assert wrong not in everything_said(raised.value)


def test_b6_a_database_that_is_missing(postgresql: Server) -> None:
    with pytest.raises(StoreError, match=r'cannot be reached.*"nowhere" does not exist'):
        FeatureStore.open(postgresql.url("nowhere"))


def test_b6_a_role_that_may_not_make_tables(postgresql: Server) -> None:
    with postgresql.database(empty=True) as url:
        behind(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        behind(url, "CREATE ROLE guest LOGIN")
        with pytest.raises(StoreError, match="does not let you do this: let its owner grant you"):
            FeatureStore.open(as_role(url, "guest"))


def test_b6_another_programs_database_is_left(postgresql: Server) -> None:
    with postgresql.database(empty=True) as url:
        behind(url, "CREATE TABLE features (id integer)")
        with pytest.raises(StoreError, match="is another program's"):
            FeatureStore.open(url)
        assert behind(url, "SELECT to_regclass('batches')") == [(None,)]


def test_b6_a_database_that_cannot_hold_every_text(postgresql: Server) -> None:
    with (
        postgresql.database(empty=True, encoding="LATIN1") as url,
        pytest.raises(StoreError, match="stores text as LATIN1: make one with ENCODING 'UTF8'"),
    ):
        FeatureStore.open(url)


def test_b6_a_server_that_was_restarted_is_used_again(postgresql: Server) -> None:
    with postgresql.database() as url, closing(FeatureStore.open(url)) as store:
        added(store, "a")
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        behind(url, f"{others} AND datname = current_database()")
        assert [feature.name for feature in store.features()] == ["a"]


def test_b6_without_its_driver_postgresql_asks_for_it() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from db.store import FeatureStore\n"
        "FeatureStore.open('postgresql://u:secret@h/d')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'install "autoforge[postgres]"' in done.stderr.splitlines()[-1]
    assert "secret" not in done.stderr.splitlines()[-1]


def test_a_reader_sees_one_state(postgresql: Server) -> None:
    with postgresql.database() as url, closing(FeatureStore.open(url, busy_timeout_s=0.2)) as store:
        added(store, "a")
        with store._database.read() as session:
            count = text("SELECT count(*) FROM features")
            assert session.scalar(count) == 1
            added(store, "b")
            assert session.scalar(count) == 1
        with store._database.write() as session:
            assert [feature.name for feature in store.features()] == ["a", "b"]
            with pytest.raises(StoreError, match="is locked by another process: try again"):
                added(store, "c")


# Network file systems

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
40 27 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
41 40 8:1 / /home/local\\040disk rw - xfs /dev/sda1 rw
42 27 0:42 / /mnt/c rw - 9p drvfs rw
43 27 0:43 / /over rw - ext4 /dev/vdb rw
44 27 0:43 / /over rw - cifs //server/share rw
short line
"""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/me/x", "nfs4"),
        ("/homely/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/local disk/x", "xfs"),
        ("/home/local", "nfs4"),
        ("/mnt/c/x", "9p"),
        ("/over/x", "cifs"),
    ],
)
def test_b6_the_longest_mount_point_decides(where: str, kind: str) -> None:
    assert mount_type(MOUNTS, PurePosixPath(where)) == kind


@given(st.text(max_size=200))
def test_b6_odd_mount_tables_are_read(text: str) -> None:
    mount_type(text, PurePosixPath("/a/b"))


def test_b6_shared_memory_here(tmp_path: Path) -> None:
    assert isinstance(shared_memory_works(tmp_path), bool)
