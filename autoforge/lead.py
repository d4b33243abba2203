"""What leads a repository: a whole build, and the sync of what is open."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from autoforge import landed, landing, lane, orchestrator, preflight, report, upkeep
from autoforge.agent import session
from autoforge.budget import Budget
from autoforge.build import Build
from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.leading import Options, Seams, leading, need_token
from autoforge.project import Project
from autoforge.report import Report
from autoforge.state import State
from db.feature import FeatureStatus, Result
from db.store import FeatureStore
from git_workflow import beginning


async def run(
    project_: Project, store: FeatureStore, options: Options, show: Callable[[Event], None], seams: Seams
) -> Report:
    """Lead one build of the repository to its end. Raises AutoforgeError before any agent has started."""
    async with leading(project_, store, options, show, seams, cli_path=session.find_cli()) as build:
        state = await _lead(build)
        left = await landing.land_selected(build) if options.land else {}
        if left and build.stop.draining.is_set():
            state.ending, state.why = Result.INTERRUPTED, "it was interrupted"
        ended = _report(build, state)
        return replace(ended, unpublished={**ended.unpublished, **left})


async def sync(project_: Project, store: FeatureStore, show: Callable[[Event], None]) -> Report:
    """Learn what happened to pull requests and branches, and follow it, without an agent."""
    _need_forge(project_)
    async with leading(project_, store, Options(auto_pr=True), show, Seams()) as build:
        await _recover(build)
        recorder = asyncio.create_task(lane.record_events(build))
        try:
            found = await upkeep.run(build, lane.was_tried)
            for note in found.notes:
                build.events.put_nowait(Event(EventKind.WARNING, "", note))
        finally:
            build.events.put_nowait(lane.LAST)
            await recorder
        return _followed(build, None)


async def restack(
    project_: Project, store: FeatureStore, show: Callable[[Event], None], seams: Seams
) -> Report:
    """As `sync`, but what git cannot merge is given to an agent, once. Without a remote it moves local branches."""
    if project_.slug:
        need_token(project_)
    options = Options(auto_pr=project_.remote is not None)
    async with leading(project_, store, options, show, seams, cli_path=session.find_cli()) as build:
        await _recover(build)
        state = State(Budget(build.project.settings.limits.budget_usd), lane.was_tried)
        await orchestrator.run(replace(build, selected=frozenset()), state)
        return _followed(build, state)


def _followed(build: Build, state: State | None) -> Report:
    """What is not as it should be, of what is built."""
    ending, why = (state.ending, state.why) if state else (None, "")
    whole = report.make(
        build.store.features(),
        build.store.batches(),
        cost_usd=build.store.spent_usd(),
        ending=ending,
        why=why,
    )
    return replace(whole, blocked={}, open={})


def _need_forge(project_: Project) -> None:
    if project_.remote is None or project_.slug is None:
        raise UsageError(
            f"The remote {project_.settings.remote} is no known GitHub repository: there is nothing to sync with. "
            "For GitHub Enterprise set `github.api_url`."
        )
    need_token(project_)


def check(project_: Project, store: FeatureStore, options: Options) -> None:
    """What makes a build pointless, before anything is started. Raises UsageError."""
    features = store.features()
    known = {f.id for f in features}
    if not known:
        raise UsageError(
            "There are no features yet. Add some: autoforge plan SPEC, or autoforge features import FILE"
        )
    if unknown := sorted(set(options.features) - known):
        raise UsageError(f"There is no feature #{unknown[0]}. `autoforge features list` shows them.")
    if not any(f.status is FeatureStatus.PENDING for f in features) and not any(
        map(lane.to_publish, store.batches())
    ):
        return
    if not project_.settings.verify.commands and not options.no_verify:
        raise UsageError(
            "No verify command is configured, so nothing could show that a feature works. Set `verify.commands` in "
            "autoforge.toml, or build with --no-verify (every pull request will say so)."
        )
    if options.auto_pr and project_.remote is None:
        raise UsageError(
            f"There is no remote {project_.settings.remote}: nothing can be pushed. Build without --auto-pr."
        )
    if options.auto_pr and project_.slug:
        need_token(project_)
    if options.land:
        landing.check(project_, options)


def _begin(build: Build) -> None:
    """An empty repository gets a first commit, which the first batches can be based on."""
    git, target = build.project.repo.git, build.target_branch
    if beginning.ensure_first_commit(git, build.project.remote, target, push=build.publish):
        build.show(Event(EventKind.STAGE, "", f"{target} was empty: made a first commit without files"))


async def _recover(build: Build) -> None:
    for told in await asyncio.to_thread(preflight.recover, build):
        build.show(Event(EventKind.WARNING, "", told))


async def _lead(build: Build) -> State:
    await asyncio.to_thread(_begin, build)
    await _recover(build)
    for note in await preflight.learn(build):
        build.show(Event(EventKind.WARNING, "", note))
    if not build.publish:
        await asyncio.to_thread(landed.recognise, build)
    state = State(Budget(build.project.settings.limits.budget_usd), lane.to_publish)
    if preflight.anything_to_do(build):
        await landed.check_base(build)
        build = await preflight.baseline(build)
    await orchestrator.run(build, state)
    return state


def _report(build: Build, state: State) -> Report:
    return report.make(
        build.store.features(),
        build.store.batches(),
        cost_usd=build.store.spent_usd(),
        publish=build.publish,
        forge=build.forge is not None,
        selected=build.selected,
        ending=state.ending,
        why=state.why,
    )
