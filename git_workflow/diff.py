"""What a branch changes, as a reviewer needs to know it first."""

import re
from dataclasses import dataclass

from git_workflow.command import Git

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
    rows = git.run("diff", "--numstat", "--no-renames", "-z", base, head).split("\0")
    numbers = [row.split("\t", 2) for row in rows if row]
    states = git.run("diff", "--name-status", "--no-renames", "-z", base, head).split("\0")
    state = {name: letter for letter, name in zip(states[::2], states[1::2], strict=False)}
    tests = [name for name in state if TEST.search(name)]
    return Diff(
        files=len(state),
        added_lines=sum(int(n[0]) for n in numbers if n[0] != "-"),
        deleted_lines=sum(int(n[1]) for n in numbers if n[1] != "-"),
        tests_changed=tuple(n for n in tests if state[n] in "MT"),
        tests_deleted=tuple(n for n in tests if state[n] == "D"),
        tests_skipped=_skipped(git, base, head, [n for n in tests if state[n] != "D"]),
        verify_configuration=tuple(n for n in state if VERIFY_CONFIGURATION.search(n)),
    )


def _skipped(git: Git, base: str, head: str, tests: list[str]) -> tuple[str, ...]:
    found = []
    for name in tests:
        patch = git.run("diff", "--unified=0", "--no-color", "--no-ext-diff", base, head, "--", name)
        if any(line.startswith("+") and SKIP.search(line) for line in patch.splitlines()):
            found.append(name)
    return tuple(found)
