"""What a branch changes, as a reviewer needs to know it first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from git_workflow.command import Git, shown

TEST = re.compile(
    r"(^|/)(tests?|specs?|__tests__)/|(^|/)test_[^/]*$|[._-](test|spec)s?\.[a-z]+$|(^|/)conftest\.py$"
)
VERIFY_CONFIGURATION = re.compile(
    r"(^|/)(autoforge\.toml|pyproject\.toml|pytest\.ini|tox\.ini|setup\.cfg|noxfile\.py|conftest\.py|\.coveragerc"
    r"|Makefile|package\.json|jest\.config\.[a-z]+|vitest\.config\.[a-z]+|\.eslintrc[^/]*|tsconfig[^/]*\.json"
    r"|Cargo\.toml|go\.mod|\.golangci\.ya?ml|\.pre-commit-config\.yaml)$|^\.github/|^\.gitlab-ci\.yml$"
)
SKIP = re.compile(
    r"@(pytest\.mark\.|unittest\.)?(skip|xfail|expectedFailure)|\bpytest\.skip\(|\bskipTest\("
    r"|\b(x?it|test|describe)\.(skip|only|todo)\b|\bx(it|describe)\(|@(Ignore|Disabled)\b|#\[ignore|\bt\.Skip\("
)
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True)
class Diff:
    """`base..head` in numbers and in the names that deserve a second look."""

    files: int
    added_lines: int
    deleted_lines: int
    tests_changed: tuple[str, ...] = ()
    tests_deleted: tuple[str, ...] = ()
    tests_skipped: tuple[str, ...] = ()
    verify_configuration: tuple[str, ...] = ()


def read(git: Git, base: str, head: str) -> Diff:
    numbers = [row.split("\t", 2) for row in git.names("diff", "--numstat", "--no-renames", "-z", base, head)]
    states = git.names("diff", "--name-status", "--no-renames", "-z", base, head)
    state = dict(zip(states[1::2], states[::2], strict=True))
    tests = [name for name in state if TEST.search(name)]
    literally = git.with_env(GIT_LITERAL_PATHSPECS="1")
    lines = added_lines(literally, base, head, "--", *tests) if tests else iter(())
    return Diff(
        files=len(state),
        added_lines=sum(int(n[0]) for n in numbers if n[0] != "-"),
        deleted_lines=sum(int(n[1]) for n in numbers if n[1] != "-"),
        tests_changed=tuple(shown(n) for n in tests if state[n] in "MT"),
        tests_deleted=tuple(shown(n) for n in tests if state[n] == "D"),
        tests_skipped=tuple(dict.fromkeys(name for name, line in lines if SKIP.search(line))),
        verify_configuration=tuple(shown(n) for n in state if VERIFY_CONFIGURATION.search(n)),
    )


def added_lines(git: Git, *args: str) -> Iterator[tuple[str, str]]:
    """Name, as it can be shown, and text of each line that `git diff *args` adds, in binary files as well."""
    form = ("--unified=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    names = ("--diff-filter=d", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short")
    patch = git.run("-c", "core.quotePath=false", "diff", *form, *names, *args)
    name, left = "", 0  # lines of the hunk that are still to come
    for line in patch.split("\n"):
        if left:
            left -= not line.startswith("\\")  # "\\ No newline at end of file"
            if line.startswith("+"):
                yield name, line[1:]
        elif line.startswith("+++ "):
            name = shown(line[4:].removesuffix("\t").strip('"').removeprefix("b/"))
        elif hunk := HUNK.match(line):
            left = sum(int(count or 1) for count in hunk.groups())
