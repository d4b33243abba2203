"""A stack made with git and the table alone, without agents, and what is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoforge import lock, plan
from autoforge.demo.github import Repository
from autoforge.demo.github.follow import follow
from autoforge.demo.github.git import output
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


def fill(world: World, graph: Graph, late: int) -> None:
    """Everything is built, and published but for the last `late` batches, where publishing was interrupted."""
    with table(world.project) as free, lock.lease(free, "fill", ttl_s=3600) as (store, _):
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
