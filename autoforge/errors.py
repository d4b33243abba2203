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


class BaselineRed(AutoforgeError):
    """The verify commands fail on the target before any agent has worked."""


class AgentMissing(AutoforgeError):
    """The claude CLI cannot be found or has no credentials."""

    exit_code = 2
