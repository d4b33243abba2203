"""Worktrees beside the repository: made, healed, attached, parked and removed under one lock."""

import logging
import shutil
import tempfile
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from git_workflow.command import Git
from git_workflow.errors import GitFailed, WorktreeFailed
from git_workflow.repository import Repository, head_sha

log = logging.getLogger("autoforge.worktree")


@dataclass(frozen=True)
class Entry:
    """One registered worktree, as `git worktree list` tells it."""

    path: Path
    branch: str | None
    locked: str | None  # the reason


def acquire(
    repo: Repository, *, root: Path, branch: str, base_sha: str, recorded: Path | None, busy: Collection[Path]
) -> Path:
    """A worktree below `root` that stands on `branch`, made from `base_sha` when the branch is new.

    `recorded` is where the batch worked before; its uncommitted work is kept. `busy` belongs to other batches.
    Raises WorktreeFailed; never falls back to another folder.
    """
    with lock(repo):
        entries = registered(repo.git)
        try:
            mine = recorded or next((e.path for e in entries if e.branch == branch and e.path.parent == root), None)
            if mine and _attach(repo, mine, branch, entries):
                return mine
            if repo.git.maybe("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is None:
                repo.git.run("branch", "--no-track", branch, base_sha)
            path = _parked(repo, root, entries, busy)
            if path is None:
                return _add(repo, root, branch)
            _switch(repo.git.at(path), branch, entries)
            return path
        except (GitFailed, OSError) as error:
            raise WorktreeFailed(f"No worktree for {branch} below {root}: {error}") from error


def lock(repo: Repository) -> AbstractContextManager[object]:
    """Held while worktrees and their branches change, across threads and processes."""
    repo.state_dir.mkdir(exist_ok=True)
    return FileLock(repo.state_dir / "worktree.lock", timeout=600)


def registered(git: Git) -> list[Entry]:
    entries = []
    for block in git.run("worktree", "list", "--porcelain", "-z").split("\0\0"):
        facts = dict((line + " ").split(" ", 1) for line in block.split("\0") if line)
        if "worktree" in facts and "bare" not in facts:
            branch = facts.get("branch", "").strip().removeprefix("refs/heads/") or None
            locked = facts["locked"].strip() if "locked" in facts else None
            entries.append(Entry(Path(facts["worktree"].removesuffix(" ")), branch, locked))
    return entries


def _attach(repo: Repository, path: Path, branch: str, entries: Sequence[Entry]) -> bool:
    """Whether the batch's own worktree can be used again; what a crash left half-made is taken away."""
    entry = next((e for e in entries if e.path == path), None)
    if entry is None:
        return False
    git = repo.git.at(path)
    if entry.locked == "initializing" or not path.is_dir() or head_sha(git) is None:
        # nothing was worked on in it: `git worktree add` had not finished, or the folder is gone
        repo.git.run("worktree", "remove", "--force", "--force", str(path))
        return False
    for stale in ("index.lock", "HEAD.lock"):
        Path(git.run("rev-parse", "--path-format=absolute", "--git-path", stale)).unlink(missing_ok=True)
    if entry.branch is None:
        _switch(git, branch, entries)
    return entry.branch in (branch, None)


def _switch(git: Git, branch: str, entries: Sequence[Entry]) -> None:
    """Stand on the branch, or detached at it while somebody else has it checked out."""
    taken = any(e.branch == branch and e.path != git.cwd for e in entries)
    if taken or git.maybe("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") is None:
        git.run("checkout", "--quiet", "--detach", branch if taken else "HEAD")
    else:
        git.run("checkout", "--quiet", "--no-guess", branch)


def _parked(repo: Repository, root: Path, entries: Sequence[Entry], busy: Collection[Path]) -> Path | None:
    """A clean, detached worktree of ours that no batch uses."""
    for entry in sorted(entries, key=lambda e: e.path):
        ours = entry.path.parent == root and entry.branch is None and entry.path not in busy
        if ours and entry.path.is_dir() and repo.git.at(entry.path).maybe("status", "--porcelain") == "":
            return entry.path
    return None


def _add(repo: Repository, root: Path, branch: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    entries = registered(repo.git)  # again: healing may have taken one away
    known = {e.path for e in entries}
    number = 1
    while (path := root / f"w{number}") in known or (path.exists() and any(path.iterdir())):
        number += 1
    taken = any(e.branch == branch for e in entries)
    repo.git.run("worktree", "add", "--quiet", *(["--detach"] if taken else []), str(path), branch)
    return path


def save_work(git: Git, ref: str, message: str) -> str | None:
    """Keep the uncommitted work, untracked files included, on `ref` without touching index or files.

    Answers the commit, None when there was nothing to keep. Ignored files are not kept.
    """
    if git.run("status", "--porcelain", "--untracked-files=all") == "":
        return None
    with tempfile.TemporaryDirectory() as scratch:
        aside = git.with_env(GIT_INDEX_FILE=str(Path(scratch) / "index"))
        head = head_sha(git)
        assert head is not None
        aside.run("read-tree", head)
        aside.run("add", "--all")
        tree = aside.run("write-tree")
        commit = aside.with_env(**_identity()).run("commit-tree", tree, "-p", head, "-m", message)
    git.run("update-ref", ref, commit)
    return commit


def _identity() -> dict[str, str]:
    return {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "autoforge"), ("EMAIL", "autoforge@localhost"))
    }


def park(repo: Repository, path: Path, saved: str) -> bool:
    """Detach a worktree whose batch is done, so that another can have it. Uncommitted work goes to `saved` first."""
    with lock(repo):
        if not path.is_dir():
            return False
        git = repo.git.at(path)
        save_work(git, saved, "Work that was left over when its batch was done")
        git.run("reset", "--quiet", "--hard")
        git.run("clean", "--quiet", "-ffd")
        git.run("checkout", "--quiet", "--detach")
        return True


def remove_parked(repo: Repository, root: Path, busy: Collection[Path]) -> list[str]:
    """Remove every parked worktree of ours; answers what could not be removed and why (tried again next time)."""
    problems = []
    with lock(repo):
        for entry in registered(repo.git):
            if entry.path.parent != root or entry.branch or entry.path in busy or not entry.path.is_dir():
                continue
            if repo.git.at(entry.path).maybe("status", "--porcelain", "--untracked-files=all") != "":
                problems.append(f"{entry.path} has uncommitted work and was left")
                continue
            code, _, err = repo.git.attempt("worktree", "remove", "--force", str(entry.path))
            if code:
                problems.append(f"{entry.path} could not be removed: {err.strip()}")
        if root.is_dir() and not any(root.iterdir()):
            root.rmdir()
    return problems


def copy_ignored(repo: Repository, path: Path, patterns: Sequence[str]) -> list[str]:
    """Copy files that git ignores but the build needs (`.env`); `.worktreeinclude` adds patterns.

    Only ignored files are copied, so none of them can get into a commit.
    """
    include = repo.root / ".worktreeinclude"
    flags = [f"--exclude={pattern}" for pattern in patterns]
    if include.is_file():
        flags.append(f"--exclude-from={include}")
    if not flags:
        return []
    wanted = repo.git.run("ls-files", "--others", "--ignored", "-z", *flags)
    if not wanted:
        return []
    code, ignored, err = repo.git.attempt("check-ignore", "-z", "--stdin", stdin=wanted)
    if code > 1:
        raise GitFailed(("check-ignore",), code, err)
    names = [name for name in ignored.split("\0") if name]
    for name in names:
        target = path / name
        if (repo.root / name).is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repo.root / name, target)
    return names


def update_submodules(git: Git) -> None:
    if (git.cwd / ".gitmodules").is_file():
        git.run("submodule", "--quiet", "update", "--init", "--recursive")
