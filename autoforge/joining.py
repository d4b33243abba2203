"""A join that git cannot make: an agent resolves the conflict once, and the resolution becomes the join."""

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoforge import attempt, verify
from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Answer, Tool
from autoforge.attempt import Events, Job
from autoforge.environment import Place
from autoforge.events import Event, EventKind
from autoforge.gate import Rules
from db.feature import Result
from git_workflow import base, commit, worktree
from git_workflow.command import Git
from git_workflow.errors import JoinConflict
from git_workflow.naming import saved_ref
from prompts import render

MARKERS = ("<<<<<<< ", ">>>>>>> ")


@dataclass(frozen=True)
class Side:
    """One of the conflicting branches, in words."""

    title: str
    description: str


@dataclass
class Resolution:
    """Lives as long as its session; `sha` is the verified join once there is one."""

    git: Git
    rules: Rules
    conflict: JoinConflict
    sha: str | None = None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> list[Tool]:
        return [
            Tool("conflict_resolved", _RESOLVED, {"type": "object", "properties": {}}, self.conflict_resolved)
        ]

    async def conflict_resolved(self, _arguments: Mapping[str, Any]) -> Answer:
        async with self._one:
            made = await asyncio.to_thread(self._commit)
            if isinstance(made, Answer):
                return made
            problem = await self._check(made)
            if problem:
                await asyncio.to_thread(self.git.run, "reset", "--quiet", "--soft", self.conflict.tips[0])
                return Answer(f"The resolution has not passed.\n{problem}", is_error=True)
            await asyncio.to_thread(base.keep_resolution, self.git, self.conflict.tips, made)
            self.sha = made
            return Answer("The conflict is resolved. End with one sentence on how.")

    def _commit(self) -> str | Answer:
        left = [name for name in self.conflict.paths if _has_markers(self.git.cwd / name)]
        if left:
            return Answer(f"There are conflict markers in {', '.join(left)}.", is_error=True)
        rules = self.rules
        since = self.conflict.tips[0]
        problems = commit.stage(
            self.git, protected=rules.protected, max_file_bytes=rules.max_file_bytes, since=since
        )
        if problems:
            return Answer("This cannot be committed:\n- " + "\n- ".join(problems[:30]), is_error=True)
        sha = base.commit_join(self.git, self.git.run("write-tree"), self.conflict.tips)
        self.git.run("reset", "--quiet", "--soft", sha)
        return sha

    async def _check(self, sha: str) -> str | None:
        rules = self.rules
        ran = await verify.run_commands(
            rules.commands, cwd=rules.cwd, env=rules.env, timeout_s=rules.timeout_s
        )
        if any(verify.failed(one) for one in ran):
            return verify.failure_text(ran)
        return await asyncio.to_thread(commit.differs, self.git, sha)


def _has_markers(path: Path) -> bool:
    try:
        return any(line.startswith(MARKERS) for line in path.read_text("utf-8", "replace").splitlines())
    except OSError:  # one side deleted it
        return False


async def resolve(
    job: Job, conflict: JoinConflict, sides: Sequence[Side], *, events: Events, stop: asyncio.Event
) -> SessionEnd:
    """One session in a worktree of its own. PASSED: the join is kept, and `base.choose` will find it."""
    events.put_nowait(
        Event(EventKind.STAGE, job.batch.key, f"resolving a conflict in {', '.join(conflict.paths[:5])}")
    )
    branch = f"{job.settings.branch_prefix}/resolve-{job.batch.key}"
    job = replace(job, batch=replace(job.batch, branch=branch, base_sha=conflict.tips[0], worktree_path=None))
    scratch = Path(tempfile.mkdtemp(prefix="autoforge-")).resolve()
    path = await asyncio.to_thread(attempt.worktree_of, job)
    try:
        git = job.repo.git.at(path)
        await asyncio.to_thread(base.lay_out_conflict, git, conflict.tips)
        place = attempt.place_of(job, path, scratch)
        await attempt.set_up(job.repo, path, place, settings=job.settings, surroundings=job.surroundings)
        resolution = Resolution(git, attempt.rules_of(job, path, place), conflict)
        end = await job.agent(_session(job, path, place, conflict, sides), resolution.tools(), events, stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        await asyncio.to_thread(_put_away, job, path, branch)
    if resolution.sha:
        return replace(end, result=Result.PASSED)
    reason = end.reason or "the agent ended without resolving the conflict"
    return replace(
        end,
        result=Result.FAILED if end.result is Result.PASSED else end.result,
        reason=f"{conflict}: {reason}",
    )


def _session(job: Job, path: Path, place: Place, conflict: JoinConflict, sides: Sequence[Side]) -> Session:
    session = attempt.session_of(job, path, place, unfinished=False)
    prompt = render("join", sides=sides, paths=conflict.paths, verify=job.verify)
    transcript = job.run_dir / f"{job.batch.key}-{job.number}-join.jsonl"
    rules = attempt.rules_text(job, place, features=False)
    return replace(session, prompt=prompt, rules=rules, session_id=str(uuid.uuid4()), transcript=transcript)


def _put_away(job: Job, path: Path, branch: str) -> None:
    if worktree.park(job.repo, path, saved_ref(job.batch.key, f"{job.number}-join")):
        job.repo.git.run("branch", "--quiet", "-D", branch)


_RESOLVED = "Say that the conflict is resolved. autoforge checks it, runs the verify commands and answers."
