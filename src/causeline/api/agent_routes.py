"""/v1/agents: what is served here."""

from fastapi import APIRouter, Request

from causeline.api.bodies import Json, Page
from causeline.api.doors import Doors
from causeline.api.request_limits import JsonRoute
from causeline.runtime.program import Program


def agent_routes(doors: Doors) -> APIRouter:
    """The routes below /v1/agents."""
    routes = APIRouter(route_class=JsonRoute, prefix="/v1/agents", tags=["agents"])

    @routes.get("")
    async def list_agents(request: Request) -> Page:
        """Every agent that this server runs."""
        await doors.runtime_of(request)
        return Page(data=[_row(agent) for agent in doors.agents.values()])

    @routes.get("/{name}")
    async def read_agent(request: Request, name: str) -> Json:
        """One agent, its graph and its tools."""
        await doors.runtime_of(request)
        return _row(doors.agent(name))

    return routes


def _row(agent: Program) -> Json:
    """`{name, graph: {id, hash}, tools: [{name, description, parameters}]}`."""
    toolbox = getattr(agent, "toolbox", None)
    specs = [toolbox.get(name).spec().to_json() for name in toolbox.names()] if toolbox is not None else []
    return {"name": agent.name, "graph": {"id": agent.document.id, "hash": agent.document.hash}, "tools": specs}
