"""How git is called: never waiting for a person, whatever bytes it prints, in the folder that was meant."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from autoforge import settings
from git_workflow.command import Git, shown
from git_workflow.errors import GitFailed
from tests.conftest import commit, run


def test_output_that_is_not_utf8_or_huge(clone: Path, git: Git) -> None:
    name = b'caf\xe9 "x"\n'.decode("utf-8", "surrogateescape")
    (clone / name).write_bytes(b"\xff\x00" * 3_000_000)
    git.run("add", "--all")
    assert git.names("ls-files", "-z") == ["README.md", name, "check.sh"]
    assert len(git.run("show", f":{name}")) == 6_000_000
    with pytest.raises(GitFailed) as caught:
        git.run("show", "HEAD:" + name)
    str(caught.value).encode()
    assert shown(name) == 'caf\ufffd "x"\ufffd'


def test_lines_are_what_git_means_by_lines(clone: Path, git: Git) -> None:
    commit(clone, {"a": "1"}, "one\x0btwo\u2028three\rfour")
    assert git.lines("log", "-1", "--format=%s%n%an") == ["one\x0btwo\u2028three\rfour", "Tess Ter"]
    assert git.lines("tag") == []


def test_a_folder_that_is_gone_is_an_error_and_not_another_folder(git: Git, tmp_path: Path) -> None:
    run("git", "init", "-q", cwd=tmp_path)
    (tmp_path / "plain").mkdir()
    assert "cannot change to" in git.at(tmp_path / "gone").attempt("status")[2]
    assert "not a git repository" in git.at(tmp_path / "plain").attempt("status")[2]


def test_c4_what_never_ends_is_ended_with_all_that_it_started(clone: Path, git: Git) -> None:
    hook = clone / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho thinking\nsleep 300 &\necho $! > child\nwait\n")
    hook.chmod(0o755)
    started = time.monotonic()
    with pytest.raises(GitFailed, match=r"thinking.*did not end within 0\.5 s"):
        replace(git, timeout_s=0.5).run("commit", "--allow-empty", "-m", "x")
    assert time.monotonic() - started < 10
    child = int((clone / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_nothing_is_started_in_the_background(clone: Path, git: Git) -> None:
    (clone.parent / "monitor").write_text(f"#!/bin/sh\ntouch {clone.parent}/started\n")
    (clone.parent / "monitor").chmod(0o755)
    run("git", "config", "core.fsmonitor", str(clone.parent / "monitor"), cwd=clone)
    run("git", "config", "gc.auto", "1", cwd=clone)
    git.run("status")
    assert not (clone.parent / "started").exists()
    assert git.run("config", "gc.auto") == "0"


def test_c4_nobody_is_asked_for_a_password(clone: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    window = clone.parent / "window"
    window.write_text("#!/bin/sh\ntouch asked\nsleep 60\n")
    window.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(window))
    monkeypatch.setenv("DISPLAY", ":0")
    run("git", "config", "core.askPass", str(window), cwd=clone)
    code, _, err = git.attempt("credential", "fill", stdin="protocol=https\nhost=example.com\n\n")
    assert (code, "terminal prompts disabled" in err) == (128, True)
    assert not (clone / "asked").exists()


def test_c5_an_inherited_git_environment_is_ignored(clone: Path, tmp_path: Path) -> None:
    """As when it is started from a git hook of another repository."""
    run("git", "init", "-q", "other", cwd=tmp_path)
    other = tmp_path / "other/.git"
    code = (
        "import os, sys; from pathlib import Path; from autoforge import settings\n"
        "from git_workflow.command import Git\nsettings.take(os.environ)\n"
        "git = Git(Path(sys.argv[1])); Path(sys.argv[1], 'new').touch(); git.run('add', '--all')\n"
        "print(git.run('rev-parse', '--absolute-git-dir'), *git.lines('diff', '--cached', '--name-only'))\n"
    )
    inherited = {
        "GIT_DIR": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_WORK_TREE": str(tmp_path),
    }
    said = run(sys.executable, "-c", code, str(clone), cwd=Path(__file__).parent.parent, **inherited)
    assert said.split() == [str(clone / ".git"), "new"]
    assert not (other / "index").exists()
    environ = {**os.environ, **inherited, "GIT_CEILING_DIRECTORIES": "/"}
    settings.take(environ)
    assert not [name for name in environ if name.startswith("GIT_")]


def test_no_git_at_all_says_what_to_do(clone: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from git_workflow.command import Git\n"
        "from git_workflow.errors import GitFailed\n"
        "try: Git(Path(sys.argv[1])).run('version')\nexcept GitFailed as error: print(error)\n"
    )
    folder = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(clone)],
        cwd=folder,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert "install git 2.38 or newer" in done.stdout, done.stderr
