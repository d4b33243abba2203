"""Where a repository is, and what it says about itself."""

import re
from dataclasses import dataclass
from pathlib import Path

from git_workflow.command import Git
from git_workflow.errors import GitFailed, NotARepository, UnusableRepository

MINIMUM_GIT = (2, 38)  # merge-tree --write-tree


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
    here = git.at(path)
    _check_version(here)
    code, out, err = here.attempt("rev-parse", "--is-bare-repository", "--git-common-dir", "--show-prefix")
    if code and "dubious ownership" in err:
        raise UnusableRepository(
            f"git does not trust {path}: it belongs to another user. "
            f"Run: git config --global --add safe.directory {path}"
        )
    if code:
        raise NotARepository(
            f"{path} is not inside a git repository. Run `git init` there and make a first commit, "
            "or choose another folder with -C PATH."
        )
    bare, common, prefix = [*out.split("\n"), ""][:3]
    if bare == "true":
        raise UnusableRepository(f"{path} is a bare repository. Clone it and start autoforge in the clone.")
    top = here.maybe("rev-parse", "--show-toplevel")
    if not top:
        raise NotARepository(f"{path} is inside a .git folder. Start autoforge in the checkout itself.")
    root = Path(top)
    common_dir = (path / common).resolve()
    return Repository(git=here.at(root), root=root, common_dir=common_dir, prefix=prefix.rstrip("/"))


def _check_version(git: Git) -> None:
    text = git.run("version")
    match = re.search(r"(\d+)\.(\d+)", text)
    if match and (int(match[1]), int(match[2])) < MINIMUM_GIT:
        raise UnusableRepository(f"{text} is too old: autoforge needs git 2.38 or newer.")


def head_sha(git: Git, ref: str = "HEAD") -> str | None:
    """The commit that `ref` names, None when there is none (an unborn branch)."""
    return git.maybe("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") or None


def require_commit(repo: Repository) -> None:
    if head_sha(repo.git) is None and not repo.git.lines("for-each-ref", "--count=1", "refs/remotes"):
        raise UnusableRepository(
            "This repository has no commit yet. Make a first one: git add -A && git commit -m 'chore: start'"
        )


def remote_url(git: Git, remote: str) -> str | None:
    """What a push to `remote` would use, None when there is no such remote."""
    return git.maybe("remote", "get-url", "--push", remote)


def default_branch(git: Git, remote: str | None) -> str:
    """The branch that pull requests target: the remote's default branch, or the one checked out here."""
    if remote:
        known = git.maybe("symbolic-ref", "--quiet", "--short", f"refs/remotes/{remote}/HEAD")
        if known:
            return known.removeprefix(f"{remote}/")
    names = set(
        git.lines("for-each-ref", "--format=%(refname:lstrip=3)", f"refs/remotes/{remote}") if remote else []
    )
    names |= set(git.lines("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"))
    current = git.maybe("symbolic-ref", "--quiet", "--short", "HEAD")
    for name in ("main", "master", "trunk", current):
        if name and (name in names or name == current):
            return name
    raise UnusableRepository("The target branch is not known. Set `target` in autoforge.toml.")


def is_ancestor(git: Git, old: str, new: str) -> bool:
    return git.ok("merge-base", "--is-ancestor", old, new)


def identity(git: Git) -> str | None:
    """The committer that git would write, None when none is configured."""
    try:
        return git.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)[0]
    except GitFailed:
        return None
