"""The ReAct loop: the four nodes of `react.jsonld`.

                  ┌───────── model ─────────┐             ┌─ retry: the reply could not be used
                  │                         ▼             │
    (start) ─> entrypoint              call_model <───────┘
                  │   │                  │  ▲   │
                  │   └─ tools ─┐  tools │  │   └── exit: an answer, or a failure ──┐
                  │             ▼        ▼  │ model: every call has a result        │
                  │            call_tools ──┘                                       │
                  │                 └────── exit: the client has calls to run ──────┤
                  └──────────────────────── exit: nothing to do ────────────────────┴─> exit ─> (end)

Law: a node reads the log, does one thing, and says in its outcome what it adds to the log and where to go. `react-flat` and the two
nodes of `causeline.nodes` call the same functions: `take_in`, `ask_model`, `ToolStep`.
"""

from collections.abc import Mapping
from typing import Any

from causeline.agent.react.caller_input import take_in
from causeline.agent.react.conversation import Conversation
from causeline.agent.react.model_turn import ask_model
from causeline.agent.react.tool_step import ToolStep
from causeline.events import RunEvent
from causeline.graph.node import Context, Outcome, node


@node("urn:causeline:node:entrypoint", ports=("model", "tools", "exit"), writes=("log", "calls", "context", "result"))
async def entrypoint(ctx: Context) -> Outcome:
    """Take in what the caller said. `model` where a user spoke or a result came, `tools` where calls have no result yet."""
    return await take_in(ctx, Conversation.of(ctx))


@node("urn:causeline:node:call_model", ports=("tools", "exit", "retry"), writes=("log", "calls", "result"))
async def call_model(ctx: Context) -> Outcome:
    """One model call. `tools` if the reply asks for any, `exit` with an answer or a failure, `retry` for a reply that cannot be used."""
    return await ask_model(ctx, Conversation.of(ctx))


@node("urn:causeline:node:call_tools", ports=("model", "exit"), writes=("log", "calls", "context", "result"))
async def call_tools(ctx: Context) -> Outcome:
    """Run what can run. `model` when every call has a result, `exit` when the client has calls to run, paused while a person has to
    answer."""
    step = ToolStep.of(ctx, Conversation.of(ctx))
    await step.run()
    return step.outcome()


@node("urn:causeline:node:exit", ports=("done", "failed"), inline=True)
def leave(ctx: Context) -> Outcome:
    """Announce the whole history and end."""
    ctx.emit(RunEvent(type="messages_snapshot"))
    result: Mapping[str, Any] = ctx.state.get("result") or {}
    return Outcome("failed" if result.get("failed") else "done")
