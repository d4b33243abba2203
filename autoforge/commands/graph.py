"""`autoforge graph`: the features and what they depend on, drawn."""

from enum import StrEnum
from operator import attrgetter
from typing import Annotated

import typer

from autoforge.commands.context import Repository, open_project, print_json, say, width
from autoforge.commands.status import NO_FEATURES


class Format(StrEnum):
    """How the graph is drawn."""

    TREE = "tree"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


def graph(
    context: typer.Context,
    format_: Annotated[
        Format, typer.Option("--format", help="For reading, for Mermaid, for Graphviz, or for programs.")
    ] = Format.TREE,
    repository: Repository = None,
) -> None:
    """Draw the features with states and dependencies.

    What is built on a feature stands below it.
    """
    from autoforge import graph, plan, scheduler
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        standing = store.standing()
    features = sorted(standing.features, key=attrgetter("priority", "id"))
    available = plan.available(features, standing.batches, publish=False)
    schedule = scheduler.schedule(features, available=available)
    if format_ is Format.JSON:
        print_json(graph.as_json(features, schedule))
    elif format_ is Format.MERMAID:
        say(graph.mermaid(features, schedule))
    elif format_ is Format.DOT:
        say(graph.dot(features, schedule))
    else:
        say("\n".join(graph.tree(features, schedule, width())) if features else NO_FEATURES)
