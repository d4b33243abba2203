"""`autoforge land`: verified batches into the local target branch, without a forge."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError

if TYPE_CHECKING:
    from autoforge.landing import Landed
    from autoforge.project import Project
    from db.feature import Batch, Feature
    from db.store import FeatureStore


def land(
    context: typer.Context,
    batch: Annotated[
        list[str] | None,
        typer.Argument(metavar="BATCH", help="A batch's key or a feature's id.", show_default=False),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Land all that is verified.")] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Land without the project's verify commands.")
    ] = False,
    repository: Repository = None,
) -> None:
    """Merge verified batches into the local target.

    Parents first, each verified together with what is there: the target moves only when that is green. Without BATCH
    and --all: show what could land.
    """
    from autoforge import landing_order
    from autoforge.project import table, target_branch

    if batch and all_:
        raise UsageError("Give --all, or the batches that are to land; not both.")
    project = open_project(context, repository)
    target = target_branch(project)
    with table(project) as store:
        features, batches = store.snapshot()
        if not (batch or all_):
            _show(features, batches, target)
            return
        asked = landing_order.named(features, batches, batch) if batch else None
        ended = _run(project, store, asked, no_verify=no_verify)
        for key, why in ended.left.items():
            say(f"{store.batch(key).branch} has not landed: {why}")
    say(_summary(ended, target))
    raise typer.Exit(ended.exit_code)


def _run(
    project: "Project", store: "FeatureStore", asked: Collection[str] | None, *, no_verify: bool
) -> "Landed":
    import asyncio
    from datetime import datetime

    from autoforge import landing
    from autoforge.leading import Options
    from autoforge.progress import lines

    show = lines.printer(say, datetime.now, verbose=False)
    return asyncio.run(landing.run(project, store, Options(no_verify=no_verify), show, asked=asked))


def _show(features: "Sequence[Feature]", batches: "Sequence[Batch]", target: str) -> None:
    from autoforge import landing_order

    order = landing_order.order(batches, landing_order.verified(batches), by_name=False)
    names = {f.id: f.name for f in features}
    for one in order.batches:
        what = ", ".join(f"#{i} {names[i]}" for i in one.feature_ids if i in names)
        say(f"{one.key}  {one.branch}  {what}")
        if one.last_error:
            say(f"        {one.last_error.splitlines()[0]}")
    by_key = {b.key: b for b in batches}
    for key, why in order.left.items():
        say(f"{by_key[key].branch} cannot land: {why}")
    if order.batches:
        say(f"autoforge land --all merges them into {target}, in this order; autoforge land KEY one of them.")
    else:
        say("Nothing can land. `autoforge status` shows what there is.")


def _summary(ended: "Landed", target: str) -> str:
    number = len(ended.batches)
    text = f"{number} {'batch has' if number == 1 else 'batches have'} landed in {target}"
    return f"{text}, {len(ended.left)} not." if ended.left else f"{text}."
