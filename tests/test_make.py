"""How the gate's commit is made, taken back and compared."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from git_workflow import commit as gate
from git_workflow.command import Git
from git_workflow.errors import GitFailed
from git_workflow.repository import head_sha
from tests.conftest import commit, run

SAVED = "refs/autoforge/saved/k/1-agent-1"


@pytest.fixture
def base(git: Git) -> str:
    return git.run("rev-parse", "HEAD")


def make(git: Git, since: str, message: str = "feat: it\n\n# kept\n") -> gate.Commit | None:
    assert gate.stage(git, protected=(), max_file_bytes=10**6, since=since) == []
    return gate.make(git, since=since, saved_ref=SAVED, message=message)


def hook(clone: Path, name: str, script: str) -> None:
    path = clone / ".git/hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def files(git: Git) -> set[str]:
    return set(git.lines("ls-tree", "-r", "--name-only", "HEAD")) - {"README.md", "check.sh"}


def test_c1_the_agents_own_commits_become_one_and_are_kept(clone: Path, git: Git, base: str) -> None:
    commit(clone, {"a": "1"})
    own = commit(clone, {"b": "1"})
    (clone / "c").touch()
    made = make(git, base)
    assert made
    assert (git.run("rev-parse", "HEAD^"), files(git)) == (base, {"a", "b", "c"})
    assert git.run("rev-parse", SAVED) == own
    assert git.run("log", "-1", "--format=%B") == "feat: it\n\n# kept\n"
    assert gate.differs(git, made.sha) is None


def test_c1_amended_merged_and_reset(clone: Path, git: Git, base: str) -> None:
    first = commit(clone, {"one": "1", "README.md": "one\n"})
    (clone / "README.md").write_text("one, but better\n")
    (clone / "two").touch()
    run("git", "add", "-A", cwd=clone)
    run("git", "commit", "-q", "--amend", "-m", "amended", cwd=clone)
    made = make(git, first)
    assert made
    assert (git.run("rev-parse", "HEAD^"), files(git)) == (first, {"one", "two"})
    run("git", "checkout", "-q", "-b", "side", base, cwd=clone)
    commit(clone, {"side": "1"})
    run("git", "checkout", "-q", "main", cwd=clone)
    run("git", "merge", "-q", "-m", "merge", "side", cwd=clone)
    merged = make(git, made.sha)
    assert merged
    assert (git.run("rev-parse", "HEAD^"), files(git)) == (made.sha, {"one", "two", "side"})
    run("git", "reset", "-q", "--soft", base, cwd=clone)
    assert make(git, merged.sha) is None, "nothing is missing, nothing has changed"
    assert head_sha(git) == merged.sha


def test_c1_what_has_passed_is_never_taken_back_silently(clone: Path, git: Git, base: str) -> None:
    first = commit(clone, {"one": "1", "README.md": "one\n"})
    run("git", "reset", "-q", "--hard", base, cwd=clone)
    (clone / "two").touch()
    with pytest.raises(GitFailed, match=r"missing from README\.md, one\. .*git restore --source"):
        make(git, first)
    assert head_sha(git) == base
    run("git", "restore", f"--source={first}", "one", "README.md", cwd=clone)
    assert make(git, first)
    assert files(git) == {"one", "two"}


def test_c2_no_difference_is_no_commit(clone: Path, git: Git, base: str) -> None:
    assert make(git, base) is None
    commit(clone, {"a": "1"})
    run("git", "rm", "-q", "a", cwd=clone)
    run("git", "commit", "-qm", "back", cwd=clone)
    assert make(git, base) is None
    assert head_sha(git) == base


def test_c3_a_hook_that_says_no_is_heard_and_the_work_stays_staged(clone: Path, git: Git, base: str) -> None:
    hook(clone, "pre-commit", "echo to stdout; echo 'line 3: too long' >&2; test ! -e a")
    (clone / "a").touch()
    (clone / "b").touch()
    with pytest.raises(GitFailed) as caught:
        make(git, base)
    assert "to stdout" in caught.value.stderr
    assert "line 3: too long" in caught.value.stderr
    assert head_sha(git) == base
    assert git.lines("diff", "--cached", "--name-only") == ["a", "b"]
    (clone / "a").unlink()
    assert make(git, base)
    assert files(git) == {"b"}


def test_c3_a_hook_that_reformats_and_refuses(clone: Path, git: Git, base: str) -> None:
    hook(clone, "pre-commit", "grep -q tidy a || { echo tidy > a; echo reformatted a; exit 1; }")
    (clone / "a").write_text("untidy in its own way".replace("tidy", "messy"))
    with pytest.raises(GitFailed, match="reformatted a"):
        make(git, base)
    assert make(git, base)
    assert git.run("show", "HEAD:a") == "tidy"


def test_c3_a_hook_that_reformats_and_lets_it_pass_is_seen(clone: Path, git: Git, base: str) -> None:
    hook(clone, "pre-commit", "echo tidy > a; test ! -e also || git add a")
    (clone / "a").write_text("messy")
    made = make(git, base)
    assert made
    assert "M a" in (gate.differs(git, made.sha) or "")
    gate.undo(git, made)
    assert head_sha(git) == base
    (clone / "also").touch()
    made = make(git, base)
    assert made
    assert gate.differs(git, made.sha) is None


def test_c4_signing_that_waits_for_a_passphrase_ends_with_what_to_do(
    clone: Path, git: Git, base: str
) -> None:
    gpg = clone.parent / "gpg"
    gpg.write_text("#!/bin/sh\nexec sleep 60\n")
    gpg.chmod(0o755)
    for key, value in {"commit.gpgSign": "true", "gpg.program": str(gpg), "user.signingKey": "X"}.items():
        run("git", "config", key, value, cwd=clone)
    (clone / "a").touch()
    with pytest.raises(GitFailed, match=r"did not end within 0\.5 s.*commit\.sign = false"):
        make(replace(git, timeout_s=0.5), base)
    assert git.lines("diff", "--cached", "--name-only") == ["a"]
    unsigned = git.with_env(
        GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="commit.gpgSign", GIT_CONFIG_VALUE_0="false"
    )
    assert make(unsigned, base)


def test_c4_no_identity_is_an_error_that_says_so(clone: Path, git: Git, base: str) -> None:
    run("git", "config", "--global", "--remove-section", "user", cwd=clone)
    run("git", "config", "user.useConfigOnly", "true", cwd=clone)
    (clone / "a").touch()
    with pytest.raises(GitFailed, match="no email was given"):
        make(git, base)


def test_undo_gives_the_work_back_as_it_was(clone: Path, git: Git, base: str) -> None:
    (clone / "README.md").unlink()
    (clone / "a").write_text("1")
    made = make(git, base)
    assert made
    commit(clone, {"left by a verify command": "1"})
    gate.undo(git, made)
    assert head_sha(git) == base
    assert git.lines("status", "--porcelain") == ["D  README.md", "A  a", 'A  "left by a verify command"']


def test_differs_sees_what_configuration_hides(clone: Path, git: Git, base: str) -> None:
    run("git", "config", "status.showUntrackedFiles", "no", cwd=clone)
    assert gate.differs(git, base) is None
    (clone / "left").touch()
    assert "left" in (gate.differs(git, base) or "")
    assert "HEAD moved" in (gate.differs(git, commit(clone, {"a": "1"})[::-1]) or "")


def test_a_hook_leaves_nothing_running(clone: Path, git: Git, base: str) -> None:
    if shutil.which("setsid") is None:
        pytest.skip("setsid is not installed")
    from autoforge.process import guard_command

    hook(clone, "pre-commit", "setsid sleep 77 >/dev/null 2>&1 & true")
    (clone / "a").touch()
    assert make(replace(git, guard=tuple(guard_command([]))), base)
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 77" not in found
