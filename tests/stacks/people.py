"""What people do to branches and pull requests between two syncs; each answers whether it could be done."""

import urllib.error
from collections.abc import Callable
from dataclasses import replace

from autoforge.demo.github.git import is_ancestor, merged_tree
from autoforge.demo.github.git import run as git_run
from db.feature import Batch, BatchStatus
from tests.stacks.world import SHARED, World


def adds(world: World, batch: Batch, choice: int) -> bool:
    """A commit on top of a branch, which may be here only."""
    here = batch.status is BatchStatus.BUILT and batch.pushed_sha is None
    where = world.project.repo.common_dir if here else world.origin
    head = git_run(where, "rev-parse", "--verify", "-q", f"refs/heads/{batch.branch}").stdout.decode().strip()
    if not head or git_run(world.origin, "cat-file", "-e", head).returncode:
        return False
    line = world.mark("by hand")
    number = batch.feature_ids[0] - 1
    places = {
        f"src/f{number}.txt": ("", line),
        f"src/by-hand-{world.marks}.txt": ("", line),
        SHARED: (f"section {number}", line),
    }
    name = sorted(places)[choice % 3]
    sha = world.written(head, {name: places[name]}, line, [head])
    _owned(world, batch, line)
    world.theirs.add(sha)
    if here:
        world.brings_here(batch.branch, sha)
    else:
        world.moves(batch.branch, sha)
    return True


def _owned(world: World, batch: Batch, line: str) -> None:
    """What is pushed after the merge is in no pull request."""
    pull = world.pull(batch)
    if pull is None or not pull.merged:
        world.own[batch.key].add(line)


def amends(world: World, batch: Batch, choice: int) -> bool:
    """Another commit in the place of the last one: with one line more, or another one."""
    head = world.heads().get(batch.branch)
    if head is None:
        return False
    number = batch.feature_ids[0] - 1
    name = f"src/f{number}.txt"
    old = next((own for own in sorted(world.own[batch.key]) if own.startswith(f"feature {number} ")), "")
    replaces = choice % 2 == 1 and old in world.contains(head)
    line = world.mark(f"feature {number} amended")
    parents = world.git("log", "-1", "--format=%P", head).split()
    unseen = head not in (batch.head_sha, batch.pushed_sha)
    world.tangled |= unseen and any(
        p.head != batch.branch and is_ancestor(world.origin, head, p.head_sha)
        for p in world.forged.pulls.values()
        if p.state == "open"
    )
    sha = world.written(head, {name: (old if replaces else "", line)}, "amended", parents)
    pull = world.pull(batch)
    if replaces and not (pull and pull.merged):
        world.own[batch.key].discard(old)
    _owned(world, batch, line)
    world.theirs.discard(head)
    world.theirs.add(sha)
    world.moves(batch.branch, sha)
    return True


def updates(world: World, batch: Batch, choice: int) -> bool:
    """The forge's button that merges the base into the branch."""
    heads, pull = world.heads(), world.pull(batch)
    if pull is None or pull.state != "open" or not {pull.head, pull.base} <= set(heads):
        return False
    head, below = heads[pull.head], heads[pull.base]
    tree = merged_tree(world.origin, head, below)
    if tree is None or is_ancestor(world.origin, below, head):
        return False
    sha = world.committed(tree, [head, below], f"Merge {pull.base} into {pull.head}")
    world.theirs.add(sha)
    world.moves(pull.head, sha)
    return True


def rebases(world: World, batch: Batch, choice: int) -> bool:
    """By hand, onto what its pull request targets, as one commit."""
    heads, pull = world.heads(), world.pull(batch)
    if pull is None or pull.state != "open" or not {pull.head, pull.base} <= set(heads):
        return False
    head, below = heads[pull.head], heads[pull.base]
    onto = world.committed(f"{below}^{{tree}}", [str(batch.base_sha)], "as if it had been made there")
    tree = merged_tree(world.origin, onto, head)
    if tree is None:
        return False
    sha = world.committed(tree, [below], f"{batch.branch} in one commit")
    world.theirs -= {*world.git("rev-list", f"{below}..{head}").split()}
    world.theirs.add(sha)
    world.moves(pull.head, sha)
    return True


def merges(world: World, batch: Batch, choice: int) -> bool:
    """Into whatever its pull request targets, ready or not."""
    pull = world.pull(batch)
    if pull is None or pull.state != "open":
        return False
    world.forged.pulls[pull.number] = replace(pull, draft=False)
    gone = {pull.head} if world.forged.delete_branch_on_merge else set()
    added, _ = world.shown(pull.base, pull.head)
    if not done(world, world.reviewer.merge, pull.number, ("squash", "merge", "rebase")[choice % 3]):
        return False
    world.deleted |= gone
    into = next((b for b in world.batches() if b.branch == pull.base and b.key != batch.key), None)
    below = world.pull(into) if into else None
    if into and below and below.state == "open":
        world.tangled |= not added <= world.own[batch.key]
        world.own[into.key] |= added
    return True


def edits_the_target(world: World, batch: Batch, choice: int) -> bool:
    """Whoever merged it changes its lines in the target right away, or something else happens there."""
    head = world.heads()["main"]
    number = batch.feature_ids[0] - 1
    name, lines = f"src/f{number}.txt", world.contains(head)
    old = next(
        (own for own in sorted(world.own[batch.key]) if own in lines and own.startswith("feature")), None
    )
    if choice % 2 and old and world.git("ls-tree", head, name):
        sha = world.written(head, {name: (old, world.mark("edited"))}, "edited", [head])
        world.edited.add(old)
    else:
        line = world.mark("elsewhere")
        sha = world.written(head, {SHARED: (f"section {8 + choice % 4}", line)}, line, [head])
    world.moves("main", sha)
    return True


def closes(world: World, batch: Batch, choice: int) -> bool:
    pull = world.pull(batch)
    return bool(pull and pull.state == "open") and done(
        world, world.reviewer.edit, batch.pr_number, state="closed"
    )


def reopens(world: World, batch: Batch, choice: int) -> bool:
    pull = world.pull(batch)
    return bool(pull and pull.state == "closed" and not pull.merged) and done(
        world, world.reviewer.edit, batch.pr_number, state="open"
    )


def deletes(world: World, batch: Batch, choice: int) -> bool:
    """The branch of a pull request that is done with."""
    pull = world.pull(batch)
    if pull is None or pull.state == "open" or pull.head not in world.heads():
        return False
    commits = {*world.git("rev-list", pull.head).split()}
    if not done(world, world.reviewer.delete_branch, pull.head):
        return False
    world.deleted.add(pull.head)
    world.theirs -= commits - {*world.git("rev-list", "--all").split()}  # they knew what they did
    return True


def retargets(world: World, batch: Batch, choice: int) -> bool:
    """By hand, to the target or to another branch of ours."""
    others = ["main", *(b.branch for b in world.batches() if b.status is BatchStatus.OPENED)]
    base_ = others[0 if choice < 7 else choice % len(others)]
    pull = world.pull(batch)
    if pull is None or pull.state != "open" or base_ in (pull.base, pull.head):
        return False
    return done(world, world.reviewer.edit, batch.pr_number, base=base_)


def done(world: World, ask: Callable[..., object], *args: object, **named: str) -> bool:
    """Whether GitHub did what it was asked for."""
    try:
        ask(*args, **named)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    return True


ACTIONS = {
    each.__name__: each
    for each in (
        adds,
        amends,
        updates,
        rebases,
        merges,
        edits_the_target,
        closes,
        reopens,
        deletes,
        retargets,
    )
}
