"""`autoforge status`: what is done, what is left and why."""

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say, width

NO_FEATURES = "There are no features yet. Add some: autoforge features import FILE"


def status(context: typer.Context, json_: Json = False, repository: Repository = None) -> None:
    """Show all features, what is left and why, and the cost."""
    from autoforge import lock, report, stack
    from autoforge.progress import summary
    from autoforge.progress.stack import conflict_lines
    from autoforge.project import known_target, table, target_branch

    project = open_project(context, repository)
    with table(project) as store:
        features, batches, cost_usd = store.features(), store.batches(), store.spent_usd()
        leader = store.leader()
    made = report.make(features, batches, cost_usd=cost_usd)
    if json_:
        print_json(report.as_json(made))
        return
    if holder := lock.holder(project.repo.state_dir):
        say(f"A {holder.what} is running (pid {holder.pid}).")
    elif leader:
        say(
            f"A build is running on {leader.owner.host.split()[0]} (pid {leader.owner.pid}), or was killed there."
        )
    for line in summary.report_lines(made, width()) if features else [NO_FEATURES]:
        say(line)
    for line in summary.stack_lines(batches, features, target_branch(project)) if batches else []:
        say(line)
    target = known_target(project, target_branch(project)) if batches else None
    for line in conflict_lines(stack.clashes(project.repo.git, batches, target)) if target else []:
        say(line)
