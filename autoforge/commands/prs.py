"""`autoforge prs`: the open branches and pull requests as a stack."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say

if TYPE_CHECKING:
    from autoforge.project import Project
    from autoforge.stack import Entry


def prs(
    context: typer.Context,
    order: Annotated[
        bool, typer.Option("--order", help="Propose the order of merging that conflicts least.")
    ] = False,
    web: Annotated[bool, typer.Option("--web", help="Open the pull requests in the browser.")] = False,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Show the open branches as a tree, with pull request, checks, review and conflicts."""
    from autoforge import preflight, stack
    from autoforge.progress import stack as shown
    from autoforge.project import table, target_branch

    project = open_project(context, repository)
    with table(project) as store:
        batches, features = store.batches(), store.nodes()
    target = preflight.fetch_target(project, target_branch(project))
    found = stack.entries(project.repo.git, batches, stack.titles(batches, features), target)
    found, why = _asked(project, found)
    best, late = stack.proposed(found)
    if web:
        _open(found)
    if json_:
        print_json(stack.as_json(found, [e.key for e in best]))
        return
    for line in shown.lines(found, target.branch) if found else ["There is no open branch."]:
        say(line)
    if order and best:
        say("")
        for line in shown.order_lines(best, late):
            say(line)
    if why and found:
        say(f"\nChecks and reviews are not shown: {why}")


def _asked(project: "Project", found: "list[Entry]") -> "tuple[list[Entry], str | None]":
    from autoforge import stack
    from autoforge.project import connect
    from git_workflow.errors import ForgeFailed

    forge = connect(project)
    if forge is None:
        return found, "no GitHub repository with a token is configured."
    try:
        return stack.asked(forge, found), None
    except ForgeFailed as error:
        return found, str(error)


def _open(found: "list[Entry]") -> None:
    import webbrowser

    for entry in found:
        if entry.url and entry.status == "opened":
            webbrowser.open(entry.url)
