"""The loopback GitHub's check runs and commit statuses, through PyGithub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        made.commit("topic/deep", "a.txt", start="main")
        made.push("topic/deep")
        yield made


def runs(world: World, revision: str = "topic/deep", **named: str) -> list[tuple[str, str, str | None]]:
    commit = world.repo().get_commit(revision)
    return [(run.name, run.status, run.conclusion) for run in commit.get_check_runs(**named)]


def test_an_app_tells_how_a_check_goes_and_ends(world: World) -> None:
    app, head = world.repo("actions"), world.tip("topic/deep")
    app.create_check_run("test", head)
    app.create_check_run("lint", head, status="in_progress")
    assert runs(world) == [("test", "queued", None), ("lint", "in_progress", None)]
    output = {"title": "2 failed", "summary": "test_a, test_b"}
    ended = app.create_check_run("test", head, conclusion="failure", output=output)
    assert (ended.status, ended.head_sha, ended.output.title) == ("completed", head, "2 failed")
    assert ended.completed_at is not None
    assert runs(world) == [("test", "completed", "failure"), ("lint", "in_progress", None)]
    assert len(runs(world, filter="all")) == 3
    assert runs(world, check_name="lint") == runs(world, status="in_progress")
    assert runs(world, check_name="lint") == [("lint", "in_progress", None)]
    assert runs(world, "main") == []


def test_only_apps_make_check_runs(world: World) -> None:
    said = refused(403, world.repo().create_check_run, "test", world.tip("main"))
    assert "authenticate via a GitHub App" in said
    assert runs(world, "main") == []


def test_check_runs_and_statuses_come_in_pages(world: World) -> None:
    head = world.tip("topic/deep")
    for number in range(3):
        world.repo("actions").create_check_run(f"test {number}", head, conclusion="success")
    client = world.client()
    client.per_page = 2
    commit = client.get_repo("octo/demo").get_commit(head)
    for number in range(3):
        commit.create_status("success", context=f"ci/{number}")
    found = commit.get_check_runs()
    assert [run.name for run in found] == ["test 0", "test 1", "test 2"]
    assert [entry.query["page"] for entry in world.server.requests("GET", "/check-runs")[1:]] == ["2"]
    headers, combined = commit.requester.requestJsonAndCheck("GET", f"{commit.url}/status?per_page=2")
    assert (combined["total_count"], [s["context"] for s in combined["statuses"]]) == (3, ["ci/0", "ci/1"])
    assert 'page=2>; rel="next"' in headers["link"]


@pytest.mark.parametrize(
    ("states", "combined"),
    [
        ([], "pending"),
        (["success"], "success"),
        (["success", "pending"], "pending"),
        (["success", "failure", "pending"], "failure"),
        (["error"], "failure"),
    ],
)
def test_statuses_come_to_one(world: World, states: list[str], combined: str) -> None:
    head = world.repo().get_commit("topic/deep")
    for state in states:
        head.create_status(state, context=f"ci/{state}", description="said", target_url="http://ci/1")
    answer = head.get_combined_status()
    assert (answer.state, answer.sha, answer.total_count) == (combined, head.sha, len(states))
    assert [(one.context, one.state) for one in answer.statuses] == [(f"ci/{s}", s) for s in states]


def test_the_latest_status_of_a_context_counts(world: World) -> None:
    head = world.repo().get_commit("topic/deep")
    assert head.create_status("failure").creator.login == "ada"
    head.create_status("success")
    answer = head.get_combined_status()
    assert (answer.state, [one.context for one in answer.statuses]) == ("success", ["default"])
    assert world.repo().get_commit("main").get_combined_status().total_count == 0
    refused(403, world.repo("reader").get_commit("main").create_status, "success")


def test_a_check_belongs_to_a_commit_that_exists(world: World) -> None:
    for path, body in (
        ("check-runs", {"name": "test", "head_sha": "0" * 40}),
        (f"statuses/{'0' * 40}", {"state": "error"}),
    ):
        status, _, said = world.client("actions").requester.requestJson(
            "POST", f"/repos/octo/demo/{path}", input=body
        )
        assert (status, "No commit found for SHA" in said) == (422, True)
    assert (world.origin.check_runs, world.origin.statuses) == ([], [])
    world.server.violations.clear()  # GitHub's description leaves this answer out


def test_a_completed_run_needs_its_conclusion(world: World) -> None:
    app = world.client("actions").requester
    body = {"name": "test", "head_sha": world.tip("main"), "status": "completed"}
    status, _, said = app.requestJson("POST", "/repos/octo/demo/check-runs", input=body)
    assert (status, "conclusion" in said, world.origin.check_runs) == (422, True, [])
    world.server.violations.clear()  # GitHub's description leaves this answer out
