"""A number that grows when something was committed, and those who wait for it to grow.

Law: whoever saw the number before a change is woken by the change. Any thread may announce one; waiting is
per event loop.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable


class Signal:
    """Starts at 1, so that 0 never waits. `on_wait` is called when somebody begins to wait while nobody did."""

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self._token = 1
        self._waiting: dict[asyncio.AbstractEventLoop, set[asyncio.Future[None]]] = {}

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    async def wait(self, seen: int, timeout: float) -> int:
        """Return the number once it is not `seen`, or after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if seen != self._token:
                return self._token
            future = loop.create_future()
            first = not self._waiting
            self._waiting.setdefault(loop, set()).add(future)
        if first:
            self._on_wait()
        try:
            await asyncio.wait((future,), timeout=timeout)
        finally:
            with self._lock:
                waiting = self._waiting.get(loop)
                if waiting is not None:
                    waiting.discard(future)
                    if not waiting:
                        del self._waiting[loop]
        return self._token

    def grow(self) -> dict[asyncio.AbstractEventLoop, set[asyncio.Future[None]]]:
        """Announce a change. The futures returned are for their loops' threads to `wake`."""
        with self._lock:
            self._token += 1
            woken, self._waiting = self._waiting, {}
        return woken


def wake(futures: Iterable[asyncio.Future[None]]) -> None:
    """Resolve futures of the loop this runs in."""
    for future in futures:
        if not future.done():
            future.set_result(None)
