"""What a person sees: lines while a build runs, table, reasons and stack at its end."""

from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from autoforge import report
from autoforge.events import Event, EventKind
from autoforge.progress import lines, summary
from autoforge.report import Report
from db.feature import Batch, BatchStatus, Feature, FeatureStatus, Parent, PrStatus, Result

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def made(*features: Feature, **more: object) -> Report:
    return replace(report.make(features, (), cost_usd=0.5), **more)  # type: ignore[arg-type]


def feature(number: int, name: str = "One", **more: object) -> Feature:
    values: dict[str, object] = dict.fromkeys(field.name for field in fields(Feature))
    values |= dict.fromkeys(("steps", "verify", "evidence", "dependencies"), ())
    values |= {"id": number, "priority": number, "name": name, "status": FeatureStatus.PENDING, "attempts": 0}
    return Feature(**{**values, **more})  # type: ignore[arg-type]


def batch(key: str, *ids: int, **more: object) -> Batch:
    made = Batch(
        key=key, branch=f"autoforge/{key}", feature_ids=ids, status=BatchStatus.OPENED, head_sha="a" * 40
    )
    return replace(made, **more)  # type: ignore[arg-type]


def told(event: Event, *, verbose: bool = False) -> list[str]:
    written: list[str] = []
    lines.printer(written.append, lambda: AT, verbose=verbose)(event)
    return written


def test_an_event_is_one_line_with_time_and_batch() -> None:
    assert told(Event(EventKind.STAGE, "k3f9ab", "agent")) == ["03:04:05 [k3f9ab] agent"]
    assert told(Event(EventKind.WARNING, "", "a\n  b")) == ["03:04:05 [  -   ] warning: a b"]
    [long] = told(Event(EventKind.TOOL, "k3f9ab", "Bash " + "x" * 500))
    assert long.startswith("03:04:05 [k3f9ab]   · Bash xxx")
    assert long.endswith("x…")
    assert len(long) < 200


def test_what_agents_say_is_shown_only_when_asked_for() -> None:
    said = Event(EventKind.TEXT, "k3f9ab", "I think")
    assert told(said) == []
    assert told(said, verbose=True) == ["03:04:05 [k3f9ab] I think"]


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\rb", "\u202egnp.exe", "\x9b2J", "\x07"])
def test_nothing_moves_the_cursor_or_the_reading_direction(text: str) -> None:
    assert "\N{REPLACEMENT CHARACTER}" in lines.plain(text)
    assert lines.plain("tab\tand\nline: é 🎉") == "tab\tand\nline: é 🎉"


def test_wide_characters_keep_the_columns() -> None:
    rows = summary.table_lines(
        made(feature(1, "漢字" * 40), feature(2, "x", pr_number=7, pr_status=PrStatus.OPEN)), 60
    )
    assert rows[0].split() == ["id", "feature", "status", "needs", "commit", "PR"]
    assert rows[1].startswith("1   漢字漢字")
    assert "…" in rows[1]
    assert rows[2].endswith("#7 open")
    assert summary.table_lines(made(feature(1)), 5)[1].split() == ["1", "One", "pending"]


def test_a_long_reason_keeps_its_first_line_and_its_end() -> None:
    reason = "\n".join(["`make test` failed:", *(f"line {n}" for n in range(50)), "", "AssertionError"])
    shown = summary.report_lines(made(feature(1), open={1: reason}), 80)
    [text] = [line for line in shown if line.startswith("#1")]
    assert text.startswith("#1 not passed: `make test` failed:\n  …\n  line 45")
    assert text.endswith("\n  AssertionError")
    assert len(text.splitlines()) == summary.REASON_LINES


def test_the_totals_count_everything_once_and_say_why_it_stopped() -> None:
    features = [feature(n, status=status) for n, status in enumerate(FeatureStatus, 1)]
    text = summary.totals(made(*features, ending=Result.MONEY, why="the budget has no room"))
    assert text.startswith(
        "1 of 6 features passed; 1 failed, 1 waiting for an answer, 1 pending, 1 running, 1 skipped"
    )
    assert text.endswith("The build stopped: the budget has no room. Cost: $0.50")
    assert (
        summary.totals(made(feature(1, status=FeatureStatus.PASSED))) == "1 of 1 features passed. Cost: $0.50"
    )


def test_the_stack_is_a_tree_of_what_was_committed() -> None:
    features = [feature(1, batch_key="aaa"), feature(2, batch_key="bbb"), feature(3, batch_key="ddd")]
    batches = [
        batch("aaa", 1, pr_number=4),
        batch("bbb", 2, parents=(Parent("aaa", "a" * 40),)),
        batch("ccc", head_sha=None),
        batch("ddd", 3, parents=(Parent("aaa", "a" * 40), Parent("bbb", "a" * 40))),
    ]
    assert summary.stack_lines(batches, features, "main") == [
        "",
        "main",
        "└── autoforge/aaa aaaaaaaa [opened] #1 → PR #4",
        "    └── autoforge/bbb aaaaaaaa [opened] #2",
        "        └── autoforge/ddd aaaaaaaa [opened] #3 (join of 2)",
    ]
    assert summary.stack_lines([batch("ccc", head_sha=None)], [], "main") == []
