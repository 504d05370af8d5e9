"""What all parts of one execution share: when to stop, the clock, who listens, and the tasks that may be interrupted.

Law: a stop never tears a commit. A task that is committing is not cancelled; it sees the stop when the commit is done.
Every task started here ends before the execution does.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from causeline.errors import CauselineError, Unavailable
from causeline.graph.engine.binding import Program
from causeline.graph.engine.step_events import Emitted, Event, Failure, Journal, LimitReached, Limits, Path, Status, Step
from causeline.policy import Clock

T = TypeVar("T")
BREATH = 0.002
"""Seconds of work after which the event loop gets its turn, so that deadlines and cancels are seen by a walk that never waits."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class NodeTimeout(Unavailable):
    """A node did not finish in time. It may be retried, and leaves by `error` like other failures."""

    code = "node_timeout"


class JournalFailed(Unavailable):
    """Carries a journal's error to the top of the execution; never leaves it."""

    code = "journal_failed"


class WaitCancelled(Unavailable):
    """A node or the journal gave up because something it waited for was cancelled, though nobody stopped the execution."""

    code = "node_cancelled"


class Slot:
    """One task that walks. While `busy`, it must not be cancelled."""

    __slots__ = ("busy", "task")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.busy = 0


class Control:
    """Shared by every frame of an execution. `halted` is why it must stop, None while it may run; `answers` are the answers to pauses
    by key; `steps` is the index of the next top-level step; `torn` is what a journal raised: nothing counts from then on."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        clock: Clock,
        limits: Limits,
        *,
        journal: Journal | None = None,
        services: Mapping[type, object] | None = None,
        sources: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        observers: tuple[object, ...] = (),
        first_step: int = 0,
    ) -> None:
        self.programs = programs
        self.clock = clock
        self.limits = limits
        self.journal = journal
        self.services: Mapping[type, object] = services or {}
        self.sources: Mapping[str, Any] = sources or {}
        self.answers: Mapping[str, Any] = answers or {}
        self.observers = observers
        self.steps = first_step
        self.deadline: float | None = None
        self.halted: Status | None = None
        self.failure: Failure | None = None
        self.torn: BaseException | None = None
        self.warnings: list[Failure] = []
        self.listen(None)
        self.on_emit: Callable[[Emitted], object] | None = getattr(journal, "on_emit", None)
        self.on_start: Callable[[int, str], object] | None = getattr(journal, "on_start", None)
        self.ticks = time.monotonic
        self.breathe_at = 0.0
        self._slots: set[Slot] = set()
        self._spare: set[asyncio.Task[Any]] = set()

    def listen(self, deliver: Callable[[Event], Awaitable[None] | None] | None) -> None:
        """Hand events to `deliver` from now on; None: to nobody. `tells` is True if anybody wants to know of finished work."""
        self.deliver = deliver
        self.tells = self.journal is not None or deliver is not None or bool(self.observers)

    def stop(self, why: Status, failure: Failure | None = None) -> None:
        """Stop everything soon; the first reason counts. A second stop also interrupts post phases. The caller, if it walks
        itself, is not interrupted and unwinds at its next step."""
        if self.halted is None:
            self.halted = why
            self.failure = failure
        try:
            me = asyncio.current_task()
        except RuntimeError:
            return
        for slot in self._slots:
            if not slot.busy and slot.task is not me:
                slot.task.cancel()

    @staticmethod
    def lock() -> asyncio.Lock:
        """For branches that commit in turn."""
        return asyncio.Lock()

    @staticmethod
    def dice() -> float:
        """[0, 1), for the jitter of retries."""
        return random.random()

    async def breathe(self) -> None:
        """Let the event loop run."""
        await asyncio.sleep(0)
        self.breathe_at = time.monotonic() + BREATH

    async def walk(self, work: Callable[[Slot], Awaitable[T]]) -> T:
        """Run `work` as something that may be interrupted, in the current task."""
        task = asyncio.current_task()
        assert task is not None
        slot = Slot(task)
        self._slots.add(slot)
        try:
            return await work(slot)
        finally:
            self._slots.discard(slot)

    async def together(self, slot: Slot, works: list[Callable[[Slot], Awaitable[None]]]) -> None:
        """Run several at once and wait for all; the waiting task is not interrupted, the works are."""
        slot.busy += 1
        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(self.walk(work))
        finally:
            slot.busy -= 1

    def failed(self, error: BaseException, slot: Slot, place: str) -> Exception:
        """What the walk caught as a failure of that place. Raises again what is none."""
        found = leaked(error, slot, place) if self.halted is None else error
        if isinstance(found, Exception):
            return found
        raise error

    def caught(self, error: BaseException, slot: Slot, placement: str, path: Path) -> bool:
        """Asked by a walk that caught something: True if that ends the walk (it has stopped, or stops everything from here),
        False if the error must go on."""
        if isinstance(error, asyncio.CancelledError):
            if self.halted is not None:
                slot.task.uncancel()
            return self.halted is not None
        if isinstance(error, JournalFailed):
            self.stop("failed", failure_of(self.torn or error, placement, path))
            return True
        if isinstance(error, LimitReached):
            self.stop("failed", failure_of(error, placement, path))
            return True
        return False

    async def within(self, seconds: float, awaitable: Awaitable[T], slot: Slot, place: str) -> T:
        """Wait at most `seconds` on the clock. Raises NodeTimeout."""
        fired: list[bool] = []

        async def alarm() -> None:
            await self.clock.sleep(seconds)
            fired.append(True)
            slot.task.cancel()

        timer = self.spawn(alarm())
        try:
            found = await awaitable
        except asyncio.CancelledError:
            if not fired or self.halted is not None:
                raise
            slot.task.uncancel()
            raise late(place, seconds) from None
        finally:
            timer.cancel()
        if fired:
            slot.task.uncancel()
            raise late(place, seconds)
        return found

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a small task beside the walk; it is gone when the execution is."""
        task = asyncio.create_task(work)
        self._spare.add(task)
        task.add_done_callback(self._spare.discard)
        return task

    async def settle_tasks(self) -> None:
        """Cancel what was spawned and wait until it is gone."""
        left = list(self._spare)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def emitter(self, path: Path, step: int) -> Callable[[Mapping[str, Any]], None] | None:
        """What `ctx.emit` calls for a visit; None if nobody listens."""
        if self.on_emit is None and self.deliver is None and not self.observers:
            return None
        return partial(self._emit, path, step)

    def _emit(self, path: Path, step: int, data: Mapping[str, Any]) -> None:
        event = Emitted(step, path, data)
        if self.on_emit is not None:
            self.on_emit(event)
        self.observe("on_emit", event)
        if self.deliver is not None:
            self.deliver(event)

    async def tell(self, event: Event) -> None:
        """Report finished work to observers and to whoever iterates the execution, who may make it wait."""
        if self.observers:
            self.observe("on_step" if isinstance(event, Step) else "on_progress", event)
        if self.deliver is not None:
            waiting = self.deliver(event)
            if waiting is not None:
                await waiting

    def observe(self, method: str, event: object) -> None:
        """Call the observers that have `method`; one that raises leaves a warning and changes nothing else."""
        for observer in self.observers:
            call = getattr(observer, method, None)
            if call is None:
                continue
            try:
                call(event)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whoever watches has no say in the walk
                self.warnings.append(failure_of(error, type(observer).__name__, (), code="observer_failed"))


def leaked(error: BaseException, slot: Slot, place: str) -> BaseException:
    """The error itself, unless it is a CancelledError that nobody aimed at this walk: that is a failure of what was waited for."""
    if isinstance(error, asyncio.CancelledError) and not slot.task.cancelling():
        return WaitCancelled(f"{place}: something it waited for was cancelled", placement=place)
    return error


def late(place: str, seconds: float) -> NodeTimeout:
    """The error of a node that took too long."""
    return NodeTimeout(f"{place}: no outcome within {seconds} s; raise its timeout or make it faster", placement=place)


def failure_of(error: BaseException, placement: str, path: Path, *, code: str | None = None) -> Failure:
    """A Failure from an exception: its own code, else its class name."""
    found = code or (error.code if isinstance(error, CauselineError) else type(error).__name__)
    return Failure(found, str(error) or type(error).__name__, placement, path, error)
