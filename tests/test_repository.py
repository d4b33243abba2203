"""Finding the repository and its default branch, wherever it is started and in whatever state it is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from git_workflow import repository
from git_workflow.command import Git
from git_workflow.errors import GitWorkflowError, NotARepository, UnusableRepository
from git_workflow.repository import changes, default_branch, open_repository
from tests.conftest import commit, run


def opened(path: Path) -> repository.Repository:
    return open_repository(path, Git(path))


def test_w5_started_in_a_subdirectory_or_a_linked_worktree(clone: Path) -> None:
    commit(clone, {"apps/web/x": "1"})
    run("git", "worktree", "add", "-q", "-b", "mine", "../linked", cwd=clone)
    for root in (clone, clone.parent / "linked"):
        for start, prefix in ((root, ""), (root / "apps/web", "apps/web")):
            repo = opened(start)
            assert (repo.root, repo.prefix, repo.git.cwd) == (root, prefix, root)
            assert repo.state_dir == clone / ".git/autoforge"


def test_w5_started_in_a_worktree_of_a_bare_repository(clone: Path, origin: Path) -> None:
    run("git", "worktree", "add", "-q", str(origin / "main"), "main", cwd=origin)
    assert opened(origin / "main").common_dir == origin


def nothing(path: Path) -> Path:
    return path


def bare(path: Path) -> Path:
    run("git", "init", "-q", "--bare", cwd=path)
    return path


def dot_git(path: Path) -> Path:
    run("git", "init", "-q", cwd=path)
    return path / ".git"


def broken(path: Path) -> Path:
    run("git", "init", "-q", cwd=path)
    (path / ".git/config").write_text("[core\n")
    return path


def too_new(path: Path) -> Path:
    run("git", "init", "-q", cwd=path)
    run("git", "config", "core.repositoryFormatVersion", "1", cwd=path)
    run("git", "config", "extensions.fromTheFuture", "true", cwd=path)
    return path


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (nothing, NotARepository, "git init"),
        (bare, UnusableRepository, "in one of its worktrees or in a clone"),
        (dot_git, NotARepository, "in the checkout itself"),
        (broken, UnusableRepository, "bad config line 1"),
        (too_new, UnusableRepository, "fromthefuture"),
    ],
)
def test_w5_what_cannot_be_used_is_one_clear_error(
    tmp_path: Path, make: Callable[[Path], Path], error: type[GitWorkflowError], said: str
) -> None:
    with pytest.raises(error, match=said):
        opened(make(tmp_path))


def test_w5_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(NotARepository, match="is not a folder"):
        opened(tmp_path / "gone")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_w5_another_users_repository_names_the_folder_to_trust(clone: Path) -> None:
    (clone / "sub").mkdir()
    for path in (clone, clone / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(UnusableRepository, match=rf"safe\.directory {clone}$"):
        opened(clone / "sub")


def test_w5_an_unborn_head_has_the_remotes_default_branch(tmp_path: Path, clone: Path, origin: Path) -> None:
    run("git", "init", "-q", "new", cwd=tmp_path)
    repo = opened(tmp_path / "new")
    run("git", "remote", "add", "origin", str(origin), cwd=repo.root)
    run("git", "fetch", "-q", cwd=repo.root)
    assert default_branch(repo.git, "origin") == "main"


@pytest.mark.parametrize("name", ["master", "trunk", "develop"])
def test_w5_the_default_branch_has_any_name(tmp_path: Path, name: str) -> None:
    run("git", "init", "-q", "-b", name, "there", cwd=tmp_path)
    commit(tmp_path / "there", {"a": "1"})
    run("git", "branch", "other", cwd=tmp_path / "there")
    run("git", "clone", "-q", str(tmp_path / "there"), "here", cwd=tmp_path)
    git = Git(tmp_path / "here")
    git.run("checkout", "-q", "-b", "main")
    assert default_branch(git, "origin") == name
    git.run("checkout", "-q", "--detach")
    assert default_branch(git, "origin") == name
    assert default_branch(git, None) == "main"
    git.run("remote", "set-head", "origin", "--delete")
    git.run("checkout", "-q", name)
    assert default_branch(git, "origin") == name


def test_a_renamed_default_branch_is_not_taken_for_one_that_is_there(clone: Path, git: Git) -> None:
    git.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/master")
    assert default_branch(git, "origin") == "main"
    git.run("update-ref", "-d", "refs/remotes/origin/main")
    git.run("update-ref", "refs/remotes/origin/one", "HEAD")
    with pytest.raises(UnusableRepository, match="Set `target`"):
        default_branch(git, "origin")


def test_identity_is_only_what_is_configured(git: Git) -> None:
    assert repository.identity(git) == "Tess Ter <tess@example.com>"
    git.run("config", "--global", "--unset", "user.email")
    assert repository.identity(git) is None


def test_changes_are_seen_whatever_is_configured(clone: Path, git: Git) -> None:
    for key, value in {
        "status.showUntrackedFiles": "no",
        "status.branch": "true",
        "diff.ignoreSubmodules": "all",
    }.items():
        git.run("config", key, value)
    assert changes(git) == []
    (clone / "new\nline").touch()
    assert changes(git) == ['?? "new\\nline"']
