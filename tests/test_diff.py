"""What a branch changes, with names and contents that are hard to read."""

from pathlib import Path

from git_workflow import diff
from git_workflow.command import Git
from tests.conftest import commit, run


def test_what_a_reviewer_must_see(clone: Path, git: Git) -> None:
    base = commit(
        clone,
        {"tests/test_old.py": "1\n", "tests/test_a[b].py": "1\n", "pyproject.toml": "", "x.bin": "a\0b"},
    )
    (clone / "tests/test_old.py").unlink()
    for key, value in {"diff.noprefix": "true", "color.ui": "always", "diff.renames": "copies"}.items():
        run("git", "config", key, value, cwd=clone)
    skipped = "++ b/tests/test_other.py\n@pytest.mark.skip\n"
    files = {
        "tests/test_a[b].py": skipped,
        "tests/test_skip(.py": "ok\n",
        "src/ü\n\t.py": "1\n2\n",
        "x.bin": "a\0c",
    }
    head = commit(
        clone,
        {
            **files,
            "pyproject.toml": "[x]\n",
            "src/deep/conftest.py": "it.skip(\n",
            ":!/tests/x": "it.skip(\n",
        },
    )
    found = diff.read(git, base, head)
    assert (found.files, found.added_lines, found.deleted_lines) == (8, 8, 2)
    assert found.tests_changed == ("tests/test_a[b].py",)
    assert found.tests_deleted == ("tests/test_old.py",)
    assert found.tests_skipped == (":!/tests/x", "src/deep/conftest.py", "tests/test_a[b].py")
    assert found.verify_configuration == ("pyproject.toml", "src/deep/conftest.py")
    assert diff.read(git, head, head) == diff.Diff(0, 0, 0)


def test_added_lines_are_neither_headers_nor_halves(clone: Path, git: Git) -> None:
    tricky = "++ header\n-- x\n@@ -1 +1,9 @@\na\rb\x0cc\u2028d\n\\ No newline"
    commit(clone, {"gone": "x\n", "a b": "old\n"})
    (clone / "gone").unlink()
    (clone / "a b").write_text(tricky)
    (clone / "link").symlink_to("nowhere")
    (clone / "bin").write_bytes(b"\0one\xff\n")
    (clone / ".gitattributes").write_text("* -diff\n")
    git.run("add", "--all")
    lines = list(diff.added_lines(git, "--cached"))
    assert [text for name, text in lines if name == "a b"] == tricky.split("\n")
    assert ("link", "nowhere") in lines
    assert ("bin", "\0one\udcff") in lines
    assert "gone" not in dict(lines)
