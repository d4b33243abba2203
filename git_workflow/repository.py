"""Where a repository is, and what it says about itself."""

import re
from dataclasses import dataclass
from pathlib import Path

from git_workflow.command import Git
from git_workflow.errors import GitFailed, NotARepository, UnusableRepository

MINIMUM_GIT = (2, 38)  # merge-tree --write-tree
_UNFINISHED = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)


@dataclass(frozen=True)
class Repository:
    """`root` is the top of the checkout that the user started in, `prefix` the project's folder below it."""

    git: Git
    root: Path
    common_dir: Path
    prefix: str = ""

    @property
    def state_dir(self) -> Path:
        return self.common_dir / "autoforge"


def open_repository(path: Path, git: Git) -> Repository:
    """Find the repository that `path` is in. Raises NotARepository and UnusableRepository."""
    if not path.is_dir():
        raise NotARepository(f"{path} is not a folder.")
    here = git.at(path).with_env(GIT_CEILING_DIRECTORIES="")  # the only search for a repository
    _check_version(here)
    flags = ("--is-bare-repository", "--git-common-dir", "--show-prefix")
    code, out, err = here.attempt("rev-parse", "--path-format=absolute", *flags)
    if code:
        raise _unusable(path, err)
    bare, common, prefix = [*out.split("\n"), ""][:3]
    if bare == "true":
        raise UnusableRepository(
            f"{path} is a bare repository. Start autoforge in one of its worktrees or in a clone."
        )
    top = here.maybe("rev-parse", "--show-toplevel")
    if not top:
        raise NotARepository(f"{path} is inside a .git folder. Start autoforge in the checkout itself.")
    root = Path(top)
    return Repository(
        git=git.at(root), root=root, common_dir=Path(common).resolve(), prefix=prefix.rstrip("/")
    )


def _unusable(path: Path, err: str) -> NotARepository | UnusableRepository:
    if "dubious ownership" in err:
        trusted = re.search(r"safe\.directory (.+)", err)
        return UnusableRepository(
            f"git does not trust {path}: it belongs to another user. "
            f"Run: git config --global --add safe.directory {trusted[1] if trusted else path}"
        )
    if "not a git repository" in err:
        return NotARepository(
            f"{path} is not inside a git repository. Run `git init` there, or choose another folder "
            "with -C PATH."
        )
    return UnusableRepository(f"git cannot read the repository of {path}: {err.strip()}")


def _check_version(git: Git) -> None:
    text = git.run("version")
    match = re.search(r"(\d+)\.(\d+)", text)
    if match and (int(match[1]), int(match[2])) < MINIMUM_GIT:
        raise UnusableRepository(f"{text} is too old: autoforge needs git 2.38 or newer.")


def head_sha(git: Git, ref: str = "HEAD") -> str | None:
    """The commit that `ref` names, None when there is none (an unborn branch)."""
    return git.maybe("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") or None


def remote_url(git: Git, remote: str) -> str | None:
    """What a push to `remote` would use, None when there is no such remote."""
    return git.maybe("remote", "get-url", "--push", remote)


def default_branch(git: Git, remote: str | None) -> str:
    """The branch that pull requests target: the remote's default branch, else the one that is most likely meant."""
    local = git.lines("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
    there = (
        git.lines("for-each-ref", "--format=%(refname:lstrip=3)", f"refs/remotes/{remote}") if remote else []
    )
    head = git.maybe("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD") if remote else None
    known = (head or "").removeprefix(f"refs/remotes/{remote}/")
    current = git.maybe("symbolic-ref", "--quiet", "--short", "HEAD")
    for name in (known, "main", "master", "trunk", current):
        if name and name in (there or local):
            return name
    if current and not (there or local):  # nothing is committed yet
        return current
    raise UnusableRepository("The target branch is not known. Set `target` in autoforge.toml.")


def has_commit(git: Git, sha: str) -> bool:
    return git.ok("cat-file", "-e", f"{sha}^{{commit}}")


def is_ancestor(git: Git, old: str, new: str) -> bool:
    return git.ok("merge-base", "--is-ancestor", old, new)


def identity(git: Git) -> str | None:
    """The committer that git would write, None when none is configured."""
    try:
        return git.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)[0]
    except GitFailed:
        return None


def in_progress(git: Git) -> list[Path]:
    """What git keeps while a merge, rebase, cherry-pick, revert or bisect is not finished."""
    flags = [word for name in _UNFINISHED for word in ("--git-path", name)]
    paths = map(Path, git.lines("rev-parse", "--path-format=absolute", *flags))
    return [path for path in paths if path.exists()]


def changes(git: Git) -> list[str]:
    """What differs from HEAD, as lines of `git status`; no configuration can hide a thing."""
    return git.lines("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
