"""The environments of agents, set-up and verify commands: complete, and without any forge credential."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoforge.process import MARKER
from autoforge.settings import Surroundings

PORTS = 20  # for each slot
NO_FORGE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "SSH_AUTH_SOCK": "",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "credential.helper",
    "GIT_CONFIG_VALUE_0": "",
}


@dataclass(frozen=True)
class Place:
    """Where an attempt works. `project` is the project's folder in the worktree."""

    build_id: str
    repo: str
    batch: str
    slot: int
    first_port: int
    worktree: Path
    project: Path
    scratch: Path

    @property
    def ports(self) -> range:
        first = self.first_port + self.slot * PORTS
        return range(first, first + PORTS)


def marker(build_id: str, repo: str) -> dict[str, str]:
    """What every child of a build carries, so that a later build can find it."""
    return {MARKER: build_id, "AUTOFORGE_REPO": repo}


def _ours(place: Place) -> dict[str, str]:
    return {
        **marker(place.build_id, place.repo),
        **NO_FORGE,
        "AUTOFORGE_BATCH": place.batch,
        "AUTOFORGE_SLOT": str(place.slot),
        "AUTOFORGE_PORT": str(place.ports[0]),
        "AUTOFORGE_PORTS": f"{place.ports[0]}-{place.ports[-1]}",
        "GH_CONFIG_DIR": str(place.scratch / "gh"),
        "TMPDIR": str(place.scratch),
    }


def for_commands(surroundings: Surroundings, place: Place, keep: Collection[str]) -> Mapping[str, str]:
    """For set-up and verify commands: the model's key is not in it, credentials only when configured to be kept."""
    kept = {name: value for name, value in surroundings.credentials.items() if name in keep}
    return {**surroundings.plain, **kept, **_ours(place)}


def for_hooks(place: Place, *, sign: bool) -> Mapping[str, str]:
    """For git's own environment when it commits, so that hooks see what verify commands do."""
    ours = _ours(place)
    if sign:  # with an SSH key, git asks the agent
        del ours["SSH_AUTH_SOCK"]
        return ours
    no_signature = {"GIT_CONFIG_KEY_1": "commit.gpgSign", "GIT_CONFIG_VALUE_1": "false"}
    return {**ours, **no_signature, "GIT_CONFIG_COUNT": "2"}


def for_agent(
    surroundings: Surroundings, place: Place, keep: Collection[str], *, tool_timeout_s: float
) -> Mapping[str, str]:
    """For the claude CLI. The gate's tools may run as long as the verify commands do."""
    defaults = {"CLAUDE_CODE_MAX_RETRIES": "3"}
    return {
        **for_commands(surroundings, place, keep),
        **defaults,
        **surroundings.model_access,
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_TOOL_TIMEOUT": str(int(tool_timeout_s * 1000)),
    }
