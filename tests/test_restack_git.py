"""Moving a branch without a checkout: the same trees as git's own rebase and merge, and nothing lost."""

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_workflow import restack
from git_workflow.base import commit_join, keep_resolution
from git_workflow.command import Git
from git_workflow.errors import JoinConflict
from tests.conftest import commit, run


def branch(git: Git, name: str, start: str, *changes: tuple[str, str]) -> list[str]:
    """The commits of a new branch, one for each file that is written."""
    run("git", "checkout", "-q", "-B", name, start, cwd=git.cwd)
    return [commit(git.cwd, {file: text}, f"{name}: {file}\n\nWhy: {text[:5]!r}") for file, text in changes]


def tree(git: Git, sha: str) -> str:
    return git.run("rev-parse", f"{sha}^{{tree}}")


def shown(git: Git, old: str, new: str) -> list[str]:
    return git.lines("diff", "--name-only", f"{old}...{new}")


def test_own_commits_move_with_their_words_author_and_dates(git: Git) -> None:
    [parent] = branch(git, "parent", "main", ("a", "1\n"))
    own = branch(git, "child", parent, ("b", "1\n"), ("c", "1\n"))
    [amended] = branch(git, "amended", "main", ("a", "2\n"))
    moved = restack.move(git, head=own[-1], old_base=parent, onto=amended, own=own)
    assert list(moved.commits) == own
    assert moved.commits[own[-1]] == moved.head
    assert git.lines("rev-list", "--reverse", f"{amended}..{moved.head}") == list(moved.commits.values())
    form = ("log", "-1", "--format=%an %ae %ad %cd %B", "--date=raw")
    for old, new in moved.commits.items():
        assert git.run(*form, old) == git.run(*form, new)
    assert shown(git, amended, moved.head) == ["b", "c"]
    assert git.run("show", f"{moved.head}:a") == "2"
    again = restack.move(git, head=own[-1], old_base=parent, onto=amended, own=own)
    assert again == moved


def test_s3_a_squashed_parent_is_left_behind_although_the_child_changes_the_same_lines(git: Git) -> None:
    parent = branch(git, "parent", "main", ("a", "1\n2\n"), ("a", "1\n2\n3\n"))
    own = branch(git, "child", parent[-1], ("a", "1\n2\n3\n4\n"))
    [squashed] = branch(git, "squash", "main", ("a", "1\n2\n3\n"))
    moved = restack.move(git, head=own[-1], old_base=parent[-1], onto=squashed, own=own)
    assert git.run("log", "-1", "--format=%P", moved.head) == squashed
    assert tree(git, moved.head) == tree(git, own[-1])


@pytest.mark.parametrize("theirs", ["commit", "merge"])
def test_a_branch_with_other_peoples_commits_keeps_them_and_gets_the_base_merged_in(
    git: Git, theirs: str
) -> None:
    [parent] = branch(git, "parent", "main", ("a", "1\n"))
    own = branch(git, "child", parent, ("a", "1\nx\n"))
    if theirs == "commit":
        [head] = branch(git, "child", own[0], ("d", "by hand\n"))
    else:
        branch(git, "side", "main", ("d", "by hand\n"))
        run("git", "checkout", "-q", "child", cwd=git.cwd)
        run("git", "merge", "-q", "--no-edit", "side", cwd=git.cwd)
        head = git.run("rev-parse", "HEAD")
    [squashed] = branch(git, "squash", "main", ("a", "1\n"))
    moved = restack.move(git, head=head, old_base=parent, onto=squashed, own=own)
    assert git.run("log", "-1", "--format=%P", moved.head).split() == [head, squashed]
    assert moved.commits == {}
    assert shown(git, squashed, moved.head) == ["a", "d"]


def test_what_somebody_has_brought_onto_the_base_already_stays(git: Git) -> None:
    [parent] = branch(git, "parent", "main", ("a", "1\n"))
    own = branch(git, "child", parent, ("b", "1\n"))
    assert restack.move(git, head=own[0], old_base="main", onto=parent, own=own).head == own[0]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_commit_that_the_parent_has_dropped_is_dropped_from_the_child(git: Git, foreign: bool) -> None:
    kept, dropped = branch(git, "parent", "main", ("a", "1\n"), ("dropped", "1\n"))
    own = branch(git, "child", dropped, ("b", "1\n"))
    moved = restack.move(git, head=own[0], old_base=dropped, onto=kept, own=[] if foreign else own)
    assert git.run("ls-tree", "--name-only", moved.head).split() == ["README.md", "a", "b", "check.sh"]


def test_a_conflict_names_the_files_and_a_kept_resolution_is_used(git: Git) -> None:
    [parent] = branch(git, "parent", "main", ("a", "1\n"))
    own = branch(git, "child", parent, ("a", "1 child\n"), ("b", "1\n"))
    [amended] = branch(git, "amended", "main", ("a", "2\n"))
    with pytest.raises(JoinConflict) as caught:
        restack.move(git, head=own[-1], old_base=parent, onto=amended, own=own)
    assert list(caught.value.paths) == ["a"]
    tips = caught.value.tips
    branch(git, "resolved", amended, ("a", "2 child\n"))
    keep_resolution(git, tips, commit_join(git, tree(git, "HEAD"), tips))
    moved = restack.move(git, head=own[-1], old_base=parent, onto=amended, own=own)
    assert git.run("show", f"{moved.head}:a") == "2 child"
    assert shown(git, amended, moved.head) == ["a", "b"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    edits=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=2, max_size=6),
    base=st.sampled_from("abc"),
)
def test_the_result_is_what_rebase_onto_gives(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int]], base: str
) -> None:
    folder = tmp_path_factory.mktemp("repo")
    run("git", "init", "-q", str(folder), cwd=folder)
    git = Git(folder)
    files = {name: "".join(f"{n}\n" for n in range(31)) for name in "abc"}
    commit(folder, files, "start")
    run("git", "branch", "-q", "-M", "main", cwd=folder)

    def edited(name: str, line: int, mark: str) -> tuple[str, str]:
        lines = files[name].splitlines()
        lines[line] += mark
        files[name] = "\n".join(lines) + "\n"
        return name, files[name]

    before = dict(files)
    [parent] = branch(git, "parent", "main", edited(base, 0, "p"))
    own = list(
        itertools.chain.from_iterable(
            branch(git, "child", "parent" if n == 0 else "child", edited(name, line, f"c{n}"))
            for n, (name, line) in enumerate(edits)
        )
    )
    files.clear()
    files.update(before)
    [onto] = branch(git, "onto", "main", edited(base, 0, "q"))
    code, _, _ = git.attempt("rebase", "--quiet", "--onto", onto, parent, own[-1])
    if code:
        with pytest.raises(JoinConflict):
            restack.move(git, head=own[-1], old_base=parent, onto=onto, own=own)
    else:
        moved = restack.move(git, head=own[-1], old_base=parent, onto=onto, own=own)
        assert tree(git, moved.head) == tree(git, "HEAD")
        assert len(moved.commits) == len(own)


def test_the_local_branch_follows_unless_it_was_moved_or_is_checked_out(git: Git, tmp_path: Path) -> None:
    old, new = branch(git, "x", "main", ("a", "1\n"), ("b", "1\n"))
    run("git", "checkout", "-q", "main", cwd=git.cwd)
    run("git", "branch", "-q", "here", old, cwd=git.cwd)
    assert restack.follow(git, "here", old=old, new=new) is None
    assert git.run("rev-parse", "here") == new
    assert restack.follow(git, "here", old=old, new=old) is None
    assert git.run("rev-parse", "here") == new
    run("git", "worktree", "add", "-q", str(tmp_path / "w"), "here", cwd=git.cwd)
    assert restack.follow(git, "here", old=new, new=old) == str(tmp_path / "w")
    restack.drop(git, "here", new)
    assert git.run("rev-parse", "here") == new
    restack.drop(git, "x", old)
    assert git.run("rev-parse", "x") == new
    restack.drop(git, "x", new)
    assert not git.ok("rev-parse", "--verify", "x")
    assert restack.follow(git, "x", old=old, new=new) is None
