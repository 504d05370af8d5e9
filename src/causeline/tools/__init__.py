"""Doing what a model asks: tools, their policies, and one way to execute a call."""

from causeline.tools.approval import Approve, Ask, Deny
from causeline.tools.human import ask_human
from causeline.tools.tool import InvalidTool, Resource, Tool, ToolContext, ToolError, ToolResult, schema_tool

__all__ = ["Approve", "Ask", "Deny", "InvalidTool", "Resource", "Tool", "ToolContext", "ToolError", "ToolResult", "ask_human", "schema_tool"]
