"""`autoforge prs`: the open branches and pull requests as a stack."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say, width

if TYPE_CHECKING:
    from autoforge.project import Project
    from autoforge.stack import Entry
    from git_workflow.base import Target


def prs(
    context: typer.Context,
    order: Annotated[
        bool, typer.Option("--order", help="Propose the order of merging that conflicts least.")
    ] = False,
    web: Annotated[bool, typer.Option("--web", help="Open the pull requests in the browser.")] = False,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Show the open branches as a tree: checks, reviews, conflicts.

    "behind": what it is based on has commits that it lacks.
    """
    from autoforge import stack
    from autoforge.progress import stack as shown
    from autoforge.project import table

    project = open_project(context, repository)
    with table(project) as store:
        batches, features = store.batches(), store.nodes()
    target, stale = _target(project)
    found = stack.entries(project.repo.git, batches, stack.titles(batches, features), target)
    found, unasked = _asked(project, found)
    notes = [note for note in (stale, unasked) if note]
    if web:
        _open(found)
    if json_:
        print_json(stack.as_json(found, notes))
        return
    rows = shown.lines(found, target.branch, width()) if found else ["There is no open branch."]
    best = stack.proposed(found) if order else []
    rows += ["", *shown.order_lines(best, target.branch)] if best else []
    rows += ["", *notes] if found and notes else []
    for row in rows:
        say(row)


def _target(project: "Project") -> "tuple[Target, str | None]":
    from autoforge import preflight
    from autoforge.project import known_target, target_branch
    from git_workflow.errors import GitFailed

    branch = target_branch(project)
    try:
        return preflight.fetch_target(project, branch), None
    except GitFailed as error:
        known = known_target(project, branch)
        if known is None:
            raise
        reason = (error.stderr.splitlines() or [""])[0]
        return known, f"{branch} is shown as it was fetched last; the remote does not answer: {reason}"


def _asked(project: "Project", found: "list[Entry]") -> "tuple[list[Entry], str | None]":
    from autoforge import stack
    from autoforge.project import connect
    from git_workflow.errors import ForgeFailed

    forge = connect(project)
    if forge is None:
        return found, "Checks and reviews are not shown: no GitHub repository with a token is configured."
    try:
        return stack.asked(forge, found), None
    except ForgeFailed as error:
        return found, f"Checks and reviews are not shown: {error}"


def _open(found: "list[Entry]") -> None:
    import webbrowser

    for entry in found:
        if entry.url and entry.status == "opened":
            webbrowser.open(entry.url)
