"""What a worktree holds beside its branch: saved work, copied files, submodules, sparse checkouts."""

from pathlib import Path

import pytest

from git_workflow import content, worktree
from git_workflow.command import Git
from git_workflow.content import save_work
from git_workflow.errors import GitFailed
from git_workflow.repository import Repository, changes, head_sha
from tests.conftest import commit, run
from tests.worktrees import SAVED, Acquire, acquire, repo, root

__all__ = ["acquire", "repo", "root"]


def status(folder: Path) -> str:
    index = Path(run("git", "rev-parse", "--path-format=absolute", "--git-path", "index", cwd=folder))
    return run("git", "status", "--porcelain=v2", "-uall", cwd=folder) + index.read_bytes().hex()


def tree(folder: Path, ref: str) -> dict[str, str]:
    names = run("git", "ls-tree", "-r", "--name-only", "-z", ref, cwd=folder).split("\0")
    return {name: run("git", "show", f"{ref}:{name}", cwd=folder) for name in names if name}


def test_save_work_keeps_everything_and_touches_nothing(clone: Path, git: Git) -> None:
    commit(clone, {"gone": "1", "staged": "1", "edited": "1", ".gitignore": "ignored\n", "sub/f": "1"})
    (clone / "gone").unlink()
    (clone / "staged").write_text("staged")
    run("git", "add", "staged", cwd=clone)
    (clone / "edited").write_text("edited")
    (clone / "ignored").write_text("x")
    (clone / "intended").write_text("intended")
    run("git", "add", "--intent-to-add", "intended", cwd=clone)
    (clone / 'sub/ü "q"\n').write_text("odd")
    (clone / "sub/-dash").write_text("dash")
    (clone / "crlf").write_bytes(b"a\r\nb\n")
    run("git", "config", "core.safecrlf", "true", cwd=clone)
    run("git", "config", "core.autocrlf", "input", cwd=clone)
    run("git", "config", "status.showUntrackedFiles", "no", cwd=clone)
    (clone / ".git/index.lock").touch()
    before = status(clone)
    kept = save_work(git, SAVED, "unfinished")
    assert kept == head_sha(git, SAVED)
    assert status(clone) == before
    files = tree(clone, SAVED)
    assert {name: files.get(name) for name in ("gone", "staged", "edited", "ignored", "intended")} == {
        "gone": None, "staged": "staged", "edited": "edited", "ignored": None, "intended": "intended",
    }  # fmt: skip
    assert {'sub/ü "q"\n', "sub/-dash", "sub/f", "crlf"} <= set(files)
    assert run("git", "rev-parse", f"{SAVED}^", cwd=clone) == head_sha(git)


def test_save_work_keeps_what_was_saved_before(clone: Path, git: Git) -> None:
    assert save_work(git, SAVED, "nothing yet") is None
    (clone / "a").write_text("1")
    first = save_work(git, SAVED, "one")
    (clone / "a").write_text("2")
    save_work(git, SAVED, "two")
    assert run("git", "rev-parse", f"{SAVED}^2", cwd=clone) == first


def test_save_work_with_a_conflicted_index(clone: Path, git: Git) -> None:
    run("git", "checkout", "-qb", "side", cwd=clone)
    commit(clone, {"README.md": "side\n"})
    run("git", "checkout", "-q", "main", cwd=clone)
    commit(clone, {"README.md": "main\n"})
    git.attempt("merge", "side")
    before = status(clone)
    save_work(git, SAVED, "in the middle")
    assert "<<<<<<<" in tree(clone, SAVED)["README.md"]
    assert status(clone) == before


def test_save_work_beside_other_repositories(clone: Path, git: Git) -> None:
    for name in ("born", "unborn"):
        run("git", "init", "-q", name, cwd=clone)
        (clone / name / "f").write_text("1")
    commit(clone / "born", {"g": "1"})
    assert save_work(git, SAVED, "nothing of ours") is None
    (clone / "ours").write_text("1")
    save_work(git, SAVED, "ours")
    assert "ours" in tree(clone, SAVED)
    assert not {"born", "unborn", "born/f"} & set(tree(clone, SAVED))


def test_save_work_says_when_a_file_cannot_be_kept_and_keeps_the_others(clone: Path, git: Git) -> None:
    commit(clone, {".gitattributes": "*.bin filter=broken\n"})
    run("git", "config", "filter.broken.clean", "false", cwd=clone)
    run("git", "config", "filter.broken.required", "true", cwd=clone)
    (clone / "a.bin").write_text("1")
    (clone / "z").write_text("1")
    with pytest.raises(GitFailed, match="filter"):
        save_work(git, SAVED, "some")
    assert (clone / "a.bin").exists()


def test_parking_takes_nothing_away_when_the_work_cannot_be_kept(acquire: Acquire, repo: Repository) -> None:
    commit(repo.root, {".gitattributes": "*.bin filter=broken\n"})
    path = acquire("af/x")
    run("git", "config", "filter.broken.clean", "false", cwd=repo.root)
    run("git", "config", "filter.broken.required", "true", cwd=repo.root)
    (path / "a.bin").write_text("1")
    assert not worktree.park(repo, path, SAVED)
    assert (path / "a.bin").read_text() == "1"
    assert acquire("af/y") != path


def test_w6_a_sparse_checkout_stays_whole(acquire: Acquire, repo: Repository) -> None:
    commit(repo.root, {"in/f": "1", "out/f": "1"})
    run("git", "sparse-checkout", "set", "in", cwd=repo.root)
    path = acquire("af/x")
    assert not (path / "out").exists()
    (path / "out").mkdir()
    (path / "out/new").write_text("work")
    save_work(Git(path), SAVED, "beside the sparse part")
    assert {"in/f", "out/f", "out/new"} <= set(tree(path, SAVED))
    assert worktree.park(repo, path, SAVED)
    assert acquire("af/y") == path


@pytest.fixture
def library(repo: Repository) -> Path:
    """A submodule with a submodule, in a repository whose user has not initialised it."""
    above = repo.root.parent
    for name in ("inner", "lib"):
        run("git", "init", "-q", name, cwd=above)
        commit(above / name, {"f": name})
    run("git", "submodule", "--quiet", "add", str(above / "inner"), "inner", cwd=above / "lib")
    commit(above / "lib", {})
    run("git", "submodule", "--quiet", "add", str(above / "lib"), "the lib", cwd=repo.root)
    commit(repo.root, {})
    run("git", "submodule", "--quiet", "deinit", "-f", "--all", cwd=repo.root)
    return above / "lib"


def test_w6_submodules_are_filled_and_do_not_block_removal(
    acquire: Acquire, repo: Repository, root: Path, library: Path
) -> None:
    before = (repo.common_dir / "config").read_text()
    path = acquire("af/x")
    content.update_submodules(Git(path))
    assert (path / "the lib/inner/f").read_text() == "inner"
    assert (repo.common_dir / "config").read_text() == before
    assert worktree.park(repo, path, SAVED)
    newer = commit(library, {"f": "newer"})
    run("git", "-C", "the lib", "fetch", "-q", cwd=path)
    run("git", "update-index", "--cacheinfo", f"160000,{newer},the lib", cwd=repo.root)
    run("git", "commit", "-qm", "newer lib", cwd=repo.root)
    assert acquire("af/y") == path
    content.update_submodules(Git(path))
    assert (path / "the lib/f").read_text() == "newer"
    assert changes(Git(path)) == []
    worktree.park(repo, path, SAVED)
    assert worktree.remove_parked(repo, root, ()) == []
    assert not root.exists()


def test_w6_work_inside_of_a_submodule_is_never_lost(
    acquire: Acquire, repo: Repository, root: Path, library: Path
) -> None:
    path = acquire("af/x")
    content.update_submodules(Git(path))
    mine = commit(path / "the lib", {"mine": "1"})
    (path / "the lib/more").write_text("1")
    content.update_submodules(Git(path))
    assert head_sha(Git(path / "the lib")) == mine
    run("git", "config", "submodule.recurse", "true", cwd=repo.root)
    run("git", "config", "diff.ignoreSubmodules", "all", cwd=repo.root)
    worktree.park(repo, path, SAVED)
    assert head_sha(Git(path / "the lib")) == mine
    assert (path / "the lib/more").exists()
    assert acquire("af/y") != path
    assert "was left" in worktree.remove_parked(repo, root, ())[0]


def test_w7_only_ignored_files_are_copied_and_none_can_be_committed(
    acquire: Acquire, repo: Repository
) -> None:
    ignore = ".env\nlocal/\n*.key\n"
    files = {
        ".gitignore": ignore,
        ".worktreeinclude": "# what a build needs\nlocal/**\n!local/not\n",
        "tracked.key.txt": "1",
    }
    commit(repo.root, files)
    for name in (".env", "web/.env", 'local/a/ü "q"\n.ini', "local/not", "x.key", "shown.txt", "secret"):
        (repo.root / name).parent.mkdir(parents=True, exist_ok=True)
        (repo.root / name).write_text(name)
    (repo.root / ".env").chmod(0o600)
    (repo.root / ".gitignore").write_text(ignore + "secret\n")  # not committed: the branch does not know it
    path = acquire("af/x")
    (path / "web").mkdir()
    (path / "web/.env").write_text("there already")
    copied = content.copy_ignored(repo, path, [".env", "shown.txt", "secret", "tracked.key.txt"])
    assert set(copied) == {".env", 'local/a/ü "q"\n.ini'}
    assert (path / ".env").stat().st_mode & 0o777 == 0o600
    assert (path / "web/.env").read_text() == "there already"
    assert not (path / "local/not").exists()
    assert changes(Git(path)) == []


def test_nothing_to_copy(acquire: Acquire, repo: Repository) -> None:
    path = acquire("af/x")
    assert content.copy_ignored(repo, path, []) == []
    assert content.copy_ignored(repo, path, [".env"]) == []
