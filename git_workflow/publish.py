"""From a verified commit to an open pull request: each step looks first and does only what is missing."""

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from git_workflow.command import Git
from git_workflow.errors import GitFailed, PushRejected
from git_workflow.forge import Forge, PullRequest

ASKPASS = """#!/bin/sh
case "$1" in
  Username*) echo x-access-token ;;
  *) cat "$AUTOFORGE_ASKPASS" ;;
esac
"""


@dataclass(frozen=True)
class Remote:
    """Where branches go. The token never shows in a repr, an argument or a child's environment.

    `env` is what only fetches and pushes need (proxies, certificates, an SSH command).
    """

    name: str
    token: str | None = field(default=None, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextmanager
def _network(git: Git, remote: Remote) -> Iterator[Git]:
    """git that may talk to the remote, for one call.

    The token waits in a named pipe that gives it away once, to git's askpass: hooks of a push run later and find
    nothing. Without a token the user's own credential helpers and keys are used.
    """
    quiet = (
        git.with_env(GIT_SSH_COMMAND="ssh -o BatchMode=yes")
        if not git.ok("config", "core.sshCommand")
        else git
    )
    if remote.token is None:
        yield quiet
        return
    with tempfile.TemporaryDirectory(prefix="autoforge-") as folder:
        pipe, script = Path(folder) / "pipe", Path(folder) / "askpass"
        script.write_text(ASKPASS)
        script.chmod(0o700)
        os.mkfifo(pipe, 0o600)
        giver = threading.Thread(target=_give_once, args=(pipe, remote.token), daemon=True)
        giver.start()
        try:
            yield quiet.with_env(
                GIT_ASKPASS=str(script),
                AUTOFORGE_ASKPASS=str(pipe),
                GIT_CONFIG_COUNT="1",
                GIT_CONFIG_KEY_0="credential.helper",
                GIT_CONFIG_VALUE_0="",
            )
        finally:
            if giver.is_alive():  # nobody asked: let the thread go
                os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
                giver.join()


def _give_once(pipe: Path, token: str) -> None:
    try:
        with pipe.open("w") as end:
            pipe.unlink()
            end.write(token + "\n")
    except BrokenPipeError:
        return


def fetch(git: Git, remote: Remote, branch: str) -> str:
    """Bring the remote's branch here and answer its commit. Raises GitFailed."""
    tracking = f"refs/remotes/{remote.name}/{branch}"
    with _network(git, remote) as online:
        online.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            remote.name,
            f"+refs/heads/{branch}:{tracking}",
        )
    return git.run("rev-parse", tracking)


def remote_branch(git: Git, remote: Remote, branch: str) -> str | None:
    """The commit that the branch has on the remote, None when it is not there. Raises GitFailed."""
    with _network(git, remote) as online:
        out = online.run("ls-remote", remote.name, f"refs/heads/{branch}")
    return out.split("\t")[0] or None


def ensure_pushed(git: Git, remote: Remote, *, branch: str, sha: str, known: str | None) -> bool:
    """Make the remote's branch `sha`; False when it was already.

    `known` is what we pushed there before: anything else on the remote is somebody's work and is not overwritten.
    Raises PushRejected with the remote's reason, GitFailed when the remote cannot be reached.
    """
    there = remote_branch(git, remote, branch)
    if there == sha:
        return False
    if there != known and there is not None:
        raise PushRejected(
            f"{branch} has {there[:10]} on {remote.name}, which autoforge did not push; it was left as it is. "
            "Look at that branch, then delete or rename it there and build again."
        )
    lease = f"--force-with-lease=refs/heads/{branch}:{there or ''}"
    args = ("push", "--porcelain", "--no-follow-tags", lease, remote.name, f"{sha}:refs/heads/{branch}")
    with _network(git, remote) as online:
        code, out, err = online.attempt(*args, guarded=True)
    if code:
        _explain(args, code, out, err, branch)
    return True


def _explain(args: tuple[str, ...], code: int, out: str, err: str, branch: str) -> None:
    refused = [line.split("\t")[-1] for line in out.splitlines() if line.startswith("!")]
    said = [line.removeprefix("remote:").strip() for line in err.splitlines() if line.startswith("remote:")]
    if not refused:
        raise GitFailed(args, code, err or out)
    reason = " ".join([*refused, *(line for line in said if line)])
    hint = "Push it again with `autoforge sync` when that is mended."
    if "workflow" in reason:
        hint = (
            "The token may not change workflow files: give it the workflow permission, then `autoforge sync`."
        )
    raise PushRejected(f"The push of {branch} was refused: {reason}. {hint}")


def ensure_opened(
    forge: Forge, *, head: str, sha: str, base: str, title: str, body: str, draft: bool
) -> PullRequest:
    """The one pull request of a branch: found, or opened. Its state is as the forge tells it."""
    found = forge.find(head)
    if found is None or (found.state == "closed" and found.head_sha != sha):
        return forge.open(head=head, base=base, title=title, body=body, draft=draft)
    return found


def reachable(git: Git, remote: Remote) -> str | None:
    """Why the remote cannot be reached, None when it can."""
    try:
        with _network(git, remote) as online:
            online.run("ls-remote", "--heads", remote.name, "refs/heads/autoforge-does-not-exist")
    except GitFailed as error:
        return error.stderr or str(error)
    return None
