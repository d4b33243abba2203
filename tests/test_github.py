"""GitHub as a forge: what it answers, what it refuses and how long it tries."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import github as pygithub
import pytest

from autoforge.demo.github import Account, git
from git_workflow.errors import ForgeFailed
from git_workflow.forge import Forge, repository_slug
from git_workflow.github import connect
from tests.harness.github import Fault, ValidatingGitHub

PULLS = "/repos/octo/demo/pulls"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValidatingGitHub]:
    """octo/demo with `main` and the branches a, b and c of one commit each."""
    made = ValidatingGitHub({"token": Account("ada"), "actions": Account("github-actions", app=True)})
    path = made.add_repository("octo", "demo", tmp_path / "origin.git").path
    tree = git.output(path, "mktree")
    start = git.write_commit(path, tree, [], message="Start")
    git.set_ref(path, "refs/heads/main", start)
    for name in "abc":
        git.set_ref(path, f"refs/heads/{name}", git.write_commit(path, tree, [start], message=name))
    made.start()
    yield made
    made.stop()
    assert made.violations == []


def forge(server: ValidatingGitHub, *, token: str = "token", retry_total: int = 0, api: str = "") -> Forge:
    return connect(
        api_url=server.url + api,
        slug="octo/demo",
        token=token,
        seconds_between_writes=0,
        retry_total=retry_total,
    )


def open_pull(github: Forge, head: str = "a", *, base: str = "main"):
    return github.open(head=head, base=base, title=f"Add {head}", body="why", draft=False)


@pytest.mark.parametrize("api", ["", "/api/v3", "/"])
def test_open_find_get_edit(server: ValidatingGitHub, api: str) -> None:
    github = forge(server, api=api)
    assert github.find("a") is None
    opened = github.open(head="a", base="main", title="A", body="why", draft=True)
    assert (opened.number, opened.state, opened.draft, opened.merged) == (1, "open", True, False)
    assert (opened.head_branch, opened.base_branch, opened.body) == ("a", "main", "why")
    assert opened.url == f"{server.url}/octo/demo/pull/1"
    edited = github.edit(1, body="because")
    assert (edited.title, edited.body) == ("A", "because")
    assert github.edit(1, title="B").title == "B"
    assert github.edit(1) == github.get(1) == github.find("a")


def test_every_call_is_one_request(server: ValidatingGitHub) -> None:
    github = forge(server)
    assert server.log == []
    open_pull(github)
    github.find("a")
    github.get(1)
    github.edit(1, title="B")
    sent = [(entry.method, entry.path) for entry in server.log]
    assert sent == [("POST", PULLS), ("GET", PULLS), ("GET", f"{PULLS}/1"), ("PATCH", f"{PULLS}/1")]


def test_find_answers_the_newest_of_any_state(server: ValidatingGitHub) -> None:
    github, people = forge(server), server.repositories["octo/demo"]
    first = open_pull(github)
    _merge(server, first.number)
    found = github.find("a")
    assert found is not None
    assert (found.merged, found.state, found.merge_sha) == (
        True,
        "closed",
        git.commit_of(people.path, "main"),
    )
    tree = git.output(people.path, "rev-parse", "a^{tree}")
    git.set_ref(people.path, "refs/heads/a", git.write_commit(people.path, tree, ["a"], message="more"))
    assert open_pull(github).number == 2
    found = github.find("a")
    assert found is not None
    assert (found.number, found.merged, found.merge_sha) == (2, False, None)


def test_find_is_not_confused_by_other_branches(server: ValidatingGitHub) -> None:
    github = forge(server)
    for head in "abc":
        open_pull(github, head)
    assert [pull.number for pull in map(github.find, "abc") if pull] == [1, 2, 3]
    assert github.find("") is None
    assert github.find("ada:a") is None


def test_p1_a_pull_request_that_exists_is_answered(server: ValidatingGitHub) -> None:
    github = forge(server)
    first = open_pull(github)
    assert open_pull(github) == first
    assert open_pull(github, base="b").number == 2
    assert open_pull(github, base="b").number == 2


@pytest.mark.parametrize("drop", [True, False])
def test_p1_a_lost_answer_makes_no_second_pull_request(server: ValidatingGitHub, drop: bool) -> None:
    server.faults.append(Fault("POST", PULLS, status=502, drop=drop, handled=True))
    assert open_pull(forge(server, retry_total=1)).number == 1
    assert len(server.repositories["octo/demo"].pulls) == 1


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault("*", ".*", 401, "Bad credentials"), "token"),
        (Fault("*", ".*", 403, "Resource not accessible"), "pull_requests=write"),
        (
            Fault("*", ".*", 403, "No", headers={"x-accepted-github-permissions": "issues=read"}),
            "It needs issues=read",
        ),
        (
            Fault("*", ".*", 403, "API rate limit exceeded for x", headers={"x-ratelimit-remaining": "0"}),
            "rate limit",
        ),
        (Fault("*", ".*", 403, "GitHub Actions is not permitted to create"), "settings under Actions"),
        (Fault("*", ".*", 429, "Too many", headers={"retry-after": "7"}), "Try again in 7 s"),
        (Fault("*", ".*", 404, "Not Found"), "the token cannot see it"),
        (Fault("*", ".*", 410, "Gone"), "answers 410: Gone"),
        (Fault("*", ".*", 500, "Server Error"), "has trouble"),
        (Fault("*", ".*", 503, content="<html>Unicorn</html>"), "has trouble"),
    ],
)
def test_p4_every_refusal_says_what_to_do(server: ValidatingGitHub, fault: Fault, says: str) -> None:
    fault.times = 9
    server.faults.append(fault)
    for call in (
        lambda: forge(server).get(1),
        lambda: forge(server).find("a"),
        lambda: open_pull(forge(server)),
    ):
        with pytest.raises(ForgeFailed, match=says) as caught:
            call()
        assert caught.value.status == fault.status
        assert "octo/demo" in str(caught.value)
    assert len(server.log) == 3


def test_p4_what_the_api_refuses_is_told_in_its_own_words(server: ValidatingGitHub) -> None:
    with pytest.raises(ForgeFailed, match="Validation Failed: No commits between a and main") as caught:
        open_pull(forge(server), "main", base="a")
    assert caught.value.status == 422
    with pytest.raises(ForgeFailed, match="head is invalid"):
        open_pull(forge(server), "gone")
    with pytest.raises(ForgeFailed, match="It does not exist") as caught:
        forge(server).edit(7, title="x")
    assert caught.value.status == 404
    with pytest.raises(ForgeFailed, match="wrong or has expired") as caught:
        forge(server, token="old").get(1)
    assert caught.value.status == 401
    with pytest.raises(ForgeFailed, match="wrong or has expired"):
        forge(server, token="").get(1)


@pytest.mark.parametrize("status", [403, 429])
def test_p4_retry_after_is_honoured(server: ValidatingGitHub, status: int) -> None:
    open_pull(forge(server))
    server.faults.append(Fault("PATCH", ".*", status, headers={"retry-after": "1"}))
    begun = time.monotonic()
    assert forge(server, retry_total=1).edit(1, title="B").title == "B"
    assert time.monotonic() - begun >= 1


def test_p4_retries_are_bounded(server: ValidatingGitHub) -> None:
    server.faults.append(Fault("GET", ".*", 503, "Unavailable", headers={"retry-after": "0"}, times=99))
    with pytest.raises(ForgeFailed, match="503 Unavailable") as caught:
        forge(server, retry_total=1).get(1)
    assert (caught.value.status, len(server.log)) == (503, 2)


@pytest.mark.parametrize("status", [403, 429, 503])
def test_p4_a_long_wait_is_left_to_a_later_run(server: ValidatingGitHub, status: int) -> None:
    server.faults.append(Fault("GET", ".*", status, headers={"retry-after": "61"}, times=99))
    with pytest.raises(ForgeFailed) as caught:
        forge(server, retry_total=5).get(1)
    assert (caught.value.status, len(server.log)) == (status, 1)


def test_p4_a_used_up_hourly_limit_is_left_to_a_later_run(server: ValidatingGitHub) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 900)}
    server.faults.append(
        Fault("GET", ".*", 403, "API rate limit exceeded for user", headers=headers, times=9)
    )
    with pytest.raises(ForgeFailed, match="rate limit is reached") as caught:
        forge(server, retry_total=5).get(1)
    assert (caught.value.status, len(server.log)) == (403, 1)


def test_p4_no_answer_is_status_0(server: ValidatingGitHub) -> None:
    server.faults.append(Fault("*", ".*", drop=True, times=9))
    with pytest.raises(ForgeFailed, match="cannot be reached") as caught:
        forge(server).find("a")
    assert caught.value.status == 0
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    nobody = connect(api_url=f"http://127.0.0.1:{port}", slug="octo/demo", token="t", retry_total=0)
    with pytest.raises(ForgeFailed, match=r"refused.*Check the network") as caught:
        nobody.get(1)
    assert caught.value.status == 0


@pytest.mark.parametrize("status", [200, 301, 404])
def test_p4_an_answer_that_is_not_githubs(server: ValidatingGitHub, status: int) -> None:
    headers = {"location": f"{server.url}{PULLS}/1"} if status == 301 else {}
    github = forge(server)
    for content in ("<html>Log in to the network</html>", "{broken", "[]", '"text"', "7", "", "{}"):
        server.faults[:] = [Fault("*", ".*", status, content=content, headers=headers, times=99)]
        calls = [lambda: github.get(1), lambda: open_pull(github), lambda: github.edit(1, title="x")]
        if content != "[]":
            calls.append(lambda: github.find("a"))
        for call in calls:
            with pytest.raises(ForgeFailed):
                call()


def test_threads_may_share_a_forge(server: ValidatingGitHub) -> None:
    github = forge(server)
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda n: open_pull(github, "abc"[n % 3]).number, range(12)))
    assert sorted(set(opened)) == [1, 2, 3]


def test_writes_keep_their_distance(server: ValidatingGitHub) -> None:
    github = connect(api_url=server.url, slug="octo/demo", token="token", seconds_between_writes=0.2)
    begun = time.monotonic()
    threads = [threading.Thread(target=open_pull, args=(github, head)) for head in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun >= 0.4


@pytest.mark.parametrize("address", ["", "api.github.com", "ftp://x", "https://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ForgeFailed, match=r"https://api\.github\.com"):
        connect(api_url=address, slug="octo/demo", token="t")


def test_the_values_need_no_pygithub() -> None:
    probe = "import sys, git_workflow.forge; sys.exit('github' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


@pytest.mark.parametrize(
    ("remote", "slug"),
    [
        ("https://github.com/octo/demo.git", ("github.com", "octo/demo")),
        ("https://github.com/octo/demo", ("github.com", "octo/demo")),
        ("https://GitHub.com/octo/demo/", ("github.com", "octo/demo")),
        ("https://x-access-token:ghs_1@github.com/octo/demo.git", ("github.com", "octo/demo")),
        ("http://127.0.0.1:8080/octo/demo.git", ("127.0.0.1:8080", "octo/demo")),
        ("http://[::1]:8080/octo/demo", ("[::1]:8080", "octo/demo")),
        ("ssh://git@github.com/octo/demo.git", ("github.com", "octo/demo")),
        ("ssh://git@ssh.github.com:443/octo/demo.git", ("github.com", "octo/demo")),
        ("git@github.com:octo/demo.git", ("github.com", "octo/demo")),
        ("git@github.com:/octo/demo.git", ("github.com", "octo/demo")),
        ("work-alias:octo/de.mo_1", ("work-alias", "octo/de.mo_1")),
        ("git@github.com:octo/demo.git.git", ("github.com", "octo/demo.git")),
        ("/srv/git/octo/demo.git", None),
        ("../octo/demo.git", None),
        ("./a:b/c", None),
        ("C:/octo/demo", None),
        ("C:\\octo\\demo", None),
        ("file:///octo/demo.git", None),
        ("https://github.com/octo", None),
        ("https://github.com/group/octo/demo", None),
        ("https://github.com:port/octo/demo", None),
        ("https://[/octo/demo", None),
        ("https:///octo/demo", None),
        ("", None),
    ],
)
def test_repository_slug(remote: str, slug: tuple[str, str] | None) -> None:
    assert repository_slug(remote) == slug


def _merge(server: ValidatingGitHub, number: int) -> None:
    """As a person would, through the API."""
    person = pygithub.Github(auth=pygithub.Auth.Token("token"), base_url=server.url)
    person.get_repo("octo/demo").get_pull(number).merge()
