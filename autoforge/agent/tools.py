"""The tools that an agent reports with, as values and as the SDK's in-process server."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from claude_agent_sdk.types import McpSdkServerConfig

log = logging.getLogger("autoforge.agent")

SERVER = "autoforge"


@dataclass(frozen=True)
class Answer:
    """What the agent reads after it has called a tool."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Tool:
    """A tool of ours: `schema` is its input's JSON schema."""

    name: str
    description: str
    schema: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[Answer]]


@dataclass
class Broken:
    """Keeps what a tool raised: the SDK would tell it to the model and go on."""

    error: Exception | None = None
    stop: list[Callable[[], None]] = field(default_factory=list)


def server(tools: Sequence[Tool], broken: Broken) -> McpSdkServerConfig:
    return create_sdk_mcp_server(SERVER, "1", [_wrap(tool, broken) for tool in tools])


def _wrap(tool: Tool, broken: Broken) -> SdkMcpTool[Any]:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await tool.call(arguments)
        except Exception as error:
            log.exception("tool=%s arguments=%s", tool.name, arguments)
            broken.error = error
            for stop in broken.stop:
                stop()
            answer = Answer("autoforge itself failed here; this session ends now.", is_error=True)
        return {"content": [{"type": "text", "text": answer.text}], "is_error": answer.is_error}

    return SdkMcpTool(tool.name, tool.description, dict(tool.schema), handler)
