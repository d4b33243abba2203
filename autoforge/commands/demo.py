"""`autoforge demo`: the main job, offline."""

from pathlib import Path
from typing import Annotated

import typer

from autoforge.commands.context import Invocation, say


def demo(
    context: typer.Context,
    dir_: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="Put everything into this new folder and leave it there.", show_default=False
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the loopback GitHub running until Ctrl-C.")
    ] = False,
) -> None:
    """See the main job offline, without an account.

    Builds a small application: six features, in parallel worktrees, as stacked pull requests.

    Real are the claude CLI with its tools and hooks, git, worktrees, pushes over HTTP and the GitHub client.
    Scripted is only what the model says; GitHub is a stand-in on 127.0.0.1.
    """
    from autoforge.demo import run

    given: Invocation = context.obj
    raise typer.Exit(run.run(dir_, keep=keep, surroundings=given.surroundings, write=say))
