"""One attempt at a batch: worktree, set-up, agent, and how it ended. Takes values, reports by value and by git."""

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autoforge import judgement, process, questions, verify
from autoforge.agent import guard
from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Tool
from autoforge.environment import Place, for_agent, for_commands, for_hooks
from autoforge.errors import AutoforgeError
from autoforge.events import Event, EventKind, Passed
from autoforge.gate import Gate, Rules
from autoforge.log import redact
from autoforge.settings import Settings, Surroundings
from db.errors import StoreError
from db.feature import Batch, Ended, Feature, Result
from git_workflow import content, standing, worktree
from git_workflow.command import Git
from git_workflow.errors import GitWorkflowError
from git_workflow.naming import saved_ref
from git_workflow.repository import Repository, head_sha
from prompts import render

log = logging.getLogger("autoforge.attempt")

Events = asyncio.Queue[Event]
AgentRun = Callable[[Session, Sequence[Tool], Events, asyncio.Event], Awaitable[SessionEnd]]
OURS = (AutoforgeError, GitWorkflowError, StoreError)


@dataclass(frozen=True)
class Job:
    """Everything an attempt needs. `batch` has its base; `slot` counts from 0; `cap_usd` is what it may cost."""

    build_id: str
    batch: Batch
    features: tuple[Feature, ...]
    number: int
    session_id: str
    slot: int
    cap_usd: float
    repo: Repository
    root: Path  # of the worktrees
    busy: frozenset[Path]
    run_dir: Path
    cli_path: Path
    verify: tuple[str, ...]
    parents: tuple[str, ...]  # titles of the unmerged work below
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    agent: AgentRun


@dataclass(frozen=True)
class Outcome:
    """How the attempt ended. `passed` has been verified and committed on the batch's branch."""

    ended: Ended
    passed: tuple[Passed, ...] = ()
    worktree: Path | None = None
    resets_at: datetime | None = None


@dataclass
class _Progress:
    """What there is to report when something breaks."""

    path: Path | None = None
    gate: Gate | None = None


async def run(job: Job, events: Events, stop: asyncio.Event) -> Outcome:
    """Any error becomes an Outcome, so that one bug never ends another agent's paid work."""
    progress = _Progress()
    try:
        with tempfile.TemporaryDirectory(prefix="autoforge-", ignore_cleanup_errors=True) as scratch:
            try:
                return await _run(job, events, stop, progress, Path(scratch).resolve())
            finally:
                if progress.path:
                    await asyncio.to_thread(_leave, job, progress.path, events)
    except Exception as error:
        if not isinstance(error, OURS):
            log.exception("batch=%s attempt=%d", job.batch.key, job.number)
        passed = tuple(progress.gate.passed.values()) if progress.gate else ()
        reason = redact(str(error) or type(error).__name__)
        return Outcome(Ended(Result.CRASHED, reason), passed, progress.path)


async def guarded(work: Awaitable[SessionEnd]) -> SessionEnd:
    """As `run`, for a session that is no attempt of its own."""
    try:
        return await work
    except Exception as error:
        if not isinstance(error, OURS):
            log.exception("a session beside an attempt")
        return SessionEnd(Result.CRASHED, redact(str(error) or type(error).__name__))


async def _run(job: Job, events: Events, stop: asyncio.Event, progress: _Progress, scratch: Path) -> Outcome:
    _tell(job, events, "worktree")
    path = progress.path = await asyncio.to_thread(worktree_of, job)
    unfinished = await asyncio.to_thread(_unfinished, job, path)
    place = place_of(job, path, scratch)
    await set_up(job.repo, path, place, settings=job.settings, surroundings=job.surroundings)
    gate = progress.gate = _gate(job, path, place, events)
    _tell(job, events, "agent")
    end = await job.agent(session_of(job, path, place, unfinished=unfinished), gate.tools(), events, stop)
    return Outcome(judgement.of(gate, end), tuple(gate.passed.values()), path, end.resets_at)


def worktree_of(job: Job) -> Path:
    recorded = Path(job.batch.worktree_path) if job.batch.worktree_path else None
    return worktree.acquire(
        job.repo,
        root=job.root,
        branch=job.batch.branch,
        base_sha=_since(job.batch),
        recorded=recorded,
        busy=job.busy,
    )


def place_of(job: Job, path: Path, scratch: Path) -> Place:
    return Place(
        build_id=job.build_id,
        repo=str(job.repo.common_dir),
        batch=job.batch.key,
        slot=job.slot,
        first_port=job.settings.worktree.first_port,
        worktree=path,
        project=path / job.repo.prefix,
        scratch=scratch,
    )


async def set_up(
    repo: Repository, path: Path, place: Place, *, settings: Settings, surroundings: Surroundings
) -> None:
    """Make a fresh worktree ready: submodules, ignored files that it needs, set-up commands. Raises AutoforgeError."""
    await asyncio.to_thread(content.update_submodules, repo.git.at(path))
    await asyncio.to_thread(content.copy_ignored, repo, path, settings.worktree.copy_files)
    env = for_commands(surroundings, place, settings.environment.keep)
    ran = await verify.run_commands(
        settings.worktree.setup, cwd=place.project, env=env, timeout_s=settings.worktree.setup_timeout_s
    )
    if any(verify.failed(one) for one in ran):
        raise AutoforgeError(f"worktree.setup failed: {verify.failure_text(ran)}")


def _unfinished(job: Job, path: Path) -> bool:
    """Whether an earlier try left work here, on top of what has passed."""
    git, since = job.repo.git.at(path), _since(job.batch)
    return head_sha(git) != since or git.run("status", "--porcelain") != ""


def _since(batch: Batch) -> str:
    since = batch.head_sha or batch.base_sha
    assert since is not None
    return since


def _gate(job: Job, path: Path, place: Place, events: Events) -> Gate:
    settings = job.settings
    git = Git(
        path,
        env={**job.repo.git.env, **for_hooks(place, sign=settings.commit.sign)},
        guard=tuple(process.guard_command([])),
        timeout_s=settings.commit.timeout_s,
    )
    return Gate(
        git=git,
        rules=rules_of(job, path, place),
        batch=job.batch,
        features=job.features,
        since=_since(job.batch),
        branch_ref=standing.branch_ref(git),
        attempt=job.number,
        events=events,
    )


def rules_of(job: Job, path: Path, place: Place) -> Rules:
    settings, policy = job.settings, _policy(job, path, place)
    return Rules(
        cwd=place.project,
        env=for_commands(job.surroundings, place, settings.environment.keep),
        commands=job.verify,
        timeout_s=settings.verify.timeout_s,
        protected=policy.protected,
        max_file_bytes=settings.commit.max_file_bytes,
        policy=policy,
    )


def _policy(job: Job, path: Path, place: Place) -> guard.Policy:
    return policy_of(job.repo, job.settings, root=path, tmp=place.scratch, branch=job.batch.branch)


def policy_of(repo: Repository, settings: Settings, *, root: Path, tmp: Path, branch: str) -> guard.Policy:
    """What an agent in the worktree `root` may do; patterns of protected paths count from the top of the repository."""
    ours = [f"{repo.prefix}/{name}" for name in ("autoforge.toml", ".autoforge/**") if repo.prefix]
    protected = (*guard.PROTECTED, *ours, *settings.commit.protected)
    return guard.Policy(root=root, tmp=tmp, protected=protected, branch=branch)


def session_of(job: Job, path: Path, place: Place, *, unfinished: bool) -> Session:
    agent, attempt = job.settings.agent, f"{job.batch.key}-{job.number}"
    verify_s = job.settings.verify.timeout_s * (len(job.verify) + 5) + job.settings.commit.timeout_s
    prompt = render(
        "code",
        features=job.features,
        verify=job.verify,
        parents=job.parents,
        unfinished=unfinished,
        kept={f.id: _kept(job, f) for f in job.features},
        answers={
            f.id: questions.as_prompt(questions.from_column(f.question or ""), f.answer)
            for f in job.features
            if f.answer
        },
    )
    return Session(
        batch=job.batch.key,
        cwd=place.project,
        prompt=prompt,
        rules=rules_text(job, place, features=True),
        session_id=job.session_id,
        cli_path=process.write_cli_wrapper(job.run_dir / f"claude-{attempt}", job.cli_path),
        transcript=job.run_dir / f"{attempt}.jsonl",
        policy=_policy(job, path, place),
        env=for_agent(job.surroundings, place, job.settings.environment.keep, tool_timeout_s=verify_s),
        model=agent.model,
        max_turns=agent.max_turns,
        max_cost_usd=job.cap_usd,
        timeout_s=agent.timeout_s,
    )


def rules_text(job: Job, place: Place, *, features: bool) -> str:
    """`features`: whether the session reports features."""
    return render(
        "rules",
        branch=job.batch.branch,
        first_port=place.ports[0],
        last_port=place.ports[-1],
        verify=job.verify,
        features=features,
    )


def _kept(job: Job, feature: Feature) -> str | None:
    """The commit with the work on this feature that an earlier try set aside, in whichever batch."""
    return standing.kept_for(job.repo.git, saved_ref("*", f"*-feature-{feature.id}"))


def _leave(job: Job, path: Path, events: Events) -> None:
    """End what still runs in the worktree, and keep uncommitted work on a ref of its own."""
    process.reap(repo=str(job.repo.common_dir), below=path)
    ref = saved_ref(job.batch.key, str(job.number))
    try:
        what = f"Unfinished work of attempt {job.number} at {job.batch.branch}"
        content.save_work(job.repo.git.at(path), ref, what)
    except (GitWorkflowError, OSError) as error:
        text = f"uncommitted work in {path} could not be saved on {ref}: {error}"
        events.put_nowait(Event(EventKind.WARNING, job.batch.key, text))


def _tell(job: Job, events: Events, stage: str) -> None:
    events.put_nowait(Event(EventKind.STAGE, job.batch.key, stage))
