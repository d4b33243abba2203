"""Where batches start: minimal parents, joins that are the same everywhere, conflicts that name files."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_workflow import base
from git_workflow.base import Target, Tip
from git_workflow.command import Git
from git_workflow.errors import GitFailed, JoinConflict
from git_workflow.repository import is_ancestor
from tests.conftest import commit, run


def branch(clone: Path, name: str, files: dict[str, str], start: str = "main") -> Tip:
    run("git", "checkout", "-q", "-b", name, start, cwd=clone)
    return Tip(name, f"af/{name}", commit(clone, files, name))


def main_of(git: Git) -> Target:
    return Target("main", git.run("rev-parse", "main"))


def names(git: Git, sha: str) -> set[str]:
    return set(git.names("ls-tree", "-r", "--name-only", "-z", sha)) - {"README.md", "check.sh"}


def test_no_parents_start_from_the_target_and_one_from_its_tip(clone: Path, git: Git) -> None:
    target = main_of(git)
    assert base.choose(git, target=target, tips=[], merged=[], prefix="af") == base.Base(target.sha, "main")
    tip = branch(clone, "a", {"a": "1"})
    assert base.choose(git, target=target, tips=[tip], merged=[target.sha], prefix="af") == base.Base(
        tip.sha, "af/a", (tip,)
    )


def test_only_the_tips_that_no_other_contains_count(clone: Path, git: Git) -> None:
    a = branch(clone, "a", {"a": "1"})
    b = branch(clone, "b", {"b": "1"}, start="a")
    same = Tip("z", "af/z", b.sha)
    assert base.minimal(git, [same, a, b]) == (b,)
    chosen = base.choose(git, target=main_of(git), tips=[a, b], merged=[], prefix="af")
    assert (chosen.sha, chosen.is_join) == (b.sha, False)


def test_a_merged_dependency_that_the_tips_lack_brings_the_target_in(clone: Path, git: Git) -> None:
    a = branch(clone, "a", {"a": "1"})
    run("git", "checkout", "-q", "main", cwd=clone)
    merged = commit(clone, {"squashed": "1"})
    chosen = base.choose(git, target=main_of(git), tips=[a], merged=[merged], prefix="af")
    assert chosen.joins == (a.sha, merged)
    assert names(git, chosen.sha) == {"a", "squashed"}
    assert chosen.parents == (a,)


def test_a_parent_that_is_in_the_target_already_makes_no_join(clone: Path, git: Git) -> None:
    a = branch(clone, "a", {"a": "1"})
    run("git", "checkout", "-q", "main", cwd=clone)
    run("git", "merge", "-q", "--no-ff", "-m", "merge", "a", cwd=clone)
    target = main_of(git)
    chosen = base.choose(git, target=target, tips=[a], merged=[target.sha], prefix="af")
    assert chosen == base.Base(target.sha, "main")


def test_joins_of_three_and_four_are_the_same_in_every_clone(clone: Path, git: Git, origin: Path) -> None:
    files = {f"{n}.txt": f"{n}\n" * 20 for n in range(4)}
    commit(clone, files)
    run("git", "push", "-q", "origin", "main", cwd=clone)
    changed = {"0.txt": "0\n" * 20 + "more\n"}
    tips = [branch(clone, f"b{n}", {f"new/{n}": str(n), **(changed if n == 2 else {})}) for n in range(3)]
    run("git", "checkout", "-q", "-b", "b3", "main", cwd=clone)
    run("git", "mv", "0.txt", "moved.txt", cwd=clone)
    tips.append(Tip("b3", "af/b3", commit(clone, {}, "b3")))
    run("git", "push", "-q", "--all", "origin", cwd=clone)
    run("git", "clone", "-q", str(origin), "elsewhere", cwd=clone.parent)
    other = Git(clone.parent / "elsewhere").with_env(
        GIT_AUTHOR_NAME="Other", GIT_COMMITTER_DATE="2001-01-01T00:00:00Z"
    )
    for key, value in {
        "merge.renames": "false",
        "i18n.commitEncoding": "latin1",
        "log.showSignature": "true",
    }.items():
        other.run("config", key, value)
    for count in (2, 3, 4):
        here = base.choose(git, target=main_of(git), tips=tips[-count:], merged=[], prefix="af")
        there = base.choose(other, target=main_of(git), tips=tips[-count:][::-1], merged=[], prefix="af")
        assert here == there
        assert all(is_ancestor(git, tip.sha, here.sha) for tip in tips[-count:])
        assert git.run("rev-parse", base.join_ref(here.branch)) == here.sha
    assert {f"new/{n}" for n in range(3)} | {"moved.txt"} <= names(git, here.sha)
    assert "0.txt" not in names(git, here.sha)


def test_configuration_does_not_decide_about_a_conflict(clone: Path, git: Git) -> None:
    commit(clone, {f"old/{n}": f"{n}\n" * 20 for n in range(3)})
    b = branch(clone, "b", {"old/new": "1"})
    run("git", "checkout", "-q", "-b", "a", "main", cwd=clone)
    run("git", "mv", "old", "moved", cwd=clone)
    a = commit(clone, {}, "a folder gets another name")
    for value in ("true", "false", "conflict"):
        run("git", "config", "merge.directoryRenames", value, cwd=clone)
        with pytest.raises(JoinConflict, match="moved/new"):
            base.join(git, [a, b.sha])


def test_signatures_that_are_shown_do_not_change_a_join(clone: Path, git: Git) -> None:
    a, b = branch(clone, "a", {"a": "1"}), branch(clone, "b", {"b": "1"})
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n"
    raw = git.run("cat-file", "commit", a.sha).replace("\n\n", "\n" + signature, 1) + "\n"
    signed = git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)
    before = base.join(git, [signed, b.sha])
    (clone / "gpg").write_text("#!/bin/sh\necho 'gpg: no public key' >&2\nexit 1\n")
    (clone / "gpg").chmod(0o755)
    run("git", "config", "gpg.program", str(clone / "gpg"), cwd=clone)
    run("git", "config", "log.showSignature", "true", cwd=clone)
    assert base.join(git, [signed, b.sha]) == before


def test_a_conflict_names_its_files(clone: Path, git: Git) -> None:
    name = 'ü "q".txt'
    a, b = branch(clone, "a", {name: "a", "x": "a"}), branch(clone, "b", {name: "b", "x": "a"})
    with pytest.raises(JoinConflict, match=name) as caught:
        base.choose(git, target=main_of(git), tips=[a, b], merged=[], prefix="af")
    assert caught.value.paths == (name,)
    assert set(caught.value.tips) == {a.sha, b.sha}


def test_a_resolution_that_was_kept_becomes_the_join(clone: Path, git: Git) -> None:
    a, b = branch(clone, "a", {"x": "a"}), branch(clone, "b", {"x": "b"})
    resolved = base.commit_tree(git, f"{a.sha}^{{tree}}", (a.sha, b.sha), "by hand", "1700000000")
    git.run("update-ref", base.join_ref(base.join_branch("af", sorted([a.sha, b.sha]))), resolved)
    assert base.choose(git, target=main_of(git), tips=[a, b], merged=[], prefix="af").sha == resolved


def test_another_order_is_tried_before_a_conflict_counts(clone: Path, git: Git) -> None:
    a, b = branch(clone, "a", {"x": "a"}), branch(clone, "b", {"x": "b"})
    both = base.commit_tree(git, f"{a.sha}^{{tree}}", (a.sha, b.sha), "resolved", "1700000000")
    joined = base.join(git, [a.sha, b.sha, both])
    assert git.run("show", f"{joined}:x") == "a"


def test_a_criss_cross_joins(clone: Path, git: Git) -> None:
    a, b = branch(clone, "a", {"a": "1"}), branch(clone, "b", {"b": "1"})
    one = base.join(git, [a.sha, b.sha])
    left = base.commit_tree(git, one + "^{tree}", (a.sha, b.sha), "left", "1700000000")
    right = base.commit_tree(git, one + "^{tree}", (b.sha, a.sha), "right", "1700000000")
    assert names(git, base.join(git, [left, right])) == {"a", "b"}


def test_histories_that_have_nothing_in_common(clone: Path, git: Git) -> None:
    a = branch(clone, "a", {"a": "1"})
    alone = base.commit_tree(git, "main^{tree}", (), "another root", "1700000000")
    with pytest.raises(GitFailed, match="unrelated histories"):
        base.join(git, [a.sha, alone])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_minimal_tips_contain_all_the_others(git: Git, data: st.DataObject) -> None:
    commits = [git.run("rev-parse", "main")]
    for number in range(data.draw(st.integers(1, 5))):
        parents = data.draw(st.lists(st.sampled_from(commits), min_size=1, max_size=2, unique=True))
        commits.append(base.commit_tree(git, "main^{tree}", parents, str(number), "1700000000"))
    chosen = data.draw(st.lists(st.sampled_from(commits), min_size=1, max_size=4))
    tips = [Tip(f"k{n}", f"af/k{n}", sha) for n, sha in enumerate(chosen)]
    minimal = base.minimal(git, tips)
    assert minimal == base.minimal(git, data.draw(st.permutations(tips)))
    assert not any(is_ancestor(git, a.sha, b.sha) for a in minimal for b in minimal if a != b)
    assert all(any(is_ancestor(git, sha, tip.sha) for tip in minimal) for sha in chosen)
