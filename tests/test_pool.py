"""Parked worktrees: used again, never with somebody's work in them, and removed without losing any."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_workflow import worktree
from git_workflow.command import Git
from git_workflow.repository import Repository, changes, head_sha, in_progress
from tests.conftest import commit, run
from tests.worktrees import SAVED, Acquire, acquire, on, repo, root

__all__ = ["acquire", "repo", "root"]


def test_a_parked_worktree_is_used_again_with_its_ignored_files(acquire: Acquire, repo: Repository) -> None:
    commit(repo.root, {".gitignore": "cache/\n"})
    path = acquire("af/x")
    commit(path, {"a": "1"})
    (path / "cache").mkdir()
    (path / "cache/warm").touch()
    (path / "untracked").write_text("kept")
    assert worktree.park(repo, path, SAVED)
    assert run("git", "show", f"{SAVED}:untracked", cwd=repo.root) == "kept"
    assert acquire("af/y") == path
    assert (path / "cache/warm").exists()
    assert not (path / "a").exists()
    assert changes(Git(path)) == []


def test_what_only_the_last_branch_ignored_does_not_reach_the_next(
    acquire: Acquire, repo: Repository
) -> None:
    path = acquire("af/x")
    commit(path, {".gitignore": "out/\n"})
    (path / "out").mkdir()
    (path / "out/dropping").touch()
    worktree.park(repo, path, SAVED)
    assert acquire("af/y") == path
    assert changes(Git(path)) == []
    assert not (path / "out").exists()


def test_a_worktree_with_work_in_it_is_neither_taken_nor_removed(
    acquire: Acquire, repo: Repository, root: Path
) -> None:
    run("git", "config", "status.showUntrackedFiles", "no", cwd=repo.root)
    dirty, loose, busy, locked, free = (acquire(f"af/{n}") for n in range(5))
    for path in (dirty, loose, busy, locked, free):
        run("git", "checkout", "-q", "--detach", cwd=path)
    (dirty / "new").write_text("work")
    commit(loose, {"new": "committed, and on no branch"})
    run("git", "worktree", "lock", str(locked), cwd=repo.root)
    assert acquire("af/next", busy=(busy,)) == free
    problems = worktree.remove_parked(repo, root, (busy,))
    assert [problem.split(" ")[0] for problem in problems] == [str(dirty), str(loose), str(locked)]
    assert (dirty / "new").exists()
    assert (loose / "new").exists()
    assert busy.is_dir()


def test_parking_keeps_commits_that_are_on_no_branch(acquire: Acquire, repo: Repository) -> None:
    path = acquire("af/x")
    run("git", "checkout", "-q", "--detach", cwd=path)
    sha = commit(path, {"a": "1"})
    assert worktree.park(repo, path, SAVED)
    assert (
        run("git", "for-each-ref", "--format=%(refname)", "--contains", sha, cwd=repo.root)
        == f"{SAVED}-{sha[:12]}"
    )


def test_parking_ends_a_rebase_and_stale_locks(acquire: Acquire, repo: Repository) -> None:
    path = acquire("af/x")
    commit(path, {"README.md": "x"})
    run("git", "checkout", "-q", "-b", "side", "main", cwd=path)
    commit(path, {"README.md": "y"})
    assert subprocess.run(
        ["git", "rebase", "-q", "af/x"], cwd=path, capture_output=True, check=False
    ).returncode
    (repo.common_dir / "worktrees/w1/index.lock").touch()
    assert in_progress(Git(path))
    assert worktree.park(repo, path, SAVED)
    assert in_progress(Git(path)) == []
    assert acquire("af/y") == path
    assert run("git", "show", "side:README.md", cwd=repo.root) == "y"


def test_a_repository_inside_is_never_deleted(acquire: Acquire, repo: Repository, root: Path) -> None:
    path = acquire("af/x")
    run("git", "init", "-q", "inner", cwd=path)
    (path / "inner/work").write_text("work")
    assert worktree.park(repo, path, SAVED)
    assert acquire("af/y") != path
    assert "was left" in worktree.remove_parked(repo, root, ())[0]
    assert (path / "inner/work").read_text() == "work"


def test_removal_leaves_nothing_behind(acquire: Acquire, repo: Repository, root: Path) -> None:
    commit(repo.root, {".gitignore": "cache\n"})
    path = acquire("af/x")
    (path / "cache/deep").mkdir(parents=True)
    (path / "cache/deep/f").touch()
    worktree.park(repo, path, SAVED)
    assert worktree.remove_parked(repo, root, ()) == []
    assert not root.exists()
    assert len(worktree.registered(repo.git)) == 1


def test_removal_of_read_only_folders(acquire: Acquire, repo: Repository, root: Path) -> None:
    folder = root / "w1/cache/deep"
    folder.mkdir(parents=True)
    (folder / "f").touch()
    folder.chmod(0o500)  # as Go's module cache is
    plainly = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if plainly and shutil.which("setpriv") is None:
        pytest.skip("root can delete everything, and setpriv is not installed to take that away")
    code = "import sys, pathlib; from git_workflow import worktree; print(worktree._delete(pathlib.Path(sys.argv[1])))"
    here = Path(__file__).parent.parent
    assert run(*plainly, sys.executable, "-c", code, str(root / "w1"), cwd=here) == "None"
    assert list(root.iterdir()) == []


@pytest.fixture
def undeletable(tmp_path: Path) -> Iterator[list[Path]]:
    if (
        shutil.which("chattr") is None
        or subprocess.run(["chattr", "+i", str(tmp_path)], capture_output=True).returncode
    ):
        pytest.skip("no file can be made undeletable here: chattr +i does not work")
    subprocess.run(["chattr", "-i", str(tmp_path)], check=True)
    files: list[Path] = []
    yield files
    for file in files:
        subprocess.run(["chattr", "-i", str(file)], check=False, capture_output=True)


def test_w9_an_undeletable_file_is_reported_and_tried_again(
    acquire: Acquire, repo: Repository, root: Path, undeletable: list[Path]
) -> None:
    commit(repo.root, {".gitignore": "stuck\n"})
    one, two = acquire("af/x"), acquire("af/y")
    (one / "stuck").touch()
    run("chattr", "+i", str(one / "stuck"), cwd=root)
    undeletable.append(one / "stuck")
    worktree.park(repo, one, SAVED)
    worktree.park(repo, two, SAVED)
    [problem] = worktree.remove_parked(repo, root, ())
    [left] = root.iterdir()
    undeletable.append(left / "stuck")
    assert str(left) in problem
    assert "not permitted" in problem
    assert len(worktree.registered(repo.git)) == 1
    assert len(worktree.remove_parked(repo, root, ())) == 1
    assert on(acquire("af/z")) == "af/z"
    run("chattr", "-i", str(left / "stuck"), cwd=root)
    assert worktree.remove_parked(repo, root, ()) == []
    assert not left.exists()


def test_w9_killed_in_the_middle_of_a_removal(acquire: Acquire, repo: Repository, root: Path) -> None:
    path = acquire("af/x")
    worktree.park(repo, path, SAVED)
    path.rename(root / ".removed-w1-abc")
    assert worktree.remove_parked(repo, root, ()) == []
    assert not root.exists()
    assert len(worktree.registered(repo.git)) == 1
    assert head_sha(repo.git, "af/x")
