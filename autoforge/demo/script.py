"""What the scripted model says while it builds the sample."""

import json
import re
from collections.abc import Generator
from dataclasses import replace

from autoforge.demo.model import Request, ToolResult, Turn
from autoforge.demo.sample import Answer, answers

PASSED_TOOL = "mcp__autoforge__feature_passed"

_HEADING = re.compile(r"^### Feature (\d+): (.+?)\s*$", re.MULTILINE)
_STRANGER = "This model is scripted for the sample application only; it cannot build anything else."
_DELAY_S = 0.1  # long enough to see that several sessions work at once
_FIRST_CONTEXT_TOKENS = 8_000
_MOST_CONTEXT_TOKENS = 20_000
_TURN_TOKENS = 900

Story = Generator[Turn, list[ToolResult], None]


def answer(request: Request) -> Turn:
    """The next turn. The story is told again from its beginning for every request, so nothing has to be remembered."""
    story = _story(request)
    turn = next(story)
    for results in request.rounds:
        try:
            turn = story.send(results)
        except StopIteration:
            break  # it has said its last words; asked again, it repeats them
    return replace(turn, usage=_usage(turn, request.step), delay_s=_DELAY_S)


def _story(request: Request) -> Story:
    known = answers()
    features = dict(_HEADING.findall(request.prompt))
    if not features or not known.keys() >= set(features.values()):
        yield Turn(text=_STRANGER)
        return
    for feature_id, name in features.items():
        refusal = yield from _build(int(feature_id), known[name])
        if refusal:
            yield Turn(text=f"{name} did not pass, and I do not know why: {refusal}")
            return
    yield Turn(text="\n".join(f"{name}: {known[name].summary}" for name in features.values()))


def _build(feature_id: int, plan: Answer) -> Generator[Turn, list[ToolResult], str | None]:
    """Returns why the feature was refused for good, or None."""
    yield from _write(plan)
    yield _bash("Now its tests.", plan.test)
    refusal = _first_error((yield _claim(feature_id, plan)))
    if refusal and plan.mistake:
        mistake = plan.mistake
        edit = {"file_path": mistake.file, "old_string": mistake.wrong, "new_string": mistake.right}
        yield Turn(text=mistake.insight, tools=(("Edit", edit),))
        yield _bash("All of its tests this time.", mistake.test)
        refusal = _first_error((yield _claim(feature_id, plan)))
    return refusal


def _write(plan: Answer) -> Story:
    writes = tuple(("Write", {"file_path": path, "content": plan.first_version(path)}) for path in plan.files)
    results = yield Turn(text=plan.opening, tools=writes)
    if _first_error(results):
        # an earlier attempt left the files: the CLI writes over a file only when it was read in this session
        reads = tuple(("Read", {"file_path": path}) for path in plan.files)
        yield Turn(text="Some of it is there already.", tools=reads)
        yield Turn(tools=writes)


def _bash(text: str, command: str) -> Turn:
    return Turn(text=text, tools=(("Bash", {"command": command, "description": "Run the tests"}),))


def _claim(feature_id: int, plan: Answer) -> Turn:
    evidence = [{"step": number, "command": command} for number, command in enumerate(plan.evidence, 1)]
    given = {"id": feature_id, "summary": plan.summary, "evidence": evidence}
    return Turn(text=f"{plan.feature} is ready for the gate.", tools=((PASSED_TOOL, given),))


def _first_error(results: list[ToolResult]) -> str | None:
    return next((text or "no reason was given" for is_error, text in results if is_error), None)


def _usage(turn: Turn, step: int) -> dict[str, int]:
    """Like a real session: the context grows with each turn, and all but the newest part of it is read from the cache."""
    written = (len(turn.text) + len(json.dumps(turn.tools))) // 3
    cached = min(_FIRST_CONTEXT_TOKENS + step * _TURN_TOKENS, _MOST_CONTEXT_TOKENS - 2 * _TURN_TOKENS)
    return {
        "input_tokens": 300,
        "cache_creation_input_tokens": _TURN_TOKENS if step else cached,
        "cache_read_input_tokens": cached if step else 0,
        "output_tokens": max(300, min(1500, written)),
    }
