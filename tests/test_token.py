"""Who can see the forge's token during a push: git's own question for it, and nobody else."""

import logging
import os
import threading
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from git_workflow import publish
from git_workflow.command import Git
from git_workflow.errors import GitFailed
from git_workflow.publish import Remote
from tests.conftest import TOKEN, commit, run

ONLINE = Remote("origin", TOKEN)
SPY = """#!/bin/sh
exec > {seen} 2>&1
cat > {seen}.stdin
echo "args $*"
env
"$GIT_ASKPASS" Password:
timeout 1 cat /tmp/autoforge-*/pipe "$TMPDIR"/autoforge-*/pipe "$AUTOFORGE_ASKPASS"
printf 'protocol=http\\nhost=127.0.0.1\\n\\n' | git credential fill
ps -eo args
true
"""


@pytest.fixture
def seen(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a pre-push hook of the user's checkout finds out."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    hook = clone / ".git/hooks/pre-push"
    hook.write_text(SPY.format(seen=tmp_path / "seen"))
    hook.chmod(0o755)
    return tmp_path / "seen"


def test_the_token_reaches_git_and_no_hook(
    clone: Path, git: Git, forged: Repository, origin: Path, seen: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forged.private = True
    before = (clone / ".git/config").read_text()
    sha = commit(clone, {"a": "1"})
    with caplog.at_level(logging.DEBUG):
        assert publish.ensure_pushed(git, ONLINE, branch="af/x", sha=sha, known=None)
        publish.fetch(git, ONLINE, "main")
    assert run("git", "rev-parse", "af/x", cwd=origin) == sha
    assert TOKEN not in seen.read_text() + caplog.text + repr(ONLINE)
    assert (clone / ".git/config").read_text() == before
    assert f"args origin {git.run('remote', 'get-url', 'origin')}" in seen.read_text()
    assert Path(f"{seen}.stdin").read_text().split() == [sha, sha, "refs/heads/af/x", "0" * 40]
    assert not list((clone.parent / "scratch").iterdir())


def test_a_remote_that_asks_for_nothing_leaves_the_token_to_nobody(clone: Path, git: Git, seen: Path) -> None:
    threads, files = threading.active_count(), len(list(Path("/dev/fd").iterdir()))
    assert publish.ensure_pushed(git, ONLINE, branch="af/x", sha=commit(clone, {"a": "1"}), known=None)
    assert "PATH=" in seen.read_text()
    assert TOKEN not in seen.read_text()
    assert (threading.active_count(), len(list(Path("/dev/fd").iterdir()))) == (threads, files)


def test_hooks_are_the_users_wherever_they_are(clone: Path, git: Git) -> None:
    run("git", "config", "core.hooksPath", "my hooks", cwd=clone)
    run("git", "config", "credential.helper", "!echo username=me; echo password=own;:", cwd=clone)
    (clone / "my hooks").mkdir()
    hook = clone / "my hooks/pre-push"
    hook.write_text(
        '#!/bin/sh\nprintf "protocol=https\\nhost=h\\n\\n" | git credential fill > said; echo "$0" >> said\n'
    )
    hook.chmod(0o755)
    publish.ensure_pushed(git, ONLINE, branch="af/x", sha=git.run("rev-parse", "HEAD"), known=None)
    said = (clone / "said").read_text()
    assert "password=own" in said, "a hook (such as git-lfs) has the user's own credentials"
    assert said.endswith(f"{hook}\n")


def refused(git: Git, remote: Remote) -> None:
    with pytest.raises(GitFailed, match="Could not read from remote repository"):
        publish.remote_branch(git, remote, "main")


def test_the_remotes_environment_is_for_its_calls_only(clone: Path, git: Git, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$MINE $*" > {tmp_path}/called\nexit 1\n')
    ssh.chmod(0o755)
    run("git", "remote", "set-url", "origin", "git@example.com:octo/app.git", cwd=clone)
    remote = Remote("origin", TOKEN, {"GIT_SSH_COMMAND": f"{ssh} -i key", "MINE": "proxy"})
    refused(git, remote)
    assert (tmp_path / "called").read_text().startswith("proxy -i key")
    run("git", "config", "core.sshCommand", f"{ssh} --configured", cwd=clone)
    refused(git, Remote("origin"))
    assert (tmp_path / "called").read_text().startswith(" --configured")


def test_ssh_never_asks(clone: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/called\nexit 1\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    run("git", "remote", "set-url", "origin", "git@example.com:octo/app.git", cwd=clone)
    refused(git, Remote("origin"))
    assert "-o BatchMode=yes" in (tmp_path / "called").read_text()
