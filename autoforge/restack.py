"""Puts one batch's branch onto what its parents are now, and verifies it there before it counts."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoforge import plan, process, trial, verify
from autoforge.build import Build, unless
from autoforge.plan import Row
from db.feature import UNMERGED, Batch, BatchStatus, Feature, FeatureStatus, Moved, Parent
from git_workflow import base, restack
from git_workflow.base import Base, Target, Tip
from git_workflow.errors import JoinConflict
from git_workflow.naming import is_join
from git_workflow.repository import is_ancestor


@dataclass(frozen=True)
class Step:
    """A batch as it will be, and its commits: old SHA to new."""

    batch: Batch
    commits: Mapping[str, str]
    same_content: bool


@dataclass(frozen=True)
class Red:
    """It must not be pushed like this. `signature` names what was tried, so that it is not tried again."""

    reason: str
    signature: str


def waits(build: Build, batch: Batch, features: Sequence[Row], batches: Sequence[Batch]) -> str | None:
    """Why its branch has to stay as it is: something that it is built on is not to be built on now."""
    usable = plan.available(features, batches, publish=build.publish)
    held = plan.held(features, batches)
    for feature in _passed(batch, features):
        for other in feature.dependencies:
            if other not in usable and other not in batch.feature_ids:
                return f"waits for #{other}, which {held.get(other, 'has not passed')}"
    return None


def step(
    build: Build, target: Target, batch: Batch, features: Sequence[Row], batches: Sequence[Batch]
) -> Step | None:
    """What the batch has to become, None when it stands where it should. Raises JoinConflict."""
    git, prefix = build.project.repo.git, build.project.settings.branch_prefix
    tips, merged = _tips(build, batch, features, batches)
    assert batch.base_sha is not None
    assert batch.head_sha is not None
    if _stands(batch, tips) and (tips or is_ancestor(git, batch.base_sha, target.sha)):
        return None
    chosen = base.choose(git, target=target, tips=tips, merged=merged, prefix=prefix)
    if not (chosen.parents or batch.parents) and is_ancestor(git, batch.base_sha, target.sha):
        return None
    after = _on(build, batch, chosen)
    if not chosen.parents and is_ancestor(git, batch.base_sha, chosen.sha):  # merged with its history
        return Step(after, {}, same_content=True)
    moved = restack.move(
        git,
        head=batch.head_sha,
        old_base=batch.base_sha,
        onto=chosen.sha,
        own={f.commit_sha for f in _mine(build, batch) if f.commit_sha},
        sign=build.project.settings.commit.sign,
    )
    return Step(
        replace(after, base_sha=chosen.sha, head_sha=moved.head),
        moved.commits,
        same_content=git.run("diff-tree", "--name-only", batch.head_sha, moved.head) == "",
    )


def _tips(
    build: Build, batch: Batch, features: Sequence[Row], batches: Sequence[Batch]
) -> tuple[tuple[Tip, ...], tuple[str, ...]]:
    """The unmerged heads that it is to stand on, and the merge commits of what is merged.

    What did not pass in it is built elsewhere, perhaps on top of it. What it was built on and is still unmerged stays
    below it, also when nothing demands it any more.
    """
    passed = replace(batch, feature_ids=tuple(f.id for f in _passed(batch, features)))
    wanted = plan.parents(passed, features, batches)
    below = {parent.key for parent in batch.parents}
    still = [
        Tip(b.key, b.branch, b.head_sha)
        for b in batches
        if b.key in below and b.status in UNMERGED and b.head_sha
    ]
    return base.minimal(build.project.repo.git, [*wanted.tips, *still]), wanted.merged


def merged_with_others(build: Build, target: Target, batch: Batch, batches: Sequence[Batch]) -> str | None:
    """Whether it is in the target already, because something that was built on it was merged there first."""
    git = build.project.repo.git
    above = [b for b in batches if b.status is BatchStatus.MERGED and batch.key in {p.key for p in b.parents}]
    if not above or batch.head_sha is None:
        return None
    try:
        adds = base.merge_tree(git, target.sha, batch.head_sha) != git.run(
            "rev-parse", f"{target.sha}^{{tree}}"
        )
    except JoinConflict:
        return None
    if adds:
        return None
    return f"everything in {batch.branch} is in {target.branch} already, with {above[0].branch}: close its pull request"


def _stands(batch: Batch, tips: Sequence[Tip]) -> bool:
    if {(tip.key, tip.sha) for tip in tips} != {(parent.key, parent.tip) for parent in batch.parents}:
        return False
    return len(tips) != 1 or is_join(batch.base_branch or "") or batch.base_branch == tips[0].branch


def _on(build: Build, batch: Batch, chosen: Base) -> Batch:
    parents = tuple(Parent(tip.key, tip.sha) for tip in chosen.parents)
    unpublished = build.publish and batch.status is BatchStatus.BUILT
    return replace(
        batch,
        base_branch=chosen.branch,
        parents=parents,
        last_error=batch.last_error if unpublished else None,  # it tells that publishing has begun
        check_signature=None,
    )


async def verified(build: Build, made: Step) -> Step | Red | None:
    """Run again what has shown that the batch works, on what it has become; None when the build was stopped."""
    commands = await asyncio.to_thread(commands_of, build, made.batch)
    if made.same_content or not commands:
        return made
    before = await asyncio.to_thread(build.store.batch, made.batch.key)
    signature = f"red {made.batch.head_sha}"
    if before.check_signature == signature:
        return Red(before.last_error or "it is red", signature)
    tried = await unless(build.stop.now, _try(build, made.batch, commands))
    if tried is None:
        return None
    ran, what = tried
    if what:
        return Red(
            f"moved onto {made.batch.base_branch} ({str(made.batch.base_sha)[:10]}) it is red, so it was left as it "
            f"is. Mend it on its branch and push that, then `autoforge sync`.\n{what}",
            signature,
        )
    checks = tuple(verify.evidence_of(one) for one in ran if one.command in build.verify)
    return replace(made, batch=replace(made.batch, checks=checks))


async def _try(
    build: Build, batch: Batch, commands: Sequence[str]
) -> tuple[tuple[process.Finished, ...], str]:
    """What was green, and what was not, in words."""
    assert batch.head_sha is not None
    slot = build.project.settings.concurrency  # the one after those of the agents
    tried = await trial.run(build, batch.head_sha, commands, slot=slot)
    red, _ = await trial.caused(build, tried, by=str(batch.base_sha), slot=slot)
    green = tuple(one for one in tried.ran if one not in tried.red)
    if red:
        return green, verify.failure_text(red)
    left = f"The commands leave files that git does not ignore:\n{tried.left}" if tried.left else ""
    return green, left


def conflict_signature(conflict: JoinConflict) -> str:
    return "conflict " + " ".join(conflict.tips)


def clash(conflict: JoinConflict) -> str:
    files = ", ".join(conflict.paths[:5])
    return f"its commits and what it is to stand on now change the same lines of {files}"


def how_to_resolve(build: Build, batch: Batch, conflict: JoinConflict, why: str) -> str:
    """What a person has to do about a conflict that no agent has resolved, as commands."""
    features, batches = build.store.nodes(), build.store.batches()
    tips = _tips(build, batch, features, batches)[0]
    head = f"it cannot be moved: {clash(conflict)}. {why}"
    if len(tips) > 1:
        names = " and ".join(tip.branch for tip in tips)
        return f"{head}\nIt is to stand on {names} together: merge one of their pull requests, then `autoforge sync`."
    remote = f"{build.project.remote.name}/" if build.publish and build.project.remote else ""
    onto = f"{remote}{tips[0].branch if tips else build.target_branch}"
    fetch, push = (f"git fetch {remote[:-1]} && ", " && git push --force-with-lease") if remote else ("", "")
    follow = "sync" if remote else "restack"
    return (
        f"{head}\nResolve it on the branch: {fetch}git switch {batch.branch} && git rebase --onto {onto} "
        f"{str(batch.base_sha)[:12]}{push}, then `autoforge {follow}`."
    )


def commands_of(build: Build, batch: Batch) -> tuple[str, ...]:
    """What has shown that it works: the project's verify commands, the features' own, and those of the evidence."""
    shown: Iterable[str] = (
        command
        for f in _mine(build, batch)
        for command in (*f.verify, *(e.command for e in f.evidence if e.exit_code == 0))
    )
    return tuple(dict.fromkeys((*build.verify, *shown)))


def _mine(build: Build, batch: Batch) -> list[Feature]:
    """With their texts: `_passed` reads only what scheduling needs."""
    mine = map(build.store.feature, batch.feature_ids)
    return [f for f in mine if f.batch_key == batch.key and f.status is FeatureStatus.PASSED]


def _passed(batch: Batch, features: Sequence[Row]) -> list[Row]:
    return [f for f in features if f.batch_key == batch.key and f.status is FeatureStatus.PASSED]


def pushed_base_ref(key: str) -> str:
    """The base of what is on the remote, or only here, while a move of it is not."""
    return f"refs/autoforge/bases/{key}"


def before_ref(key: str) -> str:
    """The head of a branch that is only here, before our last move of it: the branch may still be there."""
    return f"refs/autoforge/before/{key}"


def store(build: Build, made: Step) -> list[str]:
    """Record the move, then bring the local branch along; answers what a person should know."""
    after, git = made.batch, build.project.repo.git
    before = build.store.batch(after.key)
    assert before.base_sha is not None
    assert before.head_sha is not None
    assert after.head_sha is not None
    if before.pushed_sha is None:
        git.run("update-ref", before_ref(after.key), before.head_sha)
    if before.pushed_sha in (None, before.head_sha):
        git.run("update-ref", pushed_base_ref(after.key), before.base_sha)
    build.store.move_batches([Moved(after, made.commits)])
    told = []
    if place := restack.follow(git, after.branch, old=before.head_sha, new=after.head_sha):
        told.append(
            f"{after.branch} is checked out in {place} and was not moved there: run there "
            f"`git reset --keep {after.head_sha[:10]}` when you have nothing of your own on it"
        )
    if git.run("diff-tree", "--name-only", str(after.base_sha), after.head_sha) == "":
        told.append(
            f"{after.branch} changes nothing any more: everything in it is in {after.base_branch}. Close it."
        )
    return told
