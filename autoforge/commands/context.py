"""What the commands share: which repository was meant, and how to open it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoforge.settings import Surroundings

if TYPE_CHECKING:
    from rich.console import Console

    from autoforge.project import Project

Repository = Annotated[
    Path | None, typer.Option("-C", help="Folder of the repository to work on.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Invocation:
    """What was given before the command's name."""

    path: Path
    surroundings: Surroundings


def open_project(
    context: typer.Context, repository: Path | None, flags: Mapping[str, Any] | None = None
) -> "Project":
    from autoforge import project

    given: Invocation = context.obj
    path = given.path / repository if repository else given.path
    return project.open_project(path, given.surroundings, flags)


def print_json(value: object) -> None:
    def plain(item: object) -> object:
        return item.isoformat() if isinstance(item, datetime) else str(item)

    typer.echo(json.dumps(value, indent=2, default=plain, ensure_ascii=False))


def console() -> "Console":
    """Plain text in a pipe, at most 100 columns wide; NO_COLOR is respected."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else 100, highlight=False, soft_wrap=not terminal)
