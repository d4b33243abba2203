"""`autoforge build`: the main job."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say, width
from autoforge.errors import UsageError

if TYPE_CHECKING:
    from autoforge.leading import Options
    from autoforge.project import Project
    from db.store import FeatureStore


def build(
    context: typer.Context,
    auto_pr: Annotated[
        bool, typer.Option("--auto-pr", help="Push what passed and open pull requests.")
    ] = False,
    land: Annotated[
        bool,
        typer.Option("--land", help="Merge what passed into the local target, without pull requests."),
    ] = False,
    draft: Annotated[
        bool | None, typer.Option("--draft", help="Open them as drafts.", show_default=False)
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=32, help="Agents at once.", show_default="3")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=3, help="Features in a branch, at most.", show_default="3")
    ] = None,
    feature: Annotated[
        list[int] | None,
        typer.Option(help="Build only this feature and what it depends on; may be repeated."),
    ] = None,
    max_budget: Annotated[
        float | None,
        typer.Option(min=0.01, help="US dollars that this build may spend.", show_default="no limit"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that agents use.", show_default="the CLI's")
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Build without verify commands.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be started, and start nothing.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also show what agents say.")] = False,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Build all pending features with agents in parallel worktrees.

    Ctrl-C starts nothing new and lets agents finish; a second one stops them and saves their work.
    """
    from autoforge import lead, leading
    from autoforge.project import table

    flags = {
        "concurrency": concurrency,
        "batch_size": batch_size,
        "limits.budget_usd": max_budget,
        "agent.model": model,
        "pr.draft": draft,
    }
    project = open_project(context, repository, flags)
    if auto_pr and land:
        raise UsageError("Give --auto-pr or --land, not both.")
    options = leading.Options(auto_pr, no_verify, tuple(feature or ()), land)
    with table(project) as store:
        lead.check(project, store, options)
        if dry_run:
            _show_plan(project, store, options, as_json=json_)
        else:
            raise typer.Exit(_run(project, store, options, as_json=json_, verbose=verbose))


def _run(
    project: "Project", store: "FeatureStore", options: "Options", *, as_json: bool, verbose: bool
) -> int:
    import asyncio
    from datetime import datetime

    from autoforge import lead, leading, report
    from autoforge.progress import lines, summary
    from autoforge.project import target_branch

    show = lines.printer(lambda text: say(text, err=as_json), datetime.now, verbose=verbose)
    ended = asyncio.run(lead.run(project, store, options, show, leading.Seams()))
    if as_json:
        print_json(report.as_json(ended))
        return ended.exit_code
    stack = summary.stack_lines(ended.batches, ended.features, target_branch(project))
    for line in [*summary.report_lines(ended, width()), *stack]:
        say(line)
    return ended.exit_code


def _show_plan(project: "Project", store: "FeatureStore", options: "Options", *, as_json: bool) -> None:
    from autoforge import foresight

    waves = foresight.foresee(project, store, options)
    if as_json:
        print_json({"waves": [[foresight.as_json(step) for step in wave] for wave in waves]})
        return
    for number, wave in enumerate(waves, 1):
        say(f"Wave {number}{f', {len(wave)} agents at once' if len(wave) > 1 else ''}:")
        for step in wave:
            say(f"  {step.branch}, based on {step.base}")
            for name in step.features:
                say(f"    {name}")
    if waves:
        say("Nothing was started. The last part of a new branch's name will be another one.")
    else:
        say("Nothing can be started. `autoforge status` says why.")
