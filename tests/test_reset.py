"""What has passed and is not published is reset: nothing of it is published, and nothing is lost."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoforge import report
from autoforge.demo.github import Repository
from autoforge.project import Project, table
from db.feature import BatchStatus, NewFeature, Parent
from db.store import FeatureStore
from tests.agents import Agent, Crew, diligent
from tests.builds import add, batches, build, chain, features
from tests.conftest import TOKEN, run
from tests.harness.github import Fault, ValidatingGitHub
from tests.invoke import CONSOLE_SCRIPT
from tests.standings import FAILED, GIVEN_UP, PASSED, PENDING, added, begin, refused, stand
from tests.tables import led


@pytest.fixture
def store(table_url: str) -> Iterator[FeatureStore]:
    opened = led(FeatureStore.open(table_url))
    yield opened
    opened.close()


def test_what_shares_its_commits_is_reset_together(store: FeatureStore) -> None:
    added(store, (), (), (2,), ())
    tried = begin(store, "k", 1, 2, 4)
    for id_ in (1, 2):
        store.record_pass(batch_key="k", feature_id=id_, commit_sha=f"c{id_}", evidence=[], checks=[])
    store.end_attempt(tried, GIVEN_UP, max_attempts=1)
    store.save_batch(replace(store.batch("k"), status=BatchStatus.BUILT))
    refused(
        store,
        lambda: store.reset([2]),
        "whose commits #1 needs: reset them together (`autoforge features reset 1 2`)",
    )

    above = begin(store, "above", 3)
    store.save_batch(replace(store.batch("above"), parents=(Parent("k", "c2"),)))
    refused(store, lambda: store.reset([1, 2]), "which autoforge/above is built on: `autoforge build` first")
    store.record_pass(batch_key="above", feature_id=3, commit_sha="c3", evidence=[], checks=[])
    store.end_attempt(above, GIVEN_UP, max_attempts=1)
    store.save_batch(replace(store.batch("above"), status=BatchStatus.FOLDED))
    refused(
        store,
        lambda: store.reset([1, 2]),
        "whose commits #3 needs: reset them together (`autoforge features reset 1 2 3`)",
    )
    before = store.batches()
    store.reset([1, 2, 3])
    assert {f.status for f in store.features()} == {PENDING, FAILED}
    assert store.batches() == before, "batches are changed by who leads"


def test_what_is_merged_into_what_was_merged_into_it_is_not_forgotten(store: FeatureStore) -> None:
    ids = [
        stand(store, PASSED, status)
        for status in (BatchStatus.PUSHED, BatchStatus.FOLDED, BatchStatus.FOLDED)
    ]
    for below, key in (("k1", "k2"), ("k2", "k3")):
        store.save_batch(replace(store.batch(key), parents=(Parent(below, "c" * 40),)))
    refused(store, lambda: store.reset(ids[:2]), "whose commits #3 needs")
    store.save_batch(replace(store.batch("k2"), status=BatchStatus.CLOSED))
    store.reset(ids[:1])


def heads(project: Project) -> dict[str, str]:
    lines = run(
        "git",
        "for-each-ref",
        "--format=%(refname:short) %(objectname)",
        "refs/heads/autoforge",
        cwd=project.folder,
    )
    return dict(line.split() for line in lines.splitlines())


def reset(project: Project, *ids: int) -> None:
    with table(project) as store:
        store.reset(ids)


def test_what_was_built_and_is_reset_is_built_anew_and_the_old_branch_stays(
    opened: Callable[..., Project],
) -> None:
    project = opened(batch_size=1)
    add(project, *chain("One", "Two"))
    assert build(project, Crew(diligent)).exit_code == 0
    old = heads(project)
    reset(project, 1, 2)
    with table(project) as store:
        told = report.make(*store.snapshot(), cost_usd=0, publish=True, forge=True)
    assert (told.unpublished, told.exit_code) == ({}, 1)

    assert build(project, Crew(diligent)).exit_code == 0
    one, two = [f.branch_name for f in features(project)]
    assert not {one, two} & old.keys()
    assert old.items() <= heads(project).items()
    assert run("git", "rev-list", "--count", f"main..{two}", cwd=project.folder) == "2"
    by_branch = {b.branch: b.status for b in batches(project)}
    assert {by_branch[branch] for branch in old} == {BatchStatus.CLOSED}
    assert by_branch[one] is by_branch[two] is BatchStatus.BUILT


def test_what_was_pushed_and_is_reset_gets_no_pull_request(
    opened: Callable[..., Project], forged: Repository, github: ValidatingGitHub, origin: Path
) -> None:
    project = opened(token=TOKEN, api_url=github.url)
    add(project, NewFeature("One"))
    github.faults.append(Fault("POST", ".*/pulls", status=422, times=9))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 1
    [old] = batches(project)
    assert old.status is BatchStatus.PUSHED
    github.faults.clear()
    reset(project, 1)

    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [first, second] = batches(project)
    assert (first.status, first.branch, second.status) == (BatchStatus.CLOSED, old.branch, BatchStatus.OPENED)
    assert [pull.head for pull in forged.pulls.values()] == [second.branch]
    assert run("git", "rev-parse", old.branch, cwd=origin) == old.head_sha


def test_a_reset_while_the_build_runs_stops_what_is_not_yet_published(
    opened: Callable[..., Project], origin: Path
) -> None:
    project = opened(batch_size=1, concurrency=1)
    add(project, NewFeature("One"), NewFeature("Two"))

    async def work(agent: Agent) -> None:
        if agent.features[0][1] == "Two" and len(crew.sessions) == 2:
            reset(project, 1)
        await diligent(agent)

    crew = Crew(work)
    assert build(project, crew).exit_code == 0
    assert [f.status for f in features(project)] == [PASSED, PASSED]
    assert len(crew.sessions) == 3
    again = [b for b in batches(project) if 1 in b.feature_ids]
    assert [b.status for b in again] == [BatchStatus.CLOSED, BatchStatus.BUILT]
    assert again[1].parents == (), "it is not built on what was reset"


def test_a_reset_while_the_branch_is_pushed_stops_its_pull_request(
    opened: Callable[..., Project], forged: Repository, github: ValidatingGitHub, clone: Path
) -> None:
    project = opened(token=TOKEN, api_url=github.url)
    add(project, NewFeature("One"))
    hook = clone / ".git" / "hooks" / "pre-push"
    hook.write_text(f'#!/bin/sh\nrm "$0"; {" ".join(CONSOLE_SCRIPT)} features reset 1\n')
    hook.chmod(0o755)
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [first, second] = batches(project)
    assert (first.status, second.status) == (BatchStatus.CLOSED, BatchStatus.OPENED)
    assert [pull.head for pull in forged.pulls.values()] == [second.branch]
