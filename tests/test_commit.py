"""What gets into the gate's commit, and what is refused with the reason."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_workflow import commit as gate
from git_workflow.command import Git
from git_workflow.repository import head_sha
from tests.conftest import commit, run

ODD = ('q"uote', "new\nline", "ünï", "-dash", "sp ace ", "a\tb", ":(exclude)x", "*", "back\\slash")
KEY = "sk-ant-api03-" + "a" * 40


def stage(
    git: Git, since: str = "HEAD", protected: tuple[str, ...] = ("autoforge.toml", ".github/**")
) -> list[str]:
    return gate.stage(git, protected=protected, max_file_bytes=1000, since=since)


def staged(git: Git) -> set[str]:
    return set(git.names("diff", "--cached", "--name-only", "--no-renames", "-z"))


def test_everything_that_is_not_ignored_is_staged_under_any_name(clone: Path, git: Git) -> None:
    commit(clone, {".gitignore": "ignored\n", "gone": "1"})
    (clone / "gone").unlink()
    for name in (*ODD, "ignored"):
        (clone / name).write_text("x")
    (clone / "broken-link").symlink_to("nowhere")
    (clone / "large-link").symlink_to("/usr/bin/git")
    assert stage(git) == []
    assert staged(git) == {*ODD, "gone", "broken-link", "large-link"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".env",
            "a/.env",
            ".env.local",
            ".envrc",
            "node_modules/x/y.js",
            "__pycache__/a.pyc",
            ".venv/x",
            "a.sqlite3",
        ),
        *("x.db-wal", "b.swp", "c.orig", "run.log", "id_rsa", "cert.pem", ".DS_Store", ".idea/x", "core.123"),
    ],
)
def test_c6_droppings_are_refused_unless_the_repository_has_them(clone: Path, git: Git, name: str) -> None:
    base = git.run("rev-parse", "HEAD")
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).write_text("1")
    [problem] = stage(git)
    assert "does not belong in a commit" in problem
    assert staged(git) == set()
    commit(clone, {})
    assert stage(git, since=base) == [problem], "the agent committed it by itself"
    (clone / name).write_text("2")
    assert stage(git) == []
    (clone / name).unlink()
    assert stage(git, since=base) == []


@pytest.mark.parametrize(
    "name", [".env.example", ".env.sample", "environment.py", "logs.py", "db/feature.py", "venv.md"]
)
def test_c6_what_only_looks_like_a_dropping(clone: Path, git: Git, name: str) -> None:
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).write_text("1")
    assert stage(git) == []


def test_c6_a_folder_of_droppings_is_one_line(clone: Path, git: Git) -> None:
    for number in range(20):
        (clone / f"web/node_modules/p{number}").mkdir(parents=True)
        (clone / f"web/node_modules/p{number}/index.js").touch()
    [problem] = stage(git)
    assert problem.startswith("web/node_modules/ does not belong")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"key = '{KEY}'", "an Anthropic key"),
        ("x\rghp_" + "a" * 36, "a GitHub token"),
        ("++ AKIA" + "A" * 16, "an AWS access key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("postgres://app:hunter2hunter2@db.corp.example/x", "a password in a URL"),
    ],
)
def test_c6_secrets_are_found_wherever_they_hide(clone: Path, git: Git, text: str, what: str) -> None:
    base = git.run("rev-parse", "HEAD")
    commit(clone, {"old name": "line\n" * 20})
    (clone / "old name").rename(clone / 'new "name')
    (clone / 'new "name').write_text("line\n" * 20 + text)
    (clone / ".gitattributes").write_text("*.dat -diff\n")
    (clone / "b.dat").write_bytes(b"\0\xff" + text.encode())
    run("git", "config", "diff.noprefix", "true", cwd=clone)
    found = [
        f"b.dat contains what looks like {what}: remove it",
        f'new \\"name contains what looks like {what}: remove it',
    ]
    assert stage(git) == found
    commit(clone, {})
    assert stage(git) == []
    assert stage(git, since=base) == found, "the agent committed it by itself"
    commit(clone, {"b.dat": "", 'new "name': ""})
    assert stage(git, since=base) == []


@pytest.mark.parametrize(
    "text",
    [
        "postgres://postgres:postgres@localhost:5432/test",
        "https://user:${PASSWORD}@host",
        "sk-ant-...",
        "ghp_short",
    ],
)
def test_c6_what_is_no_secret(clone: Path, git: Git, text: str) -> None:
    (clone / "a").write_text(text)
    assert stage(git) == []


def test_c6_large_files_are_measured_as_git_stores_them(clone: Path, git: Git) -> None:
    commit(clone, {"lock.json": "x" * 1500, "small": "x", ".gitattributes": "*.lfs filter=pointer\n"})
    run("git", "config", "filter.pointer.clean", "wc -c", cwd=clone)
    for name in ("lock.json", "small", "new", "big.lfs"):
        (clone / name).write_text("y" * 2000)
    (clone / "README.md").unlink()
    assert [problem.split(" ")[:3] for problem in stage(git)] == [
        ["new", "has", "2,000"],
        ["small", "has", "2,000"],
    ]


def test_protected_files_are_refused_whoever_committed_them(clone: Path, git: Git) -> None:
    base = git.run("rev-parse", "HEAD")
    commit(clone, {"AutoForge.toml": "1", ".github/workflows/ci.yml": "1", "apps/autoforge.toml": "1"})
    problems = stage(git, since=base)
    assert [problem.split(" ")[0] for problem in problems] == [".github/workflows/ci.yml", "AutoForge.toml"]
    run(
        "git", "restore", f"--source={base}", "--staged", "--worktree", "AutoForge.toml", ".github", cwd=clone
    )
    assert stage(git, since=base) == []
    assert stage(git, since=base, protected=()) == []


def test_a_repository_inside_is_refused_and_not_committed_as_a_link(clone: Path, git: Git) -> None:
    base = head_sha(git) or ""
    for name in ("unborn", "born"):
        run("git", "init", "-q", name, cwd=clone)
    inner = commit(clone / "born", {"f": "1"})
    assert [problem.split(" ")[0] for problem in stage(git)] == ["born/", "unborn/"]
    assert staged(git) == set()
    run("rm", "-r", "unborn", cwd=clone)
    run("git", "-c", "advice.addEmbeddedRepo=false", "add", "-A", cwd=clone)
    [problem] = stage(git, since=base)
    assert inner[:10] in problem
    run("git", "rm", "-q", "-f", "--cached", "born", cwd=clone)
    run("rm", "-r", "born/.git", cwd=clone)
    assert stage(git) == []
    assert staged(git) == {"born/f"}


def test_w6_a_submodule_may_only_move_to_what_is_published(clone: Path, git: Git, tmp_path: Path) -> None:
    run("git", "init", "-q", "lib", cwd=tmp_path)
    commit(tmp_path / "lib", {"f": "1"})
    run("git", "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib", cwd=clone)
    assert stage(git) == []
    commit(clone, {})
    commit(clone / "lib", {"f": "mine"})
    assert "none of its remotes has" in stage(git)[0]
    newer = commit(tmp_path / "lib", {"f": "2"})
    run("git", "-C", "lib", "fetch", "-q", cwd=clone)
    run("git", "-C", "lib", "checkout", "-q", newer, cwd=clone)
    assert stage(git) == []


def test_w6_what_is_beside_a_sparse_checkout_is_committed_too(clone: Path, git: Git) -> None:
    commit(clone, {"in/f": "1", "out/f": "1"})
    run("git", "sparse-checkout", "set", "in", cwd=clone)
    (clone / "out").mkdir()
    (clone / "out/new").write_text("1")
    assert stage(git) == []
    assert staged(git) == {"out/new"}


def test_what_git_cannot_add_is_a_problem_and_no_crash(clone: Path, git: Git) -> None:
    (clone / "a").touch()
    (clone / ".git/index.lock").touch()
    assert "index.lock" in stage(git)[0]


@pytest.mark.parametrize(
    "how", [("merge", "side"), ("cherry-pick", "side"), ("rebase", "side"), ("revert", "side")]
)
def test_nothing_is_committed_in_the_middle_of_something(clone: Path, git: Git, how: tuple[str, str]) -> None:
    run("git", "checkout", "-qb", "side", cwd=clone)
    commit(clone, {"README.md": "side\n"})
    run("git", "checkout", "-q", "main", cwd=clone)
    commit(clone, {"README.md": "main\n"})
    assert git.attempt(*how)[0]
    assert "is in progress" in stage(git)[0]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_no_name_breaks_the_table_of_droppings(name: str) -> None:
    assert len(gate._droppings([name, f"node_modules/{name}"])) in (1, 2)
