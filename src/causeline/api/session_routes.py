"""/v1/sessions: conversations, what was said in them, and their history."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from causeline.api.bodies import Json, NewSession, Page, checkpoint_row, interrupt_row, run_row, session_row
from causeline.api.doors import DEFAULT_PAGE, MAX_PAGE, Doors, after_cursor, page
from causeline.api.limits import JsonRoute
from causeline.errors import Invalid

MAX_IMPORT = 512_000_000
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Rows a page.")]
After = Annotated[str | None, Query(max_length=512, description="`next` of the page before.")]


def session_routes(doors: Doors) -> APIRouter:
    """The routes below /v1/sessions."""
    routes = APIRouter(route_class=JsonRoute, prefix="/v1/sessions", tags=["sessions"])

    @routes.post("", status_code=201)
    async def create_session(request: Request, body: Annotated[NewSession, Body()]) -> Json:
        """Create a session, with metadata and the context of its first run."""
        runtime = await doors.runtime_of(request)
        session = await runtime.create_session(body.id, metadata=body.metadata, context=body.context)
        return session_row(session)

    @routes.get("")
    async def list_sessions(request: Request, limit: Limit = DEFAULT_PAGE, after: After = None) -> Page:
        """The caller's sessions, newest first."""
        runtime = await doors.runtime_of(request)
        return Page(**page(await runtime.sessions(limit=limit + 1, after=after_cursor(after), newest=True), limit, session_row))

    @routes.get("/{session_id}")
    async def read_session(request: Request, session_id: str) -> Json:
        """One session."""
        return session_row(await (await doors.runtime_of(request)).session(session_id))

    @routes.delete("/{session_id}", status_code=204)
    async def delete_session(request: Request, session_id: str) -> Response:
        """Remove a session for good. Refused while it has an active run."""
        await (await doors.runtime_of(request)).delete(session_id)
        return Response(status_code=204)

    @routes.get("/{session_id}/context")
    async def read_context(request: Request, session_id: str) -> Json:
        """The context object: the one that was put for the next run, else that of the session's head."""
        return await (await doors.runtime_of(request)).context(session_id)

    @routes.put("/{session_id}/context")
    async def replace_context(request: Request, session_id: str, context: Annotated[Json, Body()]) -> Json:
        """Give the next run this context object in place of the branch's. No run is started."""
        await (await doors.runtime_of(request)).put_session(session_id, context=context)
        return context

    @routes.get("/{session_id}/messages")
    async def list_messages(
        request: Request,
        session_id: str,
        limit: Limit = DEFAULT_PAGE,
        after: After = None,
        checkpoint_id: Annotated[str | None, Query(max_length=128, description="Read the branch of this checkpoint.")] = None,
    ) -> Page:
        """What was said on the branch, oldest first."""
        messages = [message.to_json() for message in await (await doors.runtime_of(request)).messages(session_id, checkpoint_id)]
        behind, start = after_cursor(after), 0
        if behind is not None:
            start = next((index + 1 for index, message in enumerate(messages) if message["id"] == behind), -1)
            if start < 0:
                raise Invalid("after: no message of this branch has this cursor", findings=["after"])
        return Page(**page(messages[start : start + limit + 1], limit, lambda message: message))

    @routes.get("/{session_id}/checkpoints")
    async def list_checkpoints(
        request: Request, session_id: str, limit: Limit = DEFAULT_PAGE, after: After = None, run_id: str | None = None
    ) -> Page:
        """The session's checkpoints on all branches, newest first."""
        runtime = await doors.runtime_of(request)
        rows = await runtime.checkpoints(session_id, run_id, limit=limit + 1, after=after_cursor(after), newest=True)
        return Page(**page(rows, limit, checkpoint_row))

    @routes.get("/{session_id}/checkpoints/{checkpoint_id}")
    async def read_checkpoint(request: Request, session_id: str, checkpoint_id: str) -> Json:
        """A checkpoint with the messages and the context at that point."""
        runtime = await doors.runtime_of(request)
        branch = await runtime.branch(session_id, checkpoint_id)
        messages = [message.to_json() for message in branch.messages()]
        return {**checkpoint_row(branch.head), "messages": messages, "context": branch.channels.get("context") or {}}

    @routes.get("/{session_id}/runs")
    async def list_runs(request: Request, session_id: str, limit: Limit = DEFAULT_PAGE, after: After = None) -> Page:
        """The session's runs, newest first."""
        runtime = await doors.runtime_of(request)
        await runtime.session(session_id)
        rows = await runtime.runs(session_id, limit=limit + 1, after=after_cursor(after), newest=True)
        return Page(**page(rows, limit, run_row))

    @routes.get("/{session_id}/interrupts")
    async def list_interrupts(request: Request, session_id: str) -> Page:
        """The questions that are open now."""
        runtime = await doors.runtime_of(request)
        return Page(data=[interrupt_row(row) for row in await runtime.interrupts(session_id) if row.state == "open"])

    @routes.get("/{session_id}/export")
    async def export_session(
        request: Request, session_id: str, at: str | None = None, all_branches: Annotated[bool, Query(alias="all")] = False
    ) -> Response:
        """The session as one file that proves itself; its bytes are canonical and must stay as they are."""
        data = await (await doors.runtime_of(request)).export(session_id, at, all_branches)
        name = f'attachment; filename="{session_id}.json"'
        return Response(data, media_type="application/json", headers={"Content-Disposition": name})

    @routes.post("/import", status_code=201, max_body_size=MAX_IMPORT)
    async def import_session(request: Request, head: Annotated[str | None, Query(max_length=128)] = None) -> dict[str, str]:
        """Take in an export after verifying all of it. `head` pins the checkpoint it must end at."""
        runtime = await doors.runtime_of(request)
        return {"session": await runtime.import_(await request.body(), head=head)}

    @routes.get("/{session_id}/graph")
    async def read_graph(request: Request, session_id: str, at: str | None = None) -> dict[str, Any]:
        """The causal log of the branch: its nodes with their parents, and the active heads."""
        return (await (await doors.runtime_of(request)).branch(session_id, at)).state.to_json()

    return routes
