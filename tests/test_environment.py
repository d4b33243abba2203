"""What the commands of a build find in their environment, seen from inside."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from autoforge import settings
from autoforge.demo.github import Repository
from autoforge.demo.model import Request, Script, ScriptedModel, Turn
from autoforge.environment import for_agent, for_commands
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub
from tests.invoke import CONSOLE_SCRIPT, succeed
from tests.sessions import place

KEY = "sk-ant-mock-0123456789"
PARENT = {
    **dict.fromkeys(settings.TOKENS, TOKEN),
    "ANTHROPIC_API_KEY": KEY,
    "NPM_TOKEN": "npm-secret",
    "PIP_PASSWORD": "pip-secret",
    "SSH_AUTH_SOCK": "/nowhere/agent.sock",
    "GIT_DIR": "/nowhere/.git",
    "GIT_INDEX_FILE": "/nowhere/index",
    "GIT_WORK_TREE": "/nowhere",
    "GIT_AUTHOR_NAME": "Mallory",
    "HARMLESS": "yes",
}
AGENT, COMMANDS, HOOKS = ("agent",), ("set-up", "verify", "evidence"), ("pre-commit",)


def dumped(folder: Path) -> dict[str, dict[str, str]]:
    """By where it was seen."""
    found = {}
    for file in folder.iterdir():
        entries = file.read_bytes().decode().split("\0")
        found[file.name] = dict(entry.split("=", 1) for entry in entries if entry)
    return found


def set_up(clone: Path, origin: Path, folder: Path) -> None:
    folder.mkdir()
    commit(clone, {"dump.sh": f"env -0 > {folder}/$1\n"})
    run("git", "push", "-q", str(origin), "main", cwd=clone)
    dump = {where: f"env -0 > {folder}/{where}" for where in (*COMMANDS, *HOOKS, "pre-push")}
    (clone / "autoforge.toml").write_text(
        f"[verify]\ncommands = ['{dump['verify']}']\n[worktree]\nsetup = ['{dump['set-up']}']\n"
        "[environment]\nkeep = ['NPM_TOKEN']\n[commit]\nsign = false\n[github]\nseconds_between_writes = 0\n"
    )
    for name in ("pre-commit", "pre-push"):
        hook = clone / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\n{dump[name]}\n")
        hook.chmod(0o755)
    succeed(clone, "features", "add", "One", "--step", "it is there")


@pytest.mark.claude
def test_c5_nobody_sees_what_is_not_for_them(
    model: Callable[[Script], ScriptedModel],
    clone: Path,
    origin: Path,
    forged: Repository,
    github: ValidatingGitHub,
    tmp_path: Path,
) -> None:
    seen = tmp_path / "seen"
    set_up(clone, origin, seen)

    def script(request: Request) -> Turn:
        evidence = [{"step": 1, "command": "sh dump.sh evidence"}]
        calls = (
            ("Bash", {"command": "env -0 > agent.env", "description": "x"}),
            ("mcp__autoforge__feature_passed", {"id": 1, "summary": "s", "evidence": evidence}),
        )
        return Turn("next", tools=(calls[request.step],)) if request.step < 2 else Turn(request.last)

    server = model(script)
    online = {
        "ANTHROPIC_BASE_URL": server.url,
        "GITHUB_API_URL": github.url,
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
    }
    done = subprocess.run(
        [*CONSOLE_SCRIPT, "build", "--auto-pr"],
        cwd=clone,
        env={**os.environ, **PARENT, **online},
        capture_output=True,
        text=True,
        check=False,
        timeout=15,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [pull] = forged.pulls.values()
    (seen / "agent").write_text(run("git", "show", f"{pull.head}:agent.env", cwd=clone))
    assert run("git", "log", "-1", "--format=%an", pull.head, cwd=clone) == "Tess Ter"
    told = done.stdout + done.stderr + "".join(f.read_text() for f in clone.glob(".git/autoforge/runs/*/log"))
    assert TOKEN not in told
    assert KEY not in told
    environments = dumped(seen)
    assert set(environments) == {*AGENT, *COMMANDS, *HOOKS, "pre-push"}
    for where, env in environments.items():
        check(where, env)


def check(where: str, env: Mapping[str, str]) -> None:
    assert env["HARMLESS"] == "yes", where
    assert not set(settings.TOKENS) & set(env), where
    pushing = "SSH_AUTH_SOCK" if where == "pre-push" else ""  # the user's own hook, which a push by SSH needs
    values = [value for name, value in env.items() if name != pushing]
    assert not any(TOKEN in value or "/nowhere" in value or value == "Mallory" for value in values), where
    assert "PIP_PASSWORD" not in env, where
    assert (env.get("ANTHROPIC_API_KEY") == KEY) == (where in AGENT), where
    if where != "pre-push":
        assert (env["AUTOFORGE_SLOT"], env["AUTOFORGE_PORT"]) == ("0", "42000"), where
        assert len(env["AUTOFORGE_BATCH"]) == 6, where
        assert env["GIT_TERMINAL_PROMPT"] == "0", where
    assert ("NPM_TOKEN" in env) == (where in AGENT + COMMANDS), where


def test_credentials_are_kept_only_when_configured(clone: Path) -> None:
    environ = {**os.environ, **PARENT}
    taken = settings.take(environ)
    there = place(clone)
    assert "NPM_TOKEN" not in for_commands(taken, there, ())
    assert for_commands(taken, there, ("NPM_TOKEN",))["NPM_TOKEN"] == "npm-secret"
    assert "GITHUB_TOKEN" not in for_commands(taken, there, ("GITHUB_TOKEN",))
    assert TOKEN not in repr(taken)
    assert KEY not in repr(taken)


def test_slots_get_ports_of_their_own_and_tools_the_time_that_they_need(clone: Path) -> None:
    taken = settings.take({**os.environ, **PARENT, "CLAUDE_CODE_MAX_RETRIES": "7", "MCP_TOOL_TIMEOUT": "5"})
    there = place(clone)
    env = for_agent(taken, there, (), tool_timeout_s=3600.5)
    assert (env["AUTOFORGE_SLOT"], env["AUTOFORGE_PORTS"]) == ("2", "42040-42059")
    assert env["MCP_TOOL_TIMEOUT"] == "3600500"
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "7"
    assert env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert env["ANTHROPIC_API_KEY"] == KEY
    assert "ANTHROPIC_API_KEY" not in for_commands(taken, there, ())
