"""POST /ag-ui: the same runs for clients that speak AG-UI 1.0.

Law: a client's word is never taken for a person's decision without a matching open question, for the result of a tool of ours, or for
what was said before.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder
from fastapi import APIRouter, Request, Response

from causeline.api.agui_events import Translator
from causeline.api.agui_messages import input_message
from causeline.api.doors import Doors
from causeline.api.request_limits import JsonRoute
from causeline.api.streams import EventStream, stream
from causeline.errors import Conflict, Invalid, Missing
from causeline.runtime.handle import RunHandle
from causeline.runtime.records import Run
from causeline.runtime.runtime import Runtime

_ENCODE = EventEncoder().encode


def agui_routes(doors: Doors) -> APIRouter:
    """The AG-UI endpoint, for the only agent or one by name."""
    routes = APIRouter(route_class=JsonRoute, tags=["ag-ui"])

    @routes.post("/ag-ui", response_class=Response)
    async def run_agent(request: Request, body: RunAgentInput) -> Response:
        """Run the server's agent, or attach to a run that is known."""
        return await _run(doors, request, None, body)

    @routes.post("/ag-ui/{agent}", response_class=Response)
    async def run_named_agent(request: Request, agent: str, body: RunAgentInput) -> Response:
        """Run an agent by name, or attach to a run that is known."""
        return await _run(doors, request, agent, body)

    return routes


async def _run(doors: Doors, request: Request, agent: str | None, body: RunAgentInput) -> Response:
    runtime = await doors.runtime_of(request)
    program = doors.agent(agent)
    properties = _object("forwardedProps", body.forwarded_props)
    known = await _known(runtime, body)
    if known is not None:
        return await _attach(runtime, known, properties)
    history = await _history(runtime, body.thread_id)
    fresh = await _fresh_input(runtime, body, history)
    decisions = _decisions(body.resume or ())
    if decisions and any(message["role"] == "user" for message in fresh):
        raise Invalid("a run answers questions or says something new, not both", findings=["resume"])
    if decisions:
        asked = await runtime.waiting_run(await runtime.interrupt(next(iter(decisions)), session=body.thread_id))
        handle = await runtime.answer(asked.id, decisions, agent=program, new_run_id=body.run_id)
    else:
        handle = await runtime.start(
            program,
            fresh,
            session=body.thread_id,
            run_id=body.run_id,
            at=_text(properties, "checkpointId"),
            context=_context(body),
            tools=[tool.model_dump(include={"name", "description", "parameters"}, exclude_none=True) for tool in body.tools or ()],
        )
    translator = Translator(history=history, interrupts=await _open_interrupts(runtime, body.thread_id))
    return _stream(runtime, handle, translator, 0)


async def _known(runtime: Runtime, body: RunAgentInput) -> Run | None:
    """The run of this id, where the same client asks for it again. Raises Conflict for another conversation under its id."""
    try:
        run = await runtime.run(body.run_id)
    except Missing:
        return None
    said = {message["id"] for message in run.input if message.get("id")}
    now = {message.id for message in body.messages}
    if run.session != body.thread_id or not said <= now:
        raise Conflict(f"run {body.run_id} is another one; give the new run an id of its own", code="run_conflict", run=body.run_id)
    return run


async def _attach(runtime: Runtime, run: Run, properties: Mapping[str, Any]) -> EventStream:
    """Join a run: what is complete as a snapshot, what is open begun again with what was said so far, then live. With
    `forwardedProps.after` the events behind that number instead."""
    before = await runtime.messages(run.session, run.base) if run.base is not None else ()
    history = [*(message.to_json() for message in before), *run.input]
    translator = Translator(history=history, interrupts=await _open_interrupts(runtime, run.session))
    handle, last = RunHandle(runtime, run.id, run.session), 0
    after = properties.get("after")
    if isinstance(after, int) and not isinstance(after, bool):
        return _stream(runtime, handle, translator, max(0, after))
    missed: list[Any] = []
    for event in await runtime.stored_events(run.id):
        missed = translator.translate(event)
        last = event["seq"]
    first = translator.reopened()
    if missed and missed[-1].type in ("RUN_FINISHED", "RUN_ERROR"):
        first.append(missed[-1])
    return _stream(runtime, handle, translator, last, first)


def _stream(runtime: Runtime, handle: RunHandle, translator: Translator, after: int, first: Sequence[Any] = ()) -> EventStream:
    def frames(event: Mapping[str, Any]) -> Iterable[bytes]:
        return [b"id: %d\n%b" % (event["seq"], _ENCODE(translated).encode()) for translated in translator.translate(event)]

    opening = b"".join(_ENCODE(event).encode() for event in first)
    batches = runtime.event_batches(handle.id, after)
    headers = {"X-Run-Id": handle.id, "X-Session-Id": handle.session}
    return EventStream(stream(batches, frames, runtime.clock, opening=opening), headers)


async def _history(runtime: Runtime, session: str) -> Sequence[Mapping[str, Any]]:
    try:
        return [message.to_json() for message in await runtime.messages(session)]
    except Missing:
        return ()


async def _fresh_input(runtime: Runtime, body: RunAgentInput, history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the session has not heard: user messages with an unknown id, and results of calls that are the client's and open. Everything
    else a client repeats or claims is passed over."""
    heard = {message["id"] for message in history}
    answered = {message["tool_call_id"] for message in history if message["role"] == "tool"}
    client = await runtime.open_client_calls(body.thread_id) if history else frozenset[str]()
    fresh: list[dict[str, Any]] = []
    for message in body.messages:
        said = input_message(message)
        if said is None or said["id"] in heard:
            continue
        if said["role"] == "tool" and (said["tool_call_id"] not in client or said["tool_call_id"] in answered):
            continue
        fresh.append(said)
    return fresh


def _decisions(entries: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    """Decisions by interrupt. Raises Invalid for an entry without a decision, or one that stands twice."""
    decisions: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if entry.interrupt_id in decisions:
            raise Invalid("the same question is answered twice", findings=[f"resume: {entry.interrupt_id}"])
        payload = _object("payload", entry.payload)
        if entry.status == "cancelled":
            decisions[entry.interrupt_id] = {"decision": "deny", **({"reason": payload["reason"]} if "reason" in payload else {})}
        elif "decision" in payload:
            decisions[entry.interrupt_id] = {name: payload[name] for name in ("decision", "value", "reason", "by") if name in payload}
        else:
            raise Invalid(
                "a resolved entry needs a payload such as {decision: 'approve'}", findings=[f"resume: {entry.interrupt_id} has no decision"]
            )
    return decisions


def _context(body: RunAgentInput) -> dict[str, Any] | None:
    context = dict(_object("state", body.state))
    for entry in body.context or ():
        context[entry.description] = entry.value
    return context or None


def _object(what: str, value: Any) -> Mapping[str, Any]:
    """A part of the body that has to be an object, {} where it is left out."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid(f"{what} is an object", findings=[what])
    return cast("Mapping[str, Any]", value)


def _text(properties: Mapping[str, Any], name: str) -> str | None:
    value = properties.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"forwardedProps.{name} is text", findings=[f"forwardedProps.{name}"])
    return value


async def _open_interrupts(runtime: Runtime, session: str) -> Mapping[str, Mapping[str, Any]]:
    rows = await runtime.interrupts(session)
    return {
        row.id: {"kind": row.kind, "question": row.question, "tool_call_id": row.tool_call_id, "name": row.name, "arguments": row.arguments}
        for row in rows
        if row.state == "open"
    }
