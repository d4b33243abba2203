"""Decides whether an agent may use a tool as it asks to: refuses what is dangerous and says what to do instead."""

import re
from collections.abc import Mapping
from pathlib import Path

from autoforge.agent.calls import Places
from autoforge.agent.commands import check_text
from autoforge.agent.paths import PROTECTED, Denied, Policy, check_read, check_write, is_own, real
from autoforge.agent.words import Word

__all__ = ["PROTECTED", "Policy", "decide", "decide_command"]

WRITE_TOOLS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
READ_TOOLS = {
    "Read": "file_path",
    "Glob": "path",
    "Grep": "path",
    "LS": "path",
    "NotebookRead": "notebook_path",
}


def decide(
    policy: Policy, tool: str, tool_input: Mapping[str, object], *, cwd: Path | None = None
) -> str | None:
    """None: allowed. Else the reason and the allowed way. `cwd`: where the agent's shell stands, the root by default."""
    try:
        if tool == "Bash":
            check_text(policy, _text_of(tool_input, "command"), _start(policy, cwd))
        elif tool in WRITE_TOOLS:
            check_write(policy, policy.root, Word(_text_of(tool_input, WRITE_TOOLS[tool])))
        elif tool in READ_TOOLS:
            _check_reading(policy, tool, tool_input)
    except Denied as denied:
        return str(denied)
    except RecursionError:
        return "It is nested too deeply to be checked: write it to a script file and run that."
    return None


def decide_command(policy: Policy, command: str, *, cwd: Path | None = None) -> str | None:
    return decide(policy, "Bash", {"command": command}, cwd=cwd)


def _text_of(tool_input: Mapping[str, object], key: str) -> str:
    value = tool_input.get(key)
    if not isinstance(value, str) or "\0" in value:
        raise Denied(f"The input `{key}` is missing or is not text: call the tool again with it.")
    return value


def _check_reading(policy: Policy, tool: str, tool_input: Mapping[str, object]) -> None:
    folder = policy.root
    if READ_TOOLS[tool] in tool_input or tool == "Read":
        folder = policy.root / _text_of(tool_input, READ_TOOLS[tool])
    check_read(policy, folder, recursive=tool in ("Glob", "Grep"))
    pattern = tool_input.get("pattern")
    if tool == "Glob" and isinstance(pattern, str):
        fixed = re.split(r"[*?\[{]", pattern)[0]
        check_read(policy, folder / fixed, recursive=True)


def _start(policy: Policy, cwd: Path | None) -> Places:
    return frozenset({real(cwd) if cwd is not None and is_own(policy, real(cwd)) else real(policy.root)})
