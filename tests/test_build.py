"""Whole builds on real git, with the loopback GitHub where pull requests matter."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge.demo.github import Repository
from autoforge.errors import BaselineRed, UsageError
from autoforge.project import Project
from db.feature import BatchStatus, FeatureStatus, NewFeature, PrStatus
from tests.agents import Agent, Crew, diligent
from tests.builds import add, batches, build, chain, features
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub

Opened = Callable[..., Project]


@pytest.fixture
def online(opened: Opened, forged: Repository, github: ValidatingGitHub) -> Callable[..., Project]:
    def open_(**flags: object) -> Project:
        return opened(token=TOKEN, api_url=github.url, **flags)

    return open_


def test_one_feature_one_worktree_one_verified_commit_one_pr(
    online: Opened, forged: Repository, clone: Path, origin: Path
) -> None:
    project = online()
    add(project, NewFeature("Greet people", "Say hello.", ("hello is said",)))
    before = run("git", "rev-parse", "main", cwd=clone)

    report = build(project, Crew(diligent), auto_pr=True)

    assert report.exit_code == 0
    [feature], [batch] = features(project), batches(project)
    assert feature.status is FeatureStatus.PASSED
    assert batch.status is BatchStatus.OPENED
    [pull] = forged.pulls.values()
    assert (pull.head, pull.base, pull.state, pull.draft) == (batch.branch, "main", "open", False)
    assert pull.title == "feat: greet people"
    assert "- [x] hello is said" in (pull.body or "")
    assert run("git", "rev-parse", batch.branch, cwd=origin) == feature.commit_sha == batch.head_sha
    trailers = run("git", "log", "-1", "--format=%(trailers)", batch.branch, cwd=origin)
    assert trailers == f"Autoforge-Feature: {feature.id}\nAutoforge-Batch: {batch.key}"
    assert run("git", "rev-parse", "main", cwd=origin) == before == run("git", "rev-parse", "main", cwd=clone)
    assert run("git", "status", "--porcelain", cwd=clone) == ""
    assert len(run("git", "worktree", "list", cwd=clone).splitlines()) == 1
    assert not project.worktrees.exists()


def test_a_second_build_does_nothing_and_ends_0(online: Opened, forged: Repository) -> None:
    project = online()
    add(project, NewFeature("One"))
    build(project, Crew(diligent), auto_pr=True)
    crew = Crew(diligent)
    assert build(project, crew, auto_pr=True).exit_code == 0
    assert crew.sessions == []
    assert len(forged.pulls) == 1


def test_s1_a_dependent_is_stacked_and_its_pr_shows_only_its_own_change(
    online: Opened, forged: Repository, origin: Path
) -> None:
    project = online(batch_size=1)
    add(project, *chain("First", "Second"))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    first, second = batches(project)
    assert second.base_branch == first.branch
    assert second.parents[0].tip == first.head_sha
    assert run("git", "diff", "--name-only", f"{first.branch}...{second.branch}", cwd=origin) == "src/f2.txt"
    assert run("git", "ls-tree", "--name-only", second.branch, "src/", cwd=origin).split() == [
        "src/f1.txt",
        "src/f2.txt",
    ]
    pulls = forged.pulls
    assert f"#{first.pr_number}" in (pulls[second.pr_number or 0].body or "")
    assert f"carries #{second.pr_number}" in (pulls[first.pr_number or 0].body or "")


def test_s2_a_diamond_is_built_on_a_join(online: Opened, forged: Repository, origin: Path) -> None:
    project = online(batch_size=1)
    add(
        project,
        NewFeature("Root"),
        NewFeature("Left", depends_on=(0,)),
        NewFeature("Right", depends_on=(0,)),
        NewFeature("Bottom", depends_on=(1, 2)),
    )
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    by_feature = {b.feature_ids[0]: b for b in batches(project)}
    bottom = by_feature[4]
    assert {p.key for p in bottom.parents} == {by_feature[2].key, by_feature[3].key}
    assert (bottom.base_branch or "").startswith("autoforge/join-")
    assert run("git", "rev-parse", bottom.base_branch or "", cwd=origin) == bottom.base_sha
    files = run("git", "diff", "--name-only", f"{bottom.base_branch}...{bottom.branch}", cwd=origin)
    assert files == "src/f4.txt"
    assert forged.pulls[bottom.pr_number or 0].draft
    assert bottom.pr_status is PrStatus.DRAFT


def test_slots_are_used_and_a_chain_becomes_one_batch(opened: Opened) -> None:
    project = opened(concurrency=2)
    add(project, NewFeature("A"), NewFeature("B", depends_on=(0,)), NewFeature("C"))
    crew = Crew(diligent)
    assert build(project, crew).exit_code == 0
    assert {b.feature_ids for b in batches(project)} == {(1, 2), (3,)}
    assert crew.most_at_once == 2
    assert {b.status for b in batches(project)} == {BatchStatus.BUILT}


def test_two_of_three_passed_is_published_with_two_and_the_third_is_stacked(
    online: Opened, forged: Repository, origin: Path
) -> None:
    project = online(max_attempts=2, concurrency=1)
    add(project, NewFeature("A"), NewFeature("B"), NewFeature("C"))

    async def all_but_c_at_first(agent: Agent) -> None:
        for feature_id, name in agent.features:
            agent.write(f"src/f{feature_id}.txt", "x")
            if name != "C" or len(crew.sessions) > 1:
                await agent.passed(feature_id, "true")

    crew = Crew(all_but_c_at_first)
    assert build(project, crew, auto_pr=True).exit_code == 0
    first, second = batches(project)
    assert (first.feature_ids, second.feature_ids) == ((1, 2, 3), (3,))
    assert [f.attempts for f in features(project)] == [1, 1, 2]
    body = forged.pulls[first.pr_number or 0].body or ""
    assert "Not in this pull request" in body
    assert forged.pulls[second.pr_number or 0].base == first.branch
    assert run("git", "ls-tree", "--name-only", first.branch, "src/", cwd=origin).split() == [
        "src/f1.txt",
        "src/f2.txt",
    ]


def test_a1_a_claim_that_the_verify_commands_refute_does_not_pass(online: Opened, forged: Repository) -> None:
    project = online(max_attempts=2)
    add(project, NewFeature("Broken"), NewFeature("Above", depends_on=(0,)))

    async def liar(agent: Agent) -> None:
        agent.write("broken", "x")
        answer = await agent.passed(1, "true")
        assert answer.is_error
        assert "sh check.sh" in answer.text

    crew = Crew(liar)
    report = build(project, crew, auto_pr=True)
    assert report.exit_code == 1
    assert "sh check.sh" in report.open[1]
    assert report.blocked == {2: "waits for #1, which failed"}
    assert len(crew.sessions) == 2
    assert forged.pulls == {}
    assert [f.attempts for f in features(project)] == [2, 0]


def test_a1_an_agent_that_ends_at_once_is_a_failed_attempt_and_there_are_few_of_them(opened: Opened) -> None:
    project = opened(max_attempts=3)
    add(project, NewFeature("Nothing"))

    async def idle(agent: Agent) -> None:
        return None

    crew = Crew(idle)
    report = build(project, crew)
    assert report.exit_code == 1
    assert len(crew.sessions) == 3
    assert "without passing" in report.open[1]


def test_c2_an_empty_diff_passes_only_with_evidence(opened: Opened) -> None:
    project = opened(max_attempts=1)
    add(project, NewFeature("There already"), NewFeature("On top", depends_on=(0,)))

    async def look(agent: Agent) -> None:
        assert (await agent.passed(1)).is_error
        assert not (await agent.passed(1, "test -e README.md")).is_error
        if len(agent.features) > 1:
            agent.write("new", "x")
            assert not (await agent.passed(2, "test -e new")).is_error

    assert build(project, Crew(look)).exit_code == 0
    first = features(project)[0]
    assert first.commit_sha == batches(project)[0].base_sha


def test_a_red_baseline_stops_before_any_agent(opened: Opened, clone: Path) -> None:
    commit(clone, {"broken": "x"})
    run("git", "push", "-q", "origin", "main", cwd=clone)
    project = opened()
    add(project, NewFeature("A"))
    crew = Crew(diligent)
    with pytest.raises(BaselineRed, match=r"sh check\.sh"):
        build(project, crew)
    assert crew.sessions == []
    assert not project.worktrees.exists()


def test_a_red_baseline_that_is_allowed_is_written_into_the_pr(
    online: Opened, forged: Repository, clone: Path, github: ValidatingGitHub
) -> None:
    commit(clone, {"broken": "x"})
    run("git", "push", "-q", f"http://x:{TOKEN}@{github.url[7:]}/octo/app.git", "main", cwd=clone)
    project = online(verify__allow_red=True)
    add(project, NewFeature("A"))
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    assert "`sh check.sh` failed on main" in (forged.pulls[1].body or "")


def test_no_verify_command_is_refused_unless_asked_for(online: Opened, forged: Repository) -> None:
    project = online(verify__commands=[])
    add(project, NewFeature("A"))
    with pytest.raises(UsageError, match="No verify command"):
        build(project, Crew(diligent))
    assert build(project, Crew(diligent), auto_pr=True, no_verify=True).exit_code == 0
    assert "--no-verify" in (forged.pulls[1].body or "")


def test_w4_the_base_is_the_remote_target_whatever_the_checkout_looks_like(
    opened: Opened, clone: Path, origin: Path
) -> None:
    other = clone.parent / "other"
    run("git", "clone", "-q", str(origin), str(other), cwd=clone.parent)
    newer = commit(other, {"newer": "x"})
    run("git", "push", "-q", cwd=other)
    (clone / "README.md").write_text("being edited\n")
    (clone / "untracked").write_text("mine\n")
    status = run("git", "status", "--porcelain=v2", "--branch", cwd=clone)
    project = opened()
    add(project, NewFeature("A"))
    assert build(project, Crew(diligent)).exit_code == 0
    assert batches(project)[0].base_sha == newer
    after = run("git", "status", "--porcelain=v2", "--branch", cwd=clone)
    assert [line for line in after.splitlines() if "branch.ab" not in line] == [
        line for line in status.splitlines() if "branch.ab" not in line
    ]


def test_b3_a_question_waits_for_a_person_and_others_go_on(opened: Opened) -> None:
    project = opened(batch_size=1)
    add(project, NewFeature("Colour"), NewFeature("Free"), NewFeature("Paint", depends_on=(0,)))

    async def asks(agent: Agent) -> None:
        [(feature_id, _)] = agent.features
        if feature_id == 1 and "blue" not in agent.session.prompt:
            await agent.call("ask_human", id=1, question="Which colour?")
            return
        await diligent(agent)

    report = build(project, Crew(asks))
    assert report.exit_code == 1
    assert "Which colour?" in report.open[1]
    assert "needs an answer" in report.blocked[3]
    from autoforge.project import table

    with table(project) as store:
        store.answer(1, "blue")
    assert build(project, Crew(asks)).exit_code == 0
