"""An agent as a tool of another one.

Law: a call of it is a run of its own, started once whatever dies, so a process that takes the calling run over finds it again
and waits for the same answer. What that run asks a person, the calling run asks too.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from causeline.graph.node import Context
from causeline.run.ledger import Call
from causeline.run.scope import RunScope, SubRun, SubRuns
from causeline.tools.tool import Tool, ToolContext, ToolError, Waiting, schema_tool

PARAMETERS = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What it is to do, with everything it needs to know."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


def sub_run_tool(program: Any, name: str, description: str) -> Tool:
    """A tool that runs `program`, an agent or anything else a runtime can run, on a prompt, and returns its answer."""

    async def run(arguments: Any, context: ToolContext) -> Any:
        if context.sub_run is None:
            raise ToolError(f"{name} can only be called inside a run")
        ended = await context.sub_run(program, arguments["prompt"])
        if ended.status == "succeeded":
            return ended.answer
        if ended.interrupts or ended.status == "queued":
            return Waiting(ended.interrupts)
        told = (ended.error or {}).get("message") or ended.stop_reason or "for no reason it gave"
        raise ToolError(f"{name} {ended.status}: {told} (run {ended.run_id})")

    return schema_tool(name, description, PARAMETERS, run, idempotent=True, on_unknown="retry", program=program)


def below(ctx: Context, scope: RunScope, call: Call) -> Callable[[Any, str], Awaitable[SubRun]]:
    """How a call starts its run."""

    async def run(program: Any, prompt: str) -> SubRun:
        ended = await ctx.use(SubRuns).run(scope, call, program, prompt, ctx.emit)
        if ended.usage:
            scope.facts_at(ctx.path[0]).setdefault("sub_runs", []).extend(ended.usage)
        return ended

    return run
