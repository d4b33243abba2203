"""The command line: wires typer and turns what is left of an error into an exit code."""

import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated

import typer

from autoforge import settings
from autoforge.commands import answer, build, demo, features, init, status, sync
from autoforge.commands.context import Invocation
from autoforge.errors import AutoforgeError
from autoforge.log import redact
from db.errors import InvalidFeatures, NotFound, StoreError
from git_workflow.errors import GitWorkflowError, NotARepository, UnusableRepository

USAGE = (NotARepository, UnusableRepository, InvalidFeatures, NotFound)


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
    for command in (init.init, build.build, status.status, answer.answer, sync.sync, demo.demo):
        cli.command()(command)
    cli.add_typer(features.app(), name="features")
    return cli


def _root(
    context: typer.Context,
    repository: Annotated[Path, typer.Option("-C", help="Folder of the repository to work on.")] = Path(),
) -> None:
    assert isinstance(context.obj, settings.Surroundings)
    context.obj = Invocation(repository, context.obj)


def main() -> None:
    """The console script. Ends with the exit codes that the README lists."""
    if sys.platform == "win32":
        sys.exit(
            "autoforge needs Linux or macOS. On Windows, run it inside WSL: https://learn.microsoft.com/windows/wsl"
        )
    try:
        app()(obj=settings.take(os.environ))
    except (AutoforgeError, GitWorkflowError, StoreError) as error:
        code = error.exit_code if isinstance(error, AutoforgeError) else 2 if isinstance(error, USAGE) else 1
        _fail(str(error), code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except Exception:
        with tempfile.NamedTemporaryFile("w", prefix="autoforge-bug-", suffix=".log", delete=False) as file:
            file.write(redact(traceback.format_exc()))
        _fail(f"This is a bug in autoforge. Please report it with {file.name}", 3)


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {redact(message)}", err=True)
    sys.exit(code)
