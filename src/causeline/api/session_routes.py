"""/v1/sessions: conversations, what was said in them, and their history."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response

from causeline.api.bodies import Json, NewSession, Page, checkpoint_row, interrupt_row, run_row, session_row
from causeline.api.doors import DEFAULT_PAGE, After, Doors, Limit, after_cursor, page
from causeline.api.request_limits import JsonRoute
from causeline.causal.view.drawing import Format, draw
from causeline.errors import Invalid

Drawn = Literal["log"] | Format
_MEDIA: Mapping[Format, str] = {"mermaid": "text/plain", "dot": "text/vnd.graphviz", "svg": "image/svg+xml"}


class SessionViews:
    """Sessions over HTTP."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def create_session(self, request: Request, body: Annotated[NewSession, Body()]) -> Json:
        """Create a session, with metadata and the context of its first run."""
        runtime = await self._doors.runtime_of(request)
        session = await runtime.create_session(body.id, metadata=body.metadata, context=body.context)
        return session_row(session)

    async def list_sessions(self, request: Request, limit: Limit = DEFAULT_PAGE, after: After = None) -> Page:
        """The caller's sessions, newest first."""
        runtime = await self._doors.runtime_of(request)
        return Page(**page(await runtime.sessions(limit=limit + 1, after=after_cursor(after), newest=True), limit, session_row))

    async def read_session(self, request: Request, session_id: str) -> Json:
        """One session."""
        return session_row(await (await self._doors.runtime_of(request)).session(session_id))

    async def delete_session(self, request: Request, session_id: str) -> Response:
        """Remove a session for good. Refused while it has an active run."""
        await (await self._doors.runtime_of(request)).delete(session_id)
        return Response(status_code=204)

    async def read_context(self, request: Request, session_id: str) -> Json:
        """The context object: the one that was put for the next run, else that of the session's head."""
        return dict(await (await self._doors.runtime_of(request)).context(session_id))

    async def replace_context(self, request: Request, session_id: str, context: Annotated[Json, Body()]) -> Json:
        """Give the next run this context object in place of the branch's. No run is started."""
        await (await self._doors.runtime_of(request)).put_session(session_id, context=context)
        return context

    async def list_messages(
        self,
        request: Request,
        session_id: str,
        limit: Limit = DEFAULT_PAGE,
        after: After = None,
        checkpoint_id: Annotated[str | None, Query(max_length=128, description="Read the branch of this checkpoint.")] = None,
    ) -> Page:
        """What was said on the branch, oldest first."""
        messages = [message.to_json() for message in await (await self._doors.runtime_of(request)).messages(session_id, checkpoint_id)]
        behind, start = after_cursor(after), 0
        if behind is not None:
            start = next((index + 1 for index, message in enumerate(messages) if message["id"] == behind), -1)
            if start < 0:
                raise Invalid("after: no message of this branch has this cursor", findings=["after"])
        return Page(**page(messages[start : start + limit + 1], limit, dict))

    async def list_checkpoints(
        self, request: Request, session_id: str, limit: Limit = DEFAULT_PAGE, after: After = None, run_id: str | None = None
    ) -> Page:
        """The session's checkpoints on all branches, newest first."""
        runtime = await self._doors.runtime_of(request)
        rows = await runtime.checkpoints(session_id, run_id, limit=limit + 1, after=after_cursor(after), newest=True)
        return Page(**page(rows, limit, checkpoint_row))

    async def read_checkpoint(self, request: Request, session_id: str, checkpoint_id: str) -> Json:
        """A checkpoint with the messages and the context at that point."""
        runtime = await self._doors.runtime_of(request)
        branch = await runtime.branch(session_id, checkpoint_id)
        messages = [message.to_json() for message in branch.messages()]
        row = checkpoint_row(await runtime.checkpoint(checkpoint_id))
        return {**row, "messages": messages, "context": branch.channels.get("context") or {}}

    async def list_runs(self, request: Request, session_id: str, limit: Limit = DEFAULT_PAGE, after: After = None) -> Page:
        """The session's runs, newest first."""
        runtime = await self._doors.runtime_of(request)
        await runtime.session(session_id)
        rows = await runtime.runs(session_id, limit=limit + 1, after=after_cursor(after), newest=True)
        return Page(**page(rows, limit, run_row))

    async def list_interrupts(self, request: Request, session_id: str) -> Page:
        """The questions that are open now."""
        runtime = await self._doors.runtime_of(request)
        return Page(data=[interrupt_row(row) for row in await runtime.interrupts(session_id) if row.state == "open"])

    async def export_session(
        self, request: Request, session_id: str, at: str | None = None, all_branches: Annotated[bool, Query(alias="all")] = False
    ) -> Response:
        """The session as one file that proves itself; its bytes are canonical and must stay as they are."""
        data = await (await self._doors.runtime_of(request)).export(session_id, at, all_branches)
        name = f'attachment; filename="{session_id}.json"'
        return Response(data, media_type="application/json", headers={"Content-Disposition": name})

    async def import_session(self, request: Request, head: Annotated[str | None, Query(max_length=128)] = None) -> dict[str, str]:
        """Take in an export after verifying all of it. `head` pins the checkpoint it must end at."""
        runtime = await self._doors.runtime_of(request)
        return {"session": await runtime.import_(await request.body(), head=head)}

    async def read_graph(self, request: Request, session_id: str, at: str | None = None, format: Drawn = "log") -> Any:
        """The causal log of the branch: its nodes with their parents, and the active heads; or a drawing of it, as `mermaid`, `dot` and
        `svg` are, and `json` with nodes and edges."""
        state = (await (await self._doors.runtime_of(request)).branch(session_id, at)).state
        if format == "log":
            return state.to_json()
        drawn = draw(state.nodes, format, state.frontier)
        return drawn if format == "json" else Response(drawn, media_type=_MEDIA[format])


def session_routes(doors: Doors) -> APIRouter:
    """Sessions over HTTP."""
    views = SessionViews(doors)
    routes = APIRouter(route_class=JsonRoute, prefix="/v1/sessions", tags=["sessions"])
    routes.post("", status_code=201)(views.create_session)
    routes.get("")(views.list_sessions)
    routes.get("/{session_id}")(views.read_session)
    routes.delete("/{session_id}", status_code=204)(views.delete_session)
    routes.get("/{session_id}/context")(views.read_context)
    routes.put("/{session_id}/context")(views.replace_context)
    routes.get("/{session_id}/messages")(views.list_messages)
    routes.get("/{session_id}/checkpoints")(views.list_checkpoints)
    routes.get("/{session_id}/checkpoints/{checkpoint_id}")(views.read_checkpoint)
    routes.get("/{session_id}/runs")(views.list_runs)
    routes.get("/{session_id}/interrupts")(views.list_interrupts)
    routes.get("/{session_id}/export")(views.export_session)
    routes.post("/import", status_code=201)(views.import_session)
    routes.get("/{session_id}/graph")(views.read_graph)
    return routes
