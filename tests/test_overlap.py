"""Which branches will conflict, as merging them one after the other would show."""

import pytest

from git_workflow.command import Git
from git_workflow.overlap import Conflict, conflicts
from tests.conftest import commit, run


def branch(git: Git, name: str, start: str, files: dict[str, str], *, moved: str = "") -> str:
    """`moved`: "old new", after the files are written."""
    run("git", "checkout", "-q", "-B", name, start, cwd=git.cwd)
    sha = commit(git.cwd, files, name) if files else start
    if moved:
        run("git", "mv", *moved.split(), cwd=git.cwd)
        sha = commit(git.cwd, {}, f"{name} moves")
    return sha


def target(git: Git) -> tuple[str, str]:
    return "main", git.run("rev-parse", "main")


def test_pairs_and_the_target_are_named_with_their_paths(git: Git) -> None:
    start = target(git)[1]
    heads = {
        "one": branch(git, "one", start, {"a": "1\n"}),
        "two": branch(git, "two", start, {"a": "2\n", "b": "2\n"}),
        "three": branch(git, "three", start, {"c": "3\n"}),
        "four": branch(git, "four", start, {"README.md": "# four\n"}),
        "merged": start,
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
    assert conflicts(git, heads, target=target(git), only=["high"]) == ()


def test_what_takes_back_a_change_of_what_it_stands_on_is_looked_at(git: Git) -> None:
    start = target(git)[1]
    low = branch(git, "low", start, {"README.md": "# low\n"})
    heads = {
        "back": branch(git, "back", low, {"README.md": "# app\n"}),
        "on": branch(git, "on", low, {"README.md": "# on\n"}),
    }
    assert conflicts(git, heads, target=target(git)) == (Conflict("back", "on", ("README.md",)),)


FOLDER = {f"old/sub/{n}.py": f"{n}\n" * 20 for n in range(3)}


@pytest.mark.parametrize(
    ("one", "moved", "other"),
    [
        ({}, "old new", "old/sub/extra.py"),
        ({}, "old new", "old/extra.py"),
        ({}, "old/sub other", "old/sub/extra.py"),
        ({"place": "a file\n"}, "", "place/inside"),
        ({"M": "1\n"}, "", "M"),
        ({"R100": "1\n"}, "", "R100"),
    ],
)
def test_nothing_that_git_stumbles_over_is_skipped(
    git: Git, one: dict[str, str], moved: str, other: str
) -> None:
    """A renamed folder, a file in the place of a folder, names that look like git's own words."""
    commit(git.cwd, FOLDER, "folder")
    start = target(git)[1]
    heads = {
        "one": branch(git, "one", start, one, moved=moved),
        "two": branch(git, "two", start, {other: "x\n"}),
    }
    if git.ok("-c", "merge.directoryRenames=conflict", "merge-tree", "--write-tree", *heads.values()):
        pytest.fail("git can merge these: the test shows nothing")
    for names in (["one", "two"], ["two", "one"]):
        [found] = conflicts(git, {name: heads[name] for name in names}, target=target(git))
        assert [found.left, found.right] == names


def test_a_folder_moved_elsewhere_is_not_compared(git: Git, caplog: pytest.LogCaptureFixture) -> None:
    commit(git.cwd, FOLDER, "folder")
    start = target(git)[1]
    heads = {
        "moved": branch(git, "moved", start, {}, moved="old new"),
        "far": branch(git, "far", start, {"far/away.py": "x\n"}),
    }
    branch(git, "main", "main", {"news": "x\n"})
    with caplog.at_level("DEBUG", "autoforge.git"):
        assert conflicts(git, heads, target=target(git)) == ()
    merges = [record for record in caplog.messages if "merge-tree" in record]
    assert len(merges) == len(heads)  # each with the target, and not with each other


def test_what_has_no_history_in_common_is_left_out(git: Git) -> None:
    start = target(git)[1]
    run("git", "checkout", "-q", "--orphan", "alien", cwd=git.cwd)
    heads = {
        "alien": commit(git.cwd, {"README.md": "alien\n"}, "alien"),
        "one": branch(git, "one", start, {"README.md": "one\n"}),
    }
    assert conflicts(git, heads, target=target(git)) == ()
