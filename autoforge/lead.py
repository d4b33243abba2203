"""A whole build: lock, preflight, loop, clean-up, report; and the signals that stop it."""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autoforge import lane, lock, log, orchestrator, preflight, process, project, publishing, report
from autoforge.agent import session
from autoforge.attempt import AgentRun
from autoforge.budget import Budget, back_off_s, pause_until
from autoforge.build import Build, PauseUntil, Stop
from autoforge.environment import marker
from autoforge.errors import UsageError
from autoforge.events import Event, EventKind
from autoforge.orchestrator import State
from autoforge.plan import selection
from autoforge.project import Project
from autoforge.report import Report
from db.feature import Batch, BatchStatus, FeatureStatus
from db.lease import Lease
from db.store import FeatureStore
from git_workflow import beginning, repository, worktree
from git_workflow.repository import Repository

KEPT_RUNS = 20
GRACE_S = 6.0  # SIGTERM must end a build within 10 s


@dataclass(frozen=True)
class Options:
    """What a build was asked for, beside the settings."""

    auto_pr: bool = False
    no_verify: bool = False
    features: tuple[int, ...] = ()


@dataclass(frozen=True)
class Seams:
    """What tests put in the place of the outside: the agent and the clock."""

    agent: AgentRun = session.run
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    back_off_s: Callable[[int], float] = back_off_s
    pause_until: PauseUntil = pause_until


def new_build_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


async def run(
    project_: Project, store: FeatureStore, options: Options, show: Callable[[Event], None], seams: Seams
) -> Report:
    """Lead one build of the repository to its end. Raises AutoforgeError before any agent has started."""
    build_id = new_build_id()
    with lock.lead(project_.repo.state_dir, build_id), lock.lease(store, build_id) as (store, lease):
        build = _make(project_, store, options, show, seams, build_id=build_id, cli_path=session.find_cli())
        with log.log_to(build.run_dir / "log"), _signals(build.stop, show):
            try:
                state = await _run(build, lease)
            finally:
                _clean_up(build)
        return _report(build, state)


def _make(
    project_: Project,
    store: FeatureStore,
    options: Options,
    show: Callable[[Event], None],
    seams: Seams,
    *,
    build_id: str,
    cli_path: Path,
) -> Build:
    project_ = marked(project_, build_id)
    verify = () if options.no_verify else project_.settings.verify.commands
    branch = project.target_branch(project_)
    run_dir = project_.repo.state_dir / "runs" / build_id
    (run_dir / "baseline").mkdir(parents=True)
    notes = ("built with --no-verify: no project-wide command ran",) if options.no_verify else ()
    selected = selection(store.features(), options.features) if options.features else None
    return Build(
        id=build_id,
        project=project_,
        store=store,
        forge=project.connect(project_) if options.auto_pr else None,
        target_branch=branch,
        publish=options.auto_pr and project_.remote is not None,
        verify=verify,
        notes=notes,
        selected=selected,
        run_dir=run_dir,
        cli_path=cli_path,
        agent=seams.agent,
        fetch_target=preflight.TargetFetcher(project_, branch),
        now=seams.now,
        back_off_s=seams.back_off_s,
        pause_until=seams.pause_until,
        show=show,
    )


def marked(project_: Project, build_id: str) -> Project:
    """Every git command of this build carries its mark and, where git knows no committer, an identity."""
    repo = project_.repo
    env = marker(build_id, str(repo.common_dir))
    if repository.identity(repo.git) is None:
        name, email = project_.surroundings.identity or ("autoforge", "autoforge@localhost")
        env |= {
            f"GIT_{role}_{part}": v
            for role in ("AUTHOR", "COMMITTER")
            for part, v in (("NAME", name), ("EMAIL", email))
        }
    return replace(
        project_, repo=Repository(repo.git.with_env(**env), repo.root, repo.common_dir, repo.prefix)
    )


async def sync(project_: Project, store: FeatureStore, show: Callable[[Event], None]) -> int:
    """The forge's state into the table, then publish what was tried before; answers how many batches are left."""
    if project_.remote is None or project_.slug is None:
        raise UsageError(
            f"The remote {project_.settings.remote} is no known GitHub repository: there is nothing to sync with. "
            "For GitHub Enterprise set `github.api_url`."
        )
    _need_token(project_)
    build_id = new_build_id()
    with lock.lead(project_.repo.state_dir, build_id), lock.lease(store, build_id) as (store, lease):
        build = _make(
            project_, store, Options(auto_pr=True), show, Seams(), build_id=build_id, cli_path=Path()
        )
        with log.log_to(build.run_dir / "log"):
            async with _watched(build, lease):
                await _reconcile(build, preflight.sync)
                for batch in filter(_was_tried, store.batches()):
                    await publishing.run(build, batch)
        while not build.events.empty():
            show(build.events.get_nowait())
    return sum(map(_was_tried, store.batches()))


def _was_tried(batch: Batch) -> bool:
    """Publishing it has begun and not ended."""
    return batch.status is BatchStatus.PUSHED or bool(batch.status is BatchStatus.BUILT and batch.last_error)


def _need_token(project_: Project) -> None:
    if not project_.surroundings.token:
        raise UsageError(
            "GitHub needs a token that may write to the repository's contents and pull requests: set GITHUB_TOKEN."
        )


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
        _need_token(project_)


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


async def _run(build: Build, lease: Lease) -> State:
    async with _watched(build, lease):
        return await _lead(build)


@contextlib.asynccontextmanager
async def _watched(build: Build, lease: Lease) -> AsyncIterator[None]:
    """Beside the work: keep the lease, and cut short what does not hear a stop."""
    beside = [asyncio.create_task(_cut_short(build)), asyncio.create_task(_keep_lease(build, lease))]
    try:
        yield
    finally:
        for task in beside:
            task.cancel()


async def _keep_lease(build: Build, lease: Lease) -> None:
    """When it is lost (we stood still for too long), another build may lead: stop at once."""
    if lost := await lock.keep(build.store, lease):
        build.show(Event(EventKind.WARNING, "", lost))
        build.stop.draining.set()
        build.stop.now.set()


async def _cut_short(build: Build) -> None:
    """A push or fetch that hangs does not hear a stop: what still runs after GRACE_S is ended."""
    await build.stop.now.wait()
    await asyncio.sleep(GRACE_S)
    await asyncio.to_thread(process.reap, build.id)


async def _lead(build: Build) -> State:
    await asyncio.to_thread(_begin, build)
    await _reconcile(build, preflight.learn)
    state = State(Budget(build.project.settings.limits.budget_usd))
    if preflight.anything_to_do(build):
        build = await preflight.baseline(build)
    await orchestrator.run(build, state)
    return state


@contextlib.contextmanager
def _signals(stop: Stop, show: Callable[[Event], None]) -> Iterator[None]:
    """First Ctrl-C drains, second and SIGTERM end the agents."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if stop.draining.is_set():
            stop.now.set()
        else:
            stop.draining.set()
            show(Event(EventKind.WARNING, "", "interrupted: agents may finish; Ctrl-C again ends them"))

    def terminate() -> None:
        stop.draining.set()
        stop.now.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def _clean_up(build: Build) -> None:
    if not build.project.settings.worktree.keep:
        busy = {
            Path(b.worktree_path)
            for b in build.store.batches()
            if b.worktree_path and b.status is BatchStatus.WORKING
        }
        for problem in worktree.remove_parked(build.project.repo, build.project.worktrees, busy):
            build.show(Event(EventKind.WARNING, "", problem))
    runs = sorted((build.project.repo.state_dir / "runs").iterdir())
    for old in runs[:-KEPT_RUNS]:
        for file in sorted(old.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        old.rmdir()


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
