"""What all parts of one execution share: when to stop, the clock, who listens, and the tasks that may be interrupted.

Law: a stop never tears a commit. A task that is committing is not cancelled; it sees the stop when the commit is done.
Every task started here ends before the execution does.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from causeline.errors import Unavailable, code_of
from causeline.graph.engine.binding import BoundDocument
from causeline.graph.engine.containment import Crashed, from_outside
from causeline.graph.engine.draining import Drain
from causeline.graph.engine.step_events import Emitted, Event, Failure, Journal, LimitReached, Limits, Path, Retry, Status, Step
from causeline.policy import Clock

T = TypeVar("T")
BREATH = 0.002
"""Seconds of work after which the event loop gets its turn, so that deadlines and cancels are seen by a walk that never waits."""


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

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


class WalkTask:
    """One task that walks, as a part of what `parent` walks. `halted` is True once it must stop. While `busy`, it must not be cancelled."""

    __slots__ = ("busy", "halted", "parent", "task")

    def __init__(self, task: "asyncio.Task[Any]", parent: "WalkTask | None") -> None:
        self.task = task
        self.parent = parent
        self.busy = 0
        self.halted = parent is not None and parent.halted

    def is_part_of(self, walks: "list[WalkTask]") -> bool:
        """True if it is one of these or works for one of them."""
        walk: WalkTask | None = self
        while walk is not None:
            if walk in walks:
                return True
            walk = walk.parent
        return False


class Control:
    """Shared by every frame of an execution. `halted` is why it must stop, None while it may run; `gate` is shut when nothing new is to
    begin; `answers` are the answers to pauses by key; `steps` is the index of the next top-level step, `offset` how many more the document
    has made; `rows` is the number of the last Progress, `unwritten` those that do not count yet; `whole` says that the next step tells the
    whole position; `torn` is what a journal raised: nothing counts from then on; `over` is True once nothing is told any more."""

    def __init__(
        self,
        documents: Mapping[str, BoundDocument],
        clock: Clock,
        limits: Limits,
        *,
        journal: Journal | None = None,
        services: Mapping[type, object] | None = None,
        sources: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        observers: tuple[object, ...] = (),
        first_step: int = 0,
        rows: int = 0,
        deps: Any = None,
        debug: bool = False,
    ) -> None:
        self.documents = documents
        self.clock = clock
        self.limits = limits
        self.journal = journal
        self.services: Mapping[type, object] = services or {}
        self.sources: Mapping[str, Any] = sources or {}
        self.answers: Mapping[str, Any] = answers or {}
        self.observers = observers
        self.deps = deps
        self.debug = debug
        self.steps = self.first_step = first_step
        self.offset = 0
        self.rows = rows
        self.unwritten: set[int] = set()
        self.whole = False
        self.deadline: float | None = None
        self.gate = Drain(getattr(journal, "owes", None))
        self.halted: Status | None = None
        self.failure: Failure | None = None
        self.torn: BaseException | None = None
        self.over = False
        self.warnings: list[Failure] = []
        self.on_emit: Callable[[Emitted], object] | None = getattr(journal, "on_emit", None)
        self.on_retry: Callable[[Retry], object] | None = getattr(journal, "on_retry", None)
        self.on_start: Callable[[int, str], object] | None = getattr(journal, "on_start", None)
        self.listen(None)
        self.ticks = time.monotonic
        self.breathe_at = 0.0
        self._walks: set[WalkTask] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
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
        self._halt(self._walks)

    def stop_part(self, walks: "list[WalkTask]") -> None:
        """Stop these soon, with all that works for them."""
        self._halt([walk for walk in self._walks if walk.is_part_of(walks)])

    def _halt(self, walks: "Iterable[WalkTask]") -> None:
        for walk in walks:
            walk.halted = True
        try:
            me = asyncio.current_task()
        except RuntimeError:  # outside of the event loop: whoever walks sees it at the next step
            return
        for walk in walks:
            if not walk.busy and walk.task is not me:
                walk.task.cancel()

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

    async def walk(self, work: Callable[[WalkTask], Awaitable[T]], parent: WalkTask | None = None) -> T:
        """Run `work` as something that may be interrupted, in the current task."""
        task = asyncio.current_task()
        assert task is not None
        self._loop = task.get_loop()
        walk = WalkTask(task, parent)
        walk.halted = walk.halted or self.halted is not None
        self._walks.add(walk)
        try:
            return await work(walk)
        finally:
            self._walks.discard(walk)

    async def together(self, walk: WalkTask, works: list[Callable[[WalkTask], Awaitable[None]]]) -> None:
        """Run several at once and wait for all; the waiting task is not interrupted, the works are."""
        walk.busy += 1
        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(self.walk(work, walk))
        finally:
            walk.busy -= 1

    async def in_thread(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """What a function returns in a thread, or raises there. Nobody waits for a function whose waiter was cancelled."""

        def kept() -> "tuple[Any, BaseException | None]":
            try:
                return function(argument), None
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited; no future takes a StopIteration
                return None, error

        value, error = await asyncio.to_thread(kept)
        if isinstance(error, StopIteration | asyncio.CancelledError):
            raise RuntimeError(f"the function raised {type(error).__name__}") from error
        if error is not None:
            raise error
        return value

    def failed(self, error: BaseException, walk: WalkTask, place: str) -> Exception:
        """What the walk caught as a failure of that place. Raises again what is none."""
        if self.gate.hands_back(error):
            raise error
        found = error if walk.halted else leaked(error, walk, place)
        if isinstance(found, Exception):
            return found
        raise error

    def caught(self, error: BaseException, walk: WalkTask, placement: str, path: Path) -> bool:
        """Asked by a walk that caught something: True if that ends the walk (it has stopped, or stops everything from here),
        False if the error must go on."""
        if isinstance(error, asyncio.CancelledError):
            if walk.halted:
                walk.task.uncancel()
            return walk.halted
        if isinstance(error, JournalFailed):
            self.stop("failed", failure_of(self.torn or error, placement, path))
            return True
        if isinstance(error, LimitReached):
            self.stop("failed", failure_of(error, placement, path))
            return True
        return False

    async def within(self, seconds: float, awaitable: Awaitable[T], walk: WalkTask, place: str) -> T:
        """Wait at most `seconds` on the clock. Raises NodeTimeout."""
        fired: list[bool] = []

        async def alarm() -> None:
            await self.clock.sleep(seconds)
            fired.append(True)
            walk.task.cancel()

        timer = self.spawn(alarm())
        try:
            found = await awaitable
        except asyncio.CancelledError:
            if not fired or walk.halted:
                raise
            walk.task.uncancel()
            raise late(place, seconds) from None
        finally:
            timer.cancel()
        if fired:
            walk.task.uncancel()
            raise late(place, seconds)
        return found

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a small task beside the walk; it is gone when the execution is."""
        task = asyncio.create_task(work)
        self._spare.add(task)
        task.add_done_callback(self._spare.discard)
        return task

    async def settle_tasks(self) -> None:
        """Cancel what was spawned and wait until it is gone. Nothing is emitted afterwards."""
        self.over = True
        left = list(self._spare)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def emit(self, path: Path, step: int, data: Any) -> None:
        """What `ctx.emit` calls for a visit, in whatever thread the node runs; what a journal refuses is raised there."""
        if self.over or (self.on_emit is None and self.deliver is None and not self.observers):
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._emit_from_thread(path, step, data)
            return
        event = Emitted(step, path, data)
        if self.on_emit is not None:
            self.on_emit(event)
        if self.observers:
            self.observe("on_emit", event)
        if self.deliver is not None:
            self.deliver(event)

    def _emit_from_thread(self, path: Path, step: int, data: Any) -> None:
        heard: Future[None] = Future()

        def hear() -> None:
            try:
                heard.set_result(self.emit(path, step, data))
            except Exception as error:  # noqa: BLE001 - raised again in the thread
                heard.set_exception(error)

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(hear)
            heard.result()

    def retrying(self, retry: Retry) -> None:
        """Tell that a try failed and another will follow."""
        if self.on_retry is not None:
            self.on_retry(retry)
        self.observe("on_retry", retry)

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


def leaked(error: BaseException, walk: WalkTask, place: str) -> BaseException:
    """The error itself, unless it is none that may go on: a CancelledError that nobody aimed at this walk is a failure of what was waited
    for, and whatever else a node raises that is no Exception is a failure of that node."""
    if isinstance(error, asyncio.CancelledError):
        if walk.task.cancelling():
            return error
        return WaitCancelled(f"{place}: something it waited for was cancelled", placement=place)
    if isinstance(error, Exception) or from_outside(error):
        return error
    return Crashed(error)


def late(place: str, seconds: float) -> NodeTimeout:
    """The error of a node that took too long."""
    return NodeTimeout(f"{place}: no outcome within {seconds} s; raise its timeout or make it faster", placement=place)


def failure_of(error: BaseException, placement: str, path: Path, *, code: str | None = None) -> Failure:
    """A Failure from an exception: its own code, else its class name."""
    return Failure(code or code_of(error), text_of(error), placement, path, error)


def text_of(error: BaseException) -> str:
    """What an error says, also where saying it fails."""
    try:
        return str(error) or type(error).__name__
    except BaseException:  # noqa: BLE001 - an error of the caller's own may do anything
        return type(error).__name__
