"""What a session was worth, as a table."""

import asyncio
from pathlib import Path

import pytest

from autoforge import judgement
from autoforge.agent.session import SessionEnd
from autoforge.events import Passed
from autoforge.gate import Gate
from db.feature import Batch, Result
from git_workflow.command import Git
from tests.values import feature

P, F, Q, R = "passed", "failed", "questions", "last_red"
TOKEN = "ghp_" + "a" * 36


def gate(*decided: tuple[int, str]) -> Gate:
    """Three features: 2 depends on 1, 3 on 2."""
    features = (feature(1), feature(2, dependencies=(1,)), feature(3, dependencies=(2,)))
    events: asyncio.Queue[object] = asyncio.Queue()
    made = Gate(Git(Path()), None, Batch("k", "b", (1, 2, 3)), features, "sha", None, 1, events)  # type: ignore[arg-type]
    for number, where in decided:
        text = f"because {TOKEN}"
        getattr(made, where)[number] = Passed(number, "sha", (), ()) if where == P else text
    return made


@pytest.mark.parametrize(
    ("decided", "ended", "result", "untried"),
    [
        ([], Result.PASSED, Result.NO_WORK, {2, 3}),
        ([(1, P)], Result.PASSED, Result.PARTIAL, {3}),
        ([(1, P), (2, P), (3, P)], Result.PASSED, Result.PASSED, set()),
        ([(1, P), (2, P), (3, P)], Result.TURNS, Result.PASSED, set()),
        ([(1, P), (2, P), (3, P)], Result.LIMITED, Result.PASSED, set()),
        ([(1, P), (2, F)], Result.PASSED, Result.PARTIAL, {3}),
        ([(1, P), (2, Q)], Result.PASSED, Result.PARTIAL, {3}),
        ([(1, F)], Result.PASSED, Result.FAILED, {2, 3}),
        ([(1, R)], Result.PASSED, Result.FAILED, {2, 3}),
        ([(1, Q)], Result.PASSED, Result.NEEDS_INPUT, {2, 3}),
        *[
            ([(1, P)], end, end, {3})
            for end in (Result.TURNS, Result.TIMEOUT, Result.MONEY, Result.LIMITED, Result.UNAVAILABLE)
        ],
        ([], Result.INTERRUPTED, Result.INTERRUPTED, {2, 3}),
        ([(1, R)], Result.CRASHED, Result.CRASHED, {2, 3}),
        ([(1, R)], Result.FAILED, Result.FAILED, {2, 3}),
    ],
)
def test_only_what_passed_the_gate_counts(
    decided: list[tuple[int, str]], ended: Result, result: Result, untried: set[int]
) -> None:
    told = judgement.of(gate(*decided), SessionEnd(ended, "", cost_usd=1.0, turns=2, text="I did it all."))
    assert (told.result, told.untried) == (result, untried)
    assert (told.cost_usd, told.turns) == (1.0, 2)
    assert bool(told.summary) == ((1, P) in decided)


def test_a_decision_is_worth_more_than_a_red_gate_and_secrets_stay_out() -> None:
    made = gate((1, R))
    made.failed[1] = f"gave up with {TOKEN}"
    made.questions[2] = f"is {TOKEN} yours?"
    told = judgement.of(made, SessionEnd(Result.PASSED, text=TOKEN))
    assert told.failed == {1: "gave up with [redacted]"}
    assert told.questions == {2: "is [redacted] yours?"}
