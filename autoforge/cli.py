"""The command line: wires typer and turns what is left of an error into an exit code."""

import io
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from autoforge import settings
from autoforge.commands import (
    answer,
    build,
    demo,
    features,
    graph,
    guard,
    history,
    init,
    land,
    plan,
    projects,
    prs,
    restack,
    status,
    sync,
    verify,
)
from autoforge.commands.context import Invocation, say
from autoforge.errors import AutoforgeError, UsageError
from autoforge.log import redact
from autoforge.settings import Surroundings
from db.errors import StoreError
from git_workflow.errors import GitWorkflowError, NotARepository, UnusableRepository

UNUSABLE = (StoreError, NotARepository, UnusableRepository)


def app() -> typer.Typer:
    cli = typer.Typer(
        name="autoforge",
        help="Builds features in a git repository with several Claude agents at once, as stacked, verified pull requests.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    cli.callback()(_root)
    for command in (
        init.init,
        plan.plan,
        build.build,
        status.status,
        graph.graph,
        history.history,
        answer.answer,
        land.land,
        sync.sync,
        restack.restack,
        prs.prs,
        verify.verify,
        guard.guard,
        demo.demo,
    ):
        cli.command()(command)
    cli.add_typer(features.app(), name="features")
    cli.add_typer(projects.app(), name="projects")
    return cli


def _root(
    context: typer.Context,
    repository: Annotated[
        Path | None,
        typer.Option("-C", help="Folder of the repository to work on.", show_default="this folder"),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="The same, by a name that `projects` knows.", show_default=False)
    ] = None,
) -> None:
    assert isinstance(context.obj, Surroundings)
    if project and repository:
        raise UsageError("Give -C PATH or --project NAME, not both.")
    context.obj = Invocation(_named(project) if project else repository or Path(), context.obj)


def _named(project: str) -> Path:
    from autoforge import registry

    return registry.resolve(project)


def main() -> None:
    """The console script. Ends with the exit codes that the README lists."""
    if sys.platform == "win32":
        sys.exit(
            "autoforge needs Linux or macOS. On Windows, run it inside WSL: https://learn.microsoft.com/windows/wsl"
        )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character is no reason to stop
    run(None, settings.take(os.environ))


def run(arguments: Sequence[str] | None, surroundings: Surroundings) -> NoReturn:
    """Raises SystemExit. `arguments` None: those of the process."""
    try:
        app()(arguments, prog_name="autoforge", obj=surroundings)
    except (AutoforgeError, GitWorkflowError, StoreError) as error:
        code = (
            error.exit_code if isinstance(error, AutoforgeError) else 2 if isinstance(error, UNUSABLE) else 1
        )
        _fail(str(error), code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        with tempfile.NamedTemporaryFile("w", prefix="autoforge-bug-", suffix=".log", delete=False) as file:
            file.write(redact(traceback.format_exc()))
        _fail(f"This is a bug in autoforge. Please report it with {file.name}", 3)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    say(f"error: {redact(message)}", err=True)
    sys.exit(code)
