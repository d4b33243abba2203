"""`autoforge answer`: what only a person can decide."""

from typing import Annotated

import typer

from autoforge.commands.answering import File, answer_to
from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError


def answer(
    context: typer.Context,
    feature: Annotated[
        int | None, typer.Argument(metavar="ID", help="The feature that asks.", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The answer.", show_default=False)
    ] = None,
    file: File = None,
    repository: Repository = None,
) -> None:
    """Answer an agent's question, or show the open ones.

    The answer is in the next attempt's prompt.
    """
    from autoforge import questions
    from autoforge.project import table
    from db.feature import FeatureStatus

    with table(open_project(context, repository)) as store:
        if feature is None:
            asking = [f for f in store.features() if f.status is FeatureStatus.NEEDS_INPUT]
            for f in asking:
                asked = questions.from_column(f.question or "")
                how = "--file FILE" if asked.fields else "TEXT"
                say(f"#{f.id} {f.name}\n{questions.render(asked)}\n  autoforge answer {f.id} {how}")
            if not asking:
                say("No feature waits for an answer.")
            return
        found = store.feature(feature)
        if found.status is not FeatureStatus.NEEDS_INPUT:
            raise UsageError(f"Feature #{feature} does not wait for an answer: it is {found.status}.")
        asked = questions.from_column(found.question or "")
        store.answer(feature, answer_to(feature, asked, text=text, file=file))
    say(f"Noted. Feature #{feature} is pending again; build to go on.")
