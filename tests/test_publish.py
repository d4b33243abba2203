"""Pushes and fetches: exactly what was meant, nobody's work overwritten, every refusal with its reason."""

import time
import urllib.request
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from git_workflow import publish
from git_workflow.command import Git
from git_workflow.errors import GitFailed, PushRejected
from git_workflow.github import connect
from git_workflow.publish import Remote
from tests.conftest import TOKEN, commit, run
from tests.harness.github import Fault, ValidatingGitHub

PLAIN = Remote("origin")
ONLINE = Remote("origin", TOKEN)


def push(git: Git, sha: str, branch: str = "af/x", known: str | None = None, remote: Remote = PLAIN) -> bool:
    return publish.ensure_pushed(git, remote, branch=branch, sha=sha, known=known)


def hook(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_p1_pushing_twice_is_pushing_once(clone: Path, git: Git, origin: Path) -> None:
    sha = commit(clone, {"a": "1"})
    assert push(git, sha)
    assert run("git", "rev-parse", "af/x", cwd=origin) == sha
    assert git.run("rev-parse", "refs/remotes/origin/af/x") == sha
    assert not push(git, sha)
    newer = commit(clone, {"b": "1"})
    assert push(git, newer, known=sha)
    assert run("git", "rev-parse", "af/x", cwd=origin) == newer
    assert push(git, sha, known=newer), "back again: known, so it is ours to rewrite"


def test_p1_an_answer_that_is_lost_after_the_push(
    clone: Path, git: Git, forged: Repository, github: ValidatingGitHub, origin: Path
) -> None:
    sha = commit(clone, {"a": "1"})
    github.faults.append(Fault("POST", ".*/git-receive-pack", handled=True, drop=True))
    assert push(git, sha, remote=ONLINE)
    assert run("git", "rev-parse", "af/x", cwd=origin) == sha
    assert not push(git, sha, remote=ONLINE)
    forge = connect(api_url=github.url, slug="octo/app", token=TOKEN, seconds_between_writes=0)
    asked = {"head": "af/x", "sha": sha, "base": "main", "title": "t", "body": "", "draft": False}
    first = publish.ensure_opened(forge, **asked)  # type: ignore[arg-type]
    assert publish.ensure_opened(forge, **asked).number == first.number  # type: ignore[arg-type]
    assert len(forged.pulls) == 1


def test_p2_a_closed_pull_request_is_told_and_only_new_work_gets_another(
    clone: Path, git: Git, forged: Repository, github: ValidatingGitHub
) -> None:
    push(git, sha := commit(clone, {"a": "1"}), remote=ONLINE)
    forge = connect(api_url=github.url, slug="octo/app", token=TOKEN, seconds_between_writes=0)
    asked = {"head": "af/x", "base": "main", "title": "t", "body": "", "draft": False}
    first = publish.ensure_opened(forge, sha=sha, **asked)  # type: ignore[arg-type]
    address = f"{github.url}/repos/octo/app/pulls/{first.number}"
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    asking = urllib.request.Request(address, b'{"state": "closed"}', headers, method="PATCH")
    urllib.request.urlopen(asking).close()
    assert publish.ensure_opened(forge, sha=sha, **asked).state == "closed"  # type: ignore[arg-type]
    push(git, newer := commit(clone, {"b": "1"}), known=sha, remote=ONLINE)
    assert publish.ensure_opened(forge, sha=newer, **asked).number != first.number  # type: ignore[arg-type]


def test_p3_somebody_elses_commit_is_never_overwritten(clone: Path, git: Git, origin: Path) -> None:
    ours = commit(clone, {"a": "1"})
    push(git, ours)
    run("git", "clone", "-q", "-b", "af/x", str(origin), "other", cwd=clone.parent)
    theirs = commit(clone.parent / "other", {"theirs": "1"})
    run("git", "push", "-q", cwd=clone.parent / "other")
    newer = commit(clone, {"b": "1"})
    for known in (ours, None):
        with pytest.raises(PushRejected, match=f"has {theirs[:10]} on origin, which autoforge did not push"):
            push(git, newer, known=known)
    assert run("git", "rev-parse", "af/x", cwd=origin) == theirs


def test_p3_a_push_that_comes_between_looking_and_pushing(clone: Path, git: Git, origin: Path) -> None:
    """The pre-push hook runs in that moment."""
    theirs = git.run("rev-parse", "HEAD")
    sha = commit(clone, {"a": "1"})
    hook(
        clone / ".git/hooks",
        "pre-push",
        f"unset GIT_DIR; git -C {origin} update-ref refs/heads/af/x {theirs}",
    )
    with pytest.raises(PushRejected, match="Somebody else pushed"):
        push(git, sha)
    assert run("git", "rev-parse", "af/x", cwd=origin) == theirs


def test_p3_the_remotes_reason_is_told(clone: Path, git: Git, origin: Path) -> None:
    hook(origin / "hooks", "pre-receive", "echo 'sign the CLA first'; exit 1")
    with pytest.raises(
        PushRejected, match=r"pre-receive hook declined\) sign the CLA first\. .*autoforge sync"
    ):
        push(git, commit(clone, {"a": "1"}))


def test_p3_protected_branches_and_workflow_files(
    clone: Path, git: Git, forged: Repository, github: ValidatingGitHub
) -> None:
    forged.protected.add("refs/heads/af/x")
    sha = commit(clone, {".github/workflows/ci.yml": "on: push\n"})
    with pytest.raises(PushRejected, match="Protected branch update failed"):
        push(git, sha, remote=ONLINE)
    github.tokens["app"] = github.tokens[TOKEN].__class__("app", app=True)
    with pytest.raises(PushRejected, match="The token may not change workflow files"):
        push(git, sha, "af/y", remote=Remote("origin", "app"))


def test_p3_a_pre_push_hook_that_fails_is_heard(clone: Path, git: Git, origin: Path) -> None:
    hook(
        clone / ".git/hooks", "pre-push", "printf '!\\tnot a rejection\\n'; echo 'tests are red' >&2; exit 1"
    )
    with pytest.raises(GitFailed, match="tests are red"):
        push(git, commit(clone, {"a": "1"}))
    assert run("git", "for-each-ref", "refs/heads/af", cwd=origin) == ""


@pytest.mark.parametrize("token", ["wrong", None])
def test_c4_a_wrong_or_missing_token_fails_fast(
    clone: Path, git: Git, forged: Repository, token: str | None
) -> None:
    forged.private = True
    started = time.monotonic()
    with pytest.raises(GitFailed, match=r"Authentication failed|terminal prompts disabled"):
        push(git, commit(clone, {"a": "1"}), remote=Remote("origin", token))
    assert time.monotonic() - started < 10


def test_pushes_go_where_the_user_pushes(clone: Path, git: Git, origin: Path, tmp_path: Path) -> None:
    run("git", "clone", "-q", "--bare", str(origin), "fork.git", cwd=tmp_path)
    run("git", "config", "remote.origin.pushurl", str(tmp_path / "fork.git"), cwd=clone)
    sha = commit(clone, {"a": "1"})
    assert push(git, sha)
    assert not push(git, sha)
    assert run("git", "for-each-ref", "refs/heads/af", cwd=origin) == ""


def test_configuration_does_not_change_what_is_pushed(clone: Path, git: Git, origin: Path) -> None:
    run("git", "tag", "-a", "-m", "x", "v1", cwd=clone)
    for key, value in {
        "push.followTags": "true", "push.default": "matching", "remote.origin.push": "refs/heads/*:refs/heads/copy/*",
        "push.recurseSubmodules": "on-demand", "fetch.prune": "true",
    }.items():  # fmt: skip
        run("git", "config", key, value, cwd=clone)
    push(git, commit(clone, {"a": "1"}))
    push(git, git.run("rev-parse", "HEAD"), "af/x/deeper".replace("/x", "/y"))
    assert run("git", "for-each-ref", "--format=%(refname)", cwd=origin).split() == [
        "refs/heads/af/x", "refs/heads/af/y/deeper", "refs/heads/main",
    ]  # fmt: skip


def test_w5_a_push_from_a_linked_worktree(clone: Path, git: Git, origin: Path) -> None:
    run("git", "worktree", "add", "-q", "-b", "mine", "../linked", cwd=clone)
    sha = commit(clone.parent / "linked", {"a": "1"})
    assert push(git.at(clone.parent / "linked"), sha, remote=ONLINE)
    assert run("git", "rev-parse", "af/x", cwd=origin) == sha


def test_a_fetch_touches_only_its_tracking_branch(clone: Path, git: Git, origin: Path) -> None:
    run("git", "clone", "-q", str(origin), "other", cwd=clone.parent)
    newer = commit(clone.parent / "other", {"a": "1"})
    run("git", "tag", "v1", cwd=clone.parent / "other")
    run("git", "push", "-q", "--tags", "origin", "main", "main:side", cwd=clone.parent / "other")
    head = git.run("rev-parse", "HEAD")
    assert publish.fetch(git, PLAIN, "main") == newer == git.run("rev-parse", "origin/main")
    assert git.run("rev-parse", "HEAD") == head
    assert not (clone / ".git/FETCH_HEAD").exists()
    assert git.lines("for-each-ref", "--format=%(refname)", "refs/tags", "refs/remotes/origin/side") == []
    with pytest.raises(GitFailed, match="couldn't find remote ref"):
        publish.fetch(git, PLAIN, "nowhere")


def test_a_shallow_clone_gets_the_history_that_bases_need(clone: Path, git: Git, origin: Path) -> None:
    commit(clone, {"a": "1"})
    git.run("push", "-q", "origin", "main")
    run("git", "clone", "-q", "--depth=1", f"file://{origin}", "shallow", cwd=clone.parent)
    shallow = Git(clone.parent / "shallow")
    assert publish.fetch(shallow, PLAIN, "main") == git.run("rev-parse", "main")
    assert shallow.run("rev-list", "--count", "origin/main") == "2"
    assert publish.fetch(shallow, PLAIN, "main")


def test_a_remote_that_is_not_there(git: Git, clone: Path) -> None:
    run("git", "remote", "set-url", "origin", str(clone.parent / "gone.git"), cwd=clone)
    with pytest.raises(GitFailed, match="does not appear to be a git repository"):
        publish.remote_branch(git, ONLINE, "main")


def test_a_branch_is_looked_up_by_its_whole_name(clone: Path, git: Git, origin: Path) -> None:
    run("git", "update-ref", "refs/heads/a/refs/heads/af/x", "main", cwd=origin)
    assert publish.remote_branch(git, PLAIN, "af/x") is None
    assert publish.remote_branch(git, PLAIN, "main") == git.run("rev-parse", "main")
