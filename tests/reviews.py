"""What reviewers do on the loopback GitHub: merge, close, edit."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from typing import Any

from autoforge import lead
from autoforge.demo.github import LoopbackGitHub
from autoforge.events import Event
from autoforge.project import Project, table
from tests.conftest import TOKEN


@dataclass(frozen=True)
class Reviewer:
    github: LoopbackGitHub

    def send(self, path: str, *, as_: str, **body: Any) -> Any:
        """POST as another account."""
        return self._send("POST", path, token=as_, **body)

    def _send(self, method: str, path: str, *, token: str = TOKEN, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.github.url}/repos/octo/app/{path}",
            json.dumps(body).encode() if body else None,
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or "null")

    def open(self, head: str, base: str = "main") -> int:
        return int(self._send("POST", "pulls", title="by hand", head=head, base=base)["number"])

    def open_issue(self, title: str, body: str = "", *labels: str) -> int:
        return int(self._send("POST", "issues", title=title, body=body, labels=labels)["number"])

    def merge(self, number: int | None, how: str = "merge") -> str:
        return str(self._send("PUT", f"pulls/{number}/merge", merge_method=how)["sha"])

    def edit(self, number: int | None, **fields: str) -> None:
        self._send("PATCH", f"pulls/{number}", **fields)

    def delete_branch(self, branch: str) -> None:
        self._send("DELETE", f"git/refs/heads/{branch}")


def sync(project: Project) -> tuple[int, list[str]]:
    """How many batches are not as they should be, and what a person was told."""
    shown: list[Event] = []
    with table(project) as store:
        ended = asyncio.run(lead.sync(project, store, shown.append))
    return len(ended.unpublished), [event.text for event in shown]
