"""Runs: start, follow, answer, cancel, read back."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from causeline.api.bodies import Json, NewRun, Page, interrupt_row, run_row
from causeline.api.doors import DEFAULT_PAGE, After, Doors, Limit, after_cursor, page
from causeline.api.request_limits import JsonRoute
from causeline.api.streams import EventStream, frame, stream
from causeline.errors import Invalid
from causeline.runtime.export_import import call_row
from causeline.runtime.handle import RunHandle
from causeline.runtime.records import ACTIVE
from causeline.runtime.runtime import Runtime

SSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Attached: the run's events as server-sent events. Each `id` is the event's number.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class RunViews:
    """Runs over HTTP."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def start_run(self, request: Request, body: Annotated[NewRun, Body()]) -> Response:
        """Start a run in a new session, or in the session of a known run."""
        return await _start(self._doors, request, None, body)

    async def start_run_in_session(self, request: Request, session_id: str, body: Annotated[NewRun, Body()]) -> Response:
        """Start a run in a session, answer its open questions, or fork it from a checkpoint."""
        return await _start(self._doors, request, session_id, body)

    async def list_all_runs(self, request: Request, limit: Limit = DEFAULT_PAGE, after: After = None) -> Page:
        """The caller's runs of all sessions, newest first."""
        runtime = await self._doors.runtime_of(request)
        return Page(**page(await runtime.runs(limit=limit + 1, after=after_cursor(after), newest=True), limit, run_row))

    async def read_run(self, request: Request, run_id: str) -> Json:
        """One run."""
        return run_row(await (await self._doors.runtime_of(request)).run(run_id))

    async def follow_run(
        self,
        request: Request,
        run_id: str,
        after: Annotated[int | None, Query(ge=0, description="Replay what comes after this number, then go on live.")] = None,
        last_event_id: Annotated[str | None, Header(max_length=40)] = None,
    ) -> Response:
        """Follow a run. Without a number: from now on. With one: what came after it, then live, then the end."""
        runtime = await self._doors.runtime_of(request)
        cursor = _cursor(after, last_event_id)
        run = await runtime.run(run_id)
        if cursor is None and run.status not in ACTIVE:
            return Response(status_code=204)
        return _attached(runtime, RunHandle(runtime, run.id, run.session), "now" if cursor is None else cursor)

    async def cancel_run(self, request: Request, run_id: str) -> Json:
        """Ask a run to stop; what finished is kept. A run that has ended is left as it is."""
        runtime = await self._doors.runtime_of(request)
        await runtime.cancel(run_id)
        return run_row(await runtime.run(run_id))

    async def list_calls(self, request: Request, run_id: str) -> Page:
        """The run's tool calls, in call order, as the ledger has them."""
        runtime = await self._doors.runtime_of(request)
        return Page(data=[call_row(row) for row in await runtime.calls(run_id)])

    async def list_interrupts(self, request: Request, session: str | None = None) -> Page:
        """The caller's questions, open and closed."""
        return Page(data=[interrupt_row(row) for row in await (await self._doors.runtime_of(request)).interrupts(session)])

    async def list_run_interrupts(self, request: Request, run_id: str) -> Page:
        """The run's questions, open and closed."""
        runtime = await self._doors.runtime_of(request)
        return Page(data=[interrupt_row(row) for row in await runtime.interrupts(run=run_id)])


def run_routes(doors: Doors) -> APIRouter:
    """Runs over HTTP."""
    views = RunViews(doors)
    routes = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["runs"])
    routes.post("/runs", status_code=200, responses={**SSE, 202: {"description": "Detached: the run goes on by itself."}})(views.start_run)
    routes.post("/sessions/{session_id}/runs", status_code=200, responses={**SSE, 202: {"description": "Detached."}})(
        views.start_run_in_session
    )
    routes.get("/runs")(views.list_all_runs)
    routes.get("/runs/{run_id}")(views.read_run)
    routes.get("/runs/{run_id}/events", responses={**SSE, 204: {"description": "The run has ended; there is nothing after now."}})(
        views.follow_run
    )
    routes.post("/runs/{run_id}/cancel", status_code=202)(views.cancel_run)
    routes.get("/runs/{run_id}/calls")(views.list_calls)
    routes.get("/interrupts")(views.list_interrupts)
    routes.get("/runs/{run_id}/interrupts")(views.list_run_interrupts)
    return routes


async def _start(doors: Doors, request: Request, session: str | None, body: NewRun) -> Response:
    runtime = await doors.runtime_of(request)
    handle = await admit(doors, runtime, session, body)
    if body.mode == "detached":
        status = (await runtime.run(handle.id)).status
        return JSONResponse({"run_id": handle.id, "session_id": handle.session, "status": status}, 202)
    return _attached(runtime, handle, 0)


async def admit(doors: Doors, runtime: Runtime, session: str | None, body: NewRun) -> RunHandle:
    """Start the run that a body asks for, or answer the questions it answers."""
    says = body.input()
    if not body.resume:
        return await runtime.start(
            doors.agent(body.agent),
            says,
            session=session,
            run_id=body.run_id,
            at=body.checkpoint_id,
            context=body.context,
            tools=body.tools,
            on_busy=body.on_busy,
        )
    decisions: dict[str, Mapping[str, Any]] = {entry.interrupt_id: entry.to_plain() for entry in body.resume}
    if len(decisions) != len(body.resume):
        raise Invalid("the same question is answered twice", findings=["resume: a repeated interrupt_id"])
    if body.checkpoint_id is not None:
        raise Invalid("answers go on from where the question was asked; leave checkpoint_id out", findings=["checkpoint_id"])
    agent = doors.agent(body.agent) if body.agent is not None else None
    asked = await runtime.waiting_run(await runtime.interrupt(next(iter(decisions)), session=session))
    return await runtime.answer(asked.id, decisions, agent=agent, new_run_id=body.run_id, on_busy=body.on_busy)


def _cursor(after: int | None, last_event_id: str | None) -> int | None:
    if last_event_id is None or after is not None:
        return after
    if not (last_event_id.isascii() and last_event_id.isdigit()):
        raise Invalid("Last-Event-ID is the number of an event", findings=["Last-Event-ID"])
    return int(last_event_id)


def _attached(runtime: Runtime, handle: RunHandle, after: Any) -> EventStream:
    def frames(event: Mapping[str, Any]) -> Iterable[bytes]:
        return (frame(event),)

    batches = runtime.event_batches(handle.id, after)
    return EventStream(stream(batches, frames, runtime.clock), {"X-Run-Id": handle.id, "X-Session-Id": handle.session})
