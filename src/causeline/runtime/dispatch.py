"""The runs this process drives: claim, heartbeat, notice cancels, take over what others left, hand back at the end.

Law: one task a run, none left behind; a claim is a compare-and-set in the store, so two processes never drive one run.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from causeline.errors import CauselineError, Conflict, Missing
from causeline.policy import Clock
from causeline.runtime.clock import iso
from causeline.runtime.feed import Feed
from causeline.runtime.lease import BEAT_SECONDS, LeaseWatch, evidently_gone, looked_up, new_holder, retire
from causeline.runtime.program import Program
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.runner import Loaded, Runner
from causeline.runtime.store import Store
from causeline.tools.scope import Recall

CANCEL_SECONDS = 0.05
WAIT_SECONDS = 1.0


@dataclass(slots=True)
class _Driven:
    task: asyncio.Task[None]
    loaded: Loaded | None = None
    cancelled: bool = False


class Dispatch:
    """Runs of one runtime in this process."""

    def __init__(self, store: Store, feed: Feed, clock: Clock, program_of: Callable[[Run], Program], recall: Recall) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.holder = new_holder()
        self._program_of = program_of
        self._recall = recall
        self._runners: dict[int, tuple[Program, Runner]] = {}
        self._driven: dict[str, _Driven] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._watch = LeaseWatch()
        self._broken: dict[str, BaseException] = {}

    def open(self) -> None:
        """Begin the heartbeat, and to listen for cancels from other processes."""
        self._keepers = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]

    async def close(self) -> None:
        """Hand back every run: stop it where it is, so that another process may go on at once."""
        for keeper in self._keepers:
            keeper.cancel()
        tasks = [*self._keepers, *self._waiting.values(), *(one.task for one in self._driven.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.clear()
        retire(self.holder)

    def drives(self, run_id: str) -> bool:
        return run_id in self._driven

    def accept(self, run: Run, *, known: bool) -> None:
        """Drive a run that was just stored: at once, or when its turn comes."""
        if known and (run.id in self._driven or run.id in self._waiting or run.status not in ACTIVE):
            return
        if run.status == "running" and not known:
            self._drive(run)
        elif run.status == "queued":
            self._waiting[run.id] = asyncio.create_task(self._queue(run))

    async def claim(self, run: Run) -> bool:
        """Take a run over and drive it. False if somebody was quicker."""
        claimed = await self.store.claim(run.owner, run.id, self.holder, epoch=run.epoch, beat=run.beat, at=iso(self.clock.now()))
        if claimed is None:
            return False
        self._drive(claimed)
        return True

    async def gone(self, run: Run) -> bool:
        """Whether the holder of a run is gone. Waits out a lease where that cannot be looked up."""
        if run.holder == self.holder:
            return run.id not in self._driven
        while not self._watch.expired(run, self.clock.monotonic()):
            if run.holder is None or looked_up(run.holder):
                return False
            await self.clock.sleep(WAIT_SECONDS)
            fresh = (await self.store.rows(Run, owner=None, id=run.id))[0]
            if fresh.status not in ACTIVE or (fresh.epoch, fresh.beat) != (run.epoch, run.beat):
                return False
        self._watch.forget(run.id)
        return True

    async def rescue(self, owner: str, session: str) -> None:
        """Take over the session's run if its process is evidently gone, so that it goes on before a new one starts."""
        for run in await self.store.rows(Run, owner=owner, session=session, status=("running",)):
            if run.id not in self._driven and (run.holder == self.holder or evidently_gone(run.holder)):
                with suppress(Missing):  # a run of an agent that is not known here is left for a process that knows it
                    self._program_of(run)
                    await self.claim(run)

    async def take(self, most: int) -> None:
        """Claim what waits for somebody: queued runs whose turn it is, and runs whose holder is gone; at most `most` at once."""
        for run in await self.store.rows(Run, owner=None, status=("queued", "running")):
            if len(self._driven) >= most:
                return
            if run.id in self._driven or run.id in self._waiting:
                continue
            with suppress(Missing):
                self._program_of(run)
                if run.status == "queued" or self._watch.expired(run, self.clock.monotonic()):
                    await self.claim(run)

    def stop(self, run_id: str) -> None:
        """Ask a run of this process to end as cancelled."""
        driven = self._driven.get(run_id)
        if driven is not None:
            driven.cancelled = True
            if driven.loaded is not None:
                driven.loaded.cancel()

    async def cancel(self, run_id: str) -> None:
        """Stop a run of this process and wait for its end."""
        self.stop(run_id)
        await self.wait(run_id)

    async def wait(self, run_id: str) -> None:
        """Wait until this process does not drive the run, nor has it queued, any more. Raises what kept the
        run from being recorded, such as Unavailable for a store that cannot write; the run can then be resumed."""
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            await asyncio.wait([waiting])
        driven = self._driven.get(run_id)
        if driven is not None:
            await asyncio.wait([driven.task])
        broken = self._broken.get(run_id)
        if broken is not None:
            raise broken

    # inside

    def _drive(self, run: Run) -> None:
        self._broken.pop(run.id, None)
        self.feed.begin(run.id)
        task = asyncio.create_task(self._run(run), name=f"run {run.id}")
        self._driven[run.id] = _Driven(task)

    async def _run(self, run: Run) -> None:
        try:
            runner = self._runner(self._program_of(run))
            driven = self._driven[run.id]
            try:
                driven.loaded = await runner.load(run)
            except CauselineError as error:
                await runner.fail(run, error)
                return
            if driven.cancelled or run.cancel_requested:
                driven.loaded.cancel()
            await runner.drive(driven.loaded)
        except Conflict:
            return
        except Exception as error:  # noqa: BLE001  (kept for whoever waits for this run)
            self._broken[run.id] = error
        finally:
            self._driven.pop(run.id, None)
            self.feed.end(run.id)

    def _runner(self, program: Program) -> Runner:
        known = self._runners.get(id(program))
        if known is None:
            known = self._runners[id(program)] = (program, Runner(self.store, self.feed, self.clock, program, self._recall))
        return known[1]

    async def _queue(self, run: Run) -> None:
        """Wait for a queued run's turn, then drive it, unless another process does."""
        token = 0
        try:
            while True:
                rows = await self.store.rows(Run, owner=run.owner, id=run.id)
                if not rows or rows[0].status != "queued" or await self.claim(rows[0]):
                    return
                await self.rescue(run.owner, run.session)
                token = await self.store.changed(token, WAIT_SECONDS)
        finally:
            self._waiting.pop(run.id, None)

    async def _beat(self) -> None:
        while True:
            await self.clock.sleep(BEAT_SECONDS)
            if not self._driven:
                continue
            with suppress(CauselineError):
                held = {run.id for run in await self.store.renew(self.holder)}
                for run_id, driven in list(self._driven.items()):
                    if run_id not in held and driven.loaded is not None:
                        driven.task.cancel()

    async def _listen(self) -> None:
        """Cancels asked for by other processes."""
        token = 0
        while True:
            with suppress(CauselineError):
                token = await self.store.changed(token, WAIT_SECONDS)
                if self._driven:
                    for run in await self.store.rows(Run, owner=None, status=("running",)):
                        if run.cancel_requested and run.holder == self.holder:
                            self.stop(run.id)
            await self.clock.sleep(CANCEL_SECONDS)
