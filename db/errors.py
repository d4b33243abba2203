"""What can go wrong with the feature table. The docstring is the default message."""


class StoreError(Exception):
    """The feature table cannot be used."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class NotFound(StoreError):
    """There is no such row in the feature table."""


class InvalidFeatures(StoreError):
    """The features cannot be stored."""


class SchemaTooNew(StoreError):
    """The feature table was written by a newer autoforge: upgrade autoforge."""
