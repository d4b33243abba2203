"""What a session was worth: only what has passed the gate counts."""

from autoforge.agent.session import SessionEnd
from autoforge.gate import Gate
from autoforge.log import redact
from db.feature import Ended, Result


def of(gate: Gate, end: SessionEnd) -> Ended:
    result, reason = end.result, end.reason
    if end.result is Result.PASSED or not _missing(gate):
        result, reason = _judge(gate)
    return Ended(
        result=result,
        reason=reason,
        cost_usd=end.cost_usd,
        turns=end.turns,
        summary=redact(end.text) if gate.passed else "",
        failed={i: redact(text) for i, text in {**gate.last_red, **gate.failed}.items()},
        questions={i: redact(text) for i, text in gate.questions.items()},
        untried=_untried(gate),
    )


def _judge(gate: Gate) -> tuple[Result, str]:
    """For a session that ended by itself."""
    if not _missing(gate):
        return Result.PASSED, ""
    if gate.passed:
        return Result.PARTIAL, "the session ended before this feature passed"
    if gate.questions:
        return Result.NEEDS_INPUT, "a person must decide"
    if gate.failed or gate.last_red:
        return Result.FAILED, "the agent gave up"
    return Result.NO_WORK, "the agent ended without passing or failing anything"


def _missing(gate: Gate) -> set[int]:
    return {f.id for f in gate.features} - set(gate.passed)


def _untried(gate: Gate) -> frozenset[int]:
    """Features that could not be worked on, because another of the batch did not pass."""
    missing = _missing(gate)
    untouched = missing - {*gate.last_red, *gate.failed, *gate.questions}
    return frozenset(f.id for f in gate.features if f.id in untouched and missing & set(f.dependencies))
