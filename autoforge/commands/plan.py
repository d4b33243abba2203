"""`autoforge plan`: from a specification to features."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError
from autoforge.progress.lines import counted

if TYPE_CHECKING:
    from autoforge.drafting import Count
    from autoforge.planner import Plan
    from autoforge.project import Project
    from db.store import FeatureStore


def plan(
    context: typer.Context,
    spec: Annotated[
        str,
        typer.Argument(metavar="SPEC", help="A Markdown, text or XML-tagged file, or - for standard input."),
    ],
    count: Annotated[
        str | None, typer.Option(help="How many features: a number, or a range as 10-20.", show_default=False)
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Show the plan and ask before it is stored.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="The model that plans.", show_default="the CLI's")] = None,
    max_budget: Annotated[
        float | None, typer.Option(min=0.01, help="US dollars that planning may cost.", show_default="5")
    ] = None,
    repository: Repository = None,
) -> None:
    """Let an agent turn a specification into features.

    Nothing is stored before the plan is complete. Planning again proposes only what is missing.
    """
    import asyncio
    from datetime import datetime

    from autoforge import lock, outline, planner, specification
    from autoforge.agent import session
    from autoforge.progress import lines
    from autoforge.project import table

    wanted = _count(count)
    text = specification.read(spec)
    if review and (spec == "-" or not sys.stdin.isatty()):
        raise UsageError("--review asks on the terminal: give the specification as a file and run it there.")
    project = open_project(context, repository, {"agent.model": model, "agent.max_cost_usd": max_budget})
    show = lines.printer(say, datetime.now, verbose=False)
    with table(project) as store, lock.lead(project.repo.state_dir, lock.PLAN):
        start = planner.ground(project)
        say(
            "A new project: the first feature makes its skeleton."
            if start.greenfield
            else "An existing code base: features are changes to it."
        )
        made = asyncio.run(
            planner.draft(project, store, text, wanted, start=start, agent=session.run, show=show)
        )
        for line in outline.lines(outline.make(made.features)):
            say(line)
        if review and not _confirmed(made):
            return
        ids = _store(store, made)
    _tell(project, made, ids)


def _confirmed(made: "Plan") -> bool:
    try:
        if typer.confirm("Store this plan?"):
            return True
    except typer.Abort as error:
        say(f"\nNothing was stored. {_kept(made)}")
        raise typer.Exit(130) from error
    say(f"Nothing was stored. {_kept(made)}")
    return False


def _store(store: "FeatureStore", made: "Plan") -> list[int]:
    """Raises StoreError, which says where the plan is."""
    from db.errors import StoreError

    try:
        return store.add_features(made.features) if made.features else []
    except StoreError as error:
        raise StoreError(f"{error} {_kept(made)}") from error


def _kept(made: "Plan") -> str:
    return f"The plan is kept: autoforge features import {made.path}" if made.features else "It was empty."


def _count(text: str | None) -> "Count":
    from autoforge.drafting import Count

    if text is None:
        return Count()
    found = re.fullmatch(r"\s*(\d{1,4})\s*(?:(?:-|\.\.)\s*(\d{1,4})\s*)?", text)
    lowest, highest = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= lowest <= highest:
        raise UsageError(f"--count {text} is no number or range of features: give 12, or 10-20.")
    return Count(lowest, highest)


def _tell(project: "Project", made: "Plan", ids: list[int]) -> None:
    cost = f" Cost: ${made.cost_usd:.2f}" if made.cost_usd is not None else ""
    say(
        f"Stored {counted(len(ids), 'feature')}.{cost}"
        if ids
        else f"Nothing is missing: no feature was added.{cost}"
    )
    if made.verify and not project.settings.verify.commands:
        import json
        import shlex

        say("Proposed verify commands (none are configured):")
        if (project.folder / "autoforge.toml").exists():
            say("  [verify]\n  commands = " + json.dumps(list(made.verify), ensure_ascii=False))
        else:
            say("  autoforge init " + " ".join(f"--verify {shlex.quote(command)}" for command in made.verify))
    if ids:
        say("Next: autoforge features list, then autoforge build --auto-pr")
