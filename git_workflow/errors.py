"""What can go wrong with git and the forge. The docstring is the default message."""

from collections.abc import Sequence


class GitWorkflowError(Exception):
    """The git workflow failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class NotARepository(GitWorkflowError):
    """This folder is not inside a git repository."""


class UnusableRepository(GitWorkflowError):
    """This repository cannot be built in its present state."""


class GitFailed(GitWorkflowError):
    """A git command failed; `args`, `code` and `stderr` say which and why. Code -1: it ran out of time."""

    def __init__(self, args: Sequence[str], code: int, stderr: str) -> None:
        self.command = tuple(args)
        self.code = code
        self.stderr = stderr.strip()
        lines = self.stderr.splitlines()
        super().__init__(f"git {' '.join(args[:3])} failed ({code}): {' / '.join(lines[-6:])[:800]}")


class WorktreeFailed(GitWorkflowError):
    """A worktree could not be made ready."""


class JoinConflict(GitWorkflowError):
    """The branches that a batch is built on conflict with each other; `paths` and `tips` say where."""

    def __init__(self, message: str, *, tips: Sequence[str], paths: Sequence[str]) -> None:
        self.tips = tuple(tips)
        self.paths = tuple(paths)
        super().__init__(message)


class PushRejected(GitWorkflowError):
    """The remote refused the push."""


class ForgeFailed(GitWorkflowError):
    """The forge's API answered with an error; `status` is the HTTP status, 0 when no answer came."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        self.status = status
        super().__init__(message)
