import contextlib
import io
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from autoforge import graph, settings
from autoforge.commands.context import Invocation
from autoforge.commands.graph import graph as graph_command
from autoforge.project import Project, table
from autoforge.scheduler import blocked, build_order, schedule, scores
from db.feature import Feature, FeatureStatus, NewFeature
from tests import nodes, values
from tests.nodes import FAILED, NEEDS_INPUT, PASSED, RUNNING, SKIPPED, Row

NASTY = [
    "end",
    'say "hi" to [x](y){z}',
    "two\r\nlines\tand \u2028 more",
    "`md` _it_ *bold* $$x$$",
    "#35; #quot; &lt; <b>",
    "style a:b#c; classDef x:y#z;",
    "%%{init: {}}%% --> a|b|",
    "back\\slash\\",
    "\\n\\N\\G \\\\",
    "\U0001f468\u200d\U0001f469 日本語 हिन्दी é",
    "1. subgraph;",
    "",
]


def feature(
    number: int, *dependencies: int, name: str = "", status: FeatureStatus = FeatureStatus.PENDING
) -> Feature:
    return values.feature(number, name, status, dependencies=dependencies)


def drawn(features: list[Feature], width: int = 80) -> list[str]:
    available = {f.id for f in features if f.status is PASSED}
    return graph.tree(features, schedule(features, available=available), width)


def named(names: list[str]) -> list[Feature]:
    return [replace(feature(i, *([i - 1] if i > 1 else [])), name=name) for i, name in enumerate(names, 1)]


def shown(name: str) -> str:
    return " ".join(name.split())


# Order


@given(nodes.acyclic())
def test_the_order_is_what_building_the_best_first_gives(features: list[Row]) -> None:
    plan = schedule(features, available=nodes.passed(features))
    waits, score = blocked(features, plan), scores(features, plan)
    below = {i: nodes.reachable(i, waits) | {i} for i in score}
    held = {i for i in score if not {d for j in below[i] for d in waits.get(j, ())} <= score.keys()}
    order: list[int] = []
    while free := [
        i for i in score if i not in order and {d for d in waits.get(i, ()) if d in score} <= set(order)
    ]:
        order.append(min(free, key=lambda i: (i in held, score[i])))
    assert build_order(features, plan) == order
    assert set(order) == score.keys()


def test_the_order_leaves_out_cycles_and_puts_last_what_waits_for_others() -> None:
    rows = [nodes.feature(1, status=FAILED), nodes.feature(2, 1), nodes.feature(3, 2), nodes.feature(4, 5)]
    rows += [nodes.feature(5, 4), nodes.feature(6, 5), nodes.feature(7, priority=999), nodes.feature(8, 99)]
    assert build_order(rows, schedule(rows, available=())) == [7, 2, 8, 3]


def test_json_says_what_can_be_built_and_why_the_rest_cannot() -> None:
    features = [feature(1), feature(2, 1), feature(3, 4), feature(4, 3), feature(5, 99)]
    assert graph.as_json(features, schedule(features, available=())) == {
        "order": [1, 2, 5],
        "ready": [1],
        "blocked": {"2": [1], "3": [4], "4": [3], "5": [99]},
        "missing": {"5": [99]},
        "cycles": [[3, 4]],
        "scores": {
            "1": {"unblocks": 1, "depth": 0, "priority": 1},
            "2": {"unblocks": 0, "depth": 1, "priority": 2},
            "3": {"unblocks": 0, "depth": 0, "priority": 3},
            "4": {"unblocks": 0, "depth": 0, "priority": 4},
            "5": {"unblocks": 0, "depth": 0, "priority": 5},
        },
    }


# Tree


def test_a_tree_names_states_and_shows_a_shared_child_once() -> None:
    features = [feature(1, status=PASSED), feature(2, 1), feature(3, 1, status=FAILED), feature(4, 2, 3)]
    features += [feature(5, 4, 99), feature(6, status=NEEDS_INPUT), feature(7, 6, status=RUNNING)]
    features += [feature(8, status=SKIPPED)]
    assert drawn(features) == [
        "#1 F1 [passed]",
        "├─ #2 F2 [ready]",
        "│  └─ #4 F4 [blocked]",
        "│     └─ #5 F5 [blocked]",
        "└─ #3 F3 [failed]",
        "   └─ #4 F4 (above)",
        "#6 F6 [needs input]",
        "└─ #7 F7 [running]",
        "#8 F8 [skipped]",
        "",
        "#5 cannot start: it depends on #99, which does not exist.",
    ]


def test_b5_a_tree_shows_each_cycle_and_what_is_behind_it() -> None:
    assert drawn([feature(1, 1), feature(2, 4), feature(3, 4), feature(4, 3)]) == [
        "#1 F1 [blocked]",
        "└─ #1 F1 (above)",
        "#3 F3 [blocked]",
        "└─ #4 F4 [blocked]",
        "   ├─ #2 F2 [blocked]",
        "   └─ #3 F3 (above)",
        "",
        "#1 → #1 is a cycle: none of these can start while all of these dependencies stand.",
        "#3 → #4 → #3 is a cycle: none of these can start while all of these dependencies stand.",
    ]
    assert drawn([feature(1, 2, status=PASSED), feature(2, 1)]) == [
        "#1 F1 [passed]",
        "└─ #2 F2 [ready]",
        "   └─ #1 F1 (above)",
    ]


def test_a_tree_fits_80_columns_however_deep_it_is() -> None:
    features = [feature(i, *([i - 1] if i > 1 else []), name="日本 " * 60) for i in range(1, 31)]
    lines = drawn(features)
    assert lines[10].endswith("#11 日本 日本 日本 日… [blocked] (continues below)")
    assert lines[11].startswith("#11 日本")
    assert lines[11].endswith(" [blocked] (continued)")
    assert max(sum(map(graph._cells, line)) for line in lines) in (79, 80)  # a character may be two wide


def test_what_is_too_deep_goes_on_at_the_margin_in_its_order() -> None:
    features = [feature(i, *([i - 1] if i > 1 else [])) for i in range(1, 11)]
    features += [feature(11, 10), feature(12, 10), feature(13, 10), feature(14, 11), feature(15, 13)]
    assert [line.strip() for line in drawn(features)[10:]] == [
        "├─ #11 F11 [blocked] (continues below)",
        "├─ #12 F12 [blocked]",
        "└─ #13 F13 [blocked] (continues below)",
        "#11 F11 [blocked] (continued)",
        "└─ #14 F14 [blocked]",
        "#13 F13 [blocked] (continued)",
        "└─ #15 F15 [blocked]",
    ]


@given(st.lists(st.lists(st.integers(1, 15), max_size=4), max_size=14))
def test_a_tree_draws_each_feature_once_and_each_dependency_once(lists: list[list[int]]) -> None:
    features = [feature(i, *ids) for i, ids in enumerate(lists, 1)]
    lines = [line for line in drawn(features) if "F" in line]
    full = [line for line in lines if "[" in line and "continued" not in line]
    assert sorted(int(re.search(r"#(\d+)", line)[1]) for line in full) == [f.id for f in features]
    edges = sum(len({d for d in f.dependencies if d <= len(features)}) for f in features)
    assert sum("─" in line for line in lines) == edges


# Mermaid and Graphviz


def test_mermaid_is_valid_for_any_name() -> None:
    features = named(NASTY)
    text = graph.mermaid(features, schedule(features, available=()))
    labels = re.findall(
        r'^    f(\d+)\["((?:[^\W_]|[ ,.-]|#\d+;)*)<br/>(?:ready|blocked)"\]:::(\w+)$', text, re.MULTILINE
    )
    decoded = [re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) for _, label, _ in labels]
    assert decoded == [f"#{i} {shown(name)}" for i, name in enumerate(NASTY, 1)]
    assert [state for *_, state in labels] == ["ready"] + ["blocked"] * (len(NASTY) - 1)
    rest = re.sub(r"(?m)^    f\d+\[.*\n", "", text).splitlines()
    assert rest[0] == "flowchart TD"
    assert rest[1 : len(NASTY)] == [f"    f{i} --> f{i + 1}" for i in range(1, len(NASTY))]
    assert all(
        re.fullmatch(r"    classDef \w+ fill:#\w{6},color:#000000", line) for line in rest[len(NASTY) :]
    )
    assert {state for *_, state in labels} <= set(re.findall(r"classDef (\w+)", text))


def test_every_state_has_a_class_and_a_word() -> None:
    features = [feature(i, status=status) for i, status in enumerate(FeatureStatus, 1)] + [feature(9, 99)]
    plan = schedule(features, available=())
    text = graph.mermaid(features, plan)
    states = ["ready", "running", "passed", "failed", "needs_input", "skipped", "blocked", "missing"]
    assert re.findall(r"<br/>(.*)\"\]:::", text) == [state.replace("_", " ") for state in states]
    assert re.findall(r":::(\w+)", text) == states
    assert sorted(re.findall(r"classDef (\w+)", text)) == sorted(states)
    assert "    f99 --> f9" in text
    assert re.findall(r"\\n(.*)\", fill", graph.dot(features, plan)) == [s.replace("_", " ") for s in states]


def test_dot_is_valid_for_any_name() -> None:
    features = named(NASTY)
    text = graph.dot(features, schedule(features, available=()))
    labels = re.findall(r'^    f\d+ \[label="((?:[^"\\]|\\.)*)", fillcolor="#\w{6}"\];$', text, re.MULTILINE)
    meaning = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "&amp;": "&"}
    assert not re.search(r"&(?!amp;)", text)
    decoded = [re.sub(r'\\[\\"n]|&amp;', lambda found: meaning[found[0]], label) for label in labels]
    assert [label.partition("\n")[0] for label in decoded] == [
        f"#{i} {shown(name)}" for i, name in enumerate(NASTY, 1)
    ]
    assert re.findall(r"    (f\d+ -> f\d+);", text) == [f"f{i} -> f{i + 1}" for i in range(1, len(NASTY))]


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it() -> None:
    features = named(NASTY)
    text = graph.dot(features, schedule(features, available=()))
    done = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.count("\nnode ") == len(NASTY)
    assert done.stderr == ""


def test_what_moves_a_terminal_is_not_drawn() -> None:
    features = named(["a\x1b[31m\x00b\u202ec"])
    plan = schedule(features, available=())
    assert "a\ufffd[31m\ufffdb\ufffdc" in graph.tree(features, plan, 80)[0]
    for text in (graph.mermaid(features, plan), graph.dot(features, plan)):
        assert not set(text) & {"\x1b", "\x00", "\u202e"}


# Size


def test_ten_thousand_features_are_drawn_quickly_and_a_long_chain_without_recursion() -> None:
    features = [feature(i, *{max(1, i - 7 * k) for k in (1, 2, 3)} - {i}) for i in range(1, 10_001)]
    start = time.process_time()
    lines = drawn(features)
    assert time.process_time() - start < 4  # 0.4 s on a quiet machine
    assert sum(line.endswith(("[ready]", "[blocked]", "(continues below)")) for line in lines) == 10_000
    chain = [feature(i, *([i - 1] if i > 1 else [])) for i in range(1, 100_001)]
    assert len(drawn(chain)) == 100_000 + 9_999
    assert build_order(chain, schedule(chain, available=())) == list(range(1, 100_001))


# The command


def invoke(folder: Path, *arguments: str) -> str:
    app = typer.Typer()
    app.command()(graph_command)
    out = io.StringIO()
    given = Invocation(folder, settings.take({}))
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        app(arguments, obj=given)
    assert ended.value.code == 0
    return out.getvalue()


def test_the_command_draws_the_table(clone: Path, opened: Callable[..., Project]) -> None:
    assert invoke(clone) == "There are no features yet. Add some: autoforge features import FILE\n"
    with table(opened()) as store:
        store.add_features([NewFeature("Log in"), NewFeature("Log out", depends_on=(0,))])
    assert invoke(clone) == "#1 Log in [ready]\n└─ #2 Log out [blocked]\n"
    assert json.loads(invoke(clone, "--format", "json"))["order"] == [1, 2]
    assert invoke(clone, "--format", "mermaid").startswith("flowchart TD\n")
    assert invoke(clone, "--format", "dot").startswith("digraph features {\n")
