"""The sample is honest: its code passes, its mistake fails, its branches merge, and the script plays it in order."""

import json
import os
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from autoforge.demo.model import Request, Turn
from autoforge.demo.sample import VERIFY, answers, features_file, spec_file, write_application
from autoforge.demo.script import PASSED_TOOL, answer

FEATURES = tomllib.loads(features_file().read_text())["features"]
IDS = {feature["name"]: number for number, feature in enumerate(FEATURES, 1)}
ROOTS = ("Record expenses", "Keep exchange rates")
Results = list[tuple[bool, str]]


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def ok(command: str, cwd: Path) -> str:
    done = run(command, cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def write(files: dict[str, str], target: Path) -> None:
    for name, text in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    path.mkdir()
    write_application(path)
    return path


@pytest.fixture
def repo(app: Path) -> Path:
    ok("git init -qb main && git config user.name t && git config user.email t@example.org", app)
    ok("git add -A && git commit -qm first", app)
    return app


def test_first_commit_is_whole_and_passes(app: Path) -> None:
    names = {str(path.relative_to(app)) for path in app.rglob("*") if path.is_file()}
    assert names >= {"README.md", "CLAUDE.md", ".gitignore", "tally/cli.py", "tests/test_where.py"}
    assert not any(name.endswith(".txt") for name in names)
    assert "Ran 1 test" in run(VERIFY, app).stderr
    ok(VERIFY, app)


def test_every_feature_is_described_and_answered() -> None:
    assert spec_file().read_text().startswith("# tally")
    assert answers().keys() == IDS.keys()
    for feature in FEATURES:
        assert 2 <= len(feature["steps"]) <= 4
        assert len(answers()[feature["name"]].evidence) == len(feature["steps"])
        assert all(IDS[name] < IDS[feature["name"]] for name in feature.get("depends_on", ()))


def test_features_make_a_diamond_and_a_chain() -> None:
    graph = {feature["name"]: set(feature.get("depends_on", ())) for feature in FEATURES}
    assert graph == {
        "Record expenses": set(),
        "Totals by category": {"Record expenses"},
        "List expenses": {"Record expenses"},
        "Monthly report": {"Totals by category", "List expenses"},
        "Keep exchange rates": set(),
        "Convert amounts": {"Keep exchange rates"},
    }


def test_no_two_features_touch_one_file(app: Path) -> None:
    written = [name for plan in answers().values() for name in plan.files]
    assert len(written) == len(set(written))
    assert not any((app / name).exists() for name in written)


def test_features_pass_one_after_the_other(repo: Path) -> None:
    for feature in FEATURES:
        plan = answers()[feature["name"]]
        write(plan.files, repo)
        for command in (plan.test, VERIFY, *feature.get("verify", ()), *plan.evidence):
            ok(command, repo)
        status = ok("git status --porcelain -uall", repo).splitlines()
        assert {line.split()[1] for line in status} == set(plan.files), "evidence left something behind"
        ok("git add -A && git commit -qm feature", repo)


@pytest.mark.parametrize("root", ROOTS)
def test_roots_need_nothing_but_the_first_commit(app: Path, root: str) -> None:
    write(answers()[root].files, app)
    ok(VERIFY, app)


def test_the_mistake_fails_at_the_gate_and_is_mended(app: Path) -> None:
    plan = answers()["Totals by category"]
    assert plan.mistake is not None
    write(answers()["Record expenses"].files, app)
    write({name: plan.first_version(name) for name in plan.files}, app)
    ok(plan.test, app)  # which is why the scripted model believes that it is done
    assert run(VERIFY, app).returncode != 0
    assert "test_sums_each_category_in_any_order" in run(plan.mistake.test, app).stderr
    assert run(plan.evidence[0], app).returncode != 0
    broken = (app / plan.mistake.file).read_text()
    assert broken.count(plan.mistake.wrong) == 1
    (app / plan.mistake.file).write_text(broken.replace(plan.mistake.wrong, plan.mistake.right))
    ok(VERIFY, app)
    assert (app / plan.mistake.file).read_text() == plan.files[plan.mistake.file]


def test_only_one_feature_has_a_mistake() -> None:
    wrong = [
        name
        for name, plan in answers().items()
        if any(plan.first_version(path) != text for path, text in plan.files.items())
    ]
    assert wrong == ["Totals by category"]


def test_the_diamond_merges_without_conflict(repo: Path) -> None:
    def branch(name: str, base: str) -> None:
        ok(f"git checkout -qb b{IDS[name]} {base}", repo)
        write(answers()[name].files, repo)
        ok(f"git add -A && git commit -qm '{name}'", repo)

    branch("Record expenses", "main")
    branch("Totals by category", "b1")
    branch("List expenses", "b1")
    tree = ok("git merge-tree --write-tree b2 b3", repo)  # exits 1 on a conflict
    join = ok(f"git commit-tree {tree} -p b2 -p b3 -m join", repo)
    branch("Monthly report", join)
    ok(VERIFY, repo)


# The script


def prompt(*names: str) -> str:
    headings = [f"### Feature {IDS[name]}: {name}\nIt is wanted." for name in names]
    return "\n\n".join(["# Build these features", *headings])


def play(text: str, gate: list[Results], tools: tuple[str, ...] = ("Write", "Bash")) -> list[Turn]:
    """Holds the conversation as the CLI would; `gate` are the answers to the claims, then all is well."""
    messages: list[dict] = [
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "system", "content": "Primary working directory: /somewhere"},
    ]
    turns: list[Turn] = []
    answers_left = list(gate)
    while not turns or turns[-1].tools:
        turn = answer(Request({"messages": list(messages), "tools": [{"name": name} for name in tools]}))
        assert answer(Request({"messages": list(messages)})) == turn, "the script remembers something"
        turns.append(turn)
        results = [(False, "fine")] * len(turn.tools)
        if turn.tools and turn.tools[0][0] == PASSED_TOOL and answers_left:
            results = answers_left.pop(0)
        messages += exchange(turn, results)
        assert len(turns) < 30
    return turns


def exchange(turn: Turn, results: Results) -> list[dict]:
    used = [
        {"type": "tool_use", "id": f"t{n}", "name": name, "input": given}
        for n, (name, given) in enumerate(turn.tools)
    ]
    said = [{"type": "text", "text": turn.text}] if turn.text else []
    came = [
        {
            "type": "tool_result",
            "tool_use_id": f"t{n}",
            "is_error": bad,
            "content": [{"type": "text", "text": t}],
        }
        for n, (bad, t) in enumerate(results)
    ]
    reminder = {"type": "text", "text": "<system-reminder>Be careful.</system-reminder>"}
    return [{"role": "assistant", "content": [*said, *used]}, {"role": "user", "content": [*came, reminder]}]


def used(turns: list[Turn]) -> list[str]:
    return [turn.tools[0][0] if turn.tools else "" for turn in turns]


def test_script_builds_a_batch_in_the_order_of_the_prompt() -> None:
    turns = play(prompt("Keep exchange rates", "Convert amounts"), [])
    assert used(turns) == ["Write", "Bash", PASSED_TOOL, "Write", "Bash", PASSED_TOOL, ""]
    claims = [given for turn in turns for name, given in turn.tools if name == PASSED_TOOL]
    assert [claim["id"] for claim in claims] == [5, 6]
    assert [entry["step"] for entry in claims[0]["evidence"]] == [1, 2, 3]
    assert "tally rate" in turns[-1].text
    assert "tally convert" in turns[-1].text


def test_script_writes_the_files_of_the_feature(app: Path) -> None:
    for turn in play(prompt("Record expenses"), []):
        write({given["file_path"]: given["content"] for name, given in turn.tools if name == "Write"}, app)
    for name, text in answers()["Record expenses"].files.items():
        assert (app / name).read_text() == text


def test_script_mends_its_mistake_only_when_it_is_refused() -> None:
    refused = play(prompt("Totals by category"), [[(True, "FAILED (failures=1)")]])
    assert used(refused) == ["Write", "Bash", PASSED_TOOL, "Edit", "Bash", PASSED_TOOL, ""]
    accepted = play(prompt("Totals by category"), [])
    assert used(accepted) == ["Write", "Bash", PASSED_TOOL, ""]


def test_a1_script_does_not_claim_what_was_refused_for_good() -> None:
    turns = play(prompt("Keep exchange rates", "Convert amounts"), [[(True, "no space left")]])
    assert used(turns) == ["Write", "Bash", PASSED_TOOL, ""]
    assert "did not pass" in turns[-1].text
    assert "no space left" in turns[-1].text


def test_script_reads_first_what_an_earlier_attempt_left() -> None:
    start = [{"role": "user", "content": prompt("Record expenses")}]
    first = answer(Request({"messages": start}))
    left = [(True, "File has not been read yet.")] * len(first.tools)
    messages = start + exchange(first, left)
    second = answer(Request({"messages": messages}))
    third = answer(Request({"messages": messages + exchange(second, [(False, "text")] * 3)}))
    assert used([second, third]) == ["Read", "Write"]
    assert third.tools == first.tools


def test_script_repeats_its_last_words_when_it_is_asked_again() -> None:
    turns = play(prompt("Record expenses"), [])
    messages = [{"role": "user", "content": prompt("Record expenses")}]
    for turn in turns:
        messages += exchange(turn, [(False, "fine")] * len(turn.tools))
    again = answer(Request({"messages": [*messages, {"role": "user", "content": "Is anything left?"}]}))
    assert again.text == turns[-1].text
    assert not again.tools


@pytest.mark.parametrize("text", ["Write a poem", "### Feature 1: Record expenses\n### Feature 9: Fly"])
def test_script_says_that_it_knows_the_sample_only(text: str) -> None:
    (turn,) = play(text, [])
    assert "scripted for the sample" in turn.text


def test_script_costs_something_and_its_context_grows() -> None:
    turns = play(prompt("Keep exchange rates", "Convert amounts"), [])
    sizes = [sum(value for key, value in turn.usage.items() if key != "output_tokens") for turn in turns]
    assert all(8_000 <= size <= 20_000 for size in sizes)
    assert all(before < after for before, after in pairwise(sizes))
    assert all(300 <= turn.usage["output_tokens"] <= 1500 for turn in turns)
    assert all(turn.delay_s <= 0.15 for turn in turns)
    assert json.dumps([turn.tools for turn in turns])
