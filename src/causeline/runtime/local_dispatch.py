"""The dispatcher that drives runs in this process: when their turn comes, when their process is gone, until they are stopped.

Law: a session has one task that brings its runs on, one after the other, however many wait. What this process may not drive, or somebody
else drives, is left alone and looked at again when the store has changed.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from causeline.errors import CauselineError, Conflict, Missing, Unavailable
from causeline.policy import Clock
from causeline.runtime.chains import Chains
from causeline.runtime.dispatch import Given
from causeline.runtime.driving import Driving
from causeline.runtime.feed import Feed, Key
from causeline.runtime.heartbeat import LoopHeart, ThreadHeart
from causeline.runtime.lease import LeaseWatch, describe, new_holder, retire
from causeline.runtime.programs import Programs
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.store import Store
from causeline.runtime.times import iso

TROUBLE_SECONDS = 1.0
"""How often whoever waits for a run looks whether the store keeps it from being recorded."""
CANCEL_SECONDS = 0.05
WAIT_SECONDS = 1.0
TURN_SECONDS = 10.0
"""How often somebody who waits for a run that waits for its turn here looks whether another process has ended it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run that waits for its turn here. `over` is done when it does not any more."""

    given: Given
    queue: int
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class _Silent:
    """Whether the holder of a run has said anything since somebody first asked."""

    def __init__(self) -> None:
        self._first: tuple[str, int, int] | None = None

    def still(self, run: Run) -> bool:
        now = (run.id, run.epoch, run.beat)
        self._first = self._first or now
        return now == self._first


class LocalDispatch:
    """See `causeline.runtime.dispatch.Dispatch`."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        clock: Clock,
        programs: Programs,
        services: Mapping[type, object],
        *,
        lease_seconds: float,
        beat_seconds: float,
        heart_store: Any = None,
        deps: Any = None,
    ) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.programs = programs
        self.holder = new_holder()
        self.driving = Driving(store, feed, clock, programs, self.holder, services, deps)
        self.watch = LeaseWatch(lease_seconds)
        self.on_lacking: Callable[[Run], object] = lambda _run: None
        """Is told the first run of each agent that is not known here."""
        self._lacking: set[str] = set()
        self._keepers: dict[Key, asyncio.Task[None]] = {}
        self._waiting: dict[Key, dict[str, _Waiting]] = {}
        self._listener: asyncio.Task[None] | None = None
        needed, held = lambda: len(self.driving) > 0, self.driving.keep_only
        self._heart = (
            ThreadHeart(heart_store, self.holder, beat_seconds, needed, held)
            if heart_store is not None
            else LoopHeart(store, clock, self.holder, beat_seconds, needed, held)
        )
        self._closing = False
        feed.fault, feed.trouble = self.driving.fault, self.driving.trouble

    def open(self) -> None:
        """Begin to listen for cancels from other processes, and to speak for the runs of this one."""
        self._listener = asyncio.create_task(self._listen())
        self._heart.start()

    # the protocol

    async def accept(self, run: Run, given: Given | None = None, *, take_over: bool = False) -> None:
        if run.status not in ACTIVE or self.driving.has(run.key):
            return
        if run.status == "running" and run.holder == self.holder and not self._closing:
            self.driving.drive(run, given)  # stored as this process's a moment ago
            return
        if take_over:
            await self._take_over(run, given or Given())
        elif run.status == "queued":
            self._wait(run, given or Given())
        self._keep((run.owner, run.session))

    async def cancel(self, owner: str, run_id: str) -> Run:
        await self._wake(owner, run_id)
        run = await self.store.cancel(owner, run_id, iso(self.clock.now()))
        if run.status != "queued":
            self._drop(run)
        if run.status == "running":
            if not self.driving.has(run.key):
                await self._look((owner, run.session))
            self.driving.stop(run.key)
            await self._wait_here(run.key)
            await self._bury(owner, run_id)
            await self._wait_here(run.key)
        for below in await Chains(self.store, owner).active_below(run):
            await self.cancel(owner, below.id)
        return next(iter(await self.store.rows(Run, owner=owner, id=run_id)), run)

    async def ended(self, owner: str, run_id: str) -> Run:
        token, key = 0, (owner, run_id)
        while True:
            await self._wait_here(key)
            try:
                rows = await self.store.rows(Run, owner=owner, id=run_id)
            except CauselineError as error:
                raise (self.driving.fault(key) or error) from error
            if not rows:
                raise Missing(f"no run {run_id!r}", run=run_id)
            if rows[0].status not in ACTIVE:
                return rows[0]
            fault = self.driving.fault(key)
            if fault is not None:
                raise fault
            waiting = self._waiting.get((owner, rows[0].session), {}).get(run_id)
            if waiting is not None:
                await asyncio.wait((waiting.over,), timeout=TURN_SECONDS)
            elif not self.driving.has(key):
                token = await self.store.changed(token, WAIT_SECONDS)

    async def close(self, grace: float = 0.0) -> None:
        self._closing = True
        for task in (*self._keepers.values(), *((self._listener,) if self._listener else ())):
            task.cancel()
        try:
            await self.driving.close(grace)
        finally:
            await self._heart.stop()
            retire(self.holder)

    # for workers

    async def take(self, most: int) -> None:
        """Claim what waits for somebody: queued runs whose turn it is, and runs whose holder is gone; at most `most` at once."""
        for run in await self.store.rows(Run, owner=None, status=("queued", "running"), turn=True):
            if len(self.driving) >= most:
                return
            if not self.driving.has(run.key) and self._may_have(run) and await self.driving.claim(run):
                self._keep((run.owner, run.session))

    async def adopt(self, agents: Collection[str]) -> None:
        """Bring on what processes that are gone, or stay silent for a lease, have left of runs of these agents."""
        with suppress(Unavailable):
            for run in await self.store.rows(Run, owner=None, status=("queued", "running"), turn=True):
                if run.agent in agents:
                    self._keep((run.owner, run.session))

    async def gone(self, run: Run) -> bool:
        """Whether the holder of a run is gone. Waits until its counter moves, at most for a lease."""
        if run.holder == self.holder:
            return not self.driving.has(run.key)
        while not self.watch.expired(run, self.clock.monotonic()):
            await self.clock.sleep(min(WAIT_SECONDS, self.watch.lease_seconds / 4))
            fresh = next(iter(await self.store.rows(Run, owner=run.owner, id=run.id)), None)
            if fresh is None or fresh.status not in ACTIVE or (fresh.epoch, fresh.beat) != (run.epoch, run.beat):
                return False
        self.watch.forget(run)
        return True

    # a session's turn

    def _wait(self, run: Run, given: Given) -> None:
        waiting = self._waiting.setdefault((run.owner, run.session), {})
        if run.id not in waiting:
            waiting[run.id] = _Waiting(given, run.queue)

    def _drop(self, run: Run) -> None:
        """The run waits for its turn no more."""
        waiting = self._waiting.get((run.owner, run.session), {}).pop(run.id, None)
        if waiting is not None:
            waiting.end()

    def _let_go(self, session: Key, turn: int | None) -> None:
        """Runs of a session that waited here and came before the one whose turn it is are over: another process has driven them."""
        waiting = self._waiting.get(session, {})
        for name, entry in list(waiting.items()):
            if turn is not None and entry.queue >= turn:
                return
            del waiting[name]
            entry.end()

    def _keep(self, session: Key) -> None:
        if session not in self._keepers and not self._closing:
            self._keepers[session] = asyncio.create_task(self._bring_on(session))

    async def _bring_on(self, session: Key) -> None:
        """Drive the runs of a session in their order, as far as they are this process's to drive."""
        token, silent = 0, _Silent()
        try:
            while True:
                try:
                    run = await self._look(session)
                    if run is not None:
                        await self._ended_here(run.key)
                        continue
                    if not await self._has_more(session, silent):
                        return
                    token = await self.store.changed(token, WAIT_SECONDS)
                except Unavailable:
                    await self.clock.sleep(WAIT_SECONDS)
        finally:
            self._keepers.pop(session, None)
            for waiting in self._waiting.pop(session, {}).values():
                waiting.end()

    async def _look(self, session: Key) -> Run | None:
        """Drive the run of a session that is next, and return it; None if it is not this process's to drive."""
        active = await self.store.rows(Run, owner=session[0], session=session[1], status=("queued", "running"), turn=True)
        self._let_go(session, active[0].queue if active else None)
        if not active:
            return None
        run = active[0]
        if self.driving.has(run.key):
            return run
        waiting = self._waiting.get(session, {}).get(run.id)
        given = waiting.given if waiting is not None else None
        if self.driving.ails(run.key) or not self._may_have(run, given) or not await self.driving.claim(run, given):
            return None
        self._drop(run)
        return run

    async def _has_more(self, session: Key, silent: "_Silent") -> bool:
        """Whether anything in a session may yet be this process's to drive: what waits here, what waits behind a run of another process,
        and such a run itself for as long as its holder says nothing."""
        if self._waiting.get(session):
            return True
        active = await self.store.rows(Run, owner=session[0], session=session[1], status=("queued", "running"), limit=2)
        if not active or active[0].status != "running" or not self.programs.knows(active[-1]):
            return False
        return len(active) > 1 or silent.still(active[0])

    def _may_have(self, run: Run, given: Given | None = None) -> bool:
        """Whether a run is for anybody to take, and its agent is known here."""
        if run.status == "running" and run.holder != self.holder and not self.watch.expired(run, self.clock.monotonic()):
            return False
        if (given is not None and given.program is not None) or self.programs.knows(run):
            return True
        if run.agent not in self._lacking:
            self._lacking.add(run.agent)
            self.on_lacking(run)
        return False

    # another process's run

    async def _take_over(self, run: Run, given: Given) -> None:
        held = run.status == "running" and not await self.gone(run)
        if not held and await self.driving.claim(run, given):
            return
        if self.driving.has(run.key):
            return  # this process has brought it on by itself in the meantime
        fresh = next(iter(await self.store.rows(Run, owner=run.owner, id=run.id)), None)
        if fresh is not None and fresh.status == "queued":
            self._wait(fresh, given)  # others of its session come first
        elif fresh is not None and fresh.status == "running":
            who = f"is held by {describe(fresh.holder)}, which is alive" if held else "was taken by somebody else just now"
            raise Conflict(f"run {run.id} {who}", code="run_held", run=run.id)

    async def _bury(self, owner: str, run_id: str) -> None:
        """End a cancelled run whose process is gone, so that its session is free again: with its program where that is known, else
        as it stands. Whether a process is gone is waited out."""
        for run in await self.store.rows(Run, owner=owner, id=run_id, status=("running",)):
            if run.holder == self.holder or not await self.gone(run):
                return
            await (self.driving.claim(run) if self.programs.knows(run) else self.driving.end(run))

    async def _wake(self, owner: str, run_id: str) -> None:
        """Take up a queued run that is to be cancelled and has begun, or has something to say, so that it ends in good order, with what was
        said in the history and an event that tells its end. One whose turn it is not ends without."""
        for run in await self.store.rows(Run, owner=owner, id=run_id, status=("queued",)):
            waiting = self._waiting.get((owner, run.session), {}).get(run.id)
            given = waiting.given if waiting is not None else None
            if (given is not None and given.program is not None) or self.programs.knows(run):
                if run.started_at is not None or run.input:
                    await self.driving.claim(run, given)
            elif run.started_at is not None:
                await self.driving.end(run)

    # inside

    async def _wait_here(self, key: Key) -> None:
        """Wait until this process does not execute the run any more. Raises what kept the run from being recorded, such as Unavailable for
        a store that cannot write; it is taken up again when that is over."""
        while True:
            fault = self.driving.fault(key) if self.driving.ails(key) else None
            if fault is not None:
                raise fault
            tasks = self.driving.tasks(key)
            if not tasks:
                return
            timeout = CANCEL_SECONDS if self.driving.ails(key) else TROUBLE_SECONDS
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def _ended_here(self, key: Key) -> None:
        while tasks := self.driving.tasks(key):
            await asyncio.wait(tasks)

    async def _listen(self) -> None:
        """Cancels asked for by other processes."""
        token = 0
        while True:
            with suppress(CauselineError):
                token = await self.store.changed(token, WAIT_SECONDS)
                if len(self.driving):
                    for run in await self.store.rows(Run, owner=None, status=("running",)):
                        if run.cancel_requested and run.holder == self.holder:
                            self.driving.stop(run.key)
            await self.clock.sleep(CANCEL_SECONDS)
