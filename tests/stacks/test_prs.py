"""`autoforge prs` on real stacks."""

import json
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from autoforge.demo.github import Account, Repository
from autoforge.progress.stack import lines
from autoforge.stack import Entry
from db.feature import NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, build
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke
from tests.reviews import Reviewer
from tests.stacks.conftest import Opened, Stack
from tests.stacks.scene import Person, by_feature
from tests.stacks.test_upkeep import DIAMOND
from tests.stacks.world import World, fill


@pytest.fixture
def env(github: ValidatingGitHub, clone: Path) -> dict[str, str]:
    commit(
        clone,
        {"autoforge.toml": '[verify]\ncommands = ["sh check.sh"]\n[github]\nseconds_between_writes = 0\n'},
    )
    return {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}


def pulls(clone: Path, env: dict[str, str]) -> dict[str, Any]:
    ended = invoke(clone, "prs", "--json", **env)
    assert (ended.code, ended.err) == (0, "")
    return {one["title"]: one for one in json.loads(ended.out)["pulls"]}


def test_the_stack_is_a_tree_with_pull_requests_checks_and_reviews(
    stack: Stack,
    forged: Repository,
    reviewer: Reviewer,
    github: ValidatingGitHub,
    clone: Path,
    env: dict[str, str],
) -> None:
    project = stack(*DIAMOND)
    github.tokens["bob"] = Account("bob")
    github.tokens["ci"] = Account("github-actions", app=True)
    top, bottom = by_feature(project)[1], by_feature(project)[4]
    reviewer.send(f"pulls/{top.pr_number}/reviews", as_="bob", event="APPROVE")
    reviewer.send(
        "check-runs", as_="ci", name="ci", head_sha=top.head_sha, status="completed", conclusion="failure"
    )
    out = invoke(clone, "prs", **env).out
    assert f"└── #{top.pr_number} [open, checks: 1 failed, approved] Top\n" in out
    assert f"└── #{bottom.pr_number} [draft] Bottom\n" in out
    assert f"── {bottom.branch}\n" in out
    assert out.count("↳") == 1
    assert max(map(len, out.splitlines())) <= 80
    found = pulls(clone, env)["Top"]
    assert (found["checks"]["failures"], found["review"]["decision"]) == (["ci"], "approved")


def test_a_branch_behind_its_base_and_the_order_that_conflicts_least(
    online: Opened, forged: Repository, person: Person, clone: Path, env: dict[str, str]
) -> None:
    project = online()
    add(project, NewFeature("Wide"), NewFeature("Left"), NewFeature("Right"))

    async def writes(agent: Agent) -> None:
        for number, name in agent.features:
            for file in {"Wide": ("l.txt", "r.txt"), "Left": ("l.txt",), "Right": ("r.txt",)}[name]:
                agent.write(file, f"{name}\n")
            assert not (await agent.passed(number, "ls")).is_error

    assert build(project, Crew(writes), auto_pr=True).exit_code == 0
    person.adds("main", {"news.txt": "x\n"})
    found = pulls(clone, env)
    assert all(one["behind"] for one in found.values())
    wide = by_feature(project)[1].branch
    assert set(found["Left"]["conflicts"]) == set(found["Right"]["conflicts"]) == {wide}
    out = invoke(clone, "prs", "--order", **env).out
    assert "each after what it is built on, and 1 of 3 will conflict:" in out
    left, right = by_feature(project)[2].pr_number, by_feature(project)[3].pr_number
    told = f"Wide\n   will conflict with #{left} in l.txt\n   will conflict with #{right} in r.txt\n"
    assert out.split("\n3. #")[1].endswith(told)
    assert "change the same lines of l.txt" in invoke(clone, "status").out
    body = forged.pulls[by_feature(project)[3].pr_number or 0].body or ""
    assert "r.txt" in body.split("autoforge:stack")[1]


@pytest.fixture
def world(online: Opened, origin: Path, forged: Repository, reviewer: Reviewer, env: dict[str, str]) -> World:
    return World(online(), origin, forged, reviewer)


def test_without_a_forge_it_shows_what_the_table_knows(
    world: World, clone: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    assert invoke(clone, "prs", **env).out == "There is no open branch.\n"
    fill(world, [(), (0,)], 1)
    out = invoke(clone, "prs").out
    assert "#1 [open] Feature 0\n" in out
    assert (
        "    └── [built] Feature 1\n        ├── autoforge/feature-1-batchb\n        └── interrupted\n" in out
    )
    assert "Checks and reviews are not shown: no GitHub repository with a token" in out
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert invoke(clone, "prs", "--web", **env).code == 0
    assert opened == [by_feature(world.project)[1].pr_url]


def test_without_a_network_it_says_from_when_the_target_is(
    world: World, clone: Path, env: dict[str, str]
) -> None:
    fill(world, [()], 0)
    gone = "http://127.0.0.1:1"
    run("git", "remote", "set-url", "origin", f"{gone}/octo/app.git", cwd=clone)
    ended = invoke(clone, "prs", "--json", **(env | {"GITHUB_API_URL": gone}))
    assert ended.code == 0
    [one], notes = json.loads(ended.out)["pulls"], json.loads(ended.out)["notes"]
    assert (one["pr_status"], one["checks"]) == ("open", None)
    assert notes[0].startswith("main is shown as it was fetched last; the remote does not answer:")
    assert notes[1].startswith("Checks and reviews are not shown:")


def test_what_the_table_does_not_know_yet_is_said(
    world: World, person: Person, clone: Path, env: dict[str, str]
) -> None:
    fill(world, [(), (), (1,)], 0)
    merged, changed, behind = world.batches()
    world.reviewer.merge(merged.pr_number)
    sha = person.adds(changed.branch, {"more.txt": "x\n"})
    out = invoke(clone, "prs", **env).out
    assert "#1 [merged, behind] Feature 0\n" in out
    assert f"somebody changed it to {sha[:10]}: `autoforge sync` takes that over" in out
    assert f"#{behind.pr_number} [open] Feature 2" in out
    assert invoke(clone, "sync", **env).code == 0
    found = pulls(clone, env)
    assert [found[name]["problem"] for name in ("Feature 1", "Feature 2")] == [None, None]
    assert "Feature 0" not in found


def entry(number: int, *parents: str) -> Entry:
    return Entry(
        key=f"key{number}",
        branch=f"autoforge/{'long-' * 12}{number}",
        title="Name " * 30,
        base="main",
        parents=parents,
        head_sha="1" * 40,
        pushed_sha=None,
        status="opened",
        number=number,
        url=None,
        pr_status="open",
        behind=False,
        conflicts={"main": tuple(f"{'path/' * 10}{n}" for n in range(5))},
        problem="why \x1b[31m" * 20,
    )


def test_lines_are_cut_and_branches_are_not() -> None:
    low = entry(1)
    high, other = entry(2, low.branch), entry(3, low.branch)
    top = entry(4, other.branch, high.branch)
    rows = lines([top, high, low, other], "main", 60)
    branches = [row for row in rows if row.endswith((low.branch, high.branch, other.branch, top.branch))]
    assert len(branches) == 4
    others = [row for row in rows[1:] if row not in branches and "↳" not in row]
    assert all(len(row) <= 60 and row.endswith("…") for row in others)
    assert sum("↳ #4" in row for row in rows) == 1
    assert sum("#4 [open] Name" in row for row in rows) == 1
    assert "\x1b" not in "".join(rows)
