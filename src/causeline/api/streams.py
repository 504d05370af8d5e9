"""A run's events as server-sent events (WHATWG HTML, section 9.2).

Law: a client never holds up a run or another client, and costs a bounded amount of memory. Events are pulled at the client's pace;
one that does not read at all is let go after a while, and goes on from its last number. The frames end in LF.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from fastapi.responses import StreamingResponse
from starlette.types import Message, Send

from causeline.errors import CauselineError
from causeline.policy import Clock

HEARTBEAT_SECONDS = 15.0
SLOW_SECONDS = 5.0
STALLED_SECONDS = 60.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
Frames = AsyncIterator[bytes]
Batches = AsyncGenerator[Sequence[Mapping[str, Any]], None]
"""Events that became durable together, in order."""


def frame(event: Mapping[str, Any]) -> bytes:
    """A numbered event of a run as one frame."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event["seq"], event["type"].encode(), orjson.dumps(event))


def comment(text: str) -> bytes:
    """A line that clients pass over: it keeps the connection alive, or tells a person something."""
    return f": {text}\n\n".encode()


async def stream(
    batches: Batches,
    frames: Callable[[Mapping[str, Any]], Iterable[bytes]],
    clock: Clock,
    *,
    opening: bytes = b"",
    heartbeat: float = HEARTBEAT_SECONDS,
    slow: float = SLOW_SECONDS,
) -> Frames:
    """The frames of these events, each batch in one piece, with a comment for each `heartbeat` seconds of silence, and one for a client
    that took more than `slow` seconds to read. `opening` goes out first."""
    if opening:
        yield opening
    coming: asyncio.Task[Sequence[Mapping[str, Any]]] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(batches))
            await asyncio.wait((coming,), timeout=heartbeat)
            if not coming.done():
                yield comment("still here")
                continue
            done, coming = coming, None
            try:
                batch = done.result()
            except CauselineError as error:  # it goes on elsewhere, or cannot be told at the moment; the client asks again
                yield comment(f"nothing more is told here, go on with Last-Event-ID: {' '.join(error.message.split())}")
                return
            if not batch:
                return
            before = clock.monotonic()
            yield b"".join(data for event in batch for data in frames(event))
            if clock.monotonic() - before > slow:
                yield comment("you read slowly; events wait for you, and after a lost connection go on with Last-Event-ID")
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming
        await batches.aclose()


async def _next(batches: Batches) -> Sequence[Mapping[str, Any]]:
    """The next batch; an empty one when there are no more."""
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return ()


class EventStream(StreamingResponse):
    """Sends frames, and gives up a client that takes nothing for `stalled` seconds; its run goes on."""

    def __init__(self, frames: Frames, headers: Mapping[str, str] | None = None, *, stalled: float = STALLED_SECONDS) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={**HEADERS, **(headers or {})})
        self._stalled = stalled

    async def stream_response(self, send: Send) -> None:
        """Raises TimeoutError, which closes the connection."""

        async def within(message: Message) -> None:
            async with asyncio.timeout(self._stalled):
                await send(message)

        await super().stream_response(within)
