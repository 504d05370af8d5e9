"""The events of a model's streamed answer, as the HTTP library reads them.

Law: what the WHATWG HTML standard says of server-sent events holds (httpx2 does the reading), with two kindnesses: a
byte-order mark in front hides nothing, and a last event without its blank line counts. Events without data are passed over.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

_BOM = b"\xef\xbb\xbf"
_EVENT_MAX = 64 * 1024 * 1024
_REST_SECONDS = 0.25


async def server_events(response: Any) -> AsyncGenerator[tuple[str, str], None]:
    """`(name, data)` of each event that has data; the name is "message" where the server gave none."""
    import httpx2

    async with aclosing(_clean(response)) as content:
        # Event streams are UTF-8 whatever the header says.
        same = httpx2.Response(
            response.status_code, headers={"content-type": "text/event-stream; charset=utf-8"}, content=content, request=response.request
        )
        async for event in httpx2.EventSource(same, max_event_size=_EVENT_MAX):
            if event.data.strip():
                yield event.event, event.data


async def _clean(response: Any) -> AsyncGenerator[bytes, None]:
    head, begun = b"", False
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            if begun:
                yield part
                continue
            head += part
            if len(head) >= len(_BOM) or not _BOM.startswith(head):
                begun = True
                yield head.removeprefix(_BOM)
    yield (b"" if begun else head) + b"\n\n"


async def next_within(
    events: AsyncIterator[tuple[str, str]], seconds: float, failures: tuple[type[Exception], ...]
) -> tuple[str, str] | None:
    """The next event of a reply that is whole already: None where there is none, or none in time, or the connection broke."""
    with suppress(TimeoutError, StopAsyncIteration, *failures):
        async with asyncio.timeout(seconds):
            return await anext(events)
    return None


async def read_rest(events: AsyncIterator[tuple[str, str]], failures: tuple[type[Exception], ...]) -> None:
    """Read what follows the end mark, but not for long, so that the connection can be used again."""
    with suppress(TimeoutError, *failures):
        async with asyncio.timeout(_REST_SECONDS):
            async for _ in events:
                pass
