"""`autoforge verify --together`: whether open branches work with each other."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError

if TYPE_CHECKING:
    from autoforge.together import Together
    from db.feature import Batch


def verify(
    context: typer.Context,
    pulls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PR…]", help="Numbers of pull requests, or keys of batches.", show_default="all"
        ),
    ] = None,
    together: Annotated[bool, typer.Option("--together", help="Merge them with each other first.")] = False,
    repository: Repository = None,
) -> None:
    """Verify open branches merged with each other, in a worktree of its own.

    Two that merge cleanly can be red together: a failure is traced to the pair that causes it.
    """
    import asyncio
    from datetime import datetime

    from autoforge import leading
    from autoforge import together as room
    from autoforge.progress import lines
    from autoforge.project import table

    if not together:
        raise UsageError("Say --together: each branch alone is verified when it is built and moved.")
    project = open_project(context, repository)
    show = lines.printer(say, datetime.now, verbose=False)
    with table(project) as store:
        batches = store.batches()
        wanted = [_key(one, batches) for one in pulls or ()]

        async def run() -> room.Together:
            async with leading.leading(project, store, leading.Options(), show, leading.Seams()) as build:
                return await room.run(build, wanted)

        found = asyncio.run(run())
    for line in _lines(found, batches):
        say(line)
    raise typer.Exit(found.exit_code)


def _key(given: str, batches: "list[Batch]") -> str:
    number = given.removeprefix("#")
    for batch in batches:
        if given in (batch.key, batch.branch) or (batch.pr_number and number == str(batch.pr_number)):
            return batch.key
    raise UsageError(f"There is no pull request or batch {given}. `autoforge prs` shows them.")


def _lines(found: "Together", batches: "list[Batch]") -> list[str]:
    from autoforge import verify

    names = {b.key: f"#{b.pr_number} ({b.branch})" if b.pr_number else b.branch for b in batches}
    inside = ", ".join(names[key] for key in found.keys)
    told = [f"{names[key]} is left out: {why}" for key, why in found.left.items()]
    if not found.red:
        return [f"Green together on {found.sha[:10]}: {inside}", *told]
    who = " and ".join(names[key] for key in found.culprits)
    if not found.culprits:
        cause = "The target alone is red."
    elif len(found.culprits) == 1:
        cause = f"{who} is red on the target, without the others."
    else:
        cause = f"Red together, and not one without the other: {who}"
    return [
        f"Red together on {found.sha[:10]}: {inside}",
        cause,
        verify.failure_text(found.red),
        f"The whole output is in {found.output}.",
        *told,
    ]
