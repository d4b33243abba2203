"""Open issues of the repository become features, with one command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autoforge import issues
from autoforge.demo.github import Repository
from autoforge.errors import UsageError
from autoforge.issues import Known, to_features
from autoforge.project import Project
from db.feature import NewFeature
from git_workflow import github as forge_client
from git_workflow.forge import Issue
from tests.agents import Crew, diligent
from tests.builds import add, build, features
from tests.conftest import TOKEN, run
from tests.harness.github import Fault, ValidatingGitHub
from tests.invoke import Ended, invoke, refused, succeed
from tests.reviews import Reviewer

NOTHING = Known(frozenset(), {})


def issue(number: int, body: str = "", title: str = "", labels: tuple[str, ...] = ()) -> Issue:
    return Issue(number, title or f"Issue {number}", body, labels, "open")


def mapped(*found: Issue, known: Known = NOTHING, label: str | None = None) -> issues.Mapped:
    return to_features(found, known, slug="Octo/App", label=label)


# The mapping


def test_an_issue_becomes_a_feature() -> None:
    assert mapped(
        issue(7, "Why.\n\n- [ ] a\n- [x] b\n", " Add\ttotals ", ("good first issue", "kind/Bug", "P1"))
    ) == issues.Mapped(
        (NewFeature("Add totals", "Why.", ("a", "b"), "bug", priority=1, issue_number=7),), notes=()
    )


@pytest.mark.parametrize(
    ("labels", "category", "priority"),
    [
        ((), "feature", None),
        (("enhancement", "help wanted"), "feature", None),
        (("type: documentation",), "documentation", None),
        (("Docs", "bug"), "docs", None),
        (("debug", "p10", "priority", "priority:high", "priority:-1", "P"), "feature", None),
        (("priority:12", "priority/3", "Priority: P4"), "feature", 3),
        (("P0",), "feature", 0),
    ],
)
def test_labels_give_category_and_priority(
    labels: tuple[str, ...], category: str, priority: int | None
) -> None:
    [made] = mapped(issue(1, labels=labels)).features
    assert (made.category, made.priority) == (category, priority)


def test_dependencies_are_on_issues_and_on_what_is_in_the_table() -> None:
    known = Known(frozenset(), {4: [11, 12]})
    found = mapped(
        issue(9, "Depends on #8, octo/APP#4, https://github.com/octo/app/issues/6 and #8"),
        issue(8, "Blocked by #5, #5, other/app#8 and #4"),
        issue(6),
        issue(4),
        known=known,
    )
    assert [(f.issue_number, f.depends_on, f.existing) for f in found.features] == [
        (6, (), ()),
        (8, (), (11, 12)),
        (9, (1, 0), (11, 12)),
    ]
    assert found.notes == (
        "in the table already, and left as it is there: issue #4",
        "issue #8 depends on #5, which is no open issue: left out",
        "issue #8 depends on other/app#8, which is in another repository: left out",
    )


def test_names_are_one_short_line_each_and_unique() -> None:
    long = "ä " * 128
    known = Known(frozenset({"same", "same (#3)", "issue 5"}), {})
    found = mapped(
        issue(2, title="SAME"), issue(3, title="Same"), issue(4, "why", long), issue(5), known=known
    )
    names = [f.name for f in found.features]
    assert names[:2] == ["SAME (#2)", "Same (#3, 2)"]
    assert (names[2], names[3]) == (("ä " * 100)[:199].rstrip() + "…", "Issue 5 (#5)")
    assert found.features[2].description == f"{long.strip()}\n\nwhy"
    assert len(found.notes) == 4
    assert 'issue #2: its title is the name of another feature: it is called "SAME (#2)"' in found.notes
    twins = mapped(issue(1, title=long), issue(2, title=long)).features
    assert len({f.name for f in twins}) == 2
    assert max(len(f.name) for f in twins) <= 200
    assert mapped(issue(3, title="\u202e\x1b")).features[0].name == "Issue #3"


def test_e2_issues_that_wait_for_each_other_are_named() -> None:
    circle = [issue(4, "depends on #5"), issue(5, "blocked by #6"), issue(6, "depends on #4")]
    with pytest.raises(UsageError, match=r"each other: #4 → #5 → #6 → #4; .*: #7 → #7\. Remove"):
        mapped(*circle, issue(7, "depends on #7"), issue(8))


def test_more_than_twenty_dependencies_are_named() -> None:
    def many(count: int) -> list[Issue]:
        needs = ", ".join(f"#{n}" for n in range(1, count + 1))
        return [*map(issue, range(1, count)), issue(99, f"depends on {needs}")]

    known = Known(frozenset(), {20: [1], 21: [2]})
    assert len(mapped(*many(20), known=known).features[-1].depends_on) == 19
    with pytest.raises(UsageError, match="issue #99 depends on 21 others, at most 20 are possible"):
        mapped(*many(21), known=known)


def test_without_issues_that_is_said() -> None:
    assert mapped().notes == ("there is no open issue",)
    assert mapped(label="x").notes == ('there is no open issue with the label "x"',)
    found = mapped(issue(1, "depends on #2"), label="x")
    assert found.notes == ('issue #1 depends on #2, which is no open issue with the label "x": left out',)


# The command, through the loopback GitHub


@pytest.fixture
def reviewer(github: ValidatingGitHub, forged: Repository) -> Reviewer:
    return Reviewer(github)


@pytest.fixture
def online(clone: Path, github: ValidatingGitHub, forged: Repository) -> Callable[..., Ended]:
    """Runs `features import` with a token."""

    def import_(*arguments: str) -> Ended:
        env = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": github.url}
        return invoke(clone, "features", "import", *arguments, **env)

    return import_


def test_issues_are_imported_once(
    reviewer: Reviewer, online: Callable[..., Ended], opened: Callable[..., Project]
) -> None:
    project = opened()
    add(project, NewFeature("Here before"))
    reviewer.open_issue("Skeleton", "- [ ] it runs", "P2")
    reviewer.open_issue("Totals", "Depends on #1 and #77", "bug", "ready")
    assert online("--github").out.splitlines() == [
        "Imported 2 features: #2 to #3.",
        "  issue #2 depends on #77, which is no open issue: left out",
    ]
    by_name = {f.name: f for f in features(project)}
    assert by_name["Skeleton"].steps == ("it runs",)
    assert (by_name["Totals"].dependencies, by_name["Totals"].category) == ((2,), "bug")
    assert {name: f.issue_number for name, f in by_name.items()} == {
        "Here before": None,
        "Skeleton": 1,
        "Totals": 2,
    }
    before = features(project)
    assert online("--github").out.splitlines() == [
        "There is nothing new to import.",
        "  in the table already, and left as it is there: issues #1, #2",
    ]
    assert features(project) == before
    reviewer.open_issue("Charts", "blocked by #2", "Ready")
    made = json.loads(online("--github", "--label", "ready", "--json").out)
    assert made == {
        "features": [4],
        "notes": ["in the table already, and left as it is there: issue #2"],
    }
    assert features(project)[-1].dependencies == (3,)
    assert "no open issue with the label" in online("--github", "--label", "nope").out


def test_the_pull_request_closes_the_issue_and_its_text_does_no_more(
    reviewer: Reviewer,
    online: Callable[..., Ended],
    opened: Callable[..., Project],
    forged: Repository,
    github: ValidatingGitHub,
) -> None:
    reviewer.open_issue("Unrelated")
    reviewer.open_issue("Say hello", "Hi @octo, closes #1 <img src=x>\n- [ ] fixes #1", "ready")
    assert online("--github", "--label", "ready").code == 0
    project = opened(token=TOKEN, api_url=github.url)
    assert build(project, Crew(diligent), auto_pr=True).exit_code == 0
    [pull] = forged.pulls.values()
    assert "\nCloses #2\n" in (pull.body or "")
    assert "@octo" not in (pull.body or "")
    assert "<img" not in (pull.body or "")
    reviewer.merge(pull.number)
    assert {number: one.state for number, one in forged.issues.items()} == {1: "open", 2: "closed"}
    assert "nothing new" in online("--github", "--label", "ready").out


def test_e2_a_circle_on_the_forge_stores_nothing(
    reviewer: Reviewer, online: Callable[..., Ended], opened: Callable[..., Project]
) -> None:
    reviewer.open_issue("A", "depends on #2")
    reviewer.open_issue("B", "depends on #1")
    reviewer.open_issue("C")
    ended = online("--github")
    assert (ended.code, ended.out) == (2, "")
    assert "#1 → #2 → #1" in ended.err
    assert features(opened()) == []


def test_what_github_refuses_is_one_clear_error(
    online: Callable[..., Ended],
    opened: Callable[..., Project],
    github: ValidatingGitHub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forge_client, "BACK_OFF_S", 0.01)
    github.faults.append(Fault("GET", "/repos/octo/app/issues", 403, "Resource not accessible"))
    ended = online("--github")
    assert (ended.code, ended.out) == (1, "")
    assert "Could not list the open issues in octo/app" in ended.err
    assert features(opened()) == []


def test_what_cannot_be_imported_from_is_named(
    clone: Path, github: ValidatingGitHub, forged: Repository
) -> None:
    api = {"GITHUB_API_URL": github.url}
    command = ("features", "import")
    assert "set GITHUB_TOKEN" in refused(clone, *command, "--github", **api)
    assert "github.api_url" in refused(clone, *command, "--github", GITHUB_TOKEN=TOKEN)
    assert "not both" in refused(clone, *command, "f.json", "--github")
    assert "give it with --github" in refused(clone, *command, "f.json", "--label", "x")
    assert "or --github" in refused(clone, *command)
    assert "give it with --github" in refused(clone, *command, "--github", "--label", " ")
    run("git", "remote", "remove", "origin", cwd=clone)
    assert "origin is no known GitHub" in refused(clone, *command, "--github", GITHUB_TOKEN=TOKEN, **api)
    assert "no features yet" in succeed(clone, "features", "list")
