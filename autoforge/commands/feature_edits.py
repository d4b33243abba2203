"""`autoforge features`: change, bring in and take out what is in the table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say, width
from autoforge.commands.status import NO_FEATURES
from autoforge.progress.lines import counted

SHOWN_NOTES = 20

Id = Annotated[int, typer.Argument(metavar="ID", help="The feature's id.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="The features' ids.")]
On = Annotated[list[int], typer.Argument(metavar="ON", help="Ids of what it needs.")]


def register(group: typer.Typer) -> None:
    """Add these commands to `autoforge features`."""
    group.command("import")(import_)
    group.command()(export)
    group.command("list")(list_)
    for command in (edit, skip, retry, reset, depend, undepend):
        group.command()(command)
    group.command("rm")(remove)


def import_(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A list, an export, or an older tool's file.", show_default=False
        ),
    ] = None,
    github: Annotated[bool, typer.Option("--github", help="The repository's open issues.")] = False,
    label: Annotated[
        str | None, typer.Option(help="Only issues with this label.", show_default=False)
    ] = None,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Store all features of a file, or none; or a repository's issues.

    A file is a JSON, YAML or TOML list, what `features export` wrote, or an older tool's feature_list.json or
    features.db. Nothing is stored when one of the features is not valid.

    With --github, each open issue that is not in the table becomes a feature: its task list the acceptance steps,
    "depends on #N" and "blocked by #N" the dependencies. Its pull request closes the issue.
    """
    from autoforge import exchange
    from autoforge.project import table
    from git_workflow.repository import has_commit

    _check_source(file, github=github, label=label)
    project = open_project(context, repository)
    with table(project) as store:
        imported = (
            exchange.take_in(file, store, partial(has_commit, project.repo.git))
            if file
            else exchange.take_issues(project, store, label=label)
        )
    if json_:
        print_json({"features": imported.ids, "notes": imported.notes})
        return
    ids = imported.ids
    many = f"{len(ids)} features: #{min(ids)} to #{max(ids)}" if len(ids) > 1 else ""
    say(f"Imported {many or f'feature #{ids[0]}'}." if ids else "There is nothing new to import.")
    for note in imported.notes[:SHOWN_NOTES]:
        say(f"  {note}")
    if len(imported.notes) > SHOWN_NOTES:
        say(f"  and {len(imported.notes) - SHOWN_NOTES} more")


def _check_source(file: Path | None, *, github: bool, label: str | None) -> None:
    from autoforge.errors import UsageError

    if file and github:
        raise UsageError("Give a FILE or --github, not both.")
    if not file and not github:
        raise UsageError("Give a FILE to import, or --github for the repository's open issues.")
    if label is not None and not (github and label.strip()):
        raise UsageError("--label names a label of issues: give it with --github.")


def export(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new JSON file.", show_default="standard output")
    ] = None,
    repository: Repository = None,
) -> None:
    """Write all features with everything that is known of them.

    `features import` reads the file in another repository or clone, up to 100 MB.
    """
    from autoforge import export as export_file
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        features, batches = store.snapshot()
    data = export_file.as_json(features, batches)
    if file is None:
        print_json(data)
    else:
        export_file.save(file, data)
        say(f"Exported {counted(len(features), 'feature')} to {file}.")


def list_(
    context: typer.Context,
    status: Annotated[
        list[str] | None, typer.Option(help="Only these, `blocked` too; may be repeated.", show_default=False)
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Only these; may be repeated.", show_default=False)
    ] = None,
    search: Annotated[
        str | None, typer.Option(help="Only those with this text in name or description.", show_default=False)
    ] = None,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Show features with status, commit and pull request."""
    import dataclasses

    from autoforge import report
    from autoforge.progress import summary
    from autoforge.project import table

    _check_statuses(status or [])
    with table(open_project(context, repository)) as store:
        features, batches = store.snapshot()
        made = report.make(features, batches, cost_usd=store.spent_usd())
    words, text = {each.casefold() for each in category or ()}, (search or "").casefold()
    chosen = tuple(
        f
        for f in made.features
        if (not status or ("blocked" if f.id in made.blocked else f.status) in status)
        and (not words or f.category.casefold() in words)
        and text in f"{f.name}\n{f.description}".casefold()
    )
    made = dataclasses.replace(made, features=chosen)
    if json_:
        print_json({"features": report.as_json(made)["features"]})
    elif chosen:
        for line in summary.table_lines(made, width()):
            say(line)
    else:
        say("No feature matches." if features else NO_FEATURES)


def _check_statuses(given: list[str]) -> None:
    from autoforge.errors import UsageError
    from db.feature import FeatureStatus

    known = [*FeatureStatus, "blocked"]
    if unknown := [each for each in given if each not in known]:
        raise UsageError(f"There is no status {unknown[0]!r}; expected {', '.join(known)}.")


def edit(
    context: typer.Context,
    feature: Id,
    name: Annotated[str | None, typer.Option(help="What it is called.", show_default=False)] = None,
    description: Annotated[
        str | None, typer.Option(help="What is wanted and why.", show_default=False)
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(help="An acceptance step; replaces all; may be repeated.", show_default=False),
    ] = None,
    no_steps: Annotated[bool, typer.Option("--no-steps", help="Remove all acceptance steps.")] = False,
    category: Annotated[str | None, typer.Option(help="Groups features.", show_default=False)] = None,
    priority: Annotated[int | None, typer.Option(help="Lower goes first.", show_default=False)] = None,
    verify: Annotated[
        list[str] | None,
        typer.Option(help="A command that must exit 0; replaces all; may be repeated.", show_default=False),
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Remove its verify commands.")] = False,
    repository: Repository = None,
) -> None:
    """Change a feature's definition.

    One that runs or has passed keeps its name, description, steps and verify commands.
    """
    from autoforge.errors import UsageError
    from autoforge.project import table

    if (step and no_steps) or (verify and no_verify):
        raise UsageError("Give new steps or commands, or remove them: both at once is not possible.")
    changes = {
        "name": name,
        "description": description,
        "steps": [] if no_steps else step or None,
        "category": category,
        "priority": priority,
        "verify": [] if no_verify else verify or None,
    }
    if all(value is None for value in changes.values()):
        raise UsageError("Nothing to change was given: see `autoforge features edit --help`.")
    with table(open_project(context, repository)) as store:
        store.edit(feature, **changes)  # type: ignore[arg-type]
    say(f"Changed feature #{feature}.")


def remove(
    context: typer.Context,
    features: Ids,
    cascade: Annotated[bool, typer.Option("--cascade", help="And all that depends on them.")] = False,
    repository: Repository = None,
) -> None:
    """Remove features that neither run nor have passed.

    What was tried stays in the history, and in git.
    """
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        gone = store.remove(features, cascade=cascade)
    say(f"Removed {_named(gone)}.")


def skip(context: typer.Context, features: Ids, repository: Repository = None) -> None:
    """Leave features out of builds; what depends on them waits."""
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        store.skip(features)
    say(f"Skipped {_named(features)}. `autoforge features retry` takes that back.")


def retry(context: typer.Context, features: Ids, repository: Repository = None) -> None:
    """Make failed, skipped or waiting features pending again.

    They have all their attempts. What passed in a pull request that was closed starts again on a new branch.
    """
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        store.retry(features)
    say(f"Pending again: {_named(features)}. Build to go on.")


def reset(context: typer.Context, features: Ids, repository: Repository = None) -> None:
    """Forget everything about features but their definition.

    Branches, commits and pull requests stay as they are.
    """
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        store.reset(features)
    say(f"As new: {_named(features)}. Build to go on.")


def depend(context: typer.Context, feature: Id, on: On, repository: Repository = None) -> None:
    """Let a feature wait for others."""
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        store.depend(feature, on)
    say(f"Feature #{feature} depends on {_named(on)}.")


def undepend(context: typer.Context, feature: Id, on: On, repository: Repository = None) -> None:
    """Let a feature wait for others no longer."""
    from autoforge.project import table

    with table(open_project(context, repository)) as store:
        store.undepend(feature, on)
    say(f"Feature #{feature} no longer depends on {_named(on)}.")


def _named(ids: list[int]) -> str:
    return ", ".join(f"#{each}" for each in dict.fromkeys(ids))
