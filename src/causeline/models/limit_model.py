"""Wrapper: at most so many calls at once, and not more often than so.

Law: a call holds its place from its first delta asked for to the close of its stream, whatever ends it;
callers are served in the order they came.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from weakref import WeakKeyDictionary

from causeline.errors import Misuse
from causeline.models.model import Delta, Model, Request
from causeline.models.wrapper_model import WrapperModel
from causeline.policy import Clock


class LimitModel(WrapperModel):
    """`model` with `concurrency` calls at once (in each event loop) and starts at least `min_interval` seconds apart."""

    def __init__(self, model: Model, concurrency: int, *, clock: Clock, min_interval: float = 0.0) -> None:
        if concurrency < 1:
            raise Misuse(f"concurrency is {concurrency}; it must be at least 1.")
        super().__init__(model)
        self._concurrency = concurrency
        self._clock = clock
        self._interval = min_interval
        self._next_start = 0.0
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = asyncio.Semaphore(self._concurrency)
        async with gate:
            if self._interval:
                now = self._clock.monotonic()
                start = max(now, self._next_start)
                self._next_start = start + self._interval
                await self._clock.sleep(start - now)
            async with aclosing(self.inner.stream(request)) as deltas:
                async for delta in deltas:
                    yield delta
