"""A call as the handlers see it, and the errors that GitHub's API answers with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoforge.demo.github.repository import Account, Issue, Pull, Repository

Json = dict[str, Any]
Answer = tuple[int, Any]


class ApiError(Exception):
    """An answer of GitHub's that is no success."""

    def __init__(self, status: int, message: str, *errors: Json | str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def body(self) -> Json:
        body: Json = {"message": self.message, "documentation_url": "https://docs.github.com/rest"}
        return body | {"status": str(self.status)} | ({"errors": list(self.errors)} if self.errors else {})


@dataclass(frozen=True)
class Links:
    """Where this server is: `api` as the caller addressed it, `web` for people and git."""

    api: str
    web: str


@dataclass(frozen=True)
class Call:
    """One request to a repository's part of the API."""

    repository: Repository
    account: Account
    links: Links
    query: Mapping[str, str]
    body: Any

    def field(self, name: str, default: Any = None) -> Any:
        return self.body.get(name, default) if isinstance(self.body, dict) else default

    def required(self, name: str) -> str:
        value = self.field(name)
        if isinstance(value, str) and value:
            return value
        raise ApiError(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')

    def pull(self, number: str) -> Pull:
        pull = self.repository.pulls.get(int(number))
        if pull is None:
            raise ApiError(404, "Not Found")
        return pull

    def issue(self, number: str) -> Issue | Pull:
        """Every pull request is an issue as well."""
        return self.repository.issues.get(int(number)) or self.pull(number)

    def keep(self, changed: Issue | Pull) -> None:
        if isinstance(changed, Pull):
            self.repository.pulls[changed.number] = changed
        else:
            self.repository.issues[changed.number] = changed


def invalid_pull(message: str = "", *, field: str = "", code: str = "custom") -> ApiError:
    """422 Validation Failed with one error, in the shape that GitHub uses for pull requests."""
    error = {"resource": "PullRequest", "field": field, "code": code, "message": message}
    return ApiError(422, "Validation Failed", {key: value for key, value in error.items() if value})
