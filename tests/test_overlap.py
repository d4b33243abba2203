"""Which branches will conflict, as merging them one after the other would show."""

from git_workflow.command import Git
from git_workflow.overlap import Conflict, conflicts
from tests.conftest import commit, run


def branch(git: Git, name: str, start: str, files: dict[str, str]) -> str:
    run("git", "checkout", "-q", "-B", name, start, cwd=git.cwd)
    return commit(git.cwd, files, name)


def target(git: Git) -> tuple[str, str]:
    return "main", git.run("rev-parse", "main")


def test_pairs_and_the_target_are_named_with_their_paths(git: Git) -> None:
    start = target(git)[1]
    heads = {
        "one": branch(git, "one", start, {"a": "1\n"}),
        "two": branch(git, "two", start, {"a": "2\n", "b": "2\n"}),
        "three": branch(git, "three", start, {"c": "3\n"}),
        "four": branch(git, "four", start, {"README.md": "# four\n"}),
    }
    branch(git, "main", "main", {"README.md": "# main\n"})
    found = conflicts(git, heads, target=target(git))
    assert found == (Conflict("main", "four", ("README.md",)), Conflict("one", "two", ("a",)))
    assert conflicts(git, heads, target=target(git), only=["three"]) == ()
    assert conflicts(git, heads, target=target(git), only=["two"]) == (Conflict("one", "two", ("a",)),)


def test_a_stack_does_not_conflict_with_itself_and_is_named_once(git: Git) -> None:
    start = target(git)[1]
    low = branch(git, "low", start, {"a": "1\n"})
    heads = {
        "low": low,
        "high": branch(git, "high", low, {"a": "1\n2\n"}),
        "other": branch(git, "other", start, {"a": "x\n"}),
    }
    assert conflicts(git, heads, target=target(git)) == (Conflict("low", "other", ("a",)),)


def test_a_renamed_folder_is_looked_at_although_no_path_is_shared(git: Git) -> None:
    run("git", "checkout", "-q", "main", cwd=git.cwd)
    commit(git.cwd, {f"old/{n}.py": f"{n}\n" * 20 for n in range(3)}, "folder")
    start = target(git)[1]
    run("git", "checkout", "-q", "-b", "moved", start, cwd=git.cwd)
    run("git", "mv", "old", "new", cwd=git.cwd)
    heads = {
        "moved": commit(git.cwd, {}, "moved"),
        "added": branch(git, "added", start, {"old/extra.py": "x\n"}),
    }
    [found] = conflicts(git, heads, target=target(git))
    assert (found.left, found.right) == ("moved", "added")
