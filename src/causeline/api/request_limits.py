"""Bounds on what one server takes in: the size of a body, requests a second, requests at once; and JSON read strictly.

Law: what is over a bound is refused before it is parsed, and the refusal says which bound it was.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from causeline.api.problems import MEDIA_TYPE, TITLES
from causeline.causal import InvalidValue
from causeline.causal.json_text import parse
from causeline.policy import Clock

_REQUEST_ID = 128
_CALLERS = 10_000
_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """`body` and `import_body` are bytes; `rate` is requests a second and caller, with bursts of
    `burst`; `connections` is requests in progress at once, streams among them."""

    body: int = 4_000_000
    import_body: int = 512_000_000
    rate: float = 50.0
    burst: float = 200.0
    connections: int = 2_000


class Guard:
    """ASGI middleware that keeps these bounds and gives each request an id (`X-Request-Id`, the caller's own where it is one)."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, clock: Clock) -> None:
        self._app, self._limits, self._clock = app, limits, clock
        self._callers: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        request_id = _own_id(request.headers.get("x-request-id", "")) or secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        refusal = self._refusal(request)
        if refusal is not None:
            await _refused(*refusal, request_id)(scope, receive, answer)
            return
        self._active += 1
        try:
            await self._app(scope, self._counted(scope, receive), answer)
        finally:
            self._active -= 1

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """What arrives, as long as it is no more than a body may have. Raises HTTPException."""
        allowed = self._limits.import_body if scope["path"].endswith("/import") else self._limits.body
        left = allowed

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"a body has at most {allowed:,} bytes")
            return message

        return counted

    def _refusal(self, request: Request) -> tuple[int, str, str] | None:
        if self._active >= self._limits.connections:
            return 503, "unavailable", f"{self._limits.connections} requests are in progress; try again in a moment"
        if not self._takes(request.headers.get("authorization") or (request.client.host if request.client else "")):
            return 429, "too_many", f"at most {self._limits.rate:g} requests a second; slow down"
        return None

    def _takes(self, caller: str) -> bool:
        """A bucket of `burst` tokens a caller, filled at `rate`. Only so many callers are remembered."""
        now = self._clock.monotonic()
        tokens, seen = self._callers.pop(caller, (self._limits.burst, now))
        tokens = min(self._limits.burst, tokens + (now - seen) * self._limits.rate)
        self._callers[caller] = (max(0.0, tokens - 1), now)
        if len(self._callers) > _CALLERS:
            self._callers.popitem(last=False)
        return tokens >= 1


def _own_id(text: str) -> str | None:
    return text if text and len(text) <= _REQUEST_ID and text.isascii() and text.isprintable() else None


def _refused(status: int, code: str, detail: str, request_id: str) -> JSONResponse:
    body = {"type": "about:blank", "title": TITLES[code], "status": status, "detail": detail, "code": code, "request_id": request_id}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)


class JsonRoute(APIRoute):
    """Reads bodies as strictly as everything else that comes from outside: no repeated keys, no NaN, no lone surrogates, bounded depth,
    integers exact."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return parse(await self.body(), depth=_DEPTH)
        except InvalidValue as fault:
            status = 400 if fault.reason.startswith("not JSON") else 422
            raise HTTPException(status, f"body{fault.path.removeprefix('$')}: {fault.reason}") from None
