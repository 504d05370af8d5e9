"""What the log says, whichever session holds it: checkpoints, causes, and what earlier runs have to say."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from causeline.api.bodies import Json, checkpoint_row
from causeline.api.doors import Doors
from causeline.api.request_limits import JsonRoute

Session = Annotated[str | None, Query(max_length=128, description="Only this session.")]


class LogViews:
    """Reading the log over HTTP."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    async def read_checkpoint(self, request: Request, checkpoint_id: str) -> Json:
        """A checkpoint, and by it the session it belongs to."""
        return checkpoint_row(await (await self._doors.runtime_of(request)).checkpoint(checkpoint_id))

    async def read_log(self, request: Request, node_id: str, session: Session = None) -> Json:
        """The log of the branch that holds a causal node, as it was when the node was added."""
        return (await (await self._doors.runtime_of(request)).log_with(node_id, session)).to_json()

    async def read_causes(self, request: Request, node_id: str, session: Session = None) -> dict[str, Any]:
        """The model's reply that led to a causal node and what it had read, in log order."""
        nodes = await (await self._doors.runtime_of(request)).why(node_id, session)
        return {"data": [node.to_json() for node in nodes]}

    async def recall(
        self,
        request: Request,
        session: Session = None,
        query: Annotated[str, Query(max_length=10_000)] = "",
        k: Annotated[int, Query(ge=1, le=100)] = 5,
        max_tokens: Annotated[int, Query(ge=1, le=100_000)] = 1000,
    ) -> dict[str, Any]:
        """What earlier runs have to say, bounded and with its sources. It is untrusted data."""
        recalled = await (await self._doors.runtime_of(request)).recall(session, query, k=k, max_tokens=max_tokens)
        return {"text": recalled.text, "citations": [dict(citation) for citation in recalled.citations]}


def log_routes(doors: Doors) -> APIRouter:
    """Routes below /v1 that start from an id, not from a session."""
    views = LogViews(doors)
    routes = APIRouter(route_class=JsonRoute, prefix="/v1", tags=["log"])
    routes.get("/checkpoints/{checkpoint_id}")(views.read_checkpoint)
    routes.get("/nodes/{node_id}/log")(views.read_log)
    routes.get("/nodes/{node_id}/why")(views.read_causes)
    routes.get("/recall")(views.recall)
    return routes
