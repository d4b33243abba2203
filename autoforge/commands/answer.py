"""`autoforge answer`: what only a person can decide."""

from typing import Annotated

import typer

from autoforge.commands.context import Repository, open_project
from autoforge.errors import UsageError


def answer(
    context: typer.Context,
    feature: Annotated[int | None, typer.Argument(help="The feature that asks.", show_default=False)] = None,
    text: Annotated[str | None, typer.Argument(help="The answer.", show_default=False)] = None,
    repository: Repository = None,
) -> None:
    """Answer an agent's question; without arguments, show the open questions.

    The answer is in the next attempt's prompt.
    """
    from autoforge.project import table
    from db.feature import FeatureStatus

    with table(open_project(context, repository)) as store:
        if feature is None:
            asking = [f for f in store.features() if f.status is FeatureStatus.NEEDS_INPUT]
            for f in asking:
                typer.echo(f"#{f.id} {f.name}\n  {f.question}\n  autoforge answer {f.id} TEXT")
            if not asking:
                typer.echo("No feature waits for an answer.")
            return
        if text is None or not text.strip():
            raise UsageError(
                f"#{feature} asks: {store.feature(feature).question or 'nothing'}. Give the answer as TEXT."
            )
        store.answer(feature, text.strip())
    typer.echo(f"Noted. Feature #{feature} is pending again; build to go on.")
