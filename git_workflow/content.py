"""What a worktree holds beside its branch: uncommitted work, ignored files and submodules."""

import logging
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from git_workflow.base import commit_tree
from git_workflow.command import Git
from git_workflow.errors import GitFailed
from git_workflow.repository import Repository, changes, head_sha

log = logging.getLogger("autoforge.worktree")


def save_work(git: Git, ref: str, message: str) -> str | None:
    """Keep the uncommitted work, untracked files included, on `ref` without touching index or files.

    Answers the commit, None when there was nothing to keep. What was on `ref` before stays its ancestor. Not kept:
    ignored files, and what is inside of other repositories. Raises GitFailed when a file could not be kept.
    """
    if not changes(git):
        return None
    head = git.run("rev-parse", "HEAD")
    index = Path(git.run("rev-parse", "--path-format=absolute", "--git-path", "index"))
    inner = [f":(exclude,literal){name}" for name in nested_repositories(git)]
    with tempfile.TemporaryDirectory() as scratch:
        aside = git.with_env(GIT_INDEX_FILE=str(Path(scratch) / "index"))
        if index.is_file():  # a copy and not HEAD's tree: it knows what is left out of a sparse checkout
            shutil.copyfile(index, Path(scratch) / "index")
        add = ("-c", "core.safecrlf=false", "add", "--all", "--sparse", "--ignore-errors", "--", ":/", *inner)
        code, _, err = aside.attempt(*add)
        tree = aside.run("write-tree")
    commit = None
    if tree != git.run("rev-parse", "HEAD^{tree}"):
        earlier = head_sha(git, ref)
        parents = [head, earlier] if earlier else [head]
        commit = commit_tree(git, tree, parents, message, str(int(time.time())))
        git.run("update-ref", ref, commit)
    if code:
        raise GitFailed(("add", "--all"), code, err)
    return commit


def on_a_ref(git: Git, commit: str) -> bool:
    """Whether a branch, a tag or another ref has this commit."""
    return git.run("rev-list", "--max-count=1", commit, "--not", "--glob=*") == ""


def nested_repositories(git: Git) -> list[str]:
    """Folders with a repository of their own that is not a submodule; each name ends with a slash."""
    untracked = git.names("ls-files", "--others", "--exclude-standard", "-z")
    return [name for name in untracked if name.endswith("/")]


def copy_ignored(repo: Repository, path: Path, patterns: Sequence[str]) -> list[str]:
    """Copy files that git ignores but the build needs (`.env`); `.worktreeinclude` adds patterns.

    Only files that are ignored in the worktree too are copied, so none of them can get into a commit. Answers the
    names of those that were copied; what is there already is left as it is.
    """
    include = repo.root / ".worktreeinclude"
    flags = [f"--exclude={pattern}" for pattern in patterns]
    if include.is_file():
        flags.append(f"--exclude-from={include}")
    if not flags:
        return []
    wanted = repo.git.names("ls-files", "--others", "--ignored", "-z", *flags)
    wanted = [name for name in _ignored(repo.git, wanted) if (repo.root / name).is_file()]
    ignored = _ignored(repo.git.at(path), wanted)
    if exposed := sorted(set(wanted) - set(ignored)):
        log.warning("worktree=%s not copied, the branch does not ignore them: %r", path, exposed[:20])
    copied = [name for name in ignored if not (path / name).exists()]
    for name in copied:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(repo.root / name, path / name)
    return copied


def _ignored(git: Git, names: Sequence[str]) -> list[str]:
    code, out, err = git.attempt("check-ignore", "-z", "--stdin", stdin="\0".join(names))
    if code > 1 or code < 0:
        raise GitFailed(("check-ignore",), code, err)
    return [name for name in out.split("\0") if name]


def update_submodules(git: Git) -> None:
    """Bring submodules to the commits that the branch names; work that was done inside of one is left alone.

    The repository's configuration, which all worktrees share, is not changed. Raises GitFailed.
    """
    if not (git.cwd / ".gitmodules").is_file():
        return
    rows = git.attempt("config", "--file=.gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$")[1]
    paths = [row.partition("\n")[2] for row in rows.split("\0") if row]
    literally = git.with_env(GIT_LITERAL_PATHSPECS="1")
    links = literally.names("ls-files", "--stage", "-z", "--", *paths) if paths else []
    wanted = {row.partition("\t")[2]: row.split(" ")[1] for row in links if row.startswith("160000 ")}
    stale = [name for name, sha in wanted.items() if _may_move(git.at(git.cwd / name), sha)]
    if stale:
        git.run("-c", "submodule.active=:/", "submodule", "--quiet", "update", "--", *stale)
    for name in wanted:
        update_submodules(git.at(git.cwd / name))


def _may_move(submodule: Git, sha: str) -> bool:
    """Whether it is not there yet, or stands elsewhere without anything in it that its remote does not have."""
    if not (submodule.cwd / ".git").exists():
        return True
    here = head_sha(submodule)
    return here != sha and not changes(submodule) and published(submodule, here or "HEAD")


def published(submodule: Git, sha: str) -> bool:
    """Whether somebody else can fetch this commit."""
    return bool(submodule.maybe("branch", "--remotes", "--contains", sha))
