"""An agent as a tool of an MCP server, so that editors and other agents can use it.

Law: a call is a run of the store like any other; what it leaves open is for a person, never for the client's model to approve.
"""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from causeline.causal.payload import as_text
from causeline.errors import CauselineError, Missing
from causeline.runtime.handle import RunHandle, RunResult
from causeline.runtime.program import Program
from causeline.runtime.runtime import Runtime

if TYPE_CHECKING:
    from mcp.server import MCPServer

_ABOUT = """Give the agent {name} a task, in words, and get its answer. It has tools of its own and works until it is done.

Say `session` to go on with an earlier conversation: each result names its session."""


def mcp_server(runtime: Runtime, agent: Program, *, description: str | None = None) -> "MCPServer":
    """A server of the official SDK with one tool, named like the agent, of {prompt, session?}. The runtime has to be open while it serves.

    Raises Missing without the package `mcp`.
    """
    if find_spec("mcp") is None:
        raise Missing("an MCP server needs the package mcp; install causeline[mcp]")
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, TextContent

    async def ask(prompt: str, ctx: Context, session: str | None = None) -> CallToolResult:
        try:
            text, told, ok = await _asked(runtime, agent, prompt, session, ctx)
        except CauselineError as error:
            text, told, ok = error.message, {"code": error.code}, False
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=dict(told), is_error=not ok)

    server = MCPServer(agent.name)
    server.add_tool(ask, name=agent.name, description=description or _ABOUT.format(name=agent.name))
    return server


async def _asked(runtime: Runtime, agent: Program, prompt: str, session: str | None, ctx: Any) -> tuple[str, Mapping[str, Any], bool]:
    run = await runtime.start(agent, prompt, session=session)
    try:
        await _follow(run, ctx)
        result = await run.result()
    except asyncio.CancelledError:
        await asyncio.shield(runtime.cancel(run.id))
        raise
    told = {"session": result.session, "run": result.run_id, "status": result.status, "answer": result.answer}
    return _words(result), told, result.status == "succeeded"


async def _follow(run: RunHandle, ctx: Any) -> None:
    """Tell whoever asked which tools the agent calls."""
    count = 0
    async for event in run.events():
        if event["type"] == "tool_call_start":
            count += 1
            await ctx.report_progress(count, message=f"calls {event['name']}")


def _words(result: RunResult) -> str:
    if result.status == "succeeded":
        return as_text(result.answer) if result.answer is not None else f"nothing to say ({result.stop_reason})"
    if result.status == "interrupted":
        asked = [f"- {interrupt.question}\n  causeline answer {result.run_id} {interrupt.id} ..." for interrupt in result.interrupts]
        return "\n".join(["A person has to answer first; the run goes on with their answer:", *asked])
    error = result.error or {}
    return f"The run {'was cancelled' if result.status == 'cancelled' else 'failed'}: {error.get('message') or result.stop_reason}"
