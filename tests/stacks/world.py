"""A stack made with git and the table alone, and what people do to it: each action is one event of a history."""

import urllib.error
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoforge import lock, plan
from autoforge.demo.github import Repository
from autoforge.demo.github.follow import follow
from autoforge.demo.github.git import is_ancestor, merged_tree, output
from autoforge.demo.github.git import run as git_run
from autoforge.demo.github.repository import Pull
from autoforge.project import Project, table
from db.feature import Batch, BatchStatus, Ended, Kind, NewFeature, Parent, PrStatus, Result
from db.store import FeatureStore
from git_workflow import base
from git_workflow.base import Target
from tests.conftest import DATE, run
from tests.reviews import Reviewer

SHARED = "shared.txt"
SECTION = "section {}\n" + "-\n" * 8
START = {"README.md": "# app\n", SHARED: "".join(map(SECTION.format, range(12)))}
PREFIX = "autoforge"
Graph = Sequence[Sequence[int]]
"""For each batch, the earlier ones that its feature depends on."""


@dataclass
class World:
    """`own`: by batch, the lines that its work and people's work on its branch add. `theirs`: what people committed
    and nobody but them may replace. `deleted`: branches that people deleted."""

    project: Project
    origin: Path
    forged: Repository
    reviewer: Reviewer
    own: dict[str, set[str]] = field(default_factory=dict)
    theirs: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    edited: set[str] = field(default_factory=set)
    tangled: bool = False
    marks: int = 0
    story: list[str] = field(default_factory=list)

    def git(self, *args: str, **env: str) -> str:
        return run("git", *args, cwd=self.origin, **env)

    def mark(self, what: str) -> str:
        self.marks += 1
        return f"{what} {self.marks}"

    def heads(self) -> dict[str, str]:
        rows = self.git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads").split(
            "\n"
        )
        return dict(row.rsplit(" ", 1) for row in rows)

    def batches(self) -> list[Batch]:
        with table(self.project) as store:
            return store.batches()

    def pull(self, batch: Batch) -> Pull | None:
        return self.forged.pulls.get(batch.pr_number or 0)

    def branch_of(self, key: str) -> str:
        return next(b.branch for b in self.batches() if b.key == key)

    def shown(self, base_: str, head: str) -> tuple[set[str], set[str]]:
        """The lines that a pull request adds and removes."""
        rows = self.git("diff", "--unified=0", "--no-renames", f"{base_}...{head}").split("\n")
        added = {row[1:] for row in rows if row.startswith("+") and not row.startswith("+++")}
        return added, {row[1:] for row in rows if row.startswith("-") and not row.startswith("---")}

    def contains(self, sha: str) -> set[str]:
        """Every line of every file."""
        return set(self.git("grep", "-h", "", sha, "--").split("\n"))

    def written(
        self, start: str, edits: dict[str, tuple[str, str]], message: str, parents: Sequence[str]
    ) -> str:
        """A commit with these lines put behind, or in the place of, other lines; "" is the end of the file."""
        texts = {}
        for name, (where, line) in edits.items():
            known = git_run(self.origin, "show", f"{start}:{name}").stdout.decode()
            texts[name] = "\n".join(_with(known.splitlines(), where, line)) + "\n"
        who = "Tess Ter <tess@example.com> 1767323045 +0000"
        tree = self.git("rev-parse", f"{start}^{{tree}}")
        flow = [
            f"commit refs/scratch\nmark :1\nauthor {who}\ncommitter {who}\ndata {len(message)}\n{message}",
            *(f"{'merge' if number else 'from'} {parent}" for number, parent in enumerate(parents)),
            f'M 040000 {tree} ""',
            *(f"M 100644 inline {name}\ndata {len(text)}\n{text}" for name, text in texts.items()),
            f"\nget-mark :1\nreset refs/scratch\nfrom {'0' * 40}\n\ndone\n",
        ]
        return output(self.origin, "fast-import", "--quiet", stdin="\n".join(flow).encode())

    def committed(self, tree: str, parents: Sequence[str], message: str) -> str:
        flags = [flag for parent in parents for flag in ("-p", parent)]
        dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        return self.git("commit-tree", tree, *flags, "-m", message, **dates)

    def moves(self, branch: str, sha: str) -> None:
        """What a push does."""
        self.git("update-ref", f"refs/heads/{branch}", sha)
        with self.forged.lock:
            follow(self.forged)

    def brings_here(self, branch: str, sha: str) -> None:
        where = f"+{sha}:refs/heads/{branch}"
        run("git", "fetch", "-q", str(self.origin), where, cwd=self.project.repo.root)


def _with(lines: list[str], where: str, line: str) -> list[str]:
    """Behind a section's head, in the place of another line, or at the end."""
    if where not in lines:
        return [*lines, line]
    at = lines.index(where)
    return [*lines[: at + where.startswith("section")], line, *lines[at + 1 :]]


# How it begins


def fill(world: World, graph: Graph, late: int) -> None:
    """Everything is built, and published but for the last `late` batches, where publishing was interrupted."""
    with table(world.project) as free, lock.lease(free, "fill") as (store, _):
        store.add_features(
            [NewFeature(f"Feature {n}", depends_on=tuple(deps)) for n, deps in enumerate(graph)]
        )
        for number in range(len(graph)):
            _build(world, store, number, published=number < len(graph) - late)


def _build(world: World, store: FeatureStore, number: int, *, published: bool) -> None:
    key = f"batch{chr(ord('a') + number)}"
    batch = Batch(key, f"{PREFIX}/feature-{number}-{key}", (number + 1,))
    assert store.plan_batch(batch)
    attempt = store.start_attempt(
        batch_key=key, feature_ids=batch.feature_ids, kind=Kind.CODE, build_id="fill", session_id=key
    )
    assert attempt
    git = world.project.repo.git
    tips = plan.parents(batch, store.features(), store.batches()).tips
    target = Target("main", world.heads()["main"])
    chosen = base.choose(git, target=target, tips=tips, merged=(), prefix=PREFIX)
    if chosen.is_join:
        run("git", "push", "-q", str(world.origin), f"{chosen.sha}:refs/heads/{chosen.branch}", cwd=git.cwd)
    edits, own = {f"src/f{number}.txt": ("", world.mark(f"feature {number}"))}, set()
    if number % 2:
        edits[SHARED] = (f"section {number}", world.mark(f"shared by {number}"))
    own = {line for _, line in edits.values()}
    head = world.written(chosen.sha, edits, f"feature {number}", [chosen.sha])
    world.own[key] = own
    world.git("update-ref", f"refs/heads/{batch.branch}", head)
    world.brings_here(batch.branch, head)
    store.record_pass(batch_key=key, feature_id=number + 1, commit_sha=head, evidence=(), checks=())
    store.end_attempt(attempt.id, Ended(Result.PASSED), max_attempts=3)
    built = replace(
        store.batch(key),
        status=BatchStatus.BUILT,
        base_branch=chosen.branch,
        base_sha=chosen.sha,
        parents=tuple(Parent(tip.key, tip.sha) for tip in chosen.parents),
        last_error=None if published else "interrupted",
    )
    store.save_batch(built)
    if published:
        _publish(world, store, built)
    else:
        world.git("update-ref", "-d", f"refs/heads/{batch.branch}")


def _publish(world: World, store: FeatureStore, batch: Batch) -> None:
    store.save_batch(replace(batch, pushed_sha=batch.head_sha))
    number = world.reviewer.open(batch.branch, str(batch.base_branch))
    pull = world.forged.pulls[number]
    join = "/join-" in str(batch.base_branch)
    world.forged.pulls[number] = replace(pull, draft=join)
    store.set_pull_request(
        batch.key,
        number=number,
        url=f"{world.reviewer.github.url}/octo/app/pull/{number}",
        status=PrStatus.DRAFT if join else PrStatus.OPEN,
        batch_status=BatchStatus.OPENED,
    )


# What people do; each answers whether it could be done


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
    base_ = others[0 if choice % 3 else choice % len(others)]
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
    for each in (adds, amends, updates, merges, edits_the_target, closes, reopens, deletes, retargets)
}
