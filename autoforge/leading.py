"""Leads a repository: lock, lease, log and signals around whatever changes batches."""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autoforge import lock, log, preflight, process, project
from autoforge.agent import session
from autoforge.attempt import AgentRun
from autoforge.budget import back_off_s, pause_until
from autoforge.build import Build, PauseUntil, Stop
from autoforge.environment import marker
from autoforge.errors import Overtaken, UsageError
from autoforge.events import Event, EventKind
from autoforge.plan import selection
from autoforge.project import Project
from db.errors import StoreError
from db.feature import BatchStatus
from db.lease import Lease, LeaseLost
from db.store import FeatureStore
from git_workflow import repository, worktree
from git_workflow.repository import Repository

KEPT_RUNS = 20
GRACE_S = 6.0  # SIGTERM must end a build within 10 s


@dataclass(frozen=True)
class Options:
    """What a build was asked for, beside the settings."""

    auto_pr: bool = False
    no_verify: bool = False
    features: tuple[int, ...] = ()
    land: bool = False  # merge what has passed into the local target


@dataclass(frozen=True)
class Seams:
    """What tests put in the place of the outside: the agent and the clock."""

    agent: AgentRun = session.run
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    back_off_s: Callable[[int], float] = back_off_s
    pause_until: PauseUntil = pause_until
    lease_s: float = lock.LEASE_S


def new_build_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


@contextlib.asynccontextmanager
async def leading(
    project_: Project,
    store: FeatureStore,
    options: Options,
    show: Callable[[Event], None],
    seams: Seams,
    *,
    cli_path: Path = Path(),
) -> AsyncIterator[Build]:
    """The one place that may change batches. Raises BuildActive and LeaseHeld while another one leads."""
    build_id = new_build_id()
    leased = lock.lease(store, build_id, ttl_s=seams.lease_s)
    with lock.lead(project_.repo.state_dir, build_id), leased as (store, lease):
        build = make(project_, store, options, show, seams, build_id=build_id, cli_path=cli_path)
        with _refused_plainly(), log.log_to(build.run_dir / "log"), _signals(build.stop, show):
            try:
                async with _watched(build, lease, seams.lease_s):
                    yield build
            finally:
                _clean_up(build)


@contextlib.contextmanager
def _refused_plainly() -> Iterator[None]:
    """The table's refusal by itself, not the group of tasks that it stopped. Raises StoreError and Overtaken."""
    try:
        yield
    except LeaseLost as error:
        raise Overtaken from error
    except ExceptionGroup as group:
        refusals, rest = group.split(StoreError)
        if rest or refusals is None:
            raise
        first = refusals.exceptions[0]
        raise (Overtaken() if isinstance(first, LeaseLost) else first) from group


def make(
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
    publish = options.auto_pr and project_.remote is not None
    run_dir = project_.repo.state_dir / "runs" / build_id
    try:
        run_dir.mkdir(parents=True)
    except OSError as error:
        raise lock.unwritable(run_dir, error) from error
    notes = ("built with --no-verify: no project-wide command ran",) if options.no_verify else ()
    selected = selection(store.features(), options.features) if options.features else None
    return Build(
        id=build_id,
        project=project_,
        store=store,
        forge=project.connect(project_) if options.auto_pr else None,
        target_branch=branch,
        publish=publish,
        verify=verify,
        notes=notes,
        selected=selected,
        run_dir=run_dir,
        cli_path=cli_path,
        agent=seams.agent,
        fetch_target=preflight.TargetFetcher(project_, branch, None if publish else store),
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


@contextlib.asynccontextmanager
async def _watched(build: Build, lease: Lease, lease_s: float) -> AsyncIterator[None]:
    """Beside the work: keep the lease, and cut short what does not hear a stop."""
    beside = [asyncio.create_task(_cut_short(build)), asyncio.create_task(_keep_lease(build, lease, lease_s))]
    try:
        yield
    finally:
        for task in beside:
            task.cancel()


async def _keep_lease(build: Build, lease: Lease, lease_s: float) -> None:
    """When it is lost (we stood still for too long), another build may lead: stop at once."""
    if lost := await lock.keep(build.store, lease, ttl_s=lease_s):
        build.show(Event(EventKind.WARNING, "", lost))
        build.stop.draining.set()
        build.stop.now.set()


async def _cut_short(build: Build) -> None:
    """A push or fetch that hangs does not hear a stop: what still runs after GRACE_S is ended."""
    await build.stop.now.wait()
    await asyncio.sleep(GRACE_S)
    await asyncio.to_thread(process.reap, build.id)


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


def need_token(project_: Project) -> None:
    if not project_.surroundings.token:
        raise UsageError(
            "GitHub needs a token that may write to the repository's contents and pull requests: set GITHUB_TOKEN."
        )
