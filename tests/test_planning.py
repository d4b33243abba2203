"""From a specification to features: what an agent proposes is checked, and stored only when the plan is complete."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge import feature_file, outline, planner, specification
from autoforge.agent.session import SessionEnd
from autoforge.drafting import Count, Draft
from autoforge.errors import UsageError
from autoforge.planner import Plan, PlanIncomplete
from autoforge.project import Project, table
from autoforge.specification import Specification
from db.feature import NewFeature, Result
from tests.agents import Agent, Crew
from tests.builds import add, features

ANY = Count()
SPEC = Specification("spec.md", "# Ledger\n\nRecord expenses and report them.\n")


def proposal(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    steps = [f"`ledger {name.lower()}` exits 0"]
    return {
        "name": name,
        "description": f"{name} is there.",
        "steps": steps,
        "depends_on": list(needs),
        **more,
    }


def draft(project: Project, agent: Crew, count: Count = ANY) -> Plan:
    with table(project) as store:
        start = planner.ground(project)
        return asyncio.run(
            planner.draft(project, store, SPEC, count, start=start, agent=agent, show=lambda _: None)
        )


async def plans(agent: Agent) -> None:
    made = await agent.call("features_create", features=[proposal("Add"), proposal("Report", "add")])
    assert not made.is_error, made.text
    await agent.call("plan_complete", verify_commands=["make test"])


def test_a_complete_plan_has_features_with_dependencies_and_verify_commands(
    opened: Callable[..., Project],
) -> None:
    project = opened()
    crew = Crew(plans)
    plan = draft(project, crew)
    assert [(f.name, f.depends_on) for f in plan.features] == [("Add", ()), ("Report", (0,))]
    assert plan.verify == ("make test",)
    assert "Record expenses" in crew.sessions[0].prompt
    assert "There is code already" in crew.sessions[0].prompt
    assert "Write" not in crew.sessions[0].builtin
    assert features(project) == []
    assert not project.worktrees.exists()


def test_a_plan_that_was_interrupted_stores_nothing_and_keeps_its_proposals(
    opened: Callable[..., Project],
) -> None:
    project = opened()

    async def stops(agent: Agent) -> SessionEnd:
        await agent.call("features_create", features=[proposal("Add"), proposal("Report", "Add")])
        return SessionEnd(Result.TIMEOUT, "time is up", 0.5)

    with pytest.raises(PlanIncomplete, match="time is up") as caught:
        draft(project, Crew(stops))
    assert features(project) == []
    path = Path(str(caught.value).rsplit(" in ", 1)[1].rstrip("."))
    assert [f.name for f in feature_file.read(path, {})] == ["Add", "Report"]


def test_planning_again_is_told_what_is_there_and_refuses_it(opened: Callable[..., Project]) -> None:
    project = opened()
    add(project, NewFeature("Add expenses", steps=("`ledger add` exits 0",)))

    async def again(agent: Agent) -> None:
        assert "- Add expenses (pending)" in agent.session.prompt
        same_name = await agent.call("features_create", features=[proposal("ADD  Expenses")])
        same_meaning = await agent.call("features_create", features=[proposal("Add")])
        assert same_name.is_error
        assert "it is there already: Add expenses" in same_meaning.text
        await agent.call("features_create", features=[proposal("Report", "Add expenses")])
        await agent.call("plan_complete")

    [report] = draft(project, Crew(again)).features
    assert (report.name, report.existing) == ("Report", (1,))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([], "at least one feature"),
        ("x", "at least one feature"),
        ([1], "feature 1: it is not an object"),
        ([proposal("")], "`name` is a text"),
        ([proposal("A", steps=[])], "acceptance step"),
        ([proposal("A", steps="x")], "list of texts"),
        ([proposal("A", priority=True)], "`priority`"),
        ([proposal("A", "B")], "'B', which is no earlier feature"),
        ([proposal("A"), proposal("B", "C"), proposal("C")], "no earlier feature"),
        ([proposal("A", color="red")], "no key `color`"),
        ([proposal("A"), proposal("a")], "already"),
        ([proposal("A", description=3)], "`description`"),
        ([proposal("A\0")], "NUL"),
        ([proposal(f"F{n}") for n in range(4)], "at most 3"),
    ],
)
def test_a_bad_call_creates_nothing_and_says_why(bad: Any, words: str) -> None:
    made = Draft([], Count(1, 3))
    answer = asyncio.run(made.features_create({"features": bad}))
    assert answer.is_error
    assert words in answer.text
    assert made.features == []


def test_too_few_features_are_not_complete() -> None:
    made = Draft([], Count(2, 3))
    asyncio.run(made.features_create({"features": [proposal("A")]}))
    assert asyncio.run(made.plan_complete({})).is_error
    assert not made.complete


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_whatever_an_agent_sends_is_an_answer(value: Any) -> None:
    made = Draft([], Count())
    asyncio.run(made.features_create({"features": value}))
    asyncio.run(made.plan_complete({"verify_commands": value}))


XML = """<project_specification>
  <project_name>Tally &amp; Co</project_name>
  <core_features><reports>- User can see totals</reports></core_features>
</project_specification>"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Title\n\nText", "# Title"),
        (XML, "### reports\n\n- User can see totals"),
        (XML, "## project name\n\nTally & Co"),
        (XML.replace("&amp;", "&"), "<project_name>Tally & Co"),
        (f'<?xml version="1.0"?>\n{XML}', "## project name\n\nTally & Co"),
        (
            XML.replace("<reports>", '<reports of="year" as="a table">'),
            "### reports (of: year, as: a table)\n\n- User",
        ),
        (
            XML.replace("- User can see totals", "\n    def f():\n        return 1\n"),
            "### reports\n\ndef f():\n    return 1",
        ),
        (XML.replace("- User", "<![CDATA[a < b]]>"), "### reports\n\na < b"),
        ("\ufeffwith a mark", "with a mark"),
    ],
)
def test_specifications_of_every_style_are_read(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "spec"
    path.write_text(text)
    assert words in specification.read(str(path)).text


@pytest.mark.parametrize(
    "text",
    [
        "The file opens with <project_specification> tags and closes with </project_specification>.\n",
        f"# Before\n\n{XML}",
        f"{XML}\n\nAnd behind it.\n",
        XML.replace("<reports>", "<!-- in euros --><reports>"),
        f'<!DOCTYPE x [<!ENTITY a "b">]>\n{XML}',
        XML.replace("- User", "<a>" * 5000 + "deep" + "</a>" * 5000),
    ],
    ids=["in prose", "text before", "text behind", "a comment", "an entity", "nested"],
)
def test_b5_nothing_of_a_specification_is_lost(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.md"
    path.write_text(text)
    assert specification.read(str(path)).text == text


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe", b"a\0b", b"x" * 1_000_001])
def test_b5_a_specification_that_is_none_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "spec.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"spec\.md"):
        specification.read(str(path))


@pytest.mark.parametrize(
    ("files", "green"),
    [
        ([], True),
        (["README.md", "LICENSE", ".gitignore", "autoforge.toml", "spec.md", ".github/ci.yml"], True),
        (["README.md", "src/app.py"], False),
        (["main.go"], False),
        (["README", "LICENSE-MIT", "SECURITY.md", "README.de.rst", ".github/workflows/ci.yml"], True),
        (["security.py"], False),
        (["license_check.py", "README.md"], False),
        (["security/app.go"], False),
        (["readme/LICENSE"], False),
    ],
)
def test_greenfield_is_a_tree_without_code(files: list[str], green: bool) -> None:
    assert specification.is_greenfield(files) is green


def test_the_outline_shows_chain_width_and_each_feature_once() -> None:
    made = [NewFeature(n, steps=(f"{n} works",)) for n in ("Base", "Left", "Right", "Top")]
    made[1:] = [
        replace(made[1], depends_on=(0,)),
        replace(made[2], depends_on=(0,)),
        replace(made[3], depends_on=(1, 2), existing=(7,)),
    ]
    text = "\n".join(outline.lines(outline.make(made)))
    assert "    - Top [feature] (also needs Right, #7)" in text
    assert "Longest chain (3): Base → Left → Top" in text
    assert "At most 2 can be built at the same time." in text


NEEDS = st.integers(0, 12).flatmap(lambda n: st.tuples(*[st.sets(st.integers(0, 11), max_size=3)] * n))


@given(NEEDS)
def test_an_outline_has_every_feature_once(needs: tuple[set[int], ...]) -> None:
    made = [
        NewFeature(f"F{n}", depends_on=tuple(sorted(d for d in one if d < n))) for n, one in enumerate(needs)
    ]
    lines = outline.lines(outline.make(made))
    shown = [line.split("- ")[1].split(" [")[0] for line in lines if line.lstrip().startswith("- ")]
    assert sorted(shown) == sorted(f.name for f in made)
