"""One answer of a model server, streamed or whole, to deltas, whatever its protocol.

Law: the response is closed whatever ends it; every failure is a ModelError without the key in it. A reply that is finished is
not waited for: what may still come is its usage and the end of the stream.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

from causeline.adapters.models.connection import Connection
from causeline.adapters.models.event_stream import next_within, read_rest, server_events
from causeline.adapters.models.json_bodies import read_object
from causeline.models.failures import ModelError
from causeline.models.messages import Json
from causeline.models.model import Delta

AFTER_FINISH_SECONDS = 2.0
"""How long the usage and the end mark of a finished reply are waited for."""


class ReplyReader(Protocol):
    """Reads one reply: events one by one, or all of it at once. Each method raises the ModelError of what it reads."""

    @property
    def finished(self) -> bool: ...

    def read(self, event: Json, name: str = "message") -> list[Delta]: ...

    def read_whole(self, body: Json) -> list[Delta]: ...

    def end(self) -> list[Delta]: ...


async def exchange(
    connection: Connection, response: Any, reader: ReplyReader, model: str, *, streamed: bool
) -> AsyncGenerator[Delta, None]:
    """The deltas of an open response. `streamed` says that a stream was asked for."""
    try:
        kind = response.headers.get("content-type", "")
        if "text/event-stream" in kind or (streamed and kind and "json" not in kind):
            async with aclosing(_events(connection, response, reader, model)) as deltas:
                async for delta in deltas:
                    yield delta
        else:
            for delta in reader.read_whole(read_object(await response.aread(), model)):
                yield delta
        for delta in reader.end():
            yield delta
    except ModelError as error:
        connection.hide_key(error)
        raise
    except connection.failures() as error:
        raise connection.translated(error, streaming=True) from error
    finally:
        await response.aclose()


async def _events(connection: Connection, response: Any, reader: ReplyReader, model: str) -> AsyncGenerator[Delta, None]:
    failures = connection.failures()
    async with aclosing(server_events(response)) as events:
        while True:
            event = await (next_within(events, AFTER_FINISH_SECONDS, failures) if reader.finished else anext(events, None))
            if event is None:
                return
            name, data = event
            if data.strip() == "[DONE]":
                await read_rest(events, failures)
                return
            for delta in reader.read(read_object(data, model), name):
                yield delta
