"""One attempt at a batch: worktree, set-up, agent, and how it ended. Takes values, reports by value and by git."""

import asyncio
import contextlib
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autoforge import process, verify
from autoforge.agent import guard
from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Tool
from autoforge.environment import Place, for_agent, for_commands
from autoforge.errors import AutoforgeError
from autoforge.events import Event, EventKind, Passed
from autoforge.gate import Gate, Rules
from autoforge.log import redact
from autoforge.settings import Settings, Surroundings
from db.errors import StoreError
from db.feature import Batch, Ended, Feature, Result
from git_workflow import worktree
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


async def run(job: Job, events: Events, stop: asyncio.Event) -> Outcome:
    """Any error becomes an Outcome, so that one bug never ends another agent's paid work."""
    path: Path | None = None
    gate: Gate | None = None
    scratch = Path(tempfile.mkdtemp(prefix="autoforge-")).resolve()
    try:
        _tell(job, events, "worktree")
        path = await asyncio.to_thread(_worktree, job)
        place = _place(job, path, scratch)
        await set_up(job.repo, path, place, settings=job.settings, surroundings=job.surroundings)
        unfinished = await asyncio.to_thread(_unfinished, job, path)
        gate = _gate(job, path, place, events)
        _tell(job, events, "agent")
        end = await job.agent(_session(job, path, place, unfinished), gate.tools(), events, stop)
        return _outcome(job, gate, end, path)
    except Exception as error:
        if not isinstance(error, OURS):
            log.exception("batch=%s attempt=%d", job.batch.key, job.number)
        passed = tuple(gate.passed.values()) if gate else ()
        return Outcome(Ended(Result.CRASHED, redact(str(error) or type(error).__name__)), passed, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if path is not None:
            await asyncio.to_thread(_leave, job, path)


def _worktree(job: Job) -> Path:
    assert job.batch.base_sha is not None
    recorded = Path(job.batch.worktree_path) if job.batch.worktree_path else None
    return worktree.acquire(
        job.repo,
        root=job.root,
        branch=job.batch.branch,
        base_sha=job.batch.base_sha,
        recorded=recorded,
        busy=job.busy,
    )


def _place(job: Job, path: Path, scratch: Path) -> Place:
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
    await asyncio.to_thread(worktree.update_submodules, repo.git.at(path))
    await asyncio.to_thread(worktree.copy_ignored, repo, path, settings.worktree.copy_files)
    env = for_commands(surroundings, place, settings.environment.keep)
    ran = await verify.run_commands(
        settings.worktree.setup, cwd=place.project, env=env, timeout_s=settings.worktree.setup_timeout_s
    )
    if any(verify.failed(one) for one in ran):
        raise AutoforgeError(f"worktree.setup failed: {verify.failure_text(ran)}")


def _unfinished(job: Job, path: Path) -> bool:
    git = job.repo.git.at(path)
    return head_sha(git) != _since(job.batch) or git.run("status", "--porcelain") != ""


def _since(batch: Batch) -> str:
    since = batch.head_sha or batch.base_sha
    assert since is not None
    return since


def _gate(job: Job, path: Path, place: Place, events: Events) -> Gate:
    settings = job.settings
    git = Git(
        path,
        env={**job.repo.git.env, **_signing(settings)},
        guard=tuple(process.guard_command([])),
        timeout_s=settings.commit.timeout_s,
    )
    rules = Rules(
        cwd=place.project,
        env=for_commands(job.surroundings, place, settings.environment.keep),
        commands=job.verify,
        timeout_s=settings.verify.timeout_s,
        protected=(*guard.PROTECTED, *settings.commit.protected),
        max_file_bytes=settings.commit.max_file_bytes,
        policy=_policy(job, path, place),
    )
    return Gate(git, rules, job.batch, job.features, _since(job.batch), job.number, events)


def _signing(settings: Settings) -> Mapping[str, str]:
    if settings.commit.sign:
        return {}
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "commit.gpgSign", "GIT_CONFIG_VALUE_0": "false"}


def _policy(job: Job, path: Path, place: Place) -> guard.Policy:
    protected = (*guard.PROTECTED, *job.settings.commit.protected)
    return guard.Policy(root=path, tmp=place.scratch, protected=protected, branch=job.batch.branch)


def _session(job: Job, path: Path, place: Place, unfinished: bool) -> Session:
    agent = job.settings.agent
    verify_s = job.settings.verify.timeout_s * (len(job.verify) + 5) + job.settings.commit.timeout_s
    rules = render(
        "rules",
        branch=job.batch.branch,
        first_port=place.ports[0],
        last_port=place.ports[-1],
        verify=job.verify,
    )
    prompt = render(
        "code", features=job.features, verify=job.verify, parents=job.parents, unfinished=unfinished
    )
    return Session(
        batch=job.batch.key,
        cwd=place.project,
        prompt=prompt,
        rules=rules,
        session_id=job.session_id,
        cli_path=process.write_cli_wrapper(job.run_dir / "claude", job.cli_path),
        transcript=job.run_dir / f"{job.batch.key}-{job.number}.jsonl",
        policy=_policy(job, path, place),
        env=for_agent(job.surroundings, place, job.settings.environment.keep, tool_timeout_s=verify_s),
        model=agent.model,
        max_turns=agent.max_turns,
        max_cost_usd=job.cap_usd,
        timeout_s=agent.timeout_s,
    )


def _outcome(job: Job, gate: Gate, end: SessionEnd, path: Path) -> Outcome:
    result, reason = end.result, end.reason
    ids = {f.id for f in job.features}
    if end.result is Result.PASSED or ids == set(gate.passed):
        result, reason = _judge(ids, gate)
    ended = Ended(
        result=result,
        reason=reason,
        cost_usd=end.cost_usd,
        turns=end.turns,
        summary=redact(end.text) if gate.passed else "",
        failed={**gate.last_red, **gate.failed},
        questions=gate.questions,
        untried=_untried(gate),
    )
    return Outcome(ended, tuple(gate.passed.values()), path, end.resets_at)


def _untried(gate: Gate) -> frozenset[int]:
    """Features that could not be worked on, because another of the batch did not pass."""
    missing = {f.id for f in gate.features} - set(gate.passed)
    touched = {*gate.last_red, *gate.failed, *gate.questions}
    return frozenset(
        f.id for f in gate.features if f.id in missing - touched and missing & set(f.dependencies)
    )


def _judge(ids: Collection[int], gate: Gate) -> tuple[Result, str]:
    """What a session that ended by itself was worth: only what has passed the gate counts."""
    if set(gate.passed) >= set(ids):
        return Result.PASSED, ""
    if gate.passed:
        return Result.PARTIAL, "the session ended before this feature passed"
    if gate.questions:
        return Result.NEEDS_INPUT, "a person must decide"
    if gate.failed or gate.last_red:
        return Result.FAILED, "the agent gave up"
    return Result.NO_WORK, "the agent ended without passing or failing anything"


def _leave(job: Job, path: Path) -> None:
    """End what still runs in the worktree, and keep uncommitted work on a ref of its own."""
    process.reap(repo=str(job.repo.common_dir), below=path)
    with contextlib.suppress(GitWorkflowError):
        ref = saved_ref(job.batch.key, str(job.number))
        worktree.save_work(
            job.repo.git.at(path), ref, f"Unfinished work of attempt {job.number} at {job.batch.branch}"
        )


def _tell(job: Job, events: Events, stage: str) -> None:
    events.put_nowait(Event(EventKind.STAGE, job.batch.key, stage))
