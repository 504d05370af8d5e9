"""Counts and times of the server, in the Prometheus text format."""

import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = CONTENT_TYPE_LATEST
REGISTRY = CollectorRegistry()
REQUESTS = Counter("causeline_requests", "Requests by method, route and status.", ["method", "route", "status"], registry=REGISTRY)
SECONDS = Histogram("causeline_request_seconds", "Seconds until the reply began.", ["route"], registry=REGISTRY)
ACTIVE = Gauge("causeline_requests_active", "Requests in progress, streams among them.", registry=REGISTRY)


def text() -> bytes:
    """Everything counted so far."""
    return generate_latest(REGISTRY)


class Count:
    """ASGI middleware that counts. A route is counted by its pattern, so that ids do not become labels."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "unknown")
                REQUESTS.labels(scope["method"], route, str(message["status"])).inc()
                SECONDS.labels(route).observe(time.monotonic() - began)
            await send(message)

        with ACTIVE.track_inprogress():
            await self._app(scope, receive, counted)
