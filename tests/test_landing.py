"""Verified batches come into the local target: with real builds, without a forge."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge import landing
from autoforge.landing import Landed
from autoforge.landing_order import NOT_LANDED
from autoforge.leading import Options
from autoforge.project import Project, table
from db.feature import BatchStatus, NewFeature
from git_workflow import landing as git_landing
from git_workflow.command import Git
from git_workflow.errors import UnusableRepository
from tests.builds import batches, chain
from tests.conftest import commit, run
from tests.landings import built, land, merges, sha

Opened = Callable[..., Project]


def test_a_stack_lands_bottom_first_as_one_merge_each(opened: Opened, clone: Path, origin: Path) -> None:
    project = opened(batch_size=1)
    first, second = built(project, *chain("Greet people", "Part"))
    landed = land(project)
    assert (landed.exit_code, [b.key for b in landed.batches]) == (0, [first.key, second.key])
    assert merges(clone) == [f"Merge branch '{first.branch}'", f"Merge branch '{second.branch}'"]
    body = run("git", "log", "-1", "--format=%ae %b", "main^", cwd=clone)
    assert body.split("\n") == [
        "tess@example.com - Greet people (feature 1)",
        "",
        f"Autoforge-Batch: {first.key}",
    ]
    assert sorted(path.name for path in clone.iterdir() if not path.name.startswith(".")) == [
        "Greet people",
        "Part",
        "README.md",
        "check.sh",
    ]
    assert run("git", "status", "--porcelain", cwd=clone) == ""
    assert [(b.status, b.merge_sha) for b in batches(project)] == [
        (BatchStatus.MERGED, sha(clone, "main^")),
        (BatchStatus.MERGED, sha(clone, "main")),
    ]
    assert run("git", "for-each-ref", "--format=%(refname)", "refs/heads", cwd=clone) == "refs/heads/main"
    assert sha(origin, "main") == sha(clone, "main~2")
    assert not project.worktrees.exists()
    assert run("git", "for-each-ref", "refs/autoforge/saved/*/landing", cwd=clone) == ""
    assert land(project) == Landed(())
    assert len(merges(clone)) == 2


def test_without_a_remote_and_while_the_user_works_on_another_branch(opened: Opened, clone: Path) -> None:
    run("git", "remote", "remove", "origin", cwd=clone)
    project = opened()
    built(project, NewFeature("a.txt=1"))
    run("git", "switch", "-qc", "mine", cwd=clone)
    (clone / "README.md").write_text("in the middle of it\n")
    assert land(project).exit_code == 0
    assert run("git", "show", "main:a.txt", cwd=clone) == "1"
    assert (clone / "README.md").read_text() == "in the middle of it\n"
    assert run("git", "status", "--porcelain", "-b", cwd=clone) == "## mine\n M README.md"


def test_nothing_begins_while_the_targets_checkout_is_not_clean(opened: Opened, clone: Path) -> None:
    project = opened()
    before = built(project, NewFeature("a.txt=1"))
    (clone / "README.md").write_text("in the middle of it\n")
    with pytest.raises(UnusableRepository, match="commit or stash"):
        land(project)
    assert sha(clone, "main") == sha(clone, "origin/main")
    assert batches(project) == before


def test_a_conflict_goes_back_and_lands_when_it_is_resolved_on_its_branch(
    opened: Opened, clone: Path
) -> None:
    project = opened(batch_size=1)
    built(project, NewFeature("a.txt=1"), NewFeature("a.txt=2 "))
    [(key, why)] = land(project).left.items()
    left = next(b for b in batches(project) if b.key == key)
    assert f"a.txt. Merge main into {left.branch}, resolve" in why
    assert left.last_error == f"{NOT_LANDED}{why}"
    assert sha(clone, left.branch) == left.head_sha
    assert not project.worktrees.exists()

    run("git", "switch", "-q", left.branch, cwd=clone)
    run("sh", "-c", "git merge -q main || git commit -qam both", cwd=clone)
    assert [b.key for b in land(project).batches] == [key]
    after = next(b for b in batches(project) if b.key == key)
    assert (after.merge_sha, after.last_error) == (sha(clone, "main"), None)


def test_what_a_person_has_merged_has_landed(opened: Opened, clone: Path) -> None:
    project = opened()
    [batch] = built(project, NewFeature("a.txt=1"))
    run("git", "merge", "-q", "--no-ff", "-m", "mine", batch.branch, cwd=clone)
    by_hand = sha(clone, "main")
    commit(clone, {"later": "1"})
    assert land(project).exit_code == 0
    assert (batches(project)[0].status, batches(project)[0].merge_sha) == (BatchStatus.MERGED, by_hand)


def test_b1_killed_between_the_merge_and_its_record_it_is_not_merged_twice(
    opened: Opened, clone: Path, git: Git
) -> None:
    project = opened(batch_size=1)
    first, second = built(project, *chain("a.txt=1", "b.txt=1"))
    made = git_landing.merge(
        git, "main", first.branch, message="Merge it\n", kept="refs/autoforge/saved/k/landing", sign=False
    )
    assert git_landing.advance(git, "main", old=sha(clone, "main"), new=made)
    assert [b.key for b in land(project).batches] == [first.key, second.key]
    assert batches(project)[0].merge_sha == made == sha(clone, "main^")
    assert run("git", "branch", "--list", first.branch, cwd=clone) == ""


def test_a_branch_that_is_not_where_the_table_has_it_does_not_land(opened: Opened, clone: Path) -> None:
    project = opened()
    [batch] = built(project, NewFeature("a.txt=1"))
    run("git", "branch", "-qD", batch.branch, cwd=clone)
    assert "its branch is at no commit" in land(project).left[batch.key]
    assert sha(clone, "main") == sha(clone, "origin/main")


def test_a_branch_that_the_user_is_on_lands_and_stays(opened: Opened, clone: Path) -> None:
    project = opened()
    [batch] = built(project, NewFeature("a.txt=1"))
    run("git", "switch", "-q", batch.branch, cwd=clone)
    assert land(project).exit_code == 0
    assert run("git", "symbolic-ref", "--short", "HEAD", cwd=clone) == batch.branch
    assert sha(clone, batch.branch) == batch.head_sha
    run("git", "update-ref", "refs/heads/main", "origin/main", cwd=clone)
    run("git", "switch", "-q", "main", cwd=clone)
    assert land(project) == Landed(())
    assert sha(clone, batch.branch) == batch.head_sha  # nothing else has these commits any more


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_lands_nothing_more(opened: Opened, clone: Path, number: signal.Signals) -> None:
    built(opened(), NewFeature("a.txt=1"))
    started = clone.parent / "started"
    project = opened(verify__commands=[f"touch {started}; sleep 60"])

    async def stopped() -> Landed:
        with table(project) as store:
            show = lambda _: None  # noqa: E731
            running = asyncio.ensure_future(landing.run(project, store, Options(), show, asked=None))
            while not started.exists():
                await asyncio.wait({running}, timeout=0.02)
            os.kill(os.getpid(), number)
            return await asyncio.wait_for(running, 20)

    assert asyncio.run(stopped()).exit_code == 130
    assert sha(clone, "main") == sha(clone, "origin/main")
    assert batches(project)[0].last_error is None
    assert not project.worktrees.exists()
