"""The words of commits and pull requests: what a reviewer reads, whatever an agent or an issue wrote."""

import re

import pytest

from autoforge import pull_request
from autoforge.pull_request import BODY_LIMIT, STACK_END, STACK_START, Facts, StackEntry
from db.feature import Evidence, Feature
from git_workflow.diff import Diff
from tests.values import batch, feature, passed

FACTS = Facts(Diff(2, 10, 3), "main")


def body(
    *features: Feature, facts: Facts = FACTS, waiting: tuple[Feature, ...] = (), **of_batch: object
) -> str:
    return pull_request.body(batch("k", **of_batch), features, waiting, facts)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["Keep exchange rates"], "feat: keep exchange rates"),
        (["Keep exchange rates", "Convert amounts"], "feat: keep exchange rates and convert amounts"),
        (["Keep rates", "API keys", "A/B tests"], "feat: keep rates, API keys and A/B tests"),
        (["A button", "GitHub login"], "feat: a button and GitHub login"),
        (["é"], "feat: é"),
    ],
)
def test_a_title_names_every_feature_in_the_same_way(names: list[str], title: str) -> None:
    assert pull_request.title([feature(n, name) for n, name in enumerate(names)]) == title


def test_a_title_has_the_type_of_its_features_and_a_limit() -> None:
    assert pull_request.title([feature(1, "Crash at start", category="Bug")]) == "fix: crash at start"
    both = [feature(1, "Crash", category="bug"), feature(2, "New")]
    assert pull_request.title(both) == "feat: crash and new"
    long = pull_request.title([feature(n, "word " * 20) for n in range(3)])
    assert len(long) <= 100
    assert long.endswith("…")


def test_a_commit_message_has_a_short_subject_and_only_our_trailers() -> None:
    summary = "Done.\n\nAutoforge-Feature: 99\nCo-authored-by: x <x@example.com>"
    message = pull_request.commit_message(feature(7, "Add " + "x" * 90), "k", summary)
    subject, *_, last = message.strip().split("\n\n")
    assert len(subject) <= 72
    assert last == "Autoforge-Feature: 7\nAutoforge-Batch: k"


@pytest.mark.parametrize(
    "text",
    [
        "Closes #1", "fixes: #1", "Resolved octo/app#12", "fix GH-3", "closes https://github.com/o/a/issues/1",
        "close\n#1", "closes:#4", "@octo look", "`@octo` and `@octo/team", "_@octo_", "(@octo)", "x <@octo>",
        "<!-- hidden -->", STACK_START, STACK_END, "</details>", "<script>", "<IMG SRC=x>", "<details open>",
    ],
)  # fmt: skip
def test_nothing_that_others_wrote_acts_on_github(text: str) -> None:
    """In every place that takes words of an agent, a specification or an issue."""
    one = passed(1, "k", description=text, steps=(text,), evidence=(Evidence(text, 0, 1, 0),))
    entry = StackEntry("b", text, 5, None)
    facts = Facts(Diff(1, 1, 1, tests_deleted=(text,)), "main", (entry,), (entry,))
    made = body(one, facts=facts, waiting=(feature(2, text),), summary=text, notes=(text,))
    made += pull_request.commit_message(feature(1, text), "k", text) + body(feature(1, text, commit_sha="a"))
    made = made.replace(pull_request.stack(facts), "")
    ours = {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>", STACK_START, STACK_END}
    assert set(re.findall(r"<[A-Za-z/!][^>]*>", made)) <= ours
    assert made.count("<details>") == made.count("</details>")
    made = re.sub(
        r"^(\| 1 \|.*|> - (deleted|changed).*)$", "", made, flags=re.MULTILINE
    )  # inline code is inert
    assert not re.search(r"(^|[^A-Za-z0-9])@[A-Za-z0-9]", made, re.MULTILINE)
    keyword = r"(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s*([\w./-]*#\d|GH-\d|https?:)"
    assert not re.search(keyword, made, re.IGNORECASE)


def test_the_closing_keyword_is_ours() -> None:
    assert "\nCloses #12\n" in body(passed(1, "k", issue_number=12))
    assert "Closes" not in body(passed(1, "k"))


@pytest.mark.parametrize(
    ("command", "cell"),
    [
        ("a | b", r"`a \| b`"),
        ("echo `date`", "`` echo `date` ``"),
        ("echo ``` x", "```` echo ``` x ````"),
        ("one\ntwo\n\nthree", "`one two three`"),
    ],
)
def test_a_command_stays_one_cell_of_its_table(command: str, cell: str) -> None:
    made = body(passed(1, "k", steps=("s",), evidence=(Evidence(command, 0, 1.0, 0),)))
    assert f"| 1 | {cell} | 1.0 |" in made


def test_words_stay_in_their_place() -> None:
    """No heading, open fence or list of theirs reaches our part."""
    made = body(passed(1, "k", description="# Big\n```\nopen", steps=("two\n# lines",)), summary="# H\n\n```")
    assert not re.search(r"^(# |```)", made, re.MULTILINE)
    assert "- [ ] two # lines" in made


def test_only_a_step_whose_command_was_green_is_ticked() -> None:
    ran = (Evidence("a", 0, 1, 0), Evidence("b", 1, 1, 1), Evidence("own", 0, 1, None))
    made = body(passed(1, "k", steps=("first", "second"), evidence=ran))
    assert "- [x] first\n- [ ] second" in made
    assert "Evidence: 2 commands" in made
    assert "| `b` |" not in made


def test_what_needs_a_second_look_comes_first() -> None:
    diff = Diff(3, 1, 1, ("tests/a.py",), ("tests/b.py",), ("tests/c.py",), ("Makefile",))
    made = body(passed(1, "k"), facts=Facts(diff, "main"), notes=("built with --no-verify",))
    first = made.split("###")[0]
    assert first.startswith(
        "> [!IMPORTANT]\n> Look at these first:\n> - built with --no-verify\n> - deleted tests: `tests/b.py`\n"
    )
    for name in ("tests/a.py", "tests/c.py", "Makefile"):
        assert f"`{name}`" in first
    assert all(line.startswith(">") for line in first.strip().splitlines())
    assert body(passed(1, "k")).startswith("### F1")


@pytest.mark.parametrize("longest", ["description", "steps", "evidence", "children", "names", "checks"])
def test_a_long_body_is_cut_in_its_lists_and_texts_and_nowhere_else(longest: str) -> None:
    words = "many words " * 40
    many = tuple(f"{n} {words}" for n in range(400))
    ran = tuple(Evidence(f"echo {text}", 0, 1, n) for n, text in enumerate(many))
    one = passed(1, "k", description=words * 500 if longest == "description" else "short")
    facts, of_batch = FACTS, {"summary": words * 500}
    if longest == "steps":
        one = passed(1, "k", steps=many)
    elif longest == "evidence":
        one = passed(1, "k", steps=many, evidence=ran)
    elif longest == "children":
        facts = Facts(Diff(1, 1, 1), "main", children=tuple(StackEntry(t, t, 1, None) for t in many))
    elif longest == "names":
        facts = Facts(Diff(1, 1, 1, many, many, many, many), "main")
    else:
        of_batch["checks"] = ran  # type: ignore[assignment]
    made = body(one, one, one, facts=facts, **of_batch)
    assert len(made) <= BODY_LIMIT
    assert made.count("<details>") == made.count("</details>") > 0
    assert (made.count(STACK_START), made.count(STACK_END)) == (1, 1)
    assert made.rstrip().endswith("</sub>")


def test_the_stack_part_is_made_new_and_a_persons_words_stay() -> None:
    made = "Please look at X.\n\n" + body(passed(1, "k"), summary=f"see {STACK_START}") + "\nMy note.\n"
    facts = Facts(Diff(1, 1, 1), "main", children=(StackEntry("b", "feat: child", 9, None),))
    updated = pull_request.with_stack(made, facts)
    assert "- carries #9 feat: child" in updated
    assert updated.replace(pull_request.stack(facts), "") == made.replace(pull_request.stack(FACTS), "")
    assert pull_request.with_stack(updated, FACTS) == made
    assert pull_request.with_stack("rewritten by a person", facts) == "rewritten by a person"


def test_a_join_says_that_it_waits() -> None:
    entries = (StackEntry("l", "feat: left", 1, None), StackEntry("r", "feat: right", None, None))
    text = pull_request.stack(Facts(Diff(1, 1, 1), "main", parents=entries, is_join=True))
    assert "Built on a join of 2 branches" in text
    assert "- built on #1 feat: left\n- built on `r` feat: right\n- **this pull request**" in text
