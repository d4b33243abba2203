"""What autoforge itself can refuse or fail at. The docstring is the default message."""


class AutoforgeError(Exception):
    """autoforge cannot go on."""

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class SettingsError(AutoforgeError):
    """The configuration is not valid."""

    exit_code = 2


class UsageError(AutoforgeError):
    """The command was called with something that it cannot use."""

    exit_code = 2


class BuildActive(AutoforgeError):
    """Another build is running on this repository."""

    exit_code = 2


class Overtaken(AutoforgeError):
    """This build stood still for so long that it no longer leads, and stopped: since then it has changed nothing in the
    feature table. What its agents did is in their worktrees or on refs/autoforge/saved. To go on: autoforge build"""

    exit_code = 4

    def __init__(self) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()))


class BaselineRed(AutoforgeError):
    """The verify commands fail on the target before any agent has worked."""


class AgentMissing(AutoforgeError):
    """The claude CLI cannot be found or has no credentials."""

    exit_code = 2
