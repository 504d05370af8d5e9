"""The heartbeat: this process says, at intervals, that it lives and holds its runs.

Law: a process that works is not taken for a dead one. With a store of its own the heart beats in a thread of its own, so an event loop
that is blocked by somebody's code does not fall silent; without one (a store in this process alone) it beats in the loop.
"""

import asyncio
import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from causeline.errors import CauselineError
from causeline.policy import Clock
from causeline.runtime.feed import Key
from causeline.runtime.store import Store

Renewed = Callable[[Collection[Key]], object]
"""Is told the runs that are still held, on the event loop."""
JOIN_SECONDS = 5.0


class LoopHeart:
    """Beats on the event loop, by the store that everybody uses."""

    def __init__(self, store: Store, clock: Clock, holder: str, seconds: float, needed: Callable[[], bool], renewed: Renewed) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._seconds = seconds
        self._needed = needed
        self._renewed = renewed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._seconds)
            if self._needed():
                with suppress(CauselineError):
                    self._renewed({run.key for run in await self._store.renew(self._holder)})


class ThreadHeart:
    """Beats in a thread with an event loop and a store of its own, which it opens for its first beat."""

    def __init__(self, make_store: Callable[[], Store], holder: str, seconds: float, needed: Callable[[], bool], renewed: Renewed) -> None:
        self._make_store = make_store
        self._holder = holder
        self._seconds = seconds
        self._needed = needed
        self._renewed = renewed
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gone: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._gone is None:
            self._loop = asyncio.get_running_loop()
            self._gone = self._loop.create_future()
            threading.Thread(target=self._run, daemon=True, name="causeline-heartbeat").start()

    async def stop(self) -> None:
        self._stop.set()
        if self._gone is not None:
            await asyncio.wait((self._gone,), timeout=JOIN_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._beat())
        finally:
            self._tell(self._end)

    async def _beat(self) -> None:
        store: Store | None = None
        while not self._stop.wait(self._seconds):  # nothing else runs in this loop
            if not self._needed():
                continue
            try:
                if store is None:
                    store = self._make_store()
                    await store.open()
                held = {run.key for run in await store.renew(self._holder)}
            except CauselineError:
                continue  # the store does not answer; whoever drives runs finds that out for itself
            self._tell(self._renewed, held)
        if store is not None:
            await store.close()

    def _tell(self, action: Callable[..., object], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(action, *values)

    def _end(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
