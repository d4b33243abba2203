"""`autoforge verify --together`: whether open branches work with each other."""

from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Verify open branches merged with each other.

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

        async def run() -> "tuple[room.Together, list[Batch]]":
            async with leading.leading(project, store, leading.Options(), show, leading.Seams()) as build:
                batches = store.batches()
                return await room.run(build, [_key(one, batches) for one in pulls or ()]), batches

        found, batches = asyncio.run(run())
    for line in _lines(found, batches):
        say(line)
    raise typer.Exit(found.exit_code)


def _key(given: str, batches: "list[Batch]") -> str:
    number = given.removeprefix("#")
    for batch in batches:
        if given in (batch.key, batch.branch) or (batch.pr_number and number == str(batch.pr_number)):
            return batch.key
    raise UsageError(f"There is no pull request or batch {given}. `autoforge prs` shows them.")


def _lines(found: "Together", batches: "Sequence[Batch]") -> list[str]:
    names = {b.key: f"#{b.pr_number} ({b.branch})" if b.pr_number else b.branch for b in batches}
    inside = [f"  {names[b.key]} at {str(b.head_sha)[:10]}" for b in found.batches]
    left = [f"{names[key]} is left out: {why}" for key, why in found.left.items()]
    if not found.batches:
        head = ["Nothing was verified."]
    elif found.green:
        head = [f"Green together, as {found.sha[:10]} on {found.target[:10]}:", *inside]
    elif found.red:
        head = [f"Red together, as {found.sha[:10]}:", *inside, *_red(found, names)]
    elif found.dirt:
        head = ["The verify commands leave files that git does not ignore, so nothing is shown:", found.dirt]
    else:
        head = ["Interrupted before it was verified."]
    return [*head, *left]


def _red(found: "Together", names: "Mapping[str, str]") -> list[str]:
    from autoforge import verify

    return [
        verify.failure_text(found.red),
        _cause(found, names),
        f"The output of all that failed is in {found.output}.",
    ]


def _cause(found: "Together", names: "Mapping[str, str]") -> str:
    if found.culprits is None:
        return "Interrupted before the cause was found."
    who = " and ".join(names[b.key] for b in found.culprits)
    if not who:
        return "The target is red without any of them."
    if len(found.culprits) == 1:
        return f"{who} is red on the target without the others."
    if len(found.culprits) == len(found.batches) > 2:
        return "No smaller set of them was red: it takes all of them, or the failure comes and goes."
    return f"Red only together: {who}"
