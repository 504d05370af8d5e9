"""Doing what a model asks: tools, their policies, and one way to execute a call."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from causeline.tools.approval import Approve, Ask, Deny
from causeline.tools.execute import Executed
from causeline.tools.human import ask_human
from causeline.tools.search_history import search_history
from causeline.tools.skills import Skill
from causeline.tools.tool import InvalidTool, Resource, Tool, ToolContext, ToolError, ToolResult, schema_tool
from causeline.tools.toolbox import Toolbox
from causeline.tools.toolset import Toolset
from causeline.tools.workspace import workspace_tools

if TYPE_CHECKING:
    from causeline.adapters.tools.agent_server import mcp_server
    from causeline.adapters.tools.fetch_url import fetch_url
    from causeline.adapters.tools.mcp_tools import mcp

_ADAPTERS = {"fetch_url": "fetch_url", "mcp": "mcp_tools", "mcp_server": "agent_server"}
"""Tools that need other people's libraries stand in an adapter, which is imported when one is first used."""

__all__ = [
    "Approve",
    "Ask",
    "Deny",
    "Executed",
    "InvalidTool",
    "Resource",
    "Skill",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Toolbox",
    "Toolset",
    "ask_human",
    "fetch_url",
    "mcp",
    "mcp_server",
    "schema_tool",
    "search_history",
    "workspace_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'causeline.tools' has no attribute {name!r}")
    found = getattr(import_module(f"causeline.adapters.tools.{_ADAPTERS[name]}"), name)
    globals()[name] = found
    return found
