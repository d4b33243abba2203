"""Worktrees beside the repository: made, healed, attached, parked and removed under one lock."""

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from git_workflow.command import Git, said
from git_workflow.content import on_a_ref, save_work
from git_workflow.errors import GitFailed, WorktreeFailed
from git_workflow.repository import Repository, changes, head_sha, in_progress, is_ancestor

log = logging.getLogger("autoforge.worktree")

REMOVED = ".removed-"
HINTS = (
    (
        "filter lfs failed",
        "Install git-lfs, or take its filter out of git's configuration: git lfs uninstall.",
    ),
    ("exists; cannot create", "Rename that branch, or set another `branch_prefix` in autoforge.toml."),
)


@dataclass(frozen=True)
class Entry:
    """One registered worktree, as `git worktree list` tells it."""

    path: Path
    branch: str | None
    locked: str | None  # the reason


def acquire(
    repo: Repository, *, root: Path, branch: str, base_sha: str, recorded: Path | None, busy: Collection[Path]
) -> Path:
    """A worktree below `root` for a batch: on `branch`, or detached while somebody else has or moved the branch.

    It contains `base_sha`, the batch's last commit or its base. `recorded` is where the batch worked before; its
    uncommitted work is kept. `busy` belongs to other batches. Raises WorktreeFailed; never another folder.
    """
    with lock(repo):
        try:
            _heal(repo, root)
            entries = registered(repo.git)
            mine = recorded or next(
                (e.path for e in entries if e.branch == branch and e.path.parent == root), None
            )
            if mine and _attach(repo, mine, branch, base_sha, entries):
                return mine
            entries = registered(repo.git)  # again: attaching may have taken one away
            place = _place(repo, branch, base_sha, entries)
            path = _parked(repo, root, entries, busy)
            if path is None:
                return _add(repo, root, place, entries)
            _move(repo.git.at(path), ("checkout", "--quiet", "--no-guess", *place), place)
            repo.git.at(path).run("clean", "--quiet", "-ffd")  # what only the last branch ignored
            return path
        except (GitFailed, OSError) as error:
            hint = next((f" {hint}" for text, hint in HINTS if text in str(error)), "")
            raise WorktreeFailed(f"No worktree for {branch} below {root}: {error}{hint}") from error


@contextlib.contextmanager
def lock(repo: Repository) -> Iterator[None]:
    """Held while worktrees and their branches change, across threads and processes. Raises WorktreeFailed."""
    repo.state_dir.mkdir(exist_ok=True)
    held = FileLock(repo.state_dir / "worktree.lock", timeout=600)
    try:
        held.acquire()
    except Timeout as error:
        raise WorktreeFailed(
            "Another autoforge has changed worktrees for ten minutes: look whether it hangs."
        ) from error
    try:
        yield
    finally:
        held.release()


def registered(git: Git) -> list[Entry]:
    entries = []
    for block in git.run("worktree", "list", "--porcelain", "-z").split("\0\0"):
        facts = dict((line + " ").split(" ", 1) for line in block.split("\0") if line)
        if "worktree" in facts and "bare" not in facts:
            branch = facts.get("branch", "").strip().removeprefix("refs/heads/") or None
            locked = facts["locked"].strip() if "locked" in facts else None
            entries.append(Entry(Path(facts["worktree"].removesuffix(" ")), branch, locked))
    return entries


def _heal(repo: Repository, root: Path) -> None:
    """Take away what a killed `worktree add` left half-made: nobody has worked in it."""
    for entry in registered(repo.git):
        if entry.path.parent == root and entry.locked == "initializing":
            if entry.path.exists():
                shutil.rmtree(entry.path)
            _drop(repo, entry.path)


def _drop(repo: Repository, path: Path) -> None:
    """Forget this worktree, whose folder is gone, and no other one."""
    repo.git.run("worktree", "remove", "--force", "--force", str(path))


def _attach(repo: Repository, path: Path, branch: str, sha: str, entries: Sequence[Entry]) -> bool:
    """Whether the batch's own worktree can be used again; its uncommitted work stays."""
    entry = next((e for e in entries if e.path == path), None)
    if entry is None or entry.branch not in (branch, None):
        return False
    if not path.is_dir():
        _drop(repo, path)
        return False
    git = repo.git.at(path)
    if head_sha(git) is None:
        repo.git.attempt("worktree", "repair", str(path))
    if head_sha(git) is None:
        raise WorktreeFailed(
            f"{path} is damaged. Keep what you need of it, then: git worktree remove --force {path}"
        )
    _unlock(git, branch)
    if entry.branch is None and not is_ancestor(git, sha, "HEAD"):
        place = _place(repo, branch, sha, [e for e in entries if e is not entry])
        _move(git, ("checkout", "--quiet", "--no-guess", *place), place)
    return True


def _unlock(git: Git, branch: str) -> None:
    """Remove the locks of a git that was killed; nothing runs in this worktree."""
    for stale in ("index.lock", "HEAD.lock", f"refs/heads/{branch}.lock"):
        Path(git.run("rev-parse", "--path-format=absolute", "--git-path", stale)).unlink(missing_ok=True)


def _place(repo: Repository, branch: str, sha: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """What to check out: the branch, with at least `sha` on it, or else `sha` itself, detached."""
    tip = head_sha(repo.git, f"refs/heads/{branch}")
    taken = any(e.branch == branch for e in entries)
    if not taken and (tip is None or is_ancestor(repo.git, tip, sha)):
        repo.git.run("update-ref", f"refs/heads/{branch}", sha, tip or "")
        return (branch,)
    return (branch,) if not taken and tip and is_ancestor(repo.git, sha, tip) else ("--detach", sha)


def _move(git: Git, command: Sequence[str], place: Sequence[str]) -> None:
    """Check out. A post-checkout hook that fails, in a folder without its tools, changes nothing about that."""
    code, out, err = git.attempt(*command)
    if not code:
        return
    branch = git.maybe("symbolic-ref", "--quiet", "--short", "HEAD") or "--detach"
    if branch != place[0] or head_sha(git) != head_sha(git, place[-1]):
        raise GitFailed(command, code, said(out, err))
    log.warning("worktree=%s the post-checkout hook failed: %s", git.cwd, err.strip())


def _parked(repo: Repository, root: Path, entries: Sequence[Entry], busy: Collection[Path]) -> Path | None:
    """A clean, detached worktree of ours that no batch uses."""
    for entry in sorted(entries, key=lambda e: e.path):
        ours = entry.path.parent == root and entry.branch is None and entry.path not in busy
        if ours and entry.locked is None and entry.path.is_dir() and _holds(repo.git.at(entry.path)) is None:
            return entry.path
    return None


def _holds(git: Git) -> str | None:
    """What would be lost with this worktree, None when nothing would."""
    try:
        if changes(git) or in_progress(git):
            return "has uncommitted work"
        return None if on_a_ref(git, "HEAD") else "has commits that are on no branch"
    except GitFailed as error:
        return f"cannot be read ({error})"


def _add(repo: Repository, root: Path, place: Sequence[str], entries: Sequence[Entry]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    known = {e.path for e in entries}
    number = 1
    while (path := root / f"w{number}") in known or (path.exists() and any(path.iterdir())):
        number += 1
    command = ("worktree", "add", "--quiet", *place[:-1], str(path), place[-1])
    code, out, err = repo.git.attempt(*command)
    if code and path not in {e.path for e in registered(repo.git)}:
        raise GitFailed(command, code, said(out, err))
    if code:
        log.warning("worktree=%s the post-checkout hook failed: %s", path, err.strip())
    return path


def park(repo: Repository, path: Path, saved: str) -> bool:
    """Detach a worktree whose batch is done, so that another can have it; False when it was left as it is.

    Uncommitted work goes to `saved` first, commits that are on no ref to a ref beside it. What git cannot keep in a
    commit (work inside of a submodule or another repository) stays, and with it the worktree is not used again.
    """
    with lock(repo):
        git = repo.git.at(path)
        head = head_sha(git) if path.is_dir() else None
        if head is None:
            return False
        try:
            _unlock(git, git.maybe("symbolic-ref", "--quiet", "--short", "HEAD") or "HEAD")
            save_work(git, saved, "Work that was left over when its batch was done")
            if not on_a_ref(git, head):
                git.run("update-ref", f"{saved}-{head[:12]}", head)
            git.run("reset", "--quiet", "--hard")
            git.run("clean", "--quiet", "-fd")
            for unfinished in in_progress(git):
                shutil.rmtree(unfinished) if unfinished.is_dir() else unfinished.unlink()
            git.run("update-ref", "--no-deref", "HEAD", head)  # unlike a checkout, without hooks
        except (GitFailed, OSError) as error:
            log.warning("worktree=%s could not be parked: %s", path, error)
            return False
        return True


def remove_parked(repo: Repository, root: Path, busy: Collection[Path]) -> list[str]:
    """Remove every parked worktree of ours; answers what could not be removed and why (tried again next time)."""
    problems = []
    with lock(repo):
        for entry in registered(repo.git):
            ours = entry.path.parent == root and entry.branch is None and entry.path not in busy
            if ours and entry.path.is_dir() and (why := _set_aside(repo, entry)):
                problems.append(f"{entry.path} {why} and was left")
        known = {e.path for e in registered(repo.git)}
        for folder in sorted(root.glob(f"{REMOVED}*")):
            path = folder.with_name(folder.name.removeprefix(REMOVED).rpartition("-")[0])
            if path in known and not path.exists():
                _drop(repo, path)
            if why := _delete(folder):
                problems.append(f"{folder} could not be deleted: {why}")
        with contextlib.suppress(OSError):
            root.rmdir()
    return problems


def _set_aside(repo: Repository, entry: Entry) -> str | None:
    """Rename it, in one step, to what can be deleted at any time; answers why not."""
    why = "is locked" if entry.locked is not None else _holds(repo.git.at(entry.path))
    if why is None:
        aside = Path(tempfile.mkdtemp(prefix=f"{REMOVED}{entry.path.name}-", dir=entry.path.parent))
        try:
            entry.path.rename(aside)
        except OSError as error:
            aside.rmdir()
            return f"cannot be moved ({error})"
    return why


def _delete(folder: Path) -> str | None:
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return None
    try:
        for inner in (folder, *(f for f in folder.rglob("*") if f.is_dir() and not f.is_symlink())):
            inner.chmod(0o700)  # caches are often made read-only
        shutil.rmtree(folder)
    except OSError as error:
        return str(error)
    return None
