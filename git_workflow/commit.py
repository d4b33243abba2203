"""The gate's commit: what belongs in it, what must not, and how it is made and taken back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from git_workflow.command import Git
from git_workflow.repository import head_sha

DROPPINGS = re.compile(
    r"""(^|/)(
        \.env(\.(?!example|sample|template|dist)[^/]*)? | \.envrc
      | node_modules | __pycache__ | \.venv | venv | \.tox | \.nox | \.mypy_cache | \.pytest_cache | \.ruff_cache
      | \.DS_Store | Thumbs\.db | \.idea | \.coverage | htmlcov | \.next | \.turbo | \.gradle
      | [^/]*\.(pyc|pyo|sqlite3?|db|db-wal|db-shm|swp|swo|orig|rej|log|pid)
      | nohup\.out | core\.\d+ | id_(rsa|dsa|ecdsa|ed25519) | [^/]*\.(pem|p12|pfx|keystore)
    )(/|$)""",
    re.VERBOSE,
)
SECRETS = (
    ("an Anthropic key", re.compile(r"sk-ant-[A-Za-z0-9-]{4,}-[A-Za-z0-9_-]{20,}")),
    ("a GitHub token", re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})")),
    ("an AWS access key", re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{20,}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b")),
    ("a Stripe key", re.compile(r"\b[sr]k_live_[A-Za-z0-9]{20,}")),
    ("a private key", re.compile(r"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----")),
    (
        "a password in a URL",
        re.compile(r"\b[a-z][a-z0-9+]+://[^/\s:@'\"<>{}$]+:[^/\s@'\"<>{}$]{8,}@[a-z0-9]"),
    ),
)
IN_PROGRESS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")


@dataclass(frozen=True)
class Commit:
    """A commit that is about to be verified, and the one to go back to when it is red."""

    sha: str
    previous: str


def stage(git: Git, *, protected: Sequence[str], max_file_bytes: int) -> list[str]:
    """Put everything that git does not ignore into the index; answers why it must not be committed, if so."""
    problems = _unfinished(git)
    untracked = _names(git, "ls-files", "--others", "--exclude-standard", "-z")
    problems += [
        f"{name} does not belong in a commit: delete it, or add it to .gitignore if the build needs it"
        for name in untracked
        if DROPPINGS.search(name)
    ]
    if problems:
        return problems
    git.run("add", "--all")
    changed = _names(git, "diff", "--cached", "--name-only", "--no-renames", "-z")
    if hits := set(_names(git, "diff", "--cached", "--name-only", "--no-renames", "-z", "--", *protected)):
        problems += [
            f"{name} is protected: restore it (git restore --staged --worktree)" for name in sorted(hits)
        ]
    problems += _too_large(git, changed, max_file_bytes)
    return problems + _secrets(git)


def _unfinished(git: Git) -> list[str]:
    paths = git.lines(
        "rev-parse", "--path-format=absolute", *(w for n in IN_PROGRESS for w in ("--git-path", n))
    )
    if any(Path(path).exists() for path in paths):
        return ["a merge, rebase, cherry-pick or bisect is in progress: finish it or abort it"]
    return []


def _names(git: Git, *args: str) -> list[str]:
    return [name for name in git.run(*args).split("\0") if name]


def _too_large(git: Git, names: Sequence[str], max_file_bytes: int) -> list[str]:
    sizes = {name: path.stat().st_size for name in names if (path := git.cwd / name).is_file()}
    return [
        f"{name} has {size:,} bytes, more than the {max_file_bytes:,} that a commit may add: delete or ignore it"
        for name, size in sizes.items()
        if size > max_file_bytes
    ]


def _secrets(git: Git) -> list[str]:
    diff = git.run("diff", "--cached", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv")
    problems, name = [], ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            name = line[6:]
        elif line.startswith("+"):
            problems += [
                f"{name} contains what looks like {what}: remove it"
                for what, rx in SECRETS
                if rx.search(line)
            ]
    return sorted(set(problems))


def make(git: Git, *, since: str, saved_ref: str, message: str) -> Commit | None:
    """One commit of everything since `since`, hooks included; None when there is no difference.

    The agent's own commits stay reachable from `saved_ref`. Raises GitFailed with the hooks' output; the work is
    then still there, staged.
    """
    head = head_sha(git)
    assert head is not None
    if head != since:
        git.run("update-ref", saved_ref, head)
        git.run("reset", "--quiet", "--soft", since)
    if git.ok("diff", "--cached", "--quiet"):
        return None
    git.run("commit", "--quiet", "--file=-", "--cleanup=whitespace", stdin=message, guarded=True)
    sha = head_sha(git)
    assert sha is not None
    return Commit(sha, since)


def undo(git: Git, commit: Commit) -> None:
    """Take the commit back and keep its content as the work in progress."""
    git.run("reset", "--quiet", "--soft", commit.previous)


def differs(git: Git, sha: str) -> str | None:
    """How HEAD or the work tree are not exactly `sha`, None when they are."""
    head = head_sha(git)
    if head != sha:
        return f"HEAD moved to {(head or 'nothing')[:10]} meanwhile"
    status = git.run("status", "--porcelain", "--untracked-files=all")
    if status:
        return "these files are not as in the commit:\n" + "\n".join(status.splitlines()[:20])
    return None
