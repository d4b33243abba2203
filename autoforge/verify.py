"""Runs verify commands in order and says which one failed, and how."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from autoforge.process import Finished, run_shell
from db.feature import Evidence


async def run_commands(
    commands: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> tuple[Finished, ...]:
    """Each command gets `timeout_s` of its own. The first failure is the last result: the rest is not run."""
    finished: list[Finished] = []
    for command in commands:
        finished.append(await run_shell(command, cwd=cwd, env=env, timeout_s=timeout_s))
        if failed(finished[-1]):
            break
    return tuple(finished)


def failed(one: Finished) -> bool:
    return one.timed_out or one.exit_code != 0


def failure_text(finished: Sequence[Finished], limit: int = 6000) -> str:
    """What failed, with the tail of its output, in at most `limit` characters; empty when nothing did."""
    one = next((one for one in finished if failed(one)), None)
    if one is None:
        return ""
    how = (
        f"timed out after {one.duration_s:.0f} s"
        if one.timed_out
        else f"failed with exit code {one.exit_code}"
    )
    head = f"`{_cut(one.command, limit // 4)}` {how}."
    output = one.output.strip()
    if not output:
        return f"{head} It printed nothing."
    room = max(0, limit - len(head) - len(" Its output:\n…"))
    shown = output if len(output) <= room else "…" + output[len(output) - room :]
    return f"{head} Its output:\n{shown}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def evidence_of(finished: Finished, step: int | None = None) -> Evidence:
    return Evidence(finished.command, finished.exit_code, round(finished.duration_s, 2), step)
