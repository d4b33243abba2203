"""`autoforge guard`: what agents may do, and why not."""

from pathlib import Path
from typing import Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say


def guard(
    context: typer.Context,
    command: Annotated[
        str | None, typer.Argument(help="A shell command, in quotes.", show_default=False)
    ] = None,
    write: Annotated[
        str | None, typer.Option("--write", help="A path that an agent wants to write.", show_default=False)
    ] = None,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Explain whether an agent may run a command, or write a file.

    The worktree is taken to be the repository's checkout. Exit code 0: allowed; 1: denied.
    """
    from autoforge import attempt
    from autoforge.agent import guard as policy
    from autoforge.errors import UsageError

    if (command is None) == (write is None):
        raise UsageError("Give a COMMAND, or --write PATH.")
    project = open_project(context, repository)
    rules = attempt.policy_of(
        project.repo,
        project.settings,
        root=project.repo.root,
        tmp=Path("/tmp/autoforge-example"),
        branch=f"{project.settings.branch_prefix}/example-k3y9ab",
    )
    tool, given = ("Bash", {"command": command}) if write is None else ("Write", {"file_path": write})
    cwd = project.repo.root / project.repo.prefix
    why = policy.decide(rules, tool, given, cwd=cwd)
    if json_:
        print_json({"decision": "deny" if why else "allow", "reason": why})
    else:
        say(f"denied: {why}" if why else "allowed")
    raise typer.Exit(1 if why else 0)
