"""Plans a specification: one read-only session proposes features; they are stored together, when the plan is complete."""

import asyncio
import contextlib
import dataclasses
import json
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoforge import leading, plan, preflight, process, project, specification
from autoforge.agent import guard, session
from autoforge.agent.session import Session, SessionEnd
from autoforge.agent.tools import Answer, Tool
from autoforge.attempt import AgentRun, Events
from autoforge.drafting import Count, Draft
from autoforge.environment import Place, for_agent
from autoforge.errors import AgentMissing, AutoforgeError
from autoforge.events import Event
from autoforge.project import Project
from autoforge.specification import Specification
from db.feature import Feature, NewFeature, Result
from db.store import FeatureStore
from git_workflow import worktree
from git_workflow.base import Target
from git_workflow.naming import saved_ref
from git_workflow.repository import head_sha
from prompts import render

READING = ("Read", "Glob", "Grep")


class PlanIncomplete(AutoforgeError):
    """The plan was not completed, so nothing was stored."""


@dataclass(frozen=True)
class Plan:
    """A complete plan; nothing of it is stored yet. `verify`: what the agent proposes where nothing is configured.

    `path`: a file with the features, which can be imported.
    """

    features: tuple[NewFeature, ...]
    verify: tuple[str, ...]
    cost_usd: float | None
    path: Path


@dataclass(frozen=True)
class Ground:
    """What a plan starts from: the target, None in a repository without a commit."""

    target: Target | None
    greenfield: bool


def ground(project_: Project) -> Ground:
    """Look at the target. Raises GitWorkflowError."""
    git = project_.repo.git
    if head_sha(git) is None and not git.lines("for-each-ref", "--count=1", "refs/remotes"):
        return Ground(None, True)
    target = preflight.fetch_target(project_, project.target_branch(project_), landed=())
    return Ground(target, specification.is_greenfield(specification.files(git, target.sha)))


async def draft(
    project_: Project,
    store: FeatureStore,
    spec: Specification,
    count: Count,
    *,
    start: Ground,
    agent: AgentRun,
    show: Callable[[Event], None],
) -> Plan:
    """Let an agent plan. Raises PlanIncomplete, which says where its proposals are, when it did not finish."""
    build_id = leading.new_build_id()
    project_ = leading.marked(project_, build_id)
    run_dir = project_.repo.state_dir / "runs" / build_id
    path = run_dir / "proposed.json"
    made = Draft(store.features(), count)
    busy = plan.worktrees_in_use(store.batches())
    _make(run_dir)
    await asyncio.to_thread(_forget, project_, busy)
    async with _place(project_, build_id, start.target, busy) as place, _shown(show) as events:
        prompt = _prompt(project_, spec, made.existing, count, greenfield=start.greenfield)
        tools = [_keeping(tool, made, path) for tool in made.tools()]
        end = await agent(_session(project_, place, run_dir, prompt), tools, events, asyncio.Event())
    if made.complete:
        return Plan(tuple(made.features), made.verify, end.cost_usd, path)
    if end.result is Result.UNAVAILABLE:
        raise AgentMissing(end.reason)
    raise PlanIncomplete(_left(made, end, path))


def _make(run_dir: Path) -> None:
    try:
        run_dir.mkdir(parents=True)
    except OSError as error:
        raise AutoforgeError(
            f"{run_dir} cannot be made ({error.strerror or error}): free space, or rights."
        ) from error


def _keeping(tool: Tool, made: Draft, path: Path) -> Tool:
    """What is proposed is on the disk at once: it was paid for, whatever becomes of the session or of the storing."""

    async def call(arguments: Mapping[str, Any]) -> Answer:
        answer = await tool.call(arguments)
        names = [feature.name for feature in made.features]
        stored = {feature.id: feature.name for feature in made.existing}
        items = [_as_item(feature, names, stored) for feature in made.features]
        try:
            path.write_text(json.dumps(items, indent=2, ensure_ascii=False), "utf-8")
        except OSError as error:
            raise AutoforgeError(
                f"{path} cannot be written ({error.strerror or error}): free space."
            ) from error
        return answer

    return replace(tool, call=call)


def _forget(project_: Project, busy: frozenset[Path]) -> None:
    """Put away what a plan that was killed has left."""
    git, mine = project_.repo.git, f"{project_.settings.branch_prefix}/plan-"
    ours = [e for e in worktree.registered(git) if e.path.parent == project_.worktrees and e.path not in busy]
    for entry in ours:
        branch = entry.branch or ""
        saved = saved_ref("plan", branch.removeprefix(mine))
        if branch.startswith(mine) and worktree.park(project_.repo, entry.path, saved):
            git.run("branch", "--quiet", "-D", branch)


@contextlib.asynccontextmanager
async def _place(
    project_: Project, build_id: str, target: Target | None, busy: frozenset[Path]
) -> AsyncIterator[Place]:
    """A worktree of the target to read in, or an empty folder; gone afterwards."""
    repo, branch = project_.repo, f"{project_.settings.branch_prefix}/plan-{build_id}"
    scratch = Path(tempfile.mkdtemp(prefix="autoforge-")).resolve()
    path: Path | None = None
    try:
        if target:
            path = await asyncio.to_thread(
                worktree.acquire,
                repo,
                root=project_.worktrees,
                branch=branch,
                base_sha=target.sha,
                recorded=None,
                busy=busy,
            )
        here = path or scratch / "empty"
        here.mkdir(exist_ok=True)
        yield Place(
            build_id=build_id,
            repo=str(repo.common_dir),
            batch="plan",
            slot=0,
            first_port=project_.settings.worktree.first_port,
            worktree=here,
            project=here / repo.prefix if path else here,
            scratch=scratch,
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if path and worktree.park(repo, path, saved_ref("plan", build_id)):
            repo.git.run("branch", "--quiet", "-D", branch)
        if not project_.settings.worktree.keep:
            worktree.remove_parked(repo, project_.worktrees, busy)


@contextlib.asynccontextmanager
async def _shown(show: Callable[[Event], None]) -> AsyncIterator[Events]:
    events: Events = asyncio.Queue()

    async def tell() -> None:
        while True:
            show(await events.get())

    teller = asyncio.create_task(tell())
    try:
        yield events
    finally:
        teller.cancel()


def _prompt(
    project_: Project, spec: Specification, existing: Sequence[Feature], count: Count, *, greenfield: bool
) -> str:
    return render(
        "plan",
        name=spec.name,
        text=spec.text,
        greenfield=greenfield,
        existing=existing,
        lowest=count.lowest,
        highest=count.highest,
        verify=project_.settings.verify.commands,
    )


def _session(project_: Project, place: Place, run_dir: Path, prompt: str) -> Session:
    agent = project_.settings.agent
    return Session(
        batch="plan",
        cwd=place.project,
        prompt=prompt,
        rules="You plan; you change no file.",
        session_id=str(uuid.uuid4()),
        cli_path=process.write_cli_wrapper(run_dir / "claude-plan", session.find_cli()),
        transcript=run_dir / "plan.jsonl",
        policy=guard.Policy(root=place.worktree, tmp=place.scratch),
        env=for_agent(project_.surroundings, place, project_.settings.environment.keep, tool_timeout_s=60),
        model=agent.model,
        max_turns=agent.max_turns,
        max_cost_usd=min(agent.max_cost_usd, project_.settings.limits.budget_usd or agent.max_cost_usd),
        timeout_s=agent.timeout_s,
        builtin=READING,
    )


def _left(made: Draft, end: SessionEnd, path: Path) -> str:
    """What became of an incomplete plan. Its proposals can be imported by hand."""
    reason = (end.reason or "the agent ended before it called the plan complete").rstrip(".")
    if not made.features:
        return f"The plan was not completed, so nothing was stored: {reason}. Plan again."
    return (
        f"The plan was not completed, so nothing was stored: {reason}. Plan again; the {len(made.features)} features "
        f"that were proposed are in {path}."
    )


def _as_item(feature: NewFeature, names: Sequence[str], stored: dict[int, str]) -> dict[str, object]:
    item = dataclasses.asdict(replace(feature, depends_on=(), existing=()))
    needs = [*(names[n] for n in feature.depends_on), *(stored[i] for i in feature.existing)]
    kept = {key: value for key, value in item.items() if value and key not in ("depends_on", "existing")}
    return {**kept, "depends_on": needs} if needs else kept
