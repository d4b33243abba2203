"""`autoforge status`: what is done, what is left and why."""

import typer

from autoforge.commands.context import Json, Repository, console, open_project, print_json


def status(context: typer.Context, json_: Json = False, repository: Repository = None) -> None:
    """Show the feature table, what is left and why, and what it cost."""
    from autoforge import lock, report
    from autoforge.progress import summary
    from autoforge.project import table, target_branch

    project = open_project(context, repository)
    with table(project) as store:
        features, batches, cost_usd = store.features(), store.batches(), store.spent_usd()
    made = report.make(features, batches, cost_usd=cost_usd)
    if json_:
        print_json(report.as_json(made))
        return
    out = console()
    if holder := lock.holder(project.repo.state_dir):
        out.print(f"A build is running ({holder}).", highlight=False)
    summary.show_report(out, made)
    if batches:
        summary.show_stack(out, batches, features, target_branch(project))
