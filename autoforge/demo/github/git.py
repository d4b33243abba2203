"""The server's own git: plumbing commands on a bare repository, in an environment that nobody else sets."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SETTINGS = {
    "gc.auto": "0",  # pull requests keep commits alive that no ref names
    "http.receivepack": "true",
    "receive.hideRefs": "refs/pull",
    "uploadpack.allowAnySHA1InWant": "true",
    "uploadpack.allowFilter": "true",
}

# The refusals that GitHub makes on a push. The two variables come from smart_http.
PRE_RECEIVE = """#!/bin/sh
refused=0
while read -r old new ref; do
  case " $LOOPBACK_PROTECTED " in *" $ref "*)
    echo "error: GH006: Protected branch update failed for $ref." >&2
    echo "error: Changes must be made through a pull request." >&2
    refused=1;;
  esac
  case "$new" in *[!0]*) ;; *) continue;; esac
  [ -n "$LOOPBACK_APP" ] || continue
  file=$(git log --format= --name-only "$new" --not --all -- .github/workflows | head -n 1)
  [ -n "$file" ] || continue
  echo "refusing to allow a GitHub App to create or update workflow \\`$file\\` without \\`workflows\\` permission" >&2
  refused=1
done
exit $refused
"""


class GitError(Exception):
    """A git command of the server failed."""


@dataclass(frozen=True)
class Identity:
    """Who wrote a commit; `date` as git prints it with %aI, empty for now."""

    name: str
    email: str
    date: str = ""


GITHUB = Identity("GitHub", "noreply@github.com")


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_COMMITTER_NAME": GITHUB.name,
        "GIT_COMMITTER_EMAIL": GITHUB.email,
        **extra,
    }


def run(
    path: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Never raises for an exit code; `path` is the bare repository."""
    command = [shutil.which("git") or "git", f"--git-dir={path}", *args]
    return subprocess.run(command, input=stdin, capture_output=True, env=environment(env or {}), check=False)


def output(path: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
    done = run(path, *args, stdin=stdin, env=env)
    if done.returncode:
        raise GitError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace").removesuffix("\n")


def create(path: Path, default_branch: str) -> str:
    """Make `path` a bare repository, or adopt the one that is there; answers its default branch."""
    if not (path / "HEAD").exists():
        path.mkdir(parents=True, exist_ok=True)
        output(path, "init", "--quiet", "--bare", "--template=", f"--initial-branch={default_branch}")
    for key, value in SETTINGS.items():
        output(path, "config", key, value)
    hook = path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(PRE_RECEIVE, encoding="utf-8")
    hook.chmod(0o755)
    return output(path, "symbolic-ref", "--short", "HEAD")


def branches(path: Path) -> dict[str, str]:
    """Branch name to commit."""
    listing = output(path, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads")
    return {name: sha for sha, _, name in (line.partition(" ") for line in listing.splitlines())}


def commit_of(path: Path, revision: str) -> str | None:
    done = run(path, "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    return None if done.returncode else done.stdout.decode().strip()


def is_ancestor(path: Path, ancestor: str, descendant: str) -> bool:
    return run(path, "merge-base", "--is-ancestor", ancestor, descendant).returncode == 0


def are_related(path: Path, one: str, other: str) -> bool:
    return run(path, "merge-base", one, other).returncode == 0


def merged_tree(path: Path, ours: str, theirs: str) -> str | None:
    """The tree of a merge, None when it conflicts."""
    done = run(path, "merge-tree", "--write-tree", ours, theirs)
    return None if done.returncode else done.stdout.decode().split("\n")[0]


def write_commit(
    path: Path, tree: str, parents: Sequence[str], *, message: str, author: Identity = GITHUB
) -> str:
    env = {"GIT_AUTHOR_NAME": author.name, "GIT_AUTHOR_EMAIL": author.email}
    if author.date:
        env["GIT_AUTHOR_DATE"] = author.date
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return output(path, "commit-tree", tree, *flags, stdin=message.encode(), env=env)


def set_ref(path: Path, ref: str, new: str, *, old: str | None = None) -> bool:
    """Create or move a ref; with `old`, only when it still is that. False when git refuses."""
    return run(path, "update-ref", ref, new, *([] if old is None else [old])).returncode == 0


def delete_ref(path: Path, ref: str) -> None:
    output(path, "update-ref", "-d", ref)
