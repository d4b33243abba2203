"""What an error of GitHub's API means, and what to do about it."""

from collections.abc import Mapping
from typing import Any

# GraphQL answers 200 and says in the body what REST says with a status.
GRAPHQL_STATUS = {
    "FORBIDDEN": 403,
    "INSUFFICIENT_SCOPES": 403,
    "NOT_FOUND": 404,
    "UNPROCESSABLE": 422,
    "RATE_LIMITED": 429,
}
LIMIT_SIGNS = ("rate limit", "abuse detection", "retry your request again later", "wait a few minutes")


def explain(
    status: int, message: str | None, data: Any, headers: Mapping[str, Any] | None
) -> tuple[int, str]:
    """The HTTP status, and a sentence for the user."""
    kinds = [one.get("type") for one in _errors(data) if isinstance(one, dict)]
    status = next((GRAPHQL_STATUS[kind] for kind in kinds if kind in GRAPHQL_STATUS), status)
    lowered = {name.lower(): str(value) for name, value in (headers or {}).items()}
    return status, _advice(status, said(message, data), lowered)


def said(message: str | None, data: Any) -> str:
    """The API's own words: the message, then what each of its errors adds."""
    details = [
        one if isinstance(one, str) else one.get("message") or f"{one.get('field')} is {one.get('code')}"
        for one in _errors(data)
        if isinstance(one, str | dict)
    ]
    first = (data.get("message") if isinstance(data, dict) else None) or message
    return ": ".join(filter(None, [first, "; ".join(details)]))


def cause(error: BaseException) -> str:
    """The innermost reason, in one short line."""
    inner = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__ or inner
    return (str(inner).splitlines() or [type(inner).__name__])[0][:200] or type(inner).__name__


def _errors(data: Any) -> list[Any]:
    errors = data.get("errors") if isinstance(data, dict) else None
    return errors if isinstance(errors, list) else []


def _advice(status: int, words: str, headers: Mapping[str, str]) -> str:
    later = f" in {headers['retry-after']} s" if "retry-after" in headers else " later"
    match status:
        case 401:
            return "GitHub refuses the token (401). It is wrong or has expired: give a valid one."
        case 403 | 429 if _is_rate_limit(status, words, headers):
            return f"GitHub's rate limit is reached ({status}). Try again{later}."
        case 403 if "GitHub Actions is not permitted" in words:
            return f"{words} (403) Allow it in the repository's settings under Actions, General."
        case 403:
            needed = headers.get("x-accepted-github-permissions", "pull_requests=write, contents=write")
            return f"the token lacks a permission (403: {words}). It needs {needed}."
        case 404:
            return "not found (404). It does not exist, or the token cannot see it: check both."
        case 422:
            return f"GitHub refuses it (422): {words}."
        case _ if status >= 500:
            return f"GitHub has trouble ({f'{status} {words}'.strip()}). Try again{later}."
        case _:
            return f"GitHub answers {status}: {words}."


def _is_rate_limit(status: int, words: str, headers: Mapping[str, str]) -> bool:
    return (
        status == 429
        or any(sign in words.lower() for sign in LIMIT_SIGNS)
        or "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
    )
