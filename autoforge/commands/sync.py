"""`autoforge sync`: the forge's state into the table, and what was left unpublished onto the forge."""

import typer

from autoforge.commands.context import Repository, open_project, say


def sync(context: typer.Context, repository: Repository = None) -> None:
    """Bring pull requests and table into step.

    Takes the pull requests' state into the table, moves branches whose parents have moved, and opens what an earlier
    build could not open. It starts no agent: `restack` does where git cannot merge.
    """
    import asyncio
    from datetime import datetime

    from autoforge import lead
    from autoforge.progress import lines
    from autoforge.project import table

    project = open_project(context, repository)
    show = lines.printer(say, datetime.now, verbose=False)
    with table(project) as store:
        ended = asyncio.run(lead.sync(project, store, show))
    for reason in ended.unpublished.values():
        say(reason)
    if not ended.unpublished:
        say("Everything that is published is up to date.")
    raise typer.Exit(ended.exit_code)
