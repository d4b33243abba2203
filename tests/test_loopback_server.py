"""The loopback GitHub as a server: real git over HTTP, restarts, parallel clients, and the judge itself."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoforge.demo.github import represent
from tests.harness.github import Fault, ValidatingGitHub
from tests.harness.world import ENV, World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def test_git_asks_for_credentials_only_where_github_does(world: World) -> None:
    assert "refs/heads/main" in world.git("ls-remote", world.remote(token=""))
    assert "refs/heads/main" in world.git("ls-remote", world.remote(token="", suffix=""))
    assert "terminal prompts disabled" in world.push("main:x", token="", check=False)
    assert "Authentication failed" in world.push("main:x", token="wrong", check=False)
    assert "denied to rob" in world.push("main:x", token="reader", check=False)
    world.origin.private = True
    assert "terminal prompts disabled" in world.git("ls-remote", world.remote(token=""), check=False)
    assert "refs/heads/main" in world.git("ls-remote", world.remote(token="reader"))
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(world.remote(token="") + "/info/refs?service=git-upload-pack")
    assert caught.value.headers["WWW-Authenticate"] == 'Basic realm="GitHub"'
    caught.value.close()


def test_p3_pushes_that_github_refuses(world: World) -> None:
    world.origin.protected.add("refs/heads/main")
    world.commit("main", "a.txt")
    assert "GH006: Protected branch update failed for refs/heads/main." in world.push("main", check=False)
    world.commit("ci", ".github/workflows/ci.yml", start="main")
    said = world.push("ci", token="actions", check=False)
    assert "create or update workflow `.github/workflows/ci.yml` without `workflows` permission" in said
    world.push("ci")
    world.commit("ci", "b.txt")
    world.push("ci", token="actions")
    assert "hidden ref" in world.push("ci:refs/pull/9/head", check=False)


def test_shallow_clone_and_unshallow(world: World, tmp_path: Path) -> None:
    world.commit("main", "a.txt")
    world.push("main")
    target = tmp_path / "shallow"
    world.git("clone", "-q", "--depth=1", world.remote(), str(target))
    assert world.git("-C", str(target), "rev-list", "--count", "HEAD") == "1"
    world.git("-C", str(target), "fetch", "-q", "--unshallow")
    assert world.git("-C", str(target), "rev-list", "--count", "HEAD") == "2"


def test_state_survives_a_restart_of_the_server(world: World) -> None:
    world.feature()
    port = int(world.server.url.rpartition(":")[2])
    world.server.stop()
    world.server.start(port)
    assert world.repo().get_pull(1).title == "Add feat"


def test_parallel_pushes_pull_requests_and_merges(world: World) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        world.commit(name, f"{name}.txt", start="main")

    def publish(name: str) -> bool:
        world.push(name)
        return world.repo().create_pull("main", name, title=name).merge(merge_method="squash").merged

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(publish, names)) == [True] * 4
    world.git("fetch", "-q", world.remote(), "main")
    assert world.git("ls-tree", "--name-only", "FETCH_HEAD").split() == [f"{name}.txt" for name in names]
    assert sorted(world.origin.pulls) == [1, 2, 3, 4]


def test_an_existing_repository_is_adopted(tmp_path: Path) -> None:
    path = tmp_path / "some.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "trunk", str(path)], check=True, env=ENV)
    assert ValidatingGitHub({}).add_repository("a", "b", path).default_branch == "trunk"


def test_the_validator_sees_a_wrong_request(world: World) -> None:
    requester = world.client().requester
    status, _, _ = requester.requestJson("POST", "/repos/octo/demo/pulls", input={"title": 7, "base": "main"})
    assert status == 422
    assert "request" in world.server.violations[0]
    world.server.violations.clear()


@pytest.mark.parametrize(
    ("field", "value"), [("number", "one"), ("user", 3), ("created_at", "yesterday"), ("html_url", None)]
)
def test_the_validator_sees_a_wrong_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, field: str, value: object
) -> None:
    world.feature()
    right = represent.pull_simple
    monkeypatch.setattr(represent, "pull_simple", lambda *args: right(*args) | {field: value})
    world.client().requester.requestJson("GET", "/repos/octo/demo/pulls")
    assert field in world.server.violations[0]
    world.server.violations.clear()


def test_faults_are_used_up_and_can_follow_the_effect(world: World) -> None:
    world.commit("feat", "a.txt", start="main")
    world.push("feat")
    world.server.faults.append(Fault("POST", ".*/pulls", status=502, handled=True))
    refused(502, world.repo().create_pull, "main", "feat", title="x")
    assert world.repo().get_pull(1).title == "x"
    assert [entry.scheme for entry in world.server.requests("POST", "/pulls")] == ["token"]
