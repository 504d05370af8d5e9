"""The first and the last step of a run: take in what the caller said, and say how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.agent.approvals import UNKNOWN_OUTCOME
from causeline.agent.conversation import Conversation
from causeline.causal import AgentState, Append, identity
from causeline.graph.node import Context, Outcome, node
from causeline.models.messages import Message
from causeline.models.transcript import Transcript
from causeline.tools.calls import FINISHED, Call, Ledger, arguments_hash
from causeline.tools.scope import Recall


@node("urn:causeline:node:entrypoint", ports=("model", "tools", "exit"), writes=("log", "calls", "context", "result"))
async def entrypoint(ctx: Context) -> Outcome:
    """Append the caller's messages, then route on how the conversation ends: a user message goes to the model,
    calls without results to the tools, a tool result to the model, anything else out."""
    talk = ctx.use(Conversation)
    log: AgentState = ctx.state["log"]
    transcript = talk.fold(log)
    results = _results(ctx, talk)
    appends = _take_in(talk, transcript, log, [append for _, append in results])
    context = {**(ctx.state.get("context") or {}), **(talk.scope.context or {})}
    ctx.emit({"type": "state_snapshot", "context": context})
    goals = [one for one in appends if one.kind == "goal"]
    if goals:
        appends += await _recall(ctx, talk, goals[-1])
    writes: dict[str, Any] = {"log": [*(append for _, append in results), *appends]}
    if results:
        writes["calls"] = [call for call, _ in results]
    if talk.scope.context:
        writes["context"] = context
    port = _route(transcript, talk.scope.input, {call.call_id for call, _ in results})
    if port == "exit":
        last = next((one for one in reversed(transcript.messages) if one.role == "assistant"), None)
        writes["result"] = {"stop_reason": "answered", "answer": last.text if last else ""}
    return Outcome(port, writes)


@node("urn:causeline:node:exit", ports=("done", "failed"))
def leave(ctx: Context) -> Outcome:
    """Announce the whole history and end."""
    ctx.emit({"type": "messages_snapshot"})
    result: Mapping[str, Any] = ctx.state.get("result") or {}
    return Outcome("failed" if result.get("failed") else "done")


def _take_in(talk: Conversation, transcript: Transcript, log: AgentState, results: Sequence[Append]) -> list[Append]:
    """System prompt (only when its text changed) and goals. A goal's parents are the system node and the frontier,
    as `results`, which are appended before, leave it."""
    appends: list[Append] = []
    answered = {parent for result in results for parent in result.parents}
    frontier: tuple[str | Append, ...] = (*(one for one in log.frontier if one not in answered), *results)
    system: str | Append | None = next((one.id for one in reversed(log.nodes) if one.kind == "system"), None) if transcript.system else None
    if talk.system and talk.system != transcript.system:
        first = system is None
        appends.append(Append("system", talk.system, parents=() if first else frontier, advance=not first))
        system = appends[0]
        frontier = frontier if first else (system,)
    goals = [one for one in talk.scope.input if one.role == "user"]
    for message in goals:
        payload = {"text": message.content} if isinstance(message.content, str) else {"parts": list(message.content)}
        heads = frontier if system is None or system in frontier else (system, *frontier)
        appends.append(Append("goal", payload, parents=heads))
        frontier = (appends[-1],)
    return appends


def _results(ctx: Context, talk: Conversation) -> list[tuple[Call, Append]]:
    """Results for open calls, in the order of the calls: what the client brings for its own, and, when the user goes on
    without waiting, what an earlier run got but did not log because it was stopped."""
    given = {one.tool_call_id: one for one in talk.scope.input if one.role == "tool"}
    goes_on = any(one.role == "user" for one in talk.scope.input)
    kept = {call.call_id: call for call in ctx.use(Ledger).open_calls()}
    results: list[tuple[Call, Append]] = []
    for index, (call_id, (node_id, name, arguments)) in enumerate(talk.transcript.open.items()):
        message, call, tool = given.get(call_id), kept.get(call_id), talk.toolbox.get(name)
        if message is not None and (tool is None or tool.client):
            row = Call(call_id=call_id, name=name, arguments=arguments, args_hash=arguments_hash(arguments), client=True, index=index,
                       state="failed" if message.is_error else "succeeded", step=0, ok=not message.is_error, result=message.text)
        elif goes_on and call is not None and call.state in FINISHED:
            row = call
        elif goes_on and call is not None and call.state == "unknown":
            row = replace(call, ok=False, result=UNKNOWN_OUTCOME)
        else:
            continue
        payload = {"call_id": call_id, "tool": name, "result": row.result, "ok": bool(row.ok)}
        results.append((row, Append("tool_result", payload, parents=(node_id,))))
    return results


def _route(transcript: Transcript, given: Sequence[Message], answered: set[str]) -> str:
    if any(one.role == "user" for one in given):
        return "model"
    if not given and transcript.answered:
        return "exit"
    if transcript.last_role() == "user":
        return "model"
    if set(transcript.open) - answered:
        return "tools"
    return "model" if answered or transcript.last_role() == "tool" else "exit"


def _id(append: Append) -> str:
    """The id an append without a resource key will get."""
    return identity(append.kind, append.payload, [one if isinstance(one, str) else _id(one) for one in append.parents])


async def _recall(ctx: Context, talk: Conversation, goal: Append) -> list[Append]:
    """What earlier runs have to say on this goal, once per user turn, cited and marked as data."""
    if not talk.options.recall:
        return []
    query = goal.payload.get("text") or ""
    found = await ctx.use(Recall).recall(talk.scope, talk.options.recall, query)
    payload = {"path": "recall", "operation": "recall", "succeeded": True, "value": {"text": found.text, "citations": list(found.citations)}}
    ctx.emit({"type": "memory_recalled", "citations": list(found.citations)})
    return [Append("resource", payload, parents=(goal,), resource_key=f"recall:{_id(goal)}", advance=False)]
