"""A bounded channel between one producer side and one reader.

Law: what was buffered before a failure is read before the failure; a full buffer makes the producer wait; a reader
that leaves early stops the producer; nothing keeps running afterwards.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Generic, TypeVar, cast

from causeline.errors import Conflict, Misuse, Unavailable
from causeline.graph.engine.execution import Execution
from causeline.graph.engine.item_sources import stopped
from causeline.graph.engine.step_events import Event

T = TypeVar("T")


class ChannelClosed(Conflict):
    """A push into a channel that was closed, failed or left by its reader; the item was not taken."""

    code = "channel_closed"


class InnerFailed(Unavailable):
    """The execution behind a channel did not complete. `facts["status"]` says how it ended."""

    code = "inner_failed"


class ProducerCancelled(Unavailable):
    """The producer behind a channel gave up because something it waited for was cancelled."""

    code = "producer_cancelled"


class StreamChannel(Generic[T]):
    """Items pass in order; at most `capacity` wait. One reader iterates; any number of producers push."""

    def __init__(self, capacity: int = 256) -> None:
        if type(cast("object", capacity)) is not int or capacity < 1:
            raise Misuse(f"a channel needs a whole capacity of at least 1, not {capacity!r}", code="bad_capacity")
        self._capacity = capacity
        self._buffer: deque[T] = deque()
        self._closed = False
        self._failure: BaseException | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._reading = False
        self._source: Callable[[], AsyncGenerator[T, None]] | None = None
        self._pump: asyncio.Task[None] | None = None

    @classmethod
    def driven(cls, producer: Callable[[], AsyncGenerator[T, None]], *, capacity: int = 256) -> "StreamChannel[T]":
        """A channel fed by an async generator function, which starts with the first read and is closed with the channel."""
        channel = cls(capacity)
        channel._source = producer
        return channel

    @classmethod
    def from_execution(
        cls, execution: Execution, select: Callable[[Event], Iterable[T] | None], *, capacity: int = 256
    ) -> "StreamChannel[T]":
        """What `select` makes of an execution's events. The execution advances only as the channel is read; if it does not complete,
        the reader gets InnerFailed after the last item."""

        async def items() -> AsyncGenerator[T, None]:
            events = aiter(execution)
            try:
                async for event in events:
                    for item in select(event) or ():
                        yield item
            finally:
                await events.aclose()  # a reader that leaves early leaves the execution too
            result = await execution
            if result.status != "completed":
                told = result.error.message if result.error is not None else "no further reason"
                raise InnerFailed(
                    f"the inner execution ended {result.status}: {told}",
                    status=result.status,
                    reason=None if result.error is None else result.error.code,
                )

        return cls.driven(items, capacity=capacity)

    async def push(self, item: T) -> None:
        """Hand an item over; waits while the buffer is full. Raises ChannelClosed."""
        while len(self._buffer) >= self._capacity and not self._over:
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(ready)
            try:
                await ready
            except asyncio.CancelledError:
                if ready.done() and not ready.cancelled():
                    self._make_room()
                raise
        if self._over:
            raise ChannelClosed("the channel is closed; the item was not taken")
        self._buffer.append(item)
        self._wake_reader()

    def close(self) -> None:
        """No more items; what is buffered can still be read. Closing twice is harmless."""
        self._closed = True
        self._release_all()

    def fail(self, error: BaseException) -> None:
        """No more items; the reader gets what is buffered, then `error`."""
        if not self._over:
            self._failure = error
            self._release_all()

    async def aclose(self) -> None:
        """Leave, and wait until a driven producer has ended."""
        self.leave()
        pump, self._pump = self._pump, None
        if pump is not None and pump is not asyncio.current_task():
            await asyncio.gather(pump, return_exceptions=True)

    def leave(self) -> None:
        """Nobody reads any more: drop what is buffered, refuse producers, stop a driven one."""
        self._closed = True
        self._buffer.clear()
        self._release_all()
        if self._pump is not None and not self._pump.get_loop().is_closed():
            self._pump.cancel()

    def __aiter__(self) -> "_Reading[T]":
        if self._reading:
            raise Misuse("a channel has one reader; this one is being read already", code="second_reader")
        self._reading = True
        return _Reading(self)

    async def take(self) -> T:
        """The next item; raises StopAsyncIteration at the end, or what the channel failed with."""
        if self._source is not None and self._pump is None and not self._over:
            self._pump = asyncio.create_task(self._drive(self._source))
        while not self._buffer:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        item = self._buffer.popleft()
        self._make_room()
        return item

    async def _drive(self, producer: Callable[[], AsyncGenerator[T, None]]) -> None:
        items: AsyncGenerator[T, None] | None = None
        try:
            items = producer()
            async for item in items:
                await self.push(item)
        except ChannelClosed:
            pass  # nobody reads any more
        except asyncio.CancelledError:
            if not stopped():
                self.fail(ProducerCancelled("something the producer waited for was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader gets it
            self.fail(error)
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                with contextlib.suppress(Exception):  # only what it raises while it tidies up: there is nobody left to hear it
                    await close()
            self.close()

    @property
    def _over(self) -> bool:
        return self._closed or self._failure is not None

    def _make_room(self) -> None:
        while self._waiting:
            ready = self._waiting.popleft()
            if not ready.done():
                ready.set_result(None)
                return

    def _release_all(self) -> None:
        for ready in self._waiting:
            if not ready.done():
                ready.set_result(None)
        self._waiting.clear()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class _Reading(Generic[T]):
    """One reading. Dropping it, as leaving an `async for` does, stops the producer."""

    __slots__ = ("_channel",)

    def __init__(self, channel: StreamChannel[T]) -> None:
        self._channel = channel

    def __aiter__(self) -> "_Reading[T]":
        return self

    async def __anext__(self) -> T:
        return await self._channel.take()

    async def aclose(self) -> None:
        """Stop reading and wait until a driven producer has ended."""
        await self._channel.aclose()

    def __del__(self) -> None:
        self._channel.leave()
