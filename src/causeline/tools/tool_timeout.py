"""How long one attempt may take.

Law: neither a tool that is too slow nor one that will not stop when cancelled can hold its run. What is
still running afterwards is said, because its effects may yet come.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from causeline.errors import Unavailable
from causeline.tools.tool_threads import LeftRunning

T = TypeVar("T")

GRACE = 0.5
"""Seconds a cancelled tool has for cleaning up before it is left to itself."""


class Overran(Unavailable):
    """An attempt took too long. `running` says what of it still runs; then it must not be tried again beside it."""

    code = "timeout"

    def __init__(self, seconds: float, running: str | None) -> None:
        still = f"; {running}, so it may still have effects" if running else ""
        super().__init__(f"timed out after {seconds:g} s{still}", running=running)
        self.running = running
        self.retryable = running is None


class StoppedItself(Unavailable):
    """A tool raised CancelledError although nobody cancelled it."""

    code = "stopped_itself"


async def bounded(work: Coroutine[Any, Any, T], seconds: float | None, *, grace: float = GRACE) -> T:
    """The result of `work`, which runs as a task of its own.

    Raises Overran after `seconds` (None: no limit), and CancelledError at once, or after at most `grace` seconds of
    clean-up, when the caller is cancelled.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.sleep(0)
        if not task.done():  # a tool that waits for nothing is done with its first step, and needs no timer
            await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task, grace)
        raise
    if not task.done():
        raise Overran(seconds or 0.0, await _stop(task, grace))
    if task.cancelled():
        raise StoppedItself("the tool cancelled itself")
    return task.result()


_left: set[asyncio.Task[Any]] = set()
"""Tasks that would not stop. Somebody has to hold them until they end."""


async def end_stubborn() -> None:
    """End the tasks of this event loop that were cancelled and go on: their coroutines are closed where they wait, so that the loop can
    end. One that does not even heed that is left."""
    loop = asyncio.get_running_loop()
    stubborn = [task for task in _left if not task.done() and task.get_loop() is loop]
    for task in stubborn:
        with suppress(BaseException):  # whatever it says to that
            task.get_coro().close()
        task.cancel()
    if stubborn:
        await asyncio.wait(stubborn, timeout=GRACE)


def _forget(task: asyncio.Task[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # read, so that nothing is logged about it


async def _stop(task: asyncio.Task[Any], grace: float) -> str | None:
    """Cancel `task` and say what of it still runs."""
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=grace)
    finally:
        _left.add(task)
        task.add_done_callback(_forget)
    if not task.done():
        return "it does not stop when cancelled"
    try:
        if task.cancelled():
            task.result()
    except LeftRunning as left:
        return f"its function still runs in thread {left.thread}"
    except asyncio.CancelledError:
        pass
    return None
