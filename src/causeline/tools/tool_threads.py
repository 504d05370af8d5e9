"""A few threads for tools that are plain functions.

Law: a function that never returns costs its thread and nothing else. Whoever waits can stop waiting at any
time, another thread takes the lost one's place, and the process can always end: the threads are daemons.
"""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Any

LIMIT = 64
"""Functions that run at the same time; further ones wait. Abandoned ones do not count."""


class LeftRunning(asyncio.CancelledError):
    """Waiting was cancelled while the function ran; it goes on in the thread named `thread`."""

    def __init__(self, thread: str) -> None:
        super().__init__(thread)
        self.thread = thread


class _Job:
    __slots__ = ("context", "dropped", "finished", "function", "future", "loop", "thread")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        self.context = contextvars.copy_context()
        self.thread: str | None = None
        self.finished = False
        self.dropped = False

    def run(self) -> None:
        try:
            outcome = (self.context.run(self.function), None)
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(_deliver, self.future, outcome)


def _deliver(future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if not future.done():
        future.set_result(outcome)


class Threads:
    """A bounded pool whose workers start when needed and may be lost."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._names = count(1)
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._workers = self._idle = self._pending = 0

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` in a thread, in a copy of the current context, and return what it returns.

        Cancelled before it began, it never runs; cancelled in the middle, LeftRunning is raised and it goes on alone.
        """
        if self._process != os.getpid():
            self._reset()  # a fork has this object, but none of its threads
        job = _Job(function, asyncio.get_running_loop())
        with self._lock:
            self._pending += 1
            self._fill()
        self._jobs.put(job)
        try:
            value, error = await job.future
        except asyncio.CancelledError:
            thread = self._abandon(job)
            if thread is not None:
                raise LeftRunning(thread) from None
            raise
        if error is None:
            return value
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):  # its own doing: neither reaches a thread from outside
            raise RuntimeError(f"the function raised {type(error).__name__}")
        raise error

    def _fill(self) -> None:
        """Start a worker if one is wanted and allowed. Holds the lock."""
        if self._pending > self._idle and self._workers < self._limit:
            self._workers += 1
            self._idle += 1
            threading.Thread(target=self._work, name=f"causeline-tool-{next(self._names)}", daemon=True).start()

    def _work(self) -> None:
        name = threading.current_thread().name
        while True:
            job = self._jobs.get()
            with self._lock:
                self._pending -= 1
                if job.dropped:
                    continue
                self._idle -= 1
                job.thread = name
            job.run()
            with self._lock:
                job.finished = True
                if job.dropped:
                    return
                self._idle += 1

    def _abandon(self, job: _Job) -> str | None:
        with self._lock:
            if job.finished:
                return None
            job.dropped = True
            if job.thread is not None:
                self._workers -= 1
                self._fill()
            return job.thread


THREADS = Threads()
"""The threads of this process."""
