"""`autoforge history`: every try, what it cost and how it ended."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Json, Repository, open_project, print_json, say, width

if TYPE_CHECKING:
    from autoforge.history import History
    from autoforge.project import Project

MOST_EVENTS = 10_000  # of the build, or of one batch


def history(
    context: typer.Context,
    feature: Annotated[
        int | None, typer.Argument(metavar="FEATURE", help="Only this feature, by id.", show_default="all")
    ] = None,
    denied: Annotated[bool, typer.Option("--denied", help="Only what agents were refused.")] = False,
    json_: Json = False,
    repository: Repository = None,
) -> None:
    """Show every try and what happened, newest last."""
    from autoforge import history as told

    found = _read(open_project(context, repository), feature)
    if denied:
        found = told.denials(found)
    if json_:
        print_json(told.events_as_json(found) if denied else told.as_json(found))
        return
    for line in told.denied_lines(found, width()) if denied else told.lines(found, width()):
        say(line)


def _read(project: "Project", feature_id: int | None) -> "History":
    from autoforge import lock
    from autoforge.history import History
    from autoforge.project import table

    def leads() -> bool:
        held = lock.holder(project.repo.state_dir)
        return held is not None and held.what == "build"

    led = leads()
    with table(project) as store:
        features, attempts = {f.id: f for f in store.features()}, tuple(store.attempts())
        keys: list[str | None] = [None]
        if feature_id is not None:
            store.feature(feature_id)
            keys = [*{a.batch_key for a in attempts if feature_id in a.feature_ids}]
        groups = [store.events(batch_key=key, limit=MOST_EVENTS + 1) for key in keys]
    events = sorted((e for group in groups for e in group[-MOST_EVENTS:]), key=lambda e: e.id)
    return History(
        attempts,
        tuple(events),
        features,
        of=feature_id,
        leads=led or leads(),  # a build may have begun or ended meanwhile: its tries are not told as killed
        cut=any(len(group) > MOST_EVENTS for group in groups),
    )
