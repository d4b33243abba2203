"""From a built batch to its one pull request, whatever the remote and the forge answer meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge import report
from autoforge.demo.github import Repository
from autoforge.project import Project, table
from db.feature import BatchStatus, NewFeature, PrStatus
from git_workflow import github as forge_client
from tests.agents import Crew, diligent
from tests.builds import add, batches, build, chain
from tests.conftest import TOKEN, run
from tests.harness.github import Fault, ValidatingGitHub
from tests.reviews import Reviewer, sync

Opened = Callable[..., Project]
OPEN_PULL = ("POST", "/repos/octo/app/pulls")


@pytest.fixture
def online(
    opened: Opened, forged: Repository, github: ValidatingGitHub, monkeypatch: pytest.MonkeyPatch
) -> Opened:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)

    def open_(**flags: object) -> Project:
        return opened(token=TOKEN, api_url=github.url, **flags)

    return open_


@pytest.fixture
def reviewer(github: ValidatingGitHub) -> Reviewer:
    return Reviewer(github)


def test_p1_the_answer_to_the_opening_is_lost_and_there_is_one_pull_request(
    online: Opened, forged: Repository, github: ValidatingGitHub
) -> None:
    project = online()
    add(project, NewFeature("A"))
    github.faults.append(Fault(*OPEN_PULL, drop=True, handled=True))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [batch] = batches(project)
    assert list(forged.pulls) == [batch.pr_number]
    assert batch.status is BatchStatus.OPENED


def test_p1_a_pull_request_that_somebody_opened_meanwhile_is_taken(
    online: Opened, forged: Repository, github: ValidatingGitHub, reviewer: Reviewer
) -> None:
    project = online()
    add(project, NewFeature("A"))
    github.faults.append(Fault(*OPEN_PULL, 403))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 1
    number = reviewer.open(batches(project)[0].branch)
    assert sync(project)[0] == 0
    [batch] = batches(project)
    assert (batch.pr_number, batch.status) == (number, BatchStatus.OPENED)
    assert list(forged.pulls) == [number]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(*OPEN_PULL, 403, "Resource not accessible"), "lacks a permission"),
        (Fault(*OPEN_PULL, 422, "Validation Failed"), "Validation Failed"),
        (Fault(*OPEN_PULL, 502, times=9), "GitHub has trouble"),
        (Fault(*OPEN_PULL, drop=True, times=9), "cannot be reached"),
    ],
    ids=["403", "422", "502", "dropped"],
)
def test_p4_a_forge_that_refuses_leaves_the_batch_pushed_with_the_reason_and_sync_finishes_it(
    online: Opened, forged: Repository, github: ValidatingGitHub, origin: Path, fault: Fault, said: str
) -> None:
    project = online()
    add(project, NewFeature("A"))
    github.faults.append(fault)
    ended = build(project, Crew(diligent), auto_pr=True)
    [batch] = batches(project)
    assert ended.exit_code == 1
    assert said in ended.unpublished[batch.key]
    assert batch.status is BatchStatus.PUSHED
    assert run("git", "rev-parse", batch.branch, cwd=origin) == batch.head_sha
    with table(project) as store:  # as `status` shows it
        shown = report.make(store.features(), store.batches(), cost_usd=0)
    assert said in shown.unpublished[batch.key]
    github.faults.clear()
    assert sync(project)[0] == 0
    [batch] = batches(project)
    assert (batch.status, batch.last_error) == (BatchStatus.OPENED, None)
    assert list(forged.pulls) == [batch.pr_number]


def test_p4_a_forge_that_cannot_even_be_asked_leaves_the_batch_built(
    online: Opened, forged: Repository, github: ValidatingGitHub
) -> None:
    project = online()
    add(project, NewFeature("A"))
    github.faults.append(Fault("GET", "/repos/octo/app/pulls", 503, times=9))
    ended = build(project, Crew(diligent), auto_pr=True)
    [batch] = batches(project)
    assert (ended.exit_code, batch.status) == (1, BatchStatus.BUILT)
    github.faults.clear()
    assert sync(project)[0] == 0
    assert len(forged.pulls) == 1


def test_p2_a_branch_whose_pull_request_was_closed_is_not_pushed_again(
    online: Opened,
    forged: Repository,
    reviewer: Reviewer,
    clone: Path,
    origin: Path,
    github: ValidatingGitHub,
) -> None:
    project = online()
    add(project, NewFeature("A"))
    assert build(project, Crew(diligent)).exit_code == 0
    [batch] = batches(project)
    run("git", "push", "-q", f"http://x:{TOKEN}@{github.url[7:]}/octo/app.git", batch.branch, cwd=clone)
    number = reviewer.open(batch.branch)
    reviewer.edit(number, state="closed")
    reviewer.delete_branch(batch.branch)
    ended = build(project, Crew(diligent), auto_pr=True)
    assert ended.exit_code == 1
    assert f"#{number} of {batch.branch} is closed" in ended.unpublished[batch.key]
    assert run("git", "for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=origin) == "main"


def test_p3_a_push_that_is_refused_is_recorded_and_finished_later(
    online: Opened, forged: Repository, clone: Path
) -> None:
    project = online()
    add(project, NewFeature("A"), NewFeature("B", depends_on=(0,)))
    assert build(project, Crew(diligent)).exit_code == 0
    [batch] = batches(project)
    forged.protected.add(f"refs/heads/{batch.branch}")
    ended = build(project, Crew(diligent), auto_pr=True)
    assert ended.exit_code == 1
    assert "refused" in ended.unpublished[batch.key]
    assert (batches(project)[0].status, forged.pulls) == (BatchStatus.BUILT, {})
    forged.protected.clear()
    assert sync(project)[0] == 0
    assert len(forged.pulls) == 1


def test_somebody_elses_branch_of_the_same_name_is_not_overwritten(
    online: Opened, forged: Repository, clone: Path, origin: Path
) -> None:
    project = online()
    add(project, NewFeature("A"))
    assert build(project, Crew(diligent)).exit_code == 0
    [batch] = batches(project)
    theirs = run("git", "rev-parse", "main", cwd=origin)
    run("git", "branch", batch.branch, "main", cwd=origin)
    ended = build(project, Crew(diligent), auto_pr=True)
    assert "did not push" in ended.unpublished[batch.key]
    assert run("git", "rev-parse", batch.branch, cwd=origin) == theirs


def test_neighbours_are_named_and_what_a_person_wrote_stays(
    online: Opened, forged: Repository, github: ValidatingGitHub, reviewer: Reviewer
) -> None:
    project = online(batch_size=1)
    add(project, NewFeature("First"))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [first] = batches(project)
    number = first.pr_number or 0
    reviewer.edit(number, body=f"Read this.\n\n{forged.pulls[number].body}\n\nAnd that.")
    add(project, NewFeature("Second", existing=(1,)), NewFeature("Third", existing=(1,)))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    body = forged.pulls[number].body or ""
    assert body.startswith("Read this.\n\n")
    assert body.endswith("\n\nAnd that.")
    for child in batches(project)[1:]:
        assert f"carries #{child.pr_number}" in body


def test_a_parent_that_is_opened_after_its_child_is_named_there(
    online: Opened, forged: Repository, github: ValidatingGitHub
) -> None:
    project = online(batch_size=1)
    add(project, *chain("First", "Second"))
    github.faults.append(Fault(*OPEN_PULL, 403, times=2))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 1
    assert sync(project)[0] == 0
    first, second = batches(project)
    assert f"built on #{first.pr_number}" in (forged.pulls[second.pr_number or 0].body or "")


def test_a_neighbour_that_cannot_be_edited_does_not_unpublish_anything(
    online: Opened, forged: Repository, github: ValidatingGitHub
) -> None:
    project = online(batch_size=1)
    add(project, *chain("First", "Second"))
    github.faults.append(Fault("PATCH", "/repos/octo/app/pulls/1", 403))
    shown: list[str] = []
    ended = build(project, Crew(diligent), auto_pr=True, show=lambda event: shown.append(event.text))
    assert ended.exit_code == 0
    assert [b.last_error for b in batches(project)] == [None, None]
    assert any("#1 does not name #2 yet" in text for text in shown)


def test_two_children_of_the_same_parents_share_one_join_that_is_pushed_once(
    online: Opened, forged: Repository, origin: Path, github: ValidatingGitHub
) -> None:
    project = online(batch_size=1)
    add(
        project,
        NewFeature("Left"),
        NewFeature("Right"),
        NewFeature("One", depends_on=(0, 1)),
        NewFeature("Two", depends_on=(0, 1)),
    )
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    *_, one, two = sorted(batches(project), key=lambda b: b.feature_ids)
    assert one.base_branch == two.base_branch
    joins = run("git", "for-each-ref", "--format=%(refname:short)", "refs/heads/autoforge/join-*", cwd=origin)
    assert joins == one.base_branch
    assert {forged.pulls[b.pr_number or 0].draft for b in (one, two)} == {True}
    assert "Built on a join of 2 branches" in (forged.pulls[one.pr_number or 0].body or "")


def test_drafts_and_issues(online: Opened, forged: Repository) -> None:
    project = online(pr__draft=True)
    add(project, NewFeature("A", issue_number=12))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [pull] = forged.pulls.values()
    assert pull.draft
    assert "Closes #12" in (pull.body or "")
    assert batches(project)[0].pr_status is PrStatus.DRAFT
