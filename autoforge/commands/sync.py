"""`autoforge sync`: the forge's state into the table, and what was left unpublished onto the forge."""

import typer

from autoforge.commands.context import Repository, open_project


def sync(context: typer.Context, repository: Repository = None) -> None:
    """Bring the pull requests' state into the table and finish what was left between commit and pull request."""
    import asyncio
    from datetime import datetime

    from autoforge import lead
    from autoforge.progress import lines
    from autoforge.project import table

    project = open_project(context, repository)
    show = lines.printer(typer.echo, datetime.now, verbose=False)
    with table(project) as store:
        left = asyncio.run(lead.sync(project, store, show))
        typer.echo("The table is up to date." if not left else f"{left} batches are not published.")
    raise typer.Exit(1 if left else 0)
