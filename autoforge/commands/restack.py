"""`autoforge restack`: move what is built on something that has changed."""

from typing import Annotated

import typer

from autoforge.commands.context import Repository, open_project, say


def restack(
    context: typer.Context,
    max_budget: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="US dollars that agents may spend on conflicts.", show_default="no limit"
        ),
    ] = None,
    repository: Repository = None,
) -> None:
    """Move branches onto what their parents have become.

    A parent was amended, merged or tried again: each branch that is built on it follows, is verified
    again and pushed with a lease, and its pull request retargeted. A conflict is given to an agent, once; `sync` does
    the same without agents.
    """
    import asyncio
    from datetime import datetime

    from autoforge import lead, leading
    from autoforge.progress import lines
    from autoforge.project import table

    project = open_project(context, repository, {"limits.budget_usd": max_budget})
    show = lines.printer(say, datetime.now, verbose=False)
    with table(project) as store:
        ended = asyncio.run(lead.restack(project, store, show, leading.Seams()))
    for reason in ended.unpublished.values():
        say(reason)
    if not ended.unpublished:
        say("Every branch stands on what its parents are now.")
    raise typer.Exit(ended.exit_code)
