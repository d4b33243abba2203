"""What builds make of what has landed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from autoforge.errors import UsageError
from autoforge.project import Project
from db.feature import BatchStatus, NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, batches, build, chain
from tests.conftest import TOKEN, run
from tests.harness.github import ValidatingGitHub
from tests.landings import built, by_name, land, merges, sha

Opened = Callable[..., Project]


def test_dependents_start_from_the_target_that_has_what_they_need(opened: Opened, clone: Path) -> None:
    """The remote does not have it: the local target counts, as long as nothing is published."""
    project = opened(batch_size=1)
    add(project, *chain("a.txt=1", "b.txt=1"))
    assert build(project, Crew(by_name), features=(1,)).exit_code == 0
    assert land(project).exit_code == 0
    assert build(project, Crew(by_name)).exit_code == 0
    second = batches(project)[1]
    assert (second.base_branch, second.base_sha, second.parents) == ("main", sha(clone, "main"), ())
    assert land(project).exit_code == 0
    assert len(merges(clone)) == 2


def test_a_child_that_was_built_before_stands_on_the_target_afterwards(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    first, second = built(project, *chain("a.txt=1", "b.txt=1"))
    assert second.parents[0].key == first.key
    assert land(project, "1").exit_code == 0
    child = batches(project)[1]
    assert (child.base_branch, child.parents) == ("main", ())
    assert (child.base_sha, child.head_sha) == (second.base_sha, second.head_sha)
    assert build(project, Crew(by_name)).exit_code == 0
    assert batches(project)[1].head_sha == second.head_sha
    assert land(project, "2").exit_code == 0


def test_a_diamond_of_which_one_half_has_landed(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    add(project, NewFeature("a.txt=1"), NewFeature("b.txt=1"), NewFeature("c.txt=1", depends_on=(0, 1)))
    assert build(project, Crew(by_name), features=(1, 2)).exit_code == 0
    assert land(project, "1").exit_code == 0
    assert build(project, Crew(by_name)).exit_code == 0
    bottom = next(b for b in batches(project) if b.feature_ids == (3,))
    assert run("git", "merge-base", "--is-ancestor", "main", bottom.base_sha or "", cwd=clone) == ""
    assert [b.feature_ids for b in land(project).batches] == [(2,), (3,)]


def test_what_a_pull_request_would_need_has_to_be_pushed_first(
    opened: Opened, clone: Path, origin: Path, forged: Repository, github: ValidatingGitHub
) -> None:
    project = opened(token=TOKEN, api_url=github.url, batch_size=1)
    add(project, *chain("a.txt=1", "b.txt=1"))
    assert build(project, Crew(by_name), features=(1,)).exit_code == 0
    assert land(project).exit_code == 0
    with pytest.raises(UsageError, match="git push origin main"):
        build(project, Crew(by_name), auto_pr=True)
    run("git", "push", "-q", str(origin), "main", cwd=clone)
    assert build(project, Crew(by_name), auto_pr=True).exit_code == 0
    [pull] = forged.pulls.values()
    assert pull.base == "main"
    assert run("git", "diff", "--name-only", f"main...{pull.head}", cwd=origin) == "b.txt"


def test_a_landing_that_was_undone_is_noticed(opened: Opened, clone: Path) -> None:
    run("git", "remote", "remove", "origin", cwd=clone)
    project = opened(batch_size=1)
    add(project, *chain("a.txt=1", "b.txt=1"))
    assert build(project, Crew(by_name), features=(1,)).exit_code == 0
    assert land(project).exit_code == 0
    run("git", "reset", "-q", "--hard", "HEAD^", cwd=clone)
    with pytest.raises(UsageError, match="does not contain it any more"):
        build(project, Crew(by_name))


def test_a_build_lands_what_it_has_made(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    add(project, *chain("a.txt=1", "b.txt=1"), NewFeature("c.txt=1"))
    report = build(project, Crew(by_name), land=True, features=(2,))
    assert (report.exit_code, report.unpublished) == (0, {})
    assert {b.status for b in report.batches} == {BatchStatus.MERGED}
    assert run("git", "ls-tree", "--name-only", "main", cwd=clone).split() == [
        *("README.md", "a.txt", "b.txt", "check.sh")
    ]


def test_a_build_that_is_interrupted_while_it_lands_ends_with_130(opened: Opened, clone: Path) -> None:
    flag = clone.parent / "flag"
    project = opened(
        verify__commands=[f"[ ! -e {flag} ] || kill -INT {os.getpid()}; [ ! -e {flag} ] || sleep 60"]
    )
    add(project, NewFeature("a.txt=1"))

    async def raises_the_flag(agent: Agent) -> None:
        await by_name(agent)
        flag.touch()

    assert build(project, Crew(raises_the_flag), land=True).exit_code == 130
    assert batches(project)[0].status is BatchStatus.BUILT
    assert sha(clone, "main") == sha(clone, "origin/main")


def test_a_build_that_cannot_land_everything_does_not_end_with_0(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    add(project, NewFeature("a.txt=1"), NewFeature("a.txt=2 "))
    report = build(project, Crew(by_name), land=True)
    assert report.exit_code == 1
    [(key, why)] = report.unpublished.items()
    assert (
        f"{next(b for b in batches(project) if b.key == key).branch} has not landed in main: it conflicts"
        in why
    )
