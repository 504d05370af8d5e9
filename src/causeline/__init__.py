"""causeline: ReAct agents that survive, explain themselves and remember.

Everything public is reached from here and imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causeline import causal, events, graph, memory, models, nodes, testing, tools
    from causeline.assemble import Agent, load_agent, open
    from causeline.errors import CauselineError, Conflict, Corrupt, Exhausted, Invalid, Missing, Misuse, Refused, Unavailable
    from causeline.runtime.handle import RunFailed, RunHandle, RunResult
    from causeline.runtime.interrupts import answer, approve, deny, edit, fail, record, retry
    from causeline.runtime.program import GraphProgram
    from causeline.runtime.runtime import Runtime
    from causeline.tools.approval import Approve, Ask, Deny
    from causeline.tools.function import tool
    from causeline.tools.tool import Tool, ToolContext, ToolResult

_HOME = {
    "Agent": "assemble",
    "load_agent": "assemble",
    "open": "assemble",
    "CauselineError": "errors",
    "Conflict": "errors",
    "Corrupt": "errors",
    "Exhausted": "errors",
    "Invalid": "errors",
    "Misuse": "errors",
    "Missing": "errors",
    "Refused": "errors",
    "Unavailable": "errors",
    "RunFailed": "runtime.handle",
    "RunHandle": "runtime.handle",
    "RunResult": "runtime.handle",
    "Runtime": "runtime.runtime",
    "GraphProgram": "runtime.program",
    "answer": "runtime.interrupts",
    "approve": "runtime.interrupts",
    "deny": "runtime.interrupts",
    "edit": "runtime.interrupts",
    "fail": "runtime.interrupts",
    "record": "runtime.interrupts",
    "retry": "runtime.interrupts",
    "Approve": "tools.approval",
    "Ask": "tools.approval",
    "Deny": "tools.approval",
    "tool": "tools.function",
    "Tool": "tools.tool",
    "ToolContext": "tools.tool",
    "ToolResult": "tools.tool",
}
_PACKAGES = ("causal", "events", "graph", "memory", "models", "nodes", "testing", "tools")

__all__ = [  # noqa: RUF022  (grouped by what they are for)
    "Agent",
    "load_agent",
    "open",
    "tool",
    "Runtime",
    "GraphProgram",
    "RunHandle",
    "RunResult",
    "RunFailed",
    "Tool",
    "ToolContext",
    "ToolResult",
    "approve",
    "deny",
    "edit",
    "answer",
    "retry",
    "record",
    "fail",
    "Approve",
    "Deny",
    "Ask",
    "CauselineError",
    "Misuse",
    "Invalid",
    "Missing",
    "Conflict",
    "Unavailable",
    "Refused",
    "Exhausted",
    "Corrupt",
    "causal",
    "events",
    "graph",
    "memory",
    "models",
    "nodes",
    "testing",
    "tools",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(import_module(f"causeline.{_HOME[name]}"), name)
    elif name in _PACKAGES:
        found = import_module(f"causeline.{name}")
    else:
        raise AttributeError(f"module 'causeline' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
