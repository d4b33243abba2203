"""How long a stack takes to follow when its first branch is amended, beside the bare git commands.

Run from the repository: .venv/bin/python -m benchmarks.restack

A chain of 50 batches, one commit each, is on a bare remote on the same disk; then somebody amends the first. "moves" is
what git has to do for the other 49: ours without a checkout, and `git rebase --onto` in the order of the chain, in one
worktree. "all" is a whole `autoforge restack` pass with one verify command (`true`) for each branch, a worktree for
each, pushes and records, beside the same rebases, each with a checkout, the command and a push. Wall-clock seconds.
"""

import asyncio
import subprocess
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from autoforge import lead, leading, project, settings
from autoforge.project import Project, table
from db.feature import Batch, BatchStatus, FeatureStatus, NewFeature, Parent
from db.store import FeatureStore
from git_workflow import restack
from git_workflow.command import Git

DEPTH = 50
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
ENV |= {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
}


def run(folder: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=folder, env=ENV, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, name: str, *flags: str) -> str:
    (folder / name).write_text(f"{name} {flags}\n")
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "-m", name, *flags)
    return run(folder, "rev-parse", "HEAD")


def chain(folder: Path) -> tuple[Path, list[str]]:
    """A clone with a chain of branches b0, b1, …, all pushed, and their commits after the target's."""
    run(folder, "init", "-q", "--bare", "-b", "main", "origin.git")
    clone = folder / "clone"
    run(folder, "init", "-q", "-b", "main", str(clone))
    run(clone, "remote", "add", "origin", str(folder / "origin.git"))
    shas = [commit(clone, "start")]
    for n in range(DEPTH):
        run(clone, "checkout", "-q", "-b", f"autoforge/b{n}")
        shas.append(commit(clone, f"f{n}"))
    run(clone, "push", "-q", "origin", "main", "refs/heads/autoforge/*:refs/heads/autoforge/*")
    run(clone, "checkout", "-q", "main")
    return clone, shas


def amended(folder: Path) -> str:
    """Somebody else amends the first branch."""
    other = folder / "other"
    run(folder, "clone", "-q", "-b", "autoforge/b0", str(folder / "origin.git"), str(other))
    sha = commit(other, "f0", "--amend")
    run(other, "push", "-q", "--force", "origin", "HEAD:refs/heads/autoforge/b0")
    return sha


def our_moves(clone: Path, shas: list[str], onto: str) -> float:
    git = Git(clone, env=ENV)
    started = time.perf_counter()
    for old_base, head in pairwise(shas[1:]):
        onto = restack.move(git, head=head, old_base=old_base, onto=onto, own=[head]).head
    return time.perf_counter() - started


def bare(clone: Path, shas: list[str], onto: str, *, whole: bool) -> float:
    tree = clone.parent / f"tree-{whole}"
    run(clone, "worktree", "add", "-q", "--detach", str(tree), onto)
    started = time.perf_counter()
    for n, (old_base, head) in enumerate(pairwise(shas[1:]), 1):
        run(tree, "rebase", "-q", "--onto", onto, old_base, head)
        onto = run(tree, "rev-parse", "HEAD")
        if whole:
            subprocess.run(["sh", "-c", "true"], cwd=tree, check=True)
            run(
                clone,
                "push",
                "-q",
                f"--force-with-lease=refs/heads/autoforge/b{n}:{head}",
                "origin",
                f"{onto}:refs/heads/autoforge/b{n}",
            )
    return time.perf_counter() - started


def fill(store: FeatureStore, shas: list[str]) -> None:
    """The table as builds would have left it."""
    ids = store.add_features([NewFeature(f"F{n}", depends_on=(n - 1,) if n else ()) for n in range(DEPTH)])
    for n, feature_id in enumerate(ids):
        key = f"k{n:05}"
        below = (Parent(f"k{n - 1:05}", shas[n]),) if n else ()
        base = f"autoforge/b{n - 1}" if n else "main"
        batch = Batch(
            key, f"autoforge/b{n}", (feature_id,), base_branch=base, base_sha=shas[n], parents=below
        )
        store.plan_batch(batch)
        store.start_attempt(
            batch_key=key, feature_ids=[feature_id], kind="code", build_id="b", session_id="s"
        )  # type: ignore[arg-type]
        store.record_pass(
            batch_key=key, feature_id=feature_id, commit_sha=shas[n + 1], evidence=(), checks=()
        )
        head = store.batch(key)
        store.save_batch(replace(head, status=BatchStatus.PUSHED, pushed_sha=shas[n + 1]))


def ours(opened: Project) -> float:
    with table(opened) as store:
        started = time.perf_counter()
        asyncio.run(lead.restack(opened, store, lambda _: None, leading.Seams()))
        return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone, shas = chain(folder)
        opened = project.open_project(
            clone, settings.take({**ENV, "HOME": name}), {"verify.commands": ["true"]}
        )
        with table(opened) as store, leading.lock.lease(store, "benchmark") as (owned, _):
            fill(owned, shas)
        onto = amended(folder)
        run(clone, "fetch", "-q", "origin")
        moves, rebases = our_moves(clone, shas, onto), bare(clone, shas, onto, whole=False)
        print(
            f"moves: ours {moves:6.2f} s   bare rebases           {rebases:6.2f} s   ratio {moves / rebases:.2f}"
        )
        run(folder, "clone", "-q", "--mirror", "origin.git", "mirror.git")
        whole = ours(opened)
        run(clone, "remote", "set-url", "origin", str(folder / "mirror.git"))
        by_hand = bare(clone, shas, onto, whole=True)
        print(
            f"all:   ours {whole:6.2f} s   rebase, command, push  {by_hand:6.2f} s   ratio {whole / by_hand:.2f}"
        )
        with table(opened) as store:
            assert all(f.status is FeatureStatus.PASSED for f in store.features())
            assert all(b.head_sha == b.pushed_sha and b.last_error is None for b in store.batches())
            assert len({b.head_sha for b in store.batches()} & set(shas)) == 0


if __name__ == "__main__":
    main()
