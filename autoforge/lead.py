"""What leads a repository: a whole build, and the sync of what is open."""

import asyncio
from collections.abc import Awaitable, Callable

from autoforge import lane, orchestrator, preflight, publishing, report
from autoforge.agent import session
from autoforge.budget import Budget
from autoforge.build import Build
from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.leading import Options, Seams, leading, need_token
from autoforge.orchestrator import State
from autoforge.project import Project
from autoforge.report import Report
from db.feature import Batch, BatchStatus, FeatureStatus
from db.store import FeatureStore
from git_workflow import beginning, repository


async def run(
    project_: Project, store: FeatureStore, options: Options, show: Callable[[Event], None], seams: Seams
) -> Report:
    """Lead one build of the repository to its end. Raises AutoforgeError before any agent has started."""
    async with leading(project_, store, options, show, seams, cli_path=session.find_cli()) as build:
        return _report(build, await _lead(build))


async def sync(project_: Project, store: FeatureStore, show: Callable[[Event], None]) -> int:
    """The forge's state into the table, then publish what was tried before; answers how many batches are left."""
    if project_.remote is None or project_.slug is None:
        raise UsageError(
            f"The remote {project_.settings.remote} is no known GitHub repository: there is nothing to sync with. "
            "For GitHub Enterprise set `github.api_url`."
        )
    need_token(project_)
    async with leading(project_, store, Options(auto_pr=True), show, Seams()) as build:
        await _reconcile(build, preflight.sync)
        for batch in filter(_was_tried, build.store.batches()):
            await publishing.run(build, batch)
        while not build.events.empty():
            show(build.events.get_nowait())
        return sum(map(_was_tried, build.store.batches()))


def _was_tried(batch: Batch) -> bool:
    """Publishing it has begun and not ended."""
    return batch.status is BatchStatus.PUSHED or bool(batch.status is BatchStatus.BUILT and batch.last_error)


def check(project_: Project, store: FeatureStore, options: Options) -> None:
    """What makes a build pointless, before anything is started. Raises UsageError."""
    if not options.auto_pr:
        repository.require_commit(project_.repo)
    features = store.features()
    known = {f.id for f in features}
    if not known:
        raise UsageError("There are no features yet. Add some: autoforge features import FILE")
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


def _begin(build: Build) -> None:
    """An empty repository gets a first commit, which the pull requests can target."""
    target = build.target_branch
    if build.publish and beginning.ensure_first_commit(build.project.repo.git, build.project.remote, target):
        build.show(Event(EventKind.STAGE, "", f"{target} was empty: made a first commit without files"))


async def _reconcile(build: Build, learn: Callable[[Build], Awaitable[list[str]]]) -> None:
    """Mend what a crash left, then learn what happened on the forge."""
    for told in await asyncio.to_thread(preflight.recover, build):
        build.show(Event(EventKind.WARNING, "", told))
    for note in await learn(build):
        build.show(Event(EventKind.WARNING, "", note))


async def _lead(build: Build) -> State:
    await asyncio.to_thread(_begin, build)
    await _reconcile(build, preflight.learn)
    state = State(Budget(build.project.settings.limits.budget_usd))
    if preflight.anything_to_do(build):
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
