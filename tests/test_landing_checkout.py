"""Moving a branch that somebody may be working on: with its checkout, or not at all."""

from pathlib import Path

import pytest

from git_workflow import landing
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.errors import GitFailed, JoinConflict, UnusableRepository
from tests.conftest import commit, run


@pytest.fixture
def made(clone: Path, git: Git) -> str:
    """A merge of a branch with `new.txt` into main, which has not moved; the clone stands on main."""
    run("git", "switch", "-qc", "work", cwd=clone)
    commit(clone, {"new.txt": "theirs\n", "README.md": "# changed\n"})
    run("git", "switch", "-q", "main", cwd=clone)
    return landing.merge(
        git, "main", "work", message="Merge it\n", kept="refs/autoforge/saved/k/landing", sign=False
    )


def sha(clone: Path, ref: str) -> str:
    return run("git", "rev-parse", ref, cwd=clone)


def test_a_merge_is_the_users_and_moves_nothing(clone: Path, git: Git, made: str) -> None:
    assert sha(clone, f"{made}^1") == sha(clone, "main")
    assert sha(clone, f"{made}^2") == sha(clone, "work")
    assert (
        run("git", "log", "-1", "--format=%an %ce %s", made, cwd=clone)
        == "Tess Ter tess@example.com Merge it"
    )
    assert run("git", "status", "--porcelain", cwd=clone) == ""


def test_a_conflict_is_named(clone: Path, git: Git, made: str) -> None:
    commit(clone, {"README.md": "# mine\n"})
    with pytest.raises(JoinConflict, match=r"README\.md"):
        landing.merge(
            git, "main", "work", message="Merge it\n", kept="refs/autoforge/saved/k/landing", sign=False
        )


def test_a_checked_out_branch_moves_with_its_files_and_without_hooks(
    clone: Path, git: Git, made: str
) -> None:
    hook = clone / ".git" / "hooks" / "post-merge"
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    for key, value in {
        "merge.autoStash": "true",
        "branch.main.mergeOptions": "--squash",
        "merge.ff": "no",
    }.items():
        run("git", "config", key, value, cwd=clone)
    (clone / "untracked").write_text("mine\n")
    assert landing.advance(git, "main", old=sha(clone, "main"), new=made)
    assert (clone / "new.txt").read_text() == "theirs\n"
    assert sha(clone, "main") == made
    assert run("git", "symbolic-ref", "HEAD", cwd=clone) == "refs/heads/main"
    assert run("git", "status", "--porcelain", cwd=clone) == "?? untracked"


def test_a_branch_that_nobody_has_checked_out_moves_alone(clone: Path, git: Git, made: str) -> None:
    run("git", "switch", "-qc", "mine", cwd=clone)
    (clone / "README.md").write_text("in the middle of it\n")
    assert landing.advance(git, "main", old=sha(clone, "main"), new=made)
    assert sha(clone, "main") == made
    assert (clone / "README.md").read_text() == "in the middle of it\n"
    assert not (clone / "new.txt").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_branch_that_has_moved_meanwhile_is_left(clone: Path, git: Git, made: str, there: bool) -> None:
    old = sha(clone, "main")
    moved = commit(clone, {"mine": "1"})
    if not there:
        run("git", "switch", "-q", "work", cwd=clone)
    assert not landing.advance(git, "main", old=old, new=made)
    assert sha(clone, "main") == moved


def dirty(clone: Path) -> None:
    (clone / "README.md").write_text("mine\n")


def staged(clone: Path) -> None:
    (clone / "mine.txt").write_text("mine\n")
    run("git", "add", "mine.txt", cwd=clone)


def merging(clone: Path) -> None:
    run("git", "merge", "-q", "--no-commit", "--no-ff", "work", cwd=clone)


def rebasing(clone: Path) -> None:
    commit(clone, {"mine": "1"})
    run("sh", "-c", "git rebase -q --exec false HEAD^ || true", cwd=clone)


def twice(clone: Path) -> None:
    run("git", "worktree", "add", "-qf", str(clone.parent / "second"), "main", cwd=clone)


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (dirty, "commit or stash"),
        (staged, "commit or stash"),
        (merging, "in the middle of a merge"),
        (rebasing, "being rebased"),
        (twice, "checked out in .* as well"),
    ],
)
def test_work_in_the_branchs_checkout_is_never_touched(
    clone: Path, git: Git, made: str, prepare: object, why: str
) -> None:
    assert callable(prepare)
    prepare(clone)
    before = sha(clone, "main"), run("git", "status", "--porcelain", cwd=clone)
    with pytest.raises(UnusableRepository, match=why):
        landing.advance(git, "main", old=before[0], new=made)
    assert (sha(clone, "main"), run("git", "status", "--porcelain", cwd=clone)) == before


@pytest.mark.parametrize("ignored", [True, False])
def test_a_file_that_git_does_not_know_is_not_overwritten(
    clone: Path, git: Git, made: str, ignored: bool
) -> None:
    (clone / "new.txt").write_text("mine\n")
    if ignored:
        (clone / ".git" / "info" / "exclude").write_text("new.txt\n")
    old = sha(clone, "main")
    with pytest.raises(UnusableRepository, match=r"would be overwritten by merge:\s+new\.txt"):
        landing.advance(git, "main", old=old, new=made)
    assert (clone / "new.txt").read_text() == "mine\n"
    assert sha(clone, "main") == old
    assert run("git", "diff", "--stat", cwd=clone) == ""


def test_what_git_refuses_is_told(clone: Path, git: Git, made: str) -> None:
    (clone / ".git" / "index.lock").touch()
    with pytest.raises(GitFailed, match="Another git process"):
        landing.advance(git, "main", old=sha(clone, "main"), new=made)


def test_a_checkout_whose_folder_is_gone_holds_nothing(clone: Path, git: Git, made: str) -> None:
    run("git", "switch", "-q", "work", cwd=clone)
    run("git", "worktree", "add", "-q", str(clone.parent / "second"), "main", cwd=clone)
    run("rm", "-r", str(clone.parent / "second"), cwd=clone)
    assert landing.checkout_of(git, "main") is None


def test_the_merge_of_a_head_is_found(clone: Path, git: Git, made: str) -> None:
    head = sha(clone, "work")
    run("git", "merge", "-q", "--ff-only", made, cwd=clone)
    later = commit(clone, {"later": "1"})
    assert landing.merge_of(git, head, later) == made
    assert landing.merge_of(git, later, later) == later  # a fast-forward
    on_it = commit(clone, {"on it": "1"})
    assert landing.merge_of(git, later, on_it) == later


def test_the_local_target_counts_where_it_is_ahead_by_what_landed(clone: Path, git: Git, made: str) -> None:
    fetched = Target("main", sha(clone, "origin/main"))
    run("git", "merge", "-q", "--ff-only", made, cwd=clone)
    mine = commit(clone, {"mine": "1"})
    assert landing.with_landed(git, fetched, []) == fetched
    assert landing.with_landed(git, fetched, [made]) == Target("main", mine)
    run("git", "reset", "-q", "--hard", "HEAD~2", cwd=clone)
    assert landing.with_landed(git, fetched, [made]) == fetched
