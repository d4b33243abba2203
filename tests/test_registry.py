"""Projects by name: what is remembered, what is refused, and that nobody's entry is lost."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given
from hypothesis import settings as thorough
from hypothesis import strategies as st

from autoforge import registry
from autoforge.errors import UsageError
from tests.conftest import run
from tests.invoke import refused, succeed

LONGEST = "Ab9._-" * 8 + "xy"
ONE_FIXTURE = thorough(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that holds the names; not there yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "autoforge" / "projects.json"


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        run("git", "init", "-q", name, cwd=tmp_path)
        return tmp_path / name

    return make


Make = Callable[[str], Path]


def test_a_project_is_remembered_found_and_forgotten(repository: Make, tmp_path: Path, data: Path) -> None:
    app, other = repository("app"), repository("other one")
    (app / "src").mkdir()
    assert succeed(app / "src", "projects", "add", "app") == f"Added project app: {app}\n"
    assert succeed(tmp_path, "projects", "add", "Other", "./other one/../other one") != ""
    assert succeed(tmp_path, "projects", "list") == f"Other  {other}\napp    {app}\n"
    assert json.loads(succeed(tmp_path, "projects", "list", "--json")) == {
        "projects": [
            {"name": "Other", "path": str(other), "stale": None},
            {"name": "app", "path": str(app), "stale": None},
        ]
    }
    assert registry.resolve("app") == app
    assert json.loads(data.read_text()) == {"projects": {"Other": str(other), "app": str(app)}}
    assert list((Path.home()).iterdir()) == [Path.home() / ".gitconfig"]  # all is below XDG_DATA_HOME
    assert succeed(tmp_path, "projects", "remove", "app") == f"Removed project app: {app} stays as it is.\n"
    assert (list(registry.projects()), app.is_dir()) == (["Other"], True)


def test_without_xdg_it_is_below_the_home(repository: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    succeed(repository("app"), "projects", "add", "app")
    assert Path.home() in registry.file().parents
    assert registry.file().is_file()


def test_a_path_may_begin_with_a_tilde_or_with_the_folder_of_the_repository_option(tmp_path: Path) -> None:
    run("git", "init", "-q", "mine", cwd=Path.home())
    succeed(tmp_path, "projects", "add", "tilde", "~/mine")
    assert registry.resolve("tilde") == Path.home() / "mine"
    succeed(tmp_path, "projects", "remove", "tilde")
    succeed(tmp_path, "projects", "add", "option", "mine", "-C", str(Path.home()))
    assert registry.resolve("option") == Path.home() / "mine"
    assert "no such user" in refused(tmp_path, "projects", "add", "x", "~nobody-is-called-so/app")


def test_w5_what_is_no_repository_is_not_remembered(tmp_path: Path, data: Path) -> None:
    assert "is not inside a git repository" in refused(tmp_path, "projects", "add", "x")
    assert "is not a folder" in refused(tmp_path, "projects", "add", "x", "nowhere")
    assert not data.exists()


def test_a_repository_may_hold_several_projects(repository: Make) -> None:
    mono = repository("mono")
    for name in ("api", "web"):
        (mono / name / "src").mkdir(parents=True)
        (mono / name / "autoforge.toml").touch()
        succeed(mono, "projects", "add", name, f"{name}/src")
    assert [registry.resolve(name) for name in ("api", "web")] == [mono / "api", mono / "web"]


@pytest.mark.parametrize("name", ["", "x" * 51, "a b", "a/b", "é", "a\n", "\N{FULLWIDTH DIGIT ONE}"])
def test_a_name_that_cannot_be_one(name: str, repository: Make, data: Path) -> None:
    assert "1 to 50 letters" in refused(repository("app"), "projects", "add", name)
    assert not data.exists()


@pytest.mark.parametrize("name", ["x", LONGEST, "..", "-x"])
def test_a_name_that_can_be_one(name: str, repository: Make) -> None:
    succeed(repository("app"), "projects", "add", "--", name)
    assert registry.resolve(name).name == "app"


def test_neither_a_name_nor_a_folder_is_there_twice(repository: Make, data: Path) -> None:
    app, other = repository("app"), repository("other")
    (app / "src").mkdir()
    succeed(app, "projects", "add", "App")
    before = data.read_bytes()
    for folder, name in ((other, "App"), (other, "aPP"), (app / "src", "second"), (app, "App")):
        error = refused(folder, "projects", "add", name)
        assert f"There is a project App already, at {app}." in error
    assert data.read_bytes() == before


def test_an_unknown_name_is_refused_with_the_one_that_was_meant(repository: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'no project "shop"\. To add it: autoforge projects add'):
        registry.resolve("shop")
    succeed(repository("app"), "projects", "add", "Shop-Frontend")
    with pytest.raises(UsageError, match=r"Did you mean Shop-Frontend\? To see all"):
        registry.resolve("shop_frontent")
    assert "Did you mean" not in refused(tmp_path, "projects", "remove", "quite other")
    assert "Did you mean Shop-Frontend?" in refused(tmp_path, "projects", "remove", "shop-frontend")


def test_what_is_stale_is_shown_and_pruned(repository: Make, tmp_path: Path) -> None:
    for name in ("gone", "plain", "there"):
        succeed(repository(name), "projects", "add", name)
    (tmp_path / "gone").rename(tmp_path / "moved")
    (tmp_path / "plain" / ".git").rename(tmp_path / "moved.git")
    shown = succeed(tmp_path, "projects", "list").splitlines()
    assert shown[0].endswith("gone  (stale: the folder is gone)")
    assert shown[1].endswith("plain  (stale: it is no git repository)")
    assert shown[2].endswith("there")
    with pytest.raises(
        UsageError, match=r"the folder is gone\. To forget it: autoforge projects remove gone"
    ):
        registry.resolve("gone")
    assert succeed(tmp_path, "projects", "prune").count("Removed project") == 2
    assert list(registry.projects()) == ["there"]
    assert succeed(tmp_path, "projects", "prune") == "No project is stale.\n"
    assert "no projects yet" not in succeed(tmp_path, "projects", "list")


def test_b5_what_is_not_the_right_file_is_refused_and_left_as_it_is(
    repository: Make, tmp_path: Path, data: Path
) -> None:
    app = repository("app")
    data.parent.mkdir(parents=True)
    for content in (
        b"",
        b"not json",
        b"[]",
        b'{"projects": []}',
        b'{"projects": {"a b": "/x"}}',
        b'{"projects": {"a": "relative"}}',
        b'{"projects": {"a": 1}}',
        b'{"projects": {"a": "/x", "a": "/y"}}',
        b"\0\xff",
        b"[" * 100_000,
    ):
        data.write_bytes(content)
        for command in (("add", "app"), ("list",), ("remove", "app"), ("prune",)):
            assert "projects.json" in refused(app, "projects", *command)
        assert data.read_bytes() == content
    data.unlink()
    data.mkdir()
    assert "is a folder" in refused(app, "projects", "list")


def test_a_file_that_cannot_be_written_stays_as_it_was(repository: Make, data: Path) -> None:
    app, other = repository("app"), repository("other")
    succeed(app, "projects", "add", "app")
    before = data.read_bytes()
    blocked = data.with_name("projects.json.new")
    blocked.mkdir()
    assert "cannot be written" in refused(other, "projects", "add", "other")
    assert data.read_bytes() == before
    blocked.rmdir()
    blocked.write_text('{"projects": {"app": "/ha')  # what a killed process leaves
    succeed(other, "projects", "add", "other")
    assert list(registry.projects()) == ["app", "other"]
    assert not blocked.exists()


def test_a_data_folder_that_cannot_be_made(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert "cannot be written" in refused(repository("app"), "projects", "add", "app")
    assert "no projects yet" in succeed(tmp_path, "projects", "list")


def test_a_symlink_to_the_file_stays_one(repository: Make, tmp_path: Path, data: Path) -> None:
    data.parent.mkdir(parents=True)
    data.symlink_to(tmp_path / "dotfiles" / "projects.json")
    succeed(repository("app"), "projects", "add", "app")
    assert data.is_symlink()
    assert list(registry.projects()) == ["app"]


def test_who_finds_the_file_held_gives_up_in_time(
    repository: Make, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LOCK_TIMEOUT_S", 0.05)
    data.parent.mkdir(parents=True)
    with FileLock(data.with_name("projects.json.lock")):
        assert "Another autoforge holds" in refused(repository("app"), "projects", "add", "app")
    assert not data.exists()


def test_eight_processes_that_add_at_once_all_succeed() -> None:
    code = "import sys; from pathlib import Path; from autoforge import registry; sys.stdin.read()\n"
    code += "for n in range(5): registry.add(f'{sys.argv[1]}.{n}', Path('/', sys.argv[1], str(n)))"
    started = [
        subprocess.Popen([sys.executable, "-c", code, f"p{n}"], stdin=subprocess.PIPE) for n in range(8)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()  # go
    assert [process.wait(timeout=60) for process in started] == [0] * 8
    assert sorted(registry.projects()) == sorted(f"p{n}.{i}" for n in range(8) for i in range(5))


def test_a_folder_whose_name_is_not_utf_8(repository: Make, tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"caf\xe9")
    repository("app").rename(strange)
    succeed(tmp_path, "projects", "add", "app", str(strange))
    assert registry.resolve("app") == strange


@ONE_FIXTURE
@given(st.one_of(st.binary(), st.text().map(str.encode), st.builds(json.dumps, st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(
        st.sampled_from(["projects", "a", "b c"]), inner, max_size=3)
)).map(str.encode)))  # fmt: skip
def test_whatever_the_file_holds_there_is_an_answer_or_a_clear_error(data: Path, content: bytes) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(content)
    known = {}
    with contextlib.suppress(UsageError):  # and no other error
        known = registry.projects()
    assert all(path.is_absolute() and registry.NAME.fullmatch(name) for name, path in known.items())


@ONE_FIXTURE
@given(
    st.dictionaries(
        st.from_regex(registry.NAME, fullmatch=True),
        st.text(st.characters(exclude_characters="\0")).map(lambda text: Path("/", text.lstrip("/") or "x")),
    )
)
def test_names_and_folders_come_back_as_they_were_given(data: Path, wanted: dict[str, Path]) -> None:
    data.unlink(missing_ok=True)
    kept: dict[str, Path] = {}
    for name, path in wanted.items():
        twin = name.casefold() in {other.casefold() for other in kept} or path in kept.values()
        if twin:
            with pytest.raises(UsageError, match="already"):
                registry.add(name, path)
        else:
            registry.add(name, path)
            kept[name] = path
    assert registry.projects() == kept
