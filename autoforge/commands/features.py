"""`autoforge features`: the feature table by hand."""

from typing import Annotated

import typer

from autoforge.commands import feature_edits
from autoforge.commands.context import Json, Repository, open_project, print_json, say


def app() -> typer.Typer:
    group = typer.Typer(
        help="Look at features and change them, also while a build runs.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command()(add)
    group.command()(show)
    feature_edits.register(group)
    return group


def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the feature is called.")],
    description: Annotated[str, typer.Option(help="What is wanted and why.")] = "",
    step: Annotated[list[str] | None, typer.Option(help="An acceptance step; may be repeated.")] = None,
    category: Annotated[
        str, typer.Option(help="Groups features; `bug` and `docs` name the kind of commit.")
    ] = "feature",
    priority: Annotated[
        int | None, typer.Option(help="Lower goes first.", show_default="after all others")
    ] = None,
    depends_on: Annotated[
        list[int] | None, typer.Option(help="Id of a feature that must be there first; may be repeated.")
    ] = None,
    verify: Annotated[
        list[str] | None, typer.Option(help="A command that must exit 0; may be repeated.")
    ] = None,
    repository: Repository = None,
) -> None:
    """Store one feature."""
    from autoforge.project import table
    from db.feature import NewFeature

    feature = NewFeature(
        name=name,
        description=description,
        steps=tuple(step or ()),
        category=category,
        priority=priority,
        verify=tuple(verify or ()),
        existing=tuple(depends_on or ()),
    )
    with table(open_project(context, repository)) as store:
        [feature_id] = store.add_features([feature])
    say(f"Added feature #{feature_id}.")


def show(
    context: typer.Context,
    feature: Annotated[int, typer.Argument(metavar="ID", help="The feature's id.")],
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Show everything about one feature."""
    import dataclasses

    from autoforge import report
    from autoforge.progress import summary
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        wanted = store.feature(feature)
        made = report.make(store.features(), store.batches(), cost_usd=0)
    if json_:
        print_json(dataclasses.asdict(wanted))
    else:
        for text in summary.feature_lines(wanted, made):
            say(text)
