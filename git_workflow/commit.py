"""The gate's commit: what belongs in it, what must not, and how it is made and taken back."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from git_workflow.base import commit_tree
from git_workflow.command import Git, said, shown
from git_workflow.content import nested_repositories, published
from git_workflow.diff import added_lines
from git_workflow.errors import GitFailed
from git_workflow.repository import changes, head_sha, in_progress, is_ancestor

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
        re.compile(
            r"\b[a-z][a-z0-9+]{1,20}://[^/\s:@'\"<>{}$]{1,99}:[^/\s@'\"<>{}$]{8,199}@(?!localhost|127\.)[a-z0-9]"
        ),
    ),
)
GITLINK = "160000"
TIME_OVER = (
    "Does a hook wait for something, or the signing of commits for a passphrase? "
    "`commit.sign = false` in autoforge.toml makes commits unsigned."
)


@dataclass(frozen=True)
class Commit:
    """A commit that is about to be verified, and the one to go back to when it is red."""

    sha: str
    previous: str


@dataclass(frozen=True)
class Change:
    """One file that the commit would change. `state` is git's letter: A, M, T or D."""

    name: str
    state: str
    mode: str
    old_blob: str
    blob: str


def stage(git: Git, *, protected: Sequence[str], max_file_bytes: int, since: str) -> list[str]:
    """Put everything that git does not ignore into the index; answers why it must not be committed, if so.

    What is judged is the whole difference from `since`, the agent's own commits included.
    """
    if in_progress(git):
        return ["a merge, rebase, cherry-pick or bisect is in progress: finish it or abort it"]
    problems = [
        f"{shown(name)} is a git repository of its own: remove {shown(name)}.git to commit its files, or ignore it"
        for name in nested_repositories(git)
    ]
    problems += _droppings(git.names("ls-files", "--others", "--exclude-standard", "-z"))
    if problems:
        return problems
    code, _, err = git.attempt("add", "--all", "--sparse")
    if code:
        return [f"git cannot add everything: {err.strip()}"]
    staged = list(_staged(git, since))
    return [
        *_droppings([change.name for change in staged if change.state == "A"]),
        *_protected(git, since, protected),
        *_too_large(git, staged, max_file_bytes),
        *_submodules(git, staged),
        *_secrets(git, since),
    ]


def _staged(git: Git, since: str) -> Iterator[Change]:
    raw = ("--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
    facts = git.names("diff", "--cached", *raw, "-z", since)
    for about, name in zip(facts[::2], facts[1::2], strict=True):
        _, mode, old_blob, blob, state = about.split(" ")
        yield Change(name, state, mode, old_blob, blob)


def _droppings(names: Sequence[str]) -> list[str]:
    """One line for each file, or for the whole folder where that is what does not belong."""
    found = dict.fromkeys(name[: hit.end()] for name in names if (hit := DROPPINGS.search(name)))
    return [
        f"{shown(name)} does not belong in a commit: delete it, or ignore it (.gitignore, git rm --cached) "
        "if the build needs it"
        for name in found
    ]


def _protected(git: Git, since: str, patterns: Sequence[str]) -> list[str]:
    if not patterns:
        return []
    paths = [f":(icase){pattern}" for pattern in patterns]
    hits = git.names("diff", "--cached", "--name-only", "--no-renames", "-z", since, "--", *paths)
    way = f"git restore --source={since} --staged --worktree"
    return [f"{shown(name)} is protected: restore it ({way} FILE)" for name in hits]


def _too_large(git: Git, staged: Sequence[Change], max_file_bytes: int) -> list[str]:
    """What is measured is what git stores: a pointer where LFS keeps the content."""
    files = [change for change in staged if change.mode != GITLINK and change.state != "D"]
    blobs = dict.fromkeys(blob for change in files for blob in (change.old_blob, change.blob))
    rows = git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(blobs)).split(
        "\n"
    )
    sizes = {sha: int(size) for sha, _, size in (row.partition(" ") for row in rows) if size.isdigit()}
    return [
        f"{shown(change.name)} has {sizes[change.blob]:,} bytes, more than the {max_file_bytes:,} that a commit may "
        "add: delete or ignore it"
        for change in files
        if sizes[change.blob] > max_file_bytes >= sizes.get(change.old_blob, 0)
    ]


def _submodules(git: Git, staged: Sequence[Change]) -> list[str]:
    return [
        f"{shown(change.name)} is a git repository at {change.blob[:10]}, a commit that none of its remotes has, so "
        f"nobody could get it: take it back to a published one, or out (git rm -f --cached {shown(change.name)})"
        for change in staged
        if change.mode == GITLINK and not published(git.at(git.cwd / change.name), change.blob)
    ]


def _secrets(git: Git, since: str) -> list[str]:
    found = {
        f"{name} contains what looks like {what}: remove it"
        for name, line in added_lines(git, "--cached", since)
        for what, looks in SECRETS
        if looks.search(line)
    }
    return sorted(found)


def make(git: Git, *, since: str, saved_ref: str, message: str) -> Commit | None:
    """One commit of everything since `since`, hooks included; None when there is no difference.

    The agent's own commits stay reachable from `saved_ref`. Raises GitFailed with the hooks' output; the work is
    then still there, staged.
    """
    head = git.run("rev-parse", "--verify", "HEAD^{commit}")
    if head != since:
        git.run("update-ref", saved_ref, head)
        _check_nothing_undone(git, since, head)
        git.run("reset", "--quiet", "--soft", since)
    if git.ok("diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none"):
        return None
    command = ("commit", "--quiet", "--file=-", "--cleanup=whitespace")
    code, out, err = git.attempt(*command, stdin=message, guarded=True)
    if code:
        raise GitFailed(command, code, f"{said(out, err)}\n{TIME_OVER}" if code < 0 else said(out, err))
    return Commit(git.run("rev-parse", "HEAD"), since)


def _check_nothing_undone(git: Git, since: str, head: str) -> None:
    """Raise GitFailed when HEAD was moved to before `since` and what that had is missing from the index."""
    if is_ancestor(git, since, head):
        return
    now = commit_tree(git, git.run("write-tree"), (head,), "What is staged", "1000000000")
    merge = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", since, now)
    tree, *conflicts = git.attempt(*merge)[1].split("\0")
    lost = set(git.names("diff", "--name-only", "--no-renames", "-z", now, tree)) - set(conflicts)
    if lost:
        raise GitFailed(
            ("commit",),
            1,
            f"HEAD was moved away from {since}, which has passed, and its changes are missing from "
            f"{', '.join(map(shown, sorted(lost)[:10]))}. Bring them back: git restore --source={since} FILE",
        )


def undo(git: Git, commit: Commit) -> None:
    """Take the commit back and keep its content as the work in progress."""
    git.run("reset", "--quiet", "--soft", commit.previous)


def differs(git: Git, sha: str) -> str | None:
    """How HEAD or the work tree are not exactly `sha`, None when they are."""
    head = head_sha(git)
    if head != sha:
        return f"HEAD moved to {(head or 'nothing')[:10]} meanwhile"
    if left := changes(git):
        return "these files are not as in the commit:\n" + "\n".join(left[:20])
    return None
