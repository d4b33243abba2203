"""The loopback GitHub's API: PyGithub as its client, GitHub's own description as the judge."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.world import World, refused, running_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running_world(tmp_path) as made:
        yield made


def test_a_pull_request_from_push_to_merge(world: World) -> None:
    pull = world.feature()
    head = world.tip("refs/heads/feat")
    assert (pull.number, pull.state, pull.mergeable, pull.head.sha) == (1, "open", True, head)
    assert (pull.commits, pull.additions, pull.changed_files) == (1, 1, 1)
    assert world.tip("refs/pull/1/head") == head
    assert world.tip("refs/pull/1/merge^2") == head
    assert [(f.filename, f.status, f.additions) for f in pull.get_files()] == [("feat.txt", "added", 1)]
    assert [c.sha for c in pull.get_commits()] == [head]
    assert pull.merge().merged
    merged = world.repo().get_pull(1)
    assert (merged.merged, merged.state) == (True, "closed")
    assert merged.is_merged()
    assert merged.merge_commit_sha == world.tip("refs/heads/main")
    assert world.tip("main^2") == head


def test_squash_and_rebase_write_linear_history(world: World) -> None:
    world.commit("one", "a.txt", start="main")
    world.commit("one", "b.txt")
    world.commit("two", "c.txt", start="main")
    world.commit("two", "d.txt")
    world.push("one", "two")
    repo = world.repo()
    squashed = repo.create_pull("main", "one", title="One")
    assert squashed.merge(merge_method="squash").sha == world.tip("main")
    rebased = repo.create_pull("main", "two", title="Two")
    assert rebased.merge(merge_method="rebase").merged
    world.git("fetch", "-q", world.remote(), "main")
    assert world.git("log", "--format=%s|%an|%P", "FETCH_HEAD").splitlines() == [
        f"Add d.txt|Ada|{world.tip('main^')}",
        f"Add c.txt|Ada|{world.tip('main~2')}",
        f"One (#1)|ada|{world.tip('main~3')}",
        "Start|Ada|",
    ]
    assert world.git("ls-tree", "--name-only", "FETCH_HEAD").split() == ["a.txt", "b.txt", "c.txt", "d.txt"]


def test_what_a_merge_is_refused_for(world: World) -> None:
    pull = world.feature()
    assert "Head branch was modified" in refused(409, pull.merge, sha="0" * 40)
    world.commit("main", "feat.txt", "other\n")
    world.push("main")
    assert world.repo().get_pull(1).mergeable is False
    assert "not mergeable" in refused(405, pull.merge)
    draft = world.repo().create_pull("feat", "main", title="Back", draft=True)
    assert "still a draft" in refused(405, draft.merge)


def test_p1_a_second_pull_request_is_refused_in_githubs_words(world: World) -> None:
    world.feature()
    repo = world.repo()
    assert "A pull request already exists for octo:feat." in refused(
        422, repo.create_pull, "main", "feat", title="Again"
    )
    world.push("main:same")
    assert "No commits between main and same" in refused(422, repo.create_pull, "main", "same", title="Empty")
    assert "'field': 'head', 'code': 'invalid'" in refused(422, repo.create_pull, "main", "gone", title="No")
    assert "'field': 'base', 'code': 'invalid'" in refused(422, repo.create_pull, "gone", "feat", title="No")
    assert "body is too long" in refused(
        422, repo.create_pull, "main", "same", title="Long", body="x" * 65537
    )


def test_lists_are_filtered_sorted_and_paged(world: World) -> None:
    for branch in ("a", "b", "c"):
        world.feature(branch)
    repo = world.repo()
    repo.get_pull(2).edit(state="closed")
    assert [p.number for p in repo.get_pulls()] == [3, 1]
    assert [p.number for p in repo.get_pulls(state="all", direction="asc")] == [1, 2, 3]
    assert [p.number for p in repo.get_pulls(state="all", head="octo:b")] == [2]
    assert [p.number for p in repo.get_pulls(base="nothing")] == []
    client = world.client()
    client.per_page = 1
    assert [p.number for p in client.get_repo("octo/demo").get_pulls(state="all")] == [3, 2, 1]
    assert len(world.server.requests("GET", "/pulls")) == 4 + 3


def test_people_edit_comment_label_and_toggle_drafts(world: World) -> None:
    pull = world.feature()
    pull.edit(title="Better", body="because")
    pull.create_issue_comment("looks good")
    pull.add_to_labels("bug", "later")
    pull.convert_to_draft()
    seen = world.repo().get_pull(1)
    assert (seen.title, seen.body, seen.draft) == ("Better", "because", True)
    assert [(c.user.login, c.body) for c in seen.get_issue_comments()] == [("ada", "looks good")]
    assert [label.name for label in seen.get_labels()] == ["bug", "later"]
    seen.mark_ready_for_review()
    assert world.repo().get_pull(1).draft is False


def test_branches_commits_and_refs(world: World) -> None:
    world.commit("topic/deep", "a.txt", start="main")
    world.push("topic/deep")
    repo, head, main = world.repo(), world.tip("topic/deep"), world.tip("main")
    assert [b.name for b in repo.get_branches()] == ["main", "topic/deep"]
    assert repo.get_branch("topic/deep").commit.sha == head
    assert repo.get_commit("topic/deep").commit.message == "Add a.txt"
    assert repo.get_git_ref("heads/topic/deep").object.sha == head
    made = repo.create_git_ref("refs/heads/new", main)
    made.edit(head)
    assert world.tip("new") == head
    assert "not a fast forward" in refused(422, made.edit, main)
    assert "already exists" in refused(422, repo.create_git_ref, "refs/heads/new", main)
    assert "Object does not exist" in refused(422, repo.create_git_ref, "refs/heads/x", "1" * 40)
    made.delete()
    assert world.tip("new") == ""
    refused(404, repo.get_branch, "new")


def test_commits_that_reach_the_base_by_a_push_count_as_merged(world: World) -> None:
    world.feature()
    world.push("feat:main")
    pull = world.repo().get_pull(1)
    assert (pull.merged, pull.merge_commit_sha) == (True, world.tip("main"))
    assert "cannot be reopened" in refused(422, pull.edit, state="open")


def test_a_head_that_goes_back_to_its_base_is_closed_not_merged(world: World) -> None:
    world.feature()
    world.push("+main:feat")
    pull = world.repo().get_pull(1)
    assert (pull.state, pull.merged) == ("closed", False)


def test_a_pull_request_follows_pushes_past_the_server(world: World) -> None:
    world.feature()
    tip = world.commit("feat", "more.txt")
    world.git("push", "-q", str(world.origin.path), "feat")
    pull = world.repo().get_pull(1)
    assert (pull.head.sha, pull.commits, world.tip("refs/pull/1/head")) == (tip, 2, tip)


def test_accounts_may_do_what_their_tokens_allow(world: World) -> None:
    world.feature()
    assert world.client().get_user().login == "ada"
    assert "integration" in refused(403, lambda: world.client("actions").get_user().login)
    assert "Bad credentials" in refused(401, world.client("wrong").get_repo, "octo/demo")
    refused(404, world.client().get_repo, "octo/other")
    read_only = world.repo("reader").get_pull(1)
    refused(403, read_only.edit, title="mine")
    world.origin.app_may_open_pulls = False
    said = refused(403, world.repo("actions").create_pull, "main", "feat", title="x")
    assert "GitHub Actions is not permitted to create" in said
    assert world.client().get_rate_limit().resources.core.limit == 5000


def test_addresses_carry_host_port_and_prefix(world: World) -> None:
    world.feature()
    pull = world.client(api="/api/v3").get_repo("octo/demo").get_pull(1)
    assert pull.url == f"{world.server.url}/api/v3/repos/octo/demo/pulls/1"
    assert pull.html_url == f"{world.server.url}/octo/demo/pull/1"
    pull.convert_to_draft()
    assert world.client(api="/api/v3").get_repo("octo/demo").get_pull(1).draft


def test_an_unwritten_route_says_so(world: World) -> None:
    said = refused(501, lambda: list(world.repo().get_labels()))
    assert "does not answer GET /repos/OWNER/NAME/labels" in said
    query = {"query": "mutation Mutation($input: DeleteRefInput!) { deleteRef(input: $input) { x } }"}
    status, _, said = world.client().requester.requestJson("POST", "/graphql", input=query)
    assert (status, "does not answer the GraphQL query" in said) == (501, True)
