"""From a verified commit to an open pull request: each step looks first and does only what is missing."""

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from git_workflow.command import Git, said
from git_workflow.errors import GitFailed, PushRejected
from git_workflow.forge import Forge, PullRequest
from git_workflow.repository import remote_url

ASKPASS = """#!/bin/sh
case "$1" in
  Username*) echo x-access-token ;;
  *) read -r token < "$AUTOFORGE_ASKPASS" && rm -f "$AUTOFORGE_ASKPASS" && echo "$token" ;;
esac
"""
HOOK = """#!/bin/sh
rm -f "$AUTOFORGE_ASKPASS"
unset GIT_ASKPASS AUTOFORGE_ASKPASS GIT_CONFIG_COUNT
exec {hook} "$@"
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

    The token waits in a named pipe for git's askpass and can be read once. The user's hooks run behind a script that
    takes the pipe away first. Without a token the user's own credential helpers and keys are used.
    """
    online = git.with_env(**_ssh(git, remote), **remote.env)
    if remote.token is None:
        yield online
        return
    with tempfile.TemporaryDirectory(prefix="autoforge-") as folder:
        pipe, askpass, hooks = (Path(folder) / name for name in ("pipe", "askpass", "hooks"))
        _script(askpass, ASKPASS)
        hooks.mkdir()
        for hook in _hooks(git):
            _script(hooks / hook.name, HOOK.format(hook=shlex.quote(str(hook))))
        config = {"credential.helper": "", "core.hooksPath": str(hooks)}
        os.mkfifo(pipe, 0o600)
        held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            os.write(held, f"{remote.token}\n".encode())
            yield online.with_env(
                GIT_ASKPASS=str(askpass),
                AUTOFORGE_ASKPASS=str(pipe),
                GIT_CONFIG_COUNT=str(len(config)),
                **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(config)},
                **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(config.values())},
            )
        finally:
            os.close(held)


def _ssh(git: Git, remote: Remote) -> Mapping[str, str]:
    """Never ask; but the user's own way of calling ssh comes first."""
    configured = {"GIT_SSH", "GIT_SSH_COMMAND"} & set(remote.env) or git.ok("config", "core.sshCommand")
    return {} if configured else {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}


def _hooks(git: Git) -> list[Path]:
    folder = Path(git.run("rev-parse", "--path-format=absolute", "--git-path", "hooks"))
    found = folder.iterdir() if folder.is_dir() else ()
    return [f for f in found if f.is_file() and os.access(f, os.X_OK) and f.suffix != ".sample"]


def _script(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o700)


def fetch(git: Git, remote: Remote, branch: str) -> str:
    """Bring the remote's branch here, with its history, and answer its commit. Raises GitFailed."""
    return _fetch(git, remote, f"refs/heads/{branch}", f"refs/remotes/{remote.name}/{branch}")


def fetch_pull(git: Git, remote: Remote, number: int) -> str:
    """Bring a pull request's commits here, which the forge keeps when its branch is deleted. Raises GitFailed."""
    return _fetch(git, remote, f"refs/pull/{number}/head", f"refs/autoforge/pulls/{number}")


def _fetch(git: Git, remote: Remote, source: str, here: str) -> str:
    flags = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    if git.run("rev-parse", "--is-shallow-repository") == "true":
        flags.append("--unshallow")
    with _network(git, remote) as online:
        online.run("fetch", *flags, remote.name, f"+{source}:{here}")
    return git.run("rev-parse", "--verify", here)


def remote_branch(git: Git, remote: Remote, branch: str) -> str | None:
    """The commit that the branch has where pushes go, None when it is not there. Raises GitFailed."""
    return remote_branches(git, remote, branch).get(branch)


def remote_branches(git: Git, remote: Remote, pattern: str) -> dict[str, str]:
    """The commit of each branch that matches, as git's patterns do, where pushes go. Raises GitFailed."""
    with _network(git, remote) as online:
        rows = online.lines("ls-remote", remote_url(git, remote.name) or remote.name, f"refs/heads/{pattern}")
    pairs = (row.split("\t", 1) for row in rows)
    return {ref.removeprefix("refs/heads/"): sha for sha, ref in pairs if ref.startswith("refs/heads/")}


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
    flags = ("--porcelain", "--no-follow-tags", "--no-recurse-submodules")
    args = ("push", *flags, lease, remote.name, f"{sha}:refs/heads/{branch}")
    with _network(git, remote) as online:
        code, out, err = online.attempt(*args, guarded=True)
    if code and not _arrived(git, remote, branch, sha):
        _explain(args, code, out, err, branch)
    return True


def ensure_join(git: Git, remote: Remote, *, branch: str, sha: str, saved: str) -> None:
    """Make a join's branch `sha` again, also when somebody has merged something into it: that is kept on `saved`.

    What was merged there would be missing from the pull requests that it belongs to. Raises as `ensure_pushed`.
    """
    there = remote_branch(git, remote, branch)
    if there not in (None, sha):
        git.run("update-ref", saved, fetch(git, remote, branch))
    ensure_pushed(git, remote, branch=branch, sha=sha, known=there)


def ensure_deleted(git: Git, remote: Remote, *, branch: str, known: str) -> bool:
    """Delete the remote's branch if it still is `known`; False when it was not there, or is somebody's work now.

    Raises GitFailed.
    """
    if remote_branch(git, remote, branch) != known:
        return False
    lease = f"--force-with-lease=refs/heads/{branch}:{known}"
    with _network(git, remote) as online:
        online.run("push", "--porcelain", lease, remote.name, f":refs/heads/{branch}", guarded=True)
    return True


def _arrived(git: Git, remote: Remote, branch: str, sha: str) -> bool:
    """Whether a push that is said to have failed did its work: its answer can be lost, or refuse a repetition."""
    try:
        return remote_branch(git, remote, branch) == sha
    except GitFailed:
        return False


def _explain(args: tuple[str, ...], code: int, out: str, err: str, branch: str) -> None:
    refused = [line.split("\t")[2] for line in out.split("\n") if re.match(r"!\t[^\t]*\t", line)]
    if not refused:  # no word about the branch: the remote was not reached, or a pre-push hook said no
        raise GitFailed(args, code, said(out, err))
    remarks = [line.removeprefix("remote:").strip() for line in err.split("\n") if line.startswith("remote:")]
    reason = " ".join([*refused, *filter(None, remarks)])
    hint = "Push it again with `autoforge sync` when that is mended."
    if "refusing to allow" in reason and "workflow" in reason:
        hint = "The token may not change workflow files: give it that permission, then `autoforge sync`."
    if re.search("stale info|reference already exists|but expected", reason):
        hint = (
            "Somebody else pushed to it at the same moment, and that was not overwritten: look at the branch."
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
