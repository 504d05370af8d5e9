"""Requests to a causeline server, and its refusals as causeline's errors."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2

from causeline.errors import CauselineError, Conflict, Corrupt, Exhausted, Invalid, Missing, Refused, Unavailable

TOKEN_VARIABLE = "CAUSELINE_TOKEN"  # noqa: S105 - the name of a variable, no token
_KINDS: Mapping[int, type[CauselineError]] = {401: Refused, 403: Refused, 404: Missing, 409: Conflict, 500: Corrupt}


class Transport:
    """One server. `http` stands in for the connection, such as one into an application in this process."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, http: httpx2.AsyncClient | None = None) -> None:
        token = token if token is not None else os.environ.get(TOKEN_VARIABLE)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url.rstrip("/")
        self._http = http or httpx2.AsyncClient(base_url=self.url, timeout=httpx2.Timeout(timeout, read=None), trust_env=False)
        self._http.headers.update(headers)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def json(self, method: str, path: str, *, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """The reply's JSON value, None for an empty reply. Raises what the server refused with, Unavailable if it does not answer."""
        response = await self._send(method, path, json=body, params=_given(query))
        return response.json() if response.content else None

    async def data(self, method: str, path: str, *, content: bytes | None = None, query: Mapping[str, Any] | None = None) -> bytes:
        """The reply's bytes."""
        headers = {"Content-Type": "application/json"} if content is not None else {}
        return (await self._send(method, path, content=content, params=_given(query), headers=headers)).content

    async def answer(self, path: str, query: Mapping[str, Any]) -> Any:
        """A reply that is JSON, or else text."""
        response = await self._send("POST", path, data=_given(query))
        return response.json() if "json" in response.headers.get("content-type", "") else response.text

    @asynccontextmanager
    async def lines(self, path: str, *, after: int | None) -> AsyncGenerator[AsyncIterator[str] | None]:
        """The lines of an event stream; None where the server has nothing to tell."""
        query = {} if after is None else {"after": after}
        try:
            async with self._http.stream("GET", path, params=query, headers={"Accept": "text/event-stream"}) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise refusal(response)
                yield None if response.status_code == 204 else response.aiter_lines()
        except httpx2.TransportError as error:
            raise self._unavailable(error) from error

    async def _send(self, method: str, path: str, **parts: Any) -> httpx2.Response:
        try:
            response = await self._http.request(method, path, **{name: part for name, part in parts.items() if part is not None})
        except httpx2.TransportError as error:
            raise self._unavailable(error) from error
        if response.status_code >= 400:
            raise refusal(response)
        return response

    def _unavailable(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"the server at {self.url} does not answer ({error or type(error).__name__}); is `causeline serve` running there?"
        )


def refusal(response: httpx2.Response) -> CauselineError:
    """The error that a reply with problem details stands for."""
    try:
        body: Any = response.json()
    except ValueError:
        body = None
    problem = cast("Mapping[str, Any]", body if isinstance(body, dict) else {})
    message = str(problem.get("detail") or f"the server answered {response.status_code}")
    code, status = problem.get("code"), response.status_code
    if status in (429, 503):
        return Unavailable(message, code=code, retry_after=_seconds(response.headers.get("retry-after")))
    if status == 413:
        return Exhausted(message, limit="body", code=code)
    kind = _KINDS.get(status, Invalid)
    return Invalid(message, code=code, findings=problem.get("findings") or ()) if kind is Invalid else kind(message, code=code)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _given(query: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if query is None else {name: value for name, value in query.items() if value is not None}
