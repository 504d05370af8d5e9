"""Where scatter items come from: values of the state, iterables and async iterables, one by one or in batches.

Law: an item has the index of its place in the source. A source starts from its beginning, also on resume; items that have
finished are passed over. Nothing is pulled before a worker is free for it.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from causeline.errors import Invalid, Unavailable
from causeline.graph.documents.document import Reservoir, Scatter
from causeline.graph.engine.state_paths import MISSING, read_in
from causeline.graph.engine.step_events import LimitReached


class SourceCancelled(Unavailable):
    """A source gave up because something it waited for was cancelled, though nobody stopped the execution."""

    code = "source_cancelled"


class BadSource(Invalid):
    """The source of a scatter is nothing one can iterate."""

    code = "bad_source"


@dataclass(frozen=True, slots=True)
class Unit:
    """What one worker takes: an item, or a batch. `index` is the (first) item's, `items` all indexes."""

    index: int
    value: Any
    items: tuple[int, ...]


class Pull(Protocol):
    """Hands units to workers, who call in turn."""

    async def next(self) -> Unit | None:
        """The next unit, None at the end."""
        ...

    async def close(self) -> None:
        """Let the source go; an async source is told to stop."""
        ...


Sleep = Callable[[float], Any]


def open_source(scatter: Scatter, found: Any, done: list[list[int]], width: int, sleep: Sleep) -> Pull:
    """A pull over what was found at the scatter's source, but for the items that are `done`: nothing at all counts as no items.
    Raises BadSource, LimitReached."""
    if found is MISSING or found is None:
        found = ()
    skip = [(low, high) for low, high in done]
    given: object = found
    if isinstance(given, AsyncIterable):
        arriving = Arriving(cast("AsyncIterable[Any]", given), skip)
        return arriving if scatter.reservoir is None else ArrivingBatches(arriving, scatter.reservoir, sleep)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        kind = type(cast("object", given)).__name__
        raise BadSource(
            f"{scatter.name}: the source {scatter.source!r} holds a {kind}; give a list, an iterable or an async iterable",
            placement=scatter.name,
        )
    units = _units(scatter, cast("Iterable[Any]", given), skip, width)
    return Ready(units if scatter.reservoir is None else _batches(units, scatter.reservoir))


def _units(scatter: Scatter, found: Iterable[Any], skip: list[tuple[int, int]], width: int) -> Iterator[Unit]:
    if isinstance(found, Sequence):
        listed: Sequence[Any] = found
        if len(listed) > width:
            raise LimitReached("width", width, scatter.name)
        start = skip[0][1] if skip and skip[0][0] == 0 else 0
        numbered: Iterable[tuple[int, Any]] = ((index, listed[index]) for index in range(start, len(listed)))
    else:
        numbered = enumerate(found)
    for index, item in numbered:
        if index >= width:
            raise LimitReached("width", width, scatter.name)
        if not skip or not _finished(skip, index):
            yield Unit(index, item, (index,))


def _finished(skip: list[tuple[int, int]], index: int) -> bool:
    return any(low <= index < high for low, high in skip)


class Ready:
    """Units that are there already."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units

    async def next(self) -> Unit | None:
        return next(self._units, None)

    async def close(self) -> None:
        close = getattr(self._units, "close", None)
        if close is not None:
            close()


class Arriving:
    """Units of an async source, pulled one at a time."""

    def __init__(self, source: AsyncIterable[Any], skip: list[tuple[int, int]]) -> None:
        self._iterator: AsyncIterator[Any] = aiter(source)
        self._skip = skip
        self._index = 0
        self._ended = False
        self._lock = asyncio.Lock()

    async def next(self) -> Unit | None:
        async with self._lock:
            while not self._ended:
                try:
                    item = await anext(self._iterator)
                except StopAsyncIteration:
                    self._ended = True
                    break
                except asyncio.CancelledError:
                    if stopped():
                        raise
                    raise SourceCancelled("something the source waited for was cancelled") from None
                index = self._index
                self._index += 1
                if not _finished(self._skip, index):
                    return Unit(index, item, (index,))
            return None

    async def close(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await close()


def stopped() -> bool:
    """True if the current task was asked to stop; a CancelledError without that leaked out of something it waited for."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


class Buffers:
    """Items collected per key until a batch is full."""

    def __init__(self, reservoir: Reservoir) -> None:
        self._parts = reservoir.key_field.split(".")
        self._capacity = reservoir.capacity
        self._held: dict[Any, list[Unit]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, unit: Unit) -> Unit | None:
        """A full batch, if this item filled one."""
        key = read_in(unit.value, self._parts)
        key = key if isinstance(key, str | int | float | bool) else repr(key)
        held = self._held.setdefault(key, [])
        held.append(unit)
        return batch(self._held.pop(key)) if len(held) >= self._capacity else None

    def release(self) -> list[Unit]:
        """All batches, in the order of their first items."""
        held, self._held = self._held, {}
        return [batch(units) for units in sorted(held.values(), key=lambda units: units[0].index)]


def batch(units: list[Unit]) -> Unit:
    """One unit of several items."""
    return Unit(units[0].index, [unit.value for unit in units], tuple(unit.index for unit in units))


def _batches(units: Iterator[Unit], reservoir: Reservoir) -> Iterator[Unit]:
    buffers = Buffers(reservoir)
    broken: Exception | None = None
    try:
        for unit in units:
            full = buffers.add(unit)
            if full is not None:
                yield full
    except Exception as error:  # noqa: BLE001 - raised again after what was held
        broken = error
    yield from buffers.release()
    if broken is not None:
        raise broken


class ArrivingBatches:
    """Batches of an async source; what is held is released after `idle_ms` without a new item, at the end, and before a broken
    source is reported."""

    def __init__(self, arriving: Arriving, reservoir: Reservoir, sleep: Sleep) -> None:
        self._arriving = arriving
        self._buffers = Buffers(reservoir)
        self._idle = None if reservoir.idle_ms is None else reservoir.idle_ms / 1000
        self._sleep = sleep
        self._ready: list[Unit] = []
        self._pulling: asyncio.Task[Unit | None] | None = None
        self._ended = False
        self._broken: Exception | None = None
        self._lock = asyncio.Lock()

    async def next(self) -> Unit | None:
        async with self._lock:
            while not self._ready and not self._ended:
                await self._fill()
            if self._ready:
                return self._ready.pop(0)
            if self._broken is not None:
                broken, self._broken = self._broken, None
                raise broken
            return None

    async def _fill(self) -> None:
        if self._pulling is None:
            self._pulling = asyncio.create_task(self._arriving.next())
        if self._buffers and self._idle is not None and not await self._arrived(self._pulling, self._idle):
            self._ready = self._buffers.release()
            return
        try:
            unit = await asyncio.shield(self._pulling)
        except Exception as error:  # noqa: BLE001 - raised again after what was held
            unit, self._broken = None, error
        self._pulling = None
        if unit is None:
            self._ended = True
            self._ready = self._buffers.release()
            return
        full = self._buffers.add(unit)
        if full is not None:
            self._ready = [full]

    async def _arrived(self, pulling: "asyncio.Task[Unit | None]", seconds: float) -> bool:
        """False if nothing came for that long."""
        timer = asyncio.create_task(self._sleep(seconds))
        try:
            await asyncio.wait({pulling, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
        return pulling.done()

    async def close(self) -> None:
        if self._pulling is not None:
            self._pulling.cancel()
            await asyncio.gather(self._pulling, return_exceptions=True)
        await self._arriving.close()
