"""The server as an ASGI application: `app` for one of its own, `router` for a part of somebody's."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response

from causeline.api import metrics, problems
from causeline.api.access import Access, Auth
from causeline.api.agent_routes import agent_routes
from causeline.api.agui_routes import agui_routes
from causeline.api.doors import Doors
from causeline.api.log_routes import log_routes
from causeline.api.request_limits import Guard, RequestLimits
from causeline.api.run_routes import run_routes
from causeline.api.session_routes import session_routes
from causeline.api.sparql_routes import sparql_routes
from causeline.assemble import open as open_runtime
from causeline.runtime.program import Program
from causeline.runtime.runtime import Runtime
from causeline.runtime.times import SystemClock

TOKENS_VARIABLE = "CAUSELINE_TOKENS"
DESCRIPTION = "Agents that survive, explain themselves and remember: sessions, runs, their events and their causes."


def app(
    runtime_or_url: Runtime | str,
    *,
    agents: Sequence[Program] = (),
    auth: Auth | None = None,
    tokens: Mapping[str, str] | None = None,
    cors: Sequence[str] = (),
    limits: RequestLimits | None = None,
) -> FastAPI:
    """The whole server over a store's URL (opened and closed with the application) or a runtime that is open already.

    `auth` says whose a request is; without it `tokens` (token -> owner) are asked for; with neither only loopback names are answered, as
    the owner `default`. `cors` are origins that may call from a browser: none unless given.
    """
    doors = Doors({agent.name: agent for agent in agents}, Access(auth, tokens if tokens is not None else tokens_from_environment()))
    bounds = limits or RequestLimits()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            if isinstance(runtime_or_url, str):
                doors.runtime = await stack.enter_async_context(open_runtime(runtime_or_url, agents=agents))
            else:
                doors.runtime = runtime_or_url
            yield
            doors.draining = True

    server = FastAPI(title="causeline", version="1", description=DESCRIPTION, lifespan=lifespan)
    problems.install(server)
    server.include_router(_routes(doors))
    server.include_router(_health(doors))
    server.add_middleware(metrics.Count)
    server.add_middleware(Guard, limits=bounds, clock=SystemClock())
    if cors:
        server.add_middleware(
            CORSMiddleware, allow_origins=list(cors), allow_methods=["*"], allow_headers=["*"], expose_headers=["X-Run-Id", "X-Session-Id"]
        )
    server.state.doors = doors
    return server


def router(runtime: Runtime, *, agents: Sequence[Program] = (), auth: Auth | None = None) -> APIRouter:
    """The same routes to be included in an application of one's own, whose runtime is open while it serves. `auth` says whose a request
    is. The application also needs `causeline.api.problems.install` for the replies that are no success."""
    doors = Doors({agent.name: agent for agent in agents}, Access(auth), runtime)
    return _routes(doors)


def tokens_from_environment() -> Mapping[str, str]:
    """`CAUSELINE_TOKENS`: token=owner, separated by commas."""
    pairs = [entry.partition("=") for entry in os.environ.get(TOKENS_VARIABLE, "").split(",") if entry.strip()]
    return {token.strip(): owner.strip() for token, _, owner in pairs}


def _routes(doors: Doors) -> APIRouter:
    routes = APIRouter()
    for part in (agent_routes, session_routes, run_routes, log_routes, sparql_routes, agui_routes):
        routes.include_router(part(doors))
    return routes


def _health(doors: Doors) -> APIRouter:
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "alive"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        """The store answers, and the server is not stopping."""
        if doors.runtime is None or doors.draining:
            return JSONResponse({"status": "stopping" if doors.draining else "starting"}, 503)
        await doors.runtime.sessions(limit=1)
        return JSONResponse({"status": "ready"})

    @routes.get("/metrics", response_class=Response)
    async def read_metrics(request: Request) -> Response:
        """Counts and times in the Prometheus text format."""
        await doors.access.owner_of(request)
        return Response(metrics.text(), media_type=metrics.MEDIA_TYPE)

    return routes
