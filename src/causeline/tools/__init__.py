"""Doing what a model asks: tools, their policies, and one way to execute a call."""

from causeline.tools.approval import Approve, Ask, Deny
from causeline.tools.execute import Executed
from causeline.tools.human import ask_human
from causeline.tools.skills import Skill
from causeline.tools.tool import InvalidTool, Resource, Tool, ToolContext, ToolError, ToolResult, schema_tool
from causeline.tools.toolbox import Toolbox
from causeline.tools.toolset import Toolset
from causeline.tools.workspace import workspace_tools

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
    "schema_tool",
    "workspace_tools",
]
