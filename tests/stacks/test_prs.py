"""`autoforge prs` and `verify --together` on real stacks."""

import json
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from autoforge.demo.github import Account, Repository
from autoforge.project import Project
from db.feature import NewFeature
from tests.agents import Agent, Crew
from tests.builds import add, build, chain
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke
from tests.reviews import Reviewer
from tests.stacks.conftest import Opened, Stack
from tests.stacks.scene import Person, by_feature
from tests.stacks.test_upkeep import DIAMOND


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
    assert f"├── #{top.pr_number} Top" in out or f"└── #{top.pr_number} Top" in out
    assert "[open, checks: 1 failed, approved]" in out
    assert f"#{bottom.pr_number} Bottom [draft]" in out
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
    assert "Merge in this order, and 1 of 3 will conflict:" in out
    assert out.rindex("Wide (will conflict by then)") > max(out.rindex("Left"), out.rindex("Right"))
    assert "change the same lines of l.txt" in invoke(clone, "status").out
    body = forged.pulls[by_feature(project)[3].pr_number or 0].body or ""
    assert "r.txt" in body.split("autoforge:stack")[1]


def test_without_a_forge_it_shows_what_the_table_knows(
    stack: Stack, github: ValidatingGitHub, clone: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    assert "There is no open branch." in invoke(clone, "prs", **env).out
    project = stack(*chain("One", "Two"))
    out = invoke(clone, "prs").out
    assert "One [open]" in out
    assert "Checks and reviews are not shown" in out
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert invoke(clone, "prs", "--web", **env).code == 0
    assert opened == [by_feature(project)[n].pr_url for n in (1, 2)]


async def assumes(agent: Agent) -> None:
    """One says that the answer is 1, another builds on that, the third does neither."""
    for number, name in agent.features:
        agent.write(f"{name}.txt", f"{name}\n")
        assert not (await agent.passed(number, "ls")).is_error


RED_TOGETHER = "! test -e Sets.txt || ! test -e Reads.txt"


@pytest.fixture
def pair(online: Opened, forged: Repository, clone: Path, env: dict[str, str]) -> Project:
    commit(clone, {"autoforge.toml": f'[verify]\ncommands = ["{RED_TOGETHER}"]\n'})
    project = online(verify__commands=[RED_TOGETHER])
    add(project, *(NewFeature(name) for name in ("Other", "Sets", "More", "Reads", "Last")))
    assert build(project, Crew(assumes), auto_pr=True).exit_code == 0
    return project


def test_two_that_are_red_only_together_are_found(pair: Project, clone: Path, env: dict[str, str]) -> None:
    ended = invoke(clone, "verify", "--together", **env)
    assert ended.code == 1
    sets, reads = by_feature(pair)[2], by_feature(pair)[4]
    said = f"Red together, and not one without the other: #{sets.pr_number} ({sets.branch}) and #{reads.pr_number}"
    assert said in ended.out
    assert not pair.worktrees.exists()
    alone = invoke(clone, "verify", "--together", str(sets.pr_number), "#1", **env)
    assert alone.code == 0
    assert "Green together on" in alone.out
    assert run("git", "status", "--porcelain", cwd=clone) == ""


def test_a_branch_that_conflicts_is_left_out_and_that_is_no_green(
    online: Opened, forged: Repository, clone: Path, env: dict[str, str]
) -> None:
    project = online(concurrency=1)
    add(
        project,
        NewFeature("A"),
        *(NewFeature(name, depends_on=(0,)) for name in "XY"),
        NewFeature("B"),
        NewFeature("C", depends_on=(3,)),
    )

    async def same(agent: Agent) -> None:
        for number, name in agent.features:
            agent.write("same.txt" if name in "AB" else f"{name}.txt", f"{name}\n")
            assert not (await agent.passed(number, "ls")).is_error

    assert build(project, Crew(same), auto_pr=True).exit_code == 0
    ended = invoke(clone, "verify", "--together", **env)
    assert ended.code == 1
    assert "Green together on" in ended.out
    assert "is left out: it conflicts with the others in same.txt" in ended.out
    assert "is left out: it is built on" in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify"], "Say --together"),
        (["verify", "--together"], "No branch is waiting"),
        (["verify", "--together", "99"], "There is no pull request or batch 99"),
    ],
)
def test_what_cannot_be_verified_is_refused(
    clone: Path, env: dict[str, str], arguments: list[str], said: str
) -> None:
    ended = invoke(clone, *arguments, **env)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
