"""What the commands share: which repository was meant, how to open it, and how to print."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoforge.errors import AutoforgeError
from autoforge.progress.lines import INVISIBLE, plain
from autoforge.settings import Surroundings

if TYPE_CHECKING:
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


def say(text: str, *, err: bool = False) -> None:
    """Print lines. When the reader has gone (`| head`), the rest of the command's output is dropped.

    Raises AutoforgeError when they cannot be written.
    """
    _write(plain(text), err=err)


def print_json(value: object) -> None:
    def text_of(item: object) -> object:
        return item.isoformat() if isinstance(item, datetime) else str(item)

    text = json.dumps(value, indent=2, default=text_of, ensure_ascii=False)
    _write(INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text), err=False)


def _write(text: str, *, err: bool) -> None:
    try:
        typer.echo(text, err=err)
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), (sys.stderr if err else sys.stdout).fileno())
        if not (err or isinstance(error, BrokenPipeError)):
            raise AutoforgeError(f"The output cannot be written ({error.strerror}).") from error


def width() -> int:
    """Columns of the terminal; 100 in a pipe, where COLUMNS says nothing else."""
    return shutil.get_terminal_size(fallback=(100, 24)).columns
