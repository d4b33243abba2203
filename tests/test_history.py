"""History: every try is told as it was, in time's order, at any width."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as thorough
from hypothesis import strategies as st
from rich.cells import cell_len

from autoforge import history as told
from autoforge import lock
from autoforge.agent.session import SessionEnd
from autoforge.commands import history
from autoforge.events import Event as Happened
from autoforge.events import EventKind
from autoforge.history import History
from autoforge.project import Project, table
from db.event import Event
from db.feature import Attempt, Kind, NewFeature, Result
from tests.agents import Agent, Crew, diligent
from tests.builds import add, build
from tests.invoke import invoke, succeed
from tests.values import NOW, batch, feature, passed

Opened = Callable[..., Project]
ATTEMPT = Attempt(1, "k3f9ab", Kind.CODE, 1, (1,), "b", "s", 1, Result.PASSED, "", 0.5, 3, NOW, NOW)


def event(number: int, name: str = "stage", key: str | None = "k3f9ab", **data: object) -> Event:
    return Event(number, NOW + timedelta(seconds=number), "b", key, name, data)


def text(*attempts: Attempt, **other: object) -> str:
    made = History(attempts, (), {1: passed(1, "k3f9ab")})
    return "\n".join(told.lines(replace(made, **other), 80, UTC))  # type: ignore[arg-type]


@pytest.fixture
def tried(opened: Opened, clone: Path) -> Path:
    """#1 is denied something, fails, then passes; #2 passes at once; #3 asks."""
    tries: list[int] = []

    async def work(agent: Agent) -> SessionEnd | None:
        [(number, _)] = agent.features
        tries.append(number)
        if number == 1 and tries.count(1) == 1:
            for what in ("git push", "rm -rf /\n\x1b[31mand more"):
                agent.events.put_nowait(Happened(EventKind.DENIED, agent.session.batch, what))
            await agent.call("feature_failed", id=1, reason="the door\nis stuck")
            return SessionEnd(Result.PASSED, cost_usd=None, turns=1, text="")
        if number == 3:
            await agent.call("ask_human", id=3, question="Which colour?")
            return None
        await diligent(agent)
        return None

    project = opened(batch_size=1)
    add(project, NewFeature("Door"), NewFeature("Wall"), NewFeature("Paint"))
    build(project, Crew(work))
    return clone


def test_a_build_is_told_with_every_try_and_event(tried: Path, opened: Opened) -> None:
    shown = succeed(tried, "history")
    lines = shown.splitlines()
    assert lines[-1] == "4 tries, $1.50, the cost of 1 not known, 2 denied."
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in shown
    made = json.loads(succeed(tried, "history", "--json"))
    with table(opened()) as store:
        assert [a["id"] for a in made["attempts"]] == [a.id for a in store.attempts()]
        assert [e["id"] for e in made["events"]] == [e.id for e in store.events()]
        commits = {str(f.id): f.commit_sha for f in store.features() if f.commit_sha}
    outcomes = [(a["number"], a["outcome"], set(a["commits"])) for a in made["attempts"]]
    assert sorted(outcomes, key=str) == [
        (1, "failed", set()),
        (1, "needs_input", set()),
        (1, "passed", {"2"}),
        (2, "passed", {"1"}),
    ]
    assert {k: v for a in made["attempts"] for k, v in a["commits"].items()} == commits
    for number, sha in commits.items():
        assert f"  #{number} {'Door' if number == '1' else 'Wall'}: commit {sha[:10]}\n" in shown
    assert "  #3 Paint\n  a person must decide\n" in shown
    first = datetime.fromisoformat(made["attempts"][0]["started_at"])
    assert first.tzinfo is not None
    assert lines[0].startswith(f"{first.astimezone():%Y-%m-%d %H:%M:%S} [")


def test_one_feature_is_told_without_the_others(tried: Path) -> None:
    shown = succeed(tried, "history", "1")
    assert shown.count(", code: ") == 2
    assert "try 1, code: failed, cost not known, 1 turn, " in shown
    assert "try 2, code: passed, $0.50, 3 turns, " in shown
    assert "Wall" not in shown
    made = json.loads(succeed(tried, "history", "1", "--json"))
    assert len({a["batch_key"] for a in made["attempts"]} | {e["batch_key"] for e in made["events"]}) == 1
    ended = invoke(tried, "history", "9")
    assert (ended.code, ended.out, ended.err) == (2, "", "error: There is no feature 9.\n")


def test_only_what_was_denied(tried: Path) -> None:
    shown = succeed(tried, "history", "--denied").splitlines()
    assert [line.partition("] ")[2] for line in shown] == [
        "denied: git push",
        "denied: rm -rf / �[31mand more",
        "",
    ]
    assert shown[-1] == "2 denied."
    assert succeed(tried, "history", "2", "--denied") == "Nothing was denied.\n"
    made = json.loads(succeed(tried, "history", "1", "--denied", "--json"))
    assert [e["data"]["text"] for e in made["events"]] == ["git push", "rm -rf /\n\x1b[31mand more"]


def test_without_a_try_it_says_how_to_begin(clone: Path) -> None:
    assert succeed(clone, "history") == "Nothing has been tried yet. To begin: autoforge build\n"
    assert json.loads(succeed(clone, "history", "--json")) == {"attempts": [], "events": [], "cut": False}


def test_b1_a_try_without_an_outcome_runs_only_while_a_build_does(opened: Opened, clone: Path) -> None:
    project = opened()
    [number] = add(project, NewFeature("Door"))
    with table(project) as opened_, lock.lease(opened_, "b") as (store, _):
        store.plan_batch(batch("k3f9ab", number))
        store.start_attempt(
            batch_key="k3f9ab", feature_ids=[number], kind=Kind.CODE, build_id="b", session_id="s"
        )
    killed = succeed(clone, "history")
    assert "try 1, code: its build was killed\n" in killed
    assert "not known" in killed
    with lock.lead(project.repo.state_dir, "b"):
        assert "try 1, code: running\n" in succeed(clone, "history")


def test_that_older_events_are_left_out_is_said(
    tried: Path, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    with table(opened()) as store:
        number = len(store.events())
    monkeypatch.setattr(history, "MOST_EVENTS", number)
    assert "left out" not in succeed(tried, "history")
    monkeypatch.setattr(history, "MOST_EVENTS", number - 1)
    for command in (("history",), ("history", "--denied")):
        assert succeed(tried, *command).startswith("(Older events are left out.)\n")
    made = json.loads(succeed(tried, "history", "--json"))
    assert [len(made["events"]), made["cut"]] == [number - 1, True]


def test_a_commit_is_told_where_it_passed() -> None:
    later = replace(ATTEMPT, id=2, number=2)
    for before, after, expected in (
        (Result.INTERRUPTED, Result.PASSED, 2),  # the second try made it
        (Result.PASSED, Result.FAILED, 1),  # a repair that came to nothing
        (Result.PASSED, Result.PASSED, 2),  # a repair that moved the commit
        (Result.PASSED, None, 1),  # a repair that runs
        (Result.INTERRUPTED, None, 2),
        (Result.TURNS, Result.TURNS, 2),
    ):
        made = History(
            (replace(ATTEMPT, outcome=before), replace(later, outcome=after)), (), {1: passed(1, "k3f9ab")}
        )
        assert told.commits(made) == {expected: {1: passed(1, "k3f9ab").commit_sha}}
    both = replace(ATTEMPT, feature_ids=(1, 2), outcome=Result.TURNS), replace(later, feature_ids=(2,))
    features = {1: passed(1, "k3f9ab"), 2: passed(2, "k3f9ab")}
    assert {k: [*v] for k, v in told.commits(History(both, (), features, of=1)).items()} == {1: [1], 2: [2]}
    assert told.as_json(History(both, (), features, of=1))["attempts"][0]["commits"].keys() == {"1"}
    elsewhere = {1: passed(1, "other")}
    assert told.commits(History((ATTEMPT,), (), elsewhere)) == {}
    assert told.commits(History((ATTEMPT,), (), {1: feature(1)})) == {}


def test_tries_and_events_are_in_the_order_of_time_newest_last() -> None:
    second = replace(ATTEMPT, id=2, number=2, started_at=NOW + timedelta(seconds=5))
    shown = text(
        ATTEMPT, second, events=(event(0, text="zero"), event(3, text="three"), event(7, text="seven"))
    )
    found = [shown.index(word) for word in ("try 1", "zero", "three", "try 2", "seven")]
    assert found == sorted(found)


def test_times_are_shown_in_the_given_zone_and_lengths_in_words() -> None:
    for seconds, words in ((0, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (-5, "0 s")):
        assert f", {words}\n" in text(replace(ATTEMPT, ended_at=NOW + timedelta(seconds=seconds)))
    [line, *_] = told.lines(History((ATTEMPT,), (), {}), 80, timezone(timedelta(hours=5, minutes=30)))
    assert line.startswith("2026-01-01 05:30:00 [k3f9ab] try 1, code: passed, $0.50, 3 turns, 0 s")


def test_a_long_reason_keeps_its_first_line_and_its_end_and_json_has_all_of_it() -> None:
    reason = "\n".join(f"line {n}" for n in range(100))
    shown = text(replace(ATTEMPT, reason=reason))
    assert [line.strip() for line in shown.splitlines() if "line" in line or "…" in line] == [
        "line 0",
        "…",
        *(f"line {n}" for n in range(94, 100)),
    ]
    made = told.as_json(History((replace(ATTEMPT, reason=reason),), (), {}))
    assert made["attempts"][0]["reason"] == reason


def test_an_event_of_a_later_version_is_shown_as_it_is() -> None:
    assert '[  -   ] budget: {"left_usd": 3}' in text(ATTEMPT, events=(event(1, "budget", None, left_usd=3),))


WORDS = st.text() | st.text(st.sampled_from("ab \n\0漢\N{FIRE}"), min_size=30)


@thorough(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(WORDS, st.sampled_from([None, *Result]), st.none() | WORDS), max_size=4),
    st.lists(WORDS | st.none(), max_size=4),
    st.integers(40, 200),
)
def test_no_line_is_wider_than_the_terminal(
    tries: list[tuple[str, Result | None, str | None]], events: list[str | None], width: int
) -> None:
    made = History(
        tuple(
            replace(ATTEMPT, id=n, feature_ids=(n,), outcome=outcome, reason=reason)
            for n, (_, outcome, reason) in enumerate(tries)
        ),
        tuple(event(n, text=words) for n, words in enumerate(events)),
        {n: feature(n, name) for n, (name, *_) in enumerate(tries)},
    )
    lines = told.lines(made, width, UTC)
    assert [line for line in lines if cell_len(line) > width or "\0" in line or "\n" in line] == []
    assert len(lines) >= len(tries) + len(events)
