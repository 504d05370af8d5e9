"""Draining: what has begun goes on to its end, and nothing new begins.

Law: a shut gate never opens again. It interrupts nothing but waits that were declared as such; whoever is about to begin something asks
it first.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from causeline.graph.node import Gate, HandBack
from causeline.policy import Clock


class Drain(Gate):
    """The gate of one execution. `owes` is asked whether its journal has told of work as begun that has not: that work may begin."""

    __slots__ = ("_owes", "_waits")

    def __init__(self, owes: Callable[[], bool] | None = None) -> None:
        super().__init__()
        self._owes = owes
        self._waits: set[Callable[[], None]] = set()

    def shut_now(self) -> None:
        """Nothing new from now on; waits that give way end."""
        self.shut = True
        for end in tuple(self._waits):
            end()

    def holds(self) -> bool:
        """Whether the next visit or item must not begin."""
        return self.shut and not (self._owes is not None and self._owes())

    def hands_back(self, error: BaseException) -> bool:
        """True if a node has left its work to whoever goes on later."""
        return self.shut and isinstance(error, HandBack)

    @contextmanager
    def giving_way(self, waits: Callable[[], bool]) -> Generator[None]:
        if self.shut and waits():
            raise HandBack
        task, ended = asyncio.current_task(), False

        def end() -> None:
            nonlocal ended
            if task is not None and not ended and waits():
                ended = True
                task.cancel()

        self._waits.add(end)
        try:
            yield
        except asyncio.CancelledError:
            if ended and task is not None and not task.uncancel():
                raise HandBack from None
            raise
        finally:
            self._waits.discard(end)

    async def rest(self, clock: Clock, seconds: float) -> None:
        """Wait before another try. Raises HandBack if no other try is to begin."""
        with self.giving_way(lambda: True):
            await clock.sleep(seconds)
