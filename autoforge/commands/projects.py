"""`autoforge projects`: names for the repositories that one works on."""

from pathlib import Path
from typing import Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say
from autoforge.errors import UsageError

Name = Annotated[str, typer.Argument(metavar="NAME", help="The project's name.")]


def app() -> typer.Typer:
    group = typer.Typer(
        help="Remember repositories by name, for --project NAME.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command("list")(list_)
    group.command()(add)
    group.command()(remove)
    group.command()(prune)
    return group


def list_(json_: Json = False) -> None:
    """Show all names, their folders and which are stale."""
    from autoforge import registry

    known = registry.projects()
    if json_:
        rows = [{"name": n, "path": str(p), "stale": registry.stale(p)} for n, p in known.items()]
        print_json({"projects": rows})
        return
    size = max(map(len, known), default=0)
    for name, path in known.items():
        why = registry.stale(path)
        say(f"{name:{size}}  {path}{f'  (stale: {why})' if why else ''}")
    if not known:
        say("There are no projects yet. Add one: autoforge projects add NAME PATH")


def add(
    context: typer.Context,
    name: Name,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder in the repository.", show_default="this folder")
    ] = Path(),
    repository: Repository = None,
) -> None:
    """Remember a repository.

    In a repository of several projects, the nearest folder with an autoforge.toml is the project.
    """
    from autoforge import registry

    try:
        folder = (repository or Path()) / path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path} cannot be found: there is no such user.") from error
    found = open_project(context, folder).folder
    registry.add(name, found)
    say(f"Added project {name}: {found}")


def remove(name: Name) -> None:
    """Forget a name; the repository stays as it is."""
    from autoforge import registry

    say(f"Removed project {name}: {registry.remove(name)} stays as it is.")


def prune() -> None:
    """Forget all stale names.

    Stale is what has no folder or no git repository any more.
    """
    from autoforge import registry

    gone = registry.prune()
    for name, path in gone.items():
        say(f"Removed project {name}: {path}")
    if not gone:
        say("No project is stale.")
