"""An execution: something to await for its result, or to iterate for its steps.

Law: the walk runs once, in one task of its own, started when somebody first awaits or iterates. Whoever iterates drives it: the walk
waits until a step has been taken, unless somebody awaits the result too, and leaving the iteration early cancels it. No task outlives it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any, Literal

from causeline.errors import Misuse
from causeline.graph.engine.control import Control
from causeline.graph.engine.driver import Frame, VisitCount
from causeline.graph.engine.plain_values import plain
from causeline.graph.engine.position import Child, pauses
from causeline.graph.engine.position_json import position_to_plain
from causeline.graph.engine.step_events import Emitted, Event, Failure, Result, Status


class Execution:
    """A walk through a document. `status` is `pending`, `running`, or how it ended."""

    def __init__(self, control: Control, child: Child, *, seconds: float | None) -> None:
        self._control = control
        control.offset = child.position.steps - control.steps
        self._frame = Frame(control, child, count=VisitCount(child.position.visits))
        self._seconds = seconds
        self._task: asyncio.Task[Result] | None = None
        self._events: deque[Event] = deque()
        self._wanted: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None
        self._awaited = False
        self._result: Result | None = None

    @property
    def status(self) -> Status | Literal["pending", "running"]:
        """Where the execution is."""
        if self._result is not None:
            return self._result.status
        if self._task is None:
            return "pending"
        return "failed" if self._task.done() else "running"

    def cancel(self) -> None:
        """Stop soon, at any depth; what has finished is kept, and the result says `cancelled`. Returns at once."""
        if self._result is None:
            self._control.stop("cancelled")

    def drain(self) -> None:
        """Begin no further visit, item or try; what has begun finishes and counts. Where something is left then, the result says
        `cancelled`, `drained` is True, and `saved()` can be gone on from. Returns at once."""
        self._control.gate.shut_now()

    @property
    def drained(self) -> bool:
        """True if it has ended because nothing new was to begin."""
        return self._result is not None and self._result.status == "cancelled" and self._control.halted is None

    def __await__(self) -> Generator[Any, None, Result]:
        return self._outcome().__await__()

    async def _outcome(self) -> Result:
        """The result; raises what the journal raised. Cancelling whoever awaits it cancels the execution."""
        task = self._start()
        self._awaited = True  # who awaits inside the iteration takes no more steps until the result is there
        self._release()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # whoever cancels asks for no result
            raise

    def __aiter__(self) -> "_Events":
        """Steps, progress inside steps, and what nodes emit, as they come."""
        return _Events(self)

    async def take(self) -> Event | None:
        """The next event, None at the end; raises what the journal raised, and Misuse while somebody else waits for one."""
        if self._wanted is not None:
            raise Misuse("an execution has one reader at a time; this one is being read already", code="second_reader")
        if not self._events and self._result is None:
            self._control.listen(self._deliver)
            task = self._start()
            while not self._events and not task.done():
                self._release()
                self._wanted = asyncio.get_running_loop().create_future()
                try:
                    await self._wanted
                finally:
                    self._wanted = None
        if self._events:
            return self._events.popleft()
        await self._start()
        return None

    def leave(self) -> None:
        """Whoever iterated is gone: cancel, unless the walk is over."""
        if self._result is None and self._task is not None and not self._task.get_loop().is_closed():
            self._control.listen(None)
            self._release()
            self.cancel()

    def _wake(self, _task: object = None) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    def _release(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        self._taken = None

    def _deliver(self, event: Event) -> Awaitable[None] | None:
        """Hand an event to the iteration. What a node emits never waits; finished work waits until it was taken."""
        self._events.append(event)
        self._wake()
        if isinstance(event, Emitted) or self._awaited:
            return None
        if self._taken is None:
            self._taken = asyncio.get_running_loop().create_future()
        return self._taken

    def _start(self) -> "asyncio.Task[Result]":
        if self._task is None:
            self._task = asyncio.create_task(self._body())
            self._task.add_done_callback(self._wake)
        return self._task

    async def _body(self) -> Result:
        control = self._control
        control.debug = control.debug or asyncio.get_running_loop().get_debug()
        try:
            if self._seconds is not None:
                control.deadline = control.clock.monotonic() + self._seconds
                if self._seconds <= 0:
                    control.stop("timed_out")
                control.spawn(self._alarm(self._seconds))
            status = await control.walk(self._frame.run)
            self._result = self._ended(status)
        except asyncio.CancelledError:
            control.stop("cancelled")
            self._result = self._ended(None)
        finally:
            await control.settle_tasks()
        control.observe("on_end", self._result)
        if control.torn is not None:
            raise control.torn
        return self._result

    async def _alarm(self, seconds: float) -> None:
        await self._control.clock.sleep(seconds)
        self._control.stop("timed_out")

    def _ended(self, status: Status | None) -> Result:
        control, frame = self._control, self._frame
        failure: Failure | None = frame.failure
        if status is None:
            status, failure = control.halted or "cancelled", control.failure
        asked = tuple(pauses(frame.child.plan, frame.position)) if status == "interrupted" else ()
        return Result(status, dict(frame.channels.values), failure, asked, tuple(control.warnings), self.saved)

    def saved(self) -> dict[str, Any]:
        """Plain JSON {position, channels, document} of where it stands, also while it runs. Raises NotPlain.
        Only values have a bound of depth; documents stand in each other as deep as they may."""
        frame = self._frame
        plan = frame.child.plan
        return {
            "document": plan.document.hash,
            "position": position_to_plain(plan, frame.position, plain),
            "channels": frame.channels.to_plain(),
        }


class _Events:
    """One iteration. Dropping it before its end, as leaving an `async for` does, cancels the execution."""

    __slots__ = ("_execution", "_reads")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._reads = False

    def __aiter__(self) -> "_Events":
        return self

    async def __anext__(self) -> Event:
        reads, self._reads = self._reads, True
        try:
            event = await self._execution.take()
        except Misuse:
            self._reads = reads
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Leave the iteration and wait until the walk has ended."""
        self._execution.leave()
        if self._execution.status == "running":
            await self._execution

    def __del__(self) -> None:
        if self._reads:
            self._execution.leave()
