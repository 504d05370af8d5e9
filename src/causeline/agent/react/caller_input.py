"""The first step of a run: take in what the caller said.

Law: a message is said once, a result of a call that is open becomes its result, and what was recalled for a question stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.agent.react.call_results import logged, patched
from causeline.agent.react.conversation import Conversation
from causeline.agent.react.permission import UNKNOWN_OUTCOME
from causeline.agent.react.recollection import from_earlier_runs, from_memory
from causeline.causal import Append, heads_after
from causeline.events import RunEvent
from causeline.graph.node import Context, Outcome
from causeline.models.messages import Message
from causeline.models.transcript import Transcript
from causeline.run.ledger import FINISHED, Call, Ledger
from causeline.run.scope import merged


async def take_in(ctx: Context, talk: Conversation) -> Outcome:
    """Append the caller's messages, then route on how the conversation ends: a user message goes to the model,
    calls without results to the tools, a tool result to the model, anything else out."""
    transcript = talk.transcript
    settled = _settled(ctx, talk)
    appends = [one for call in settled for one in logged(talk, call)]
    appends += _said(talk, appends, await talk.system())
    goal = next((one for one in reversed(appends) if one.kind == "goal"), None)
    if goal is not None:
        appends += await from_memory(ctx, talk, goal)
        appends += await from_earlier_runs(ctx, talk, goal)
    stored: Mapping[str, Any] = ctx.state.get("context") or {}
    before = stored if talk.scope.next_context is None else talk.scope.next_context
    context = merged(patched(before, settled) or before, talk.scope.context or {})
    ctx.emit(RunEvent(type="state_snapshot", context=context))
    writes: dict[str, Any] = {"log": appends}
    rows = [*settled, *_superseded(ctx, talk, settled)]
    if rows:
        writes["calls"] = rows
    if context != stored:
        writes["context"] = context
    port = _route(transcript, talk.scope.input, {call.call_id for call in settled})
    if port == "exit":
        writes["result"] = {"stop_reason": "answered", "answer": transcript.answer if transcript.answered else ""}
    return Outcome(port, writes)


def _said(talk: Conversation, before: Sequence[Append], prompt: str) -> list[Append]:
    """System prompt (only when its text changed) and goals. A goal's parents are the system node and the frontier,
    as the appends `before` leave it."""
    appends: list[Append] = []
    transcript, log = talk.transcript, talk.log
    frontier = heads_after(log, before)
    system: str | Append | None = transcript.system_id
    if prompt != (transcript.system or ""):
        first = not len(log)
        system = Append("system", prompt, parents=frontier, advance=not first)
        appends.append(system)
        frontier = () if first else (system,)
    for message in (one for one in talk.scope.input if one.role == "user"):
        payload = {"text": message.content} if isinstance(message.content, str) else {"parts": list(message.content)}
        heads = frontier if system is None or any(one is system or one == system for one in frontier) else (system, *frontier)
        appends.append(Append("goal", payload, parents=heads))
        frontier = (appends[-1],)
    return appends


def _settled(ctx: Context, talk: Conversation) -> list[Call]:
    """Open calls that have a result by now, in call order: what the client brings for its own, and, when the user goes on
    without waiting, what an earlier run got but did not log because it was stopped."""
    given = {one.tool_call_id: one for one in talk.scope.input if one.role == "tool"}
    settled: list[Call] = []
    for call in ctx.use(Ledger).open_calls():
        message = given.get(call.call_id)
        if call.call_id not in talk.transcript.open:
            continue
        if message is not None and call.client:
            settled.append(replace(call, state="failed" if message.is_error else "succeeded", ok=not message.is_error, result=message.text))
        elif _goes_on(talk) and call.state in FINISHED:
            settled.append(call)
        elif _goes_on(talk) and call.state == "unknown":
            settled.append(replace(call, ok=False, result=UNKNOWN_OUTCOME))
    return settled


def _superseded(ctx: Context, talk: Conversation, settled: Sequence[Call]) -> list[Call]:
    """Rows of calls that will never run, because the user went on without them."""
    if not _goes_on(talk):
        return []
    left = set(talk.transcript.open) - {call.call_id for call in settled}
    return [replace(call, state="superseded") for call in ctx.use(Ledger).open_calls() if call.call_id in left]


def _goes_on(talk: Conversation) -> bool:
    """Whether the user says something in this run."""
    return any(one.role == "user" for one in talk.scope.input)


def _route(transcript: Transcript, given: Sequence[Message], answered: set[str]) -> str:
    if any(one.role == "user" for one in given):
        return "model"
    if not given and transcript.answered:
        return "exit"
    if transcript.last_role() == "user":
        return "model"
    if set(transcript.open) - answered:
        return "tools"
    if answered or transcript.last_role() == "tool":
        return "model"
    return "model" if transcript.faults else "exit"  # a reply that could not be used does not count as said
