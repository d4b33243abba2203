"""`autoforge sync`: the forge's state into the table, and what was left unpublished onto the forge."""

import typer

from autoforge.commands.context import Repository, open_project, say


def sync(context: typer.Context, repository: Repository = None) -> None:
    """Bring pull requests and table into step.

    Takes the pull requests' state into the table, and opens those that an earlier build could not open.
    """
    import asyncio
    from datetime import datetime

    from autoforge import lead
    from autoforge.progress import lines
    from autoforge.project import table

    project = open_project(context, repository)
    show = lines.printer(say, datetime.now, verbose=False)
    with table(project) as store:
        left = asyncio.run(lead.sync(project, store, show))
        say("The table is up to date." if not left else f"{left} batches are not published.")
    raise typer.Exit(1 if left else 0)
