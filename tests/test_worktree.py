"""Worktrees on real git: parallel, healed after a crash, attached, pooled and removed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from git_workflow import worktree
from git_workflow.command import Git
from git_workflow.errors import WorktreeFailed
from git_workflow.repository import Repository, changes, head_sha
from tests.conftest import commit, run
from tests.worktrees import SAVED, Acquire, acquire, on, repo, root

__all__ = ["acquire", "repo", "root"]


def test_w1_eight_at_once_from_threads(acquire: Acquire, repo: Repository) -> None:
    before = (repo.common_dir / "config").read_text()
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda n: acquire(f"af/b{n}", "origin/main"), range(8)))
    assert [on(path) for path in paths] == [f"af/b{n}" for n in range(8)]
    assert len(set(paths)) == 8
    assert (repo.common_dir / "config").read_text() == before


def test_w1_eight_at_once_from_processes(clone: Path, root: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from git_workflow import worktree; from git_workflow.command import Git\n"
        "from git_workflow.repository import open_repository, head_sha\n"
        "here, root, branch = sys.argv[1:]; repo = open_repository(Path(here), Git(Path(here)))\n"
        "sha = head_sha(repo.git) or ''\n"
        "worktree.acquire(repo, root=Path(root), branch=branch, base_sha=sha, recorded=None, busy=())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(clone), str(root), f"af/p{n}"], cwd=Path(__file__).parent.parent
        )
        for n in range(8)
    ]
    assert [process.wait(60) for process in started] == [0] * 8
    assert {on(path) for path in root.iterdir()} == {f"af/p{n}" for n in range(8)}


def half_made(clone: Path, root: Path, how: str) -> Path:
    """What `git worktree add` leaves when it is killed at different moments."""
    path = root / "w1"
    run("git", "worktree", "add", "-q", "-b", "af/x", str(path), cwd=clone)
    state = clone / ".git/worktrees/w1"
    (state / "locked").write_text("initializing")
    if how == "no folder":
        run("rm", "-r", str(path), cwd=root)
    elif how == "empty folder":
        run("rm", "-r", str(path), cwd=root)
        path.mkdir()
    elif how == "no .git file":
        (path / ".git").unlink()
    elif how == "no index":
        (state / "index").unlink()
        (path / "README.md").unlink()
    elif how == "no HEAD yet":
        (state / "HEAD").write_text("0" * 40 + "\n")
    elif how == "detached still":
        (state / "HEAD").write_text(run("git", "rev-parse", "HEAD", cwd=clone) + "\n")
        (state / "index").unlink()
    return path


@pytest.mark.parametrize(
    "how",
    ["no folder", "empty folder", "no .git file", "no index", "no HEAD yet", "detached still", "complete"],
)
def test_w2_killed_in_the_middle_of_worktree_add(acquire: Acquire, clone: Path, root: Path, how: str) -> None:
    half_made(clone, root, how)
    path = acquire("af/x")
    assert on(path) == "af/x"
    assert changes(Git(path)) == []
    assert (path / "README.md").is_file()
    assert [entry.path.name for entry in worktree.registered(Git(clone))] == ["app", "w1"]


def test_w2_a_registration_without_folder_and_a_branch_without_worktree(
    acquire: Acquire, root: Path, clone: Path
) -> None:
    path = acquire("af/x")
    tip = commit(path, {"a": "a"})
    run("rm", "-r", str(path), cwd=root)
    again = acquire("af/x", recorded=path)
    assert run("git", "rev-parse", "HEAD", cwd=again) == tip
    run("git", "branch", "af/y", tip, cwd=clone)
    assert run("git", "rev-parse", "HEAD", cwd=acquire("af/y")) == tip


def test_w2_stale_locks_go_and_the_work_stays(acquire: Acquire, clone: Path) -> None:
    path = acquire("af/x")
    (path / "new").write_text("work")
    for lock in ("worktrees/w1/index.lock", "worktrees/w1/HEAD.lock", "refs/heads/af/x.lock"):
        (clone / ".git" / lock).touch()
    assert acquire("af/x", recorded=path) == path
    commit(path, {})
    assert run("git", "show", "af/x:new", cwd=clone) == "work"


def test_w2_a_lost_git_file_is_mended_and_the_work_stays(acquire: Acquire) -> None:
    path = acquire("af/x")
    (path / "new").write_text("work")
    (path / ".git").unlink()
    assert acquire("af/x", recorded=path) == path
    assert changes(Git(path)) == ["?? new"]


def test_w2_a_damaged_worktree_is_left_with_what_to_do(acquire: Acquire, clone: Path) -> None:
    path = acquire("af/x")
    (path / "new").write_text("work")
    (clone / ".git/worktrees/w1/HEAD").write_text("0" * 40)
    with pytest.raises(WorktreeFailed, match="is damaged"):
        acquire("af/x", recorded=path)
    assert (path / "new").read_text() == "work"


def test_a_worktree_without_its_git_file_never_means_the_repository_above(
    repo: Repository, acquire: Acquire
) -> None:
    above = repo.root.parent
    path = acquire("af/x")
    run("git", "init", "-q", cwd=above)
    commit(above, {"mine": "1"})
    (above / "mine").write_text("being edited")
    (path / ".git").unlink()
    assert not worktree.park(repo, path, SAVED)
    assert (above / "mine").read_text() == "being edited"
    assert (path / "README.md").is_file()


def test_w3_a_missing_sibling_is_never_dropped(acquire: Acquire, repo: Repository, root: Path) -> None:
    sibling = acquire("af/sibling")
    parked = acquire("af/parked")
    for path in (sibling, parked):
        (path / "unsaved").write_text("work")
    run("git", "checkout", "-q", "--detach", cwd=parked)
    away = root.parent / "unmounted"
    root.rename(away)
    acquire("af/other")
    assert worktree.remove_parked(repo, root, ()) == []
    for path in (sibling, parked):
        (away / path.name).rename(path)
        assert changes(Git(path)) == ["?? unsaved"]
    assert acquire("af/sibling", recorded=sibling) == sibling


def test_the_users_branch_is_left_alone_and_the_work_goes_on_detached(
    acquire: Acquire, repo: Repository
) -> None:
    path = acquire("af/x")
    first = commit(path, {"one": "1"})
    assert worktree.park(repo, path, SAVED)
    run("git", "checkout", "-q", "af/x", cwd=repo.root)
    path = acquire("af/x", first)
    assert (on(path), head_sha(Git(path))) == ("HEAD", first)
    second = commit(path, {"two": "2"})
    assert head_sha(repo.git) == first
    assert acquire("af/x", second, recorded=path) == path
    assert head_sha(Git(path)) == second, "an attempt goes on where the last one ended"
    own = commit(path, {"by the agent": "1"})
    assert acquire("af/x", second, recorded=path) == path
    assert head_sha(Git(path)) == own, "and what the agent committed by itself is still there"
    run("git", "reset", "-q", "--hard", second, cwd=path)
    assert worktree.park(repo, path, SAVED)
    run("git", "checkout", "-q", "main", cwd=repo.root)
    acquire("af/other")
    path = acquire("af/x", second)
    assert (on(path), head_sha(Git(path))) == ("af/x", second)


def test_a_branch_that_somebody_moved_is_not_moved_again(acquire: Acquire, repo: Repository) -> None:
    path = acquire("af/x")
    ours = commit(path, {"ours": "1"})
    worktree.park(repo, path, SAVED)
    run("git", "checkout", "-q", "-B", "af/x", "main", cwd=repo.root)
    theirs = commit(repo.root, {"theirs": "1"})
    run("git", "checkout", "-q", "main", cwd=repo.root)
    path = acquire("af/x", ours)
    assert (on(path), head_sha(Git(path))) == ("HEAD", ours)
    assert head_sha(repo.git, "af/x") == theirs


def test_a_failing_post_checkout_hook_changes_nothing(acquire: Acquire, repo: Repository) -> None:
    hook = repo.common_dir / "hooks/post-checkout"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    path = acquire("af/x")
    assert on(path) == "af/x"
    assert worktree.park(repo, path, SAVED)
    assert acquire("af/y") == path
    assert on(path) == "af/y"


def test_a_name_that_is_taken_says_what_to_do(acquire: Acquire, repo: Repository) -> None:
    run("git", "branch", "af", cwd=repo.root)
    with pytest.raises(WorktreeFailed, match="branch_prefix"):
        acquire("af/x")


def test_w6_a_missing_lfs_filter_is_a_clear_error(acquire: Acquire, repo: Repository) -> None:
    commit(repo.root, {".gitattributes": "*.bin filter=lfs\n", "a.bin": "content"})
    run("git", "config", "filter.lfs.smudge", "git-lfs-that-is-not-there smudge -- %f", cwd=repo.root)
    run("git", "config", "filter.lfs.required", "true", cwd=repo.root)
    with pytest.raises(WorktreeFailed, match="Install git-lfs"):
        acquire("af/x")
    run("git", "config", "--unset", "filter.lfs.smudge", cwd=repo.root)
    run("git", "config", "--unset", "filter.lfs.required", cwd=repo.root)
    assert on(acquire("af/x")) == "af/x"
