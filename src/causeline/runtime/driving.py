"""The runs that this process executes: claimed, begun, taken up again after a fault of the store, brought to a stop.

Law: one task a run, none left behind; a claim is a compare-and-set in the store, so two processes never drive one run.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from causeline.errors import CauselineError, Conflict, Misuse, Unavailable
from causeline.policy import Clock
from causeline.runtime.dispatch import Given
from causeline.runtime.feed import Feed, Key
from causeline.runtime.program import Program
from causeline.runtime.programs import Programs
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.run_ends import end_as_cancelled, end_as_failed, hand_back
from causeline.runtime.runner import Loaded, Runner
from causeline.runtime.store import Store
from causeline.runtime.times import iso
from causeline.runtime.warm_branches import WarmBranches
from causeline.tools.tool_timeout import end_stubborn

HEAL_SECONDS = 5.0
HEALS = 10
TOLD_AFTER = 4
"""A run that the store kept from being recorded is taken up again, at most so many times without getting a step
further; whoever waits for it is told after fewer."""
HELD_UP_AFTER = 7
"""A run that has something to write and cannot is tried again for as long as it is held; whoever waits for it is told after so many
tries, which take about six seconds."""
STUBBORN_SECONDS = 5.0
"""How long a run may take to stop that is stopped; what does not stop by then is left."""
RUNNERS = 256
"""Programs whose checked form is kept."""


@dataclass(slots=True)
class _Driven:
    task: asyncio.Task[None]
    loaded: Loaded | None = None
    cancelled: bool = False

    def leave(self) -> None:
        """Stop executing it here. What waits for the store is tried once more, no longer."""
        if self.loaded is not None:
            self.loaded.recorder.writes.hurry()
        self.task.cancel()


@dataclass(slots=True)
class _Broken:
    error: Exception
    times: int


class Driving:
    """Executes runs under the name `holder`."""

    def __init__(
        self, store: Store, feed: Feed, clock: Clock, programs: Programs, holder: str, services: Mapping[type, object], deps: object = None
    ) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.programs = programs
        self.holder = holder
        self._services = services
        self._deps = deps
        self._warm = WarmBranches()
        self._runners: dict[int, tuple[Program, Runner]] = {}
        self._driven: dict[Key, _Driven] = {}
        self._healing: dict[Key, asyncio.Task[None]] = {}
        self._broken: dict[Key, _Broken] = {}
        self._held_up: dict[Key, _Broken] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._driven)

    def __contains__(self, key: Key) -> bool:
        """Whether this process executes the run."""
        return key in self._driven

    def has(self, key: Key) -> bool:
        """Whether the run is this process's to go on with: it executes it, or waits for the store in order to."""
        return key in self._driven or key in self._healing

    def leaves(self, key: Key) -> bool:
        """Whether a run of this process is being handed back, so that it goes on elsewhere, and with it all that hangs on it."""
        driven = self._driven.get(key)
        return self._closing or driven is None or driven.task.cancelling() > 0

    def tasks(self, key: Key) -> list[asyncio.Task[None]]:
        """What has to end before the run has ended here."""
        driven, healing = self._driven.get(key), self._healing.get(key)
        return [*((driven.task,) if driven else ()), *((healing,) if healing else ())]

    # beginning and stopping

    async def claim(self, run: Run, given: Given | None = None) -> bool:
        """Take a run as it was read and execute it. False if somebody was quicker."""
        claimed = await self.store.claim(run.owner, run.id, self.holder, epoch=run.epoch, beat=run.beat, at=iso(self.clock.now()))
        if claimed is None:
            return False
        if self._closing:
            await hand_back(self.store, self.clock, claimed)
            return False
        self.drive(claimed, given)
        return True

    def drive(self, run: Run, given: Given | None = None) -> None:
        """Execute a run that this process holds, unless it does already."""
        if run.key in self._driven:
            return
        self.feed.begin(run.key)
        self._driven[run.key] = _Driven(asyncio.create_task(self._run(run, given or Given()), name=f"run {run.id}"))

    def stop(self, key: Key) -> None:
        """Ask a run of this process to end as cancelled."""
        driven = self._driven.get(key)
        if driven is not None:
            driven.cancelled = True
            if driven.loaded is not None:
                driven.loaded.cancel()

    def keep_only(self, held: Collection[Key]) -> None:
        """These runs are still held in the store's eyes; any other one is somebody else's by now."""
        for key, driven in self._driven.items():
            if key not in held and driven.loaded is not None:
                driven.leave()

    async def end(self, run: Run) -> None:
        """Claim a run and end it as cancelled where it stands, without its program."""
        claimed = await self.store.claim(run.owner, run.id, self.holder, epoch=run.epoch, beat=run.beat, at=iso(self.clock.now()))
        if claimed is not None:
            await end_as_cancelled(self.store, self.feed, self.clock, claimed)

    async def close(self, grace: float = 0.0) -> None:
        """Hand every run back, so that another process may go on at once: as soon as what has begun is finished, at the latest
        after `grace` seconds. Cancelling this leaves out the rest of the grace."""
        self._closing = True
        for task in self._healing.values():
            task.cancel()
        handing = [asyncio.create_task(self._hand_over(driven, grace)) for driven in self._driven.values()]
        try:
            if handing:
                await asyncio.wait(handing)
        finally:
            for task in handing:
                task.cancel()
            await asyncio.shield(self._leave_at_once())

    async def _hand_over(self, driven: _Driven, grace: float) -> None:
        if driven.loaded is not None and grace > 0:
            driven.loaded.drain()
            await asyncio.wait((driven.task,), timeout=grace)
        driven.leave()
        await asyncio.wait((driven.task,), timeout=STUBBORN_SECONDS)

    async def _leave_at_once(self) -> None:
        tasks = [*self._healing.values(), *(driven.task for driven in self._driven.values())]
        for driven in self._driven.values():
            driven.leave()
        for task in self._healing.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STUBBORN_SECONDS)
        await self._leave_nothing()
        await end_stubborn()

    async def _leave_nothing(self) -> None:
        """Hand back what is still held in the store's eyes: runs whose task never began or was healing, and those that a caller was
        cancelled in starting. While this process lives, others would wait for it."""
        with suppress(CauselineError):
            for run in await self.store.rows(Run, owner=None, status=("running",)):
                if run.holder == self.holder:
                    await hand_back(self.store, self.clock, run)

    # faults

    def fault(self, key: Key) -> Exception | None:
        """Why whoever waits for a run need not wait any longer: what kept it from being recorded, or that this is closed."""
        trouble = self.trouble(key)
        if trouble is not None:
            return trouble
        broken = self._broken.get(key)
        if broken is not None and (broken.times >= TOLD_AFTER or key not in self._healing) and key not in self._driven:
            return broken.error
        if self._closing:
            return Misuse(
                f"this runtime is closed before run {key[1]} has ended; the run is queued: open another runtime with "
                "`async with causeline.open(...)` and resume it",
                run=key[1],
            )
        return None

    def trouble(self, key: Key) -> Exception | None:
        """Why a run that goes on here cannot be recorded for some time now, if that is so."""
        held_up = self._held_up.get(key)
        return None if held_up is None or held_up.times < HELD_UP_AFTER else _not_recorded(held_up.error, key)

    def ails(self, key: Key) -> bool:
        """Whether something has kept the run from being recorded, so far."""
        return key in self._broken or key in self._held_up

    # inside

    async def _run(self, run: Run, given: Given) -> None:
        driven = self._driven[run.key]
        try:
            program = given.program or self.programs.of(run)
            await self.programs.keep_open(program)
            driven.loaded = await self.runner(program).load(run, first_given(given.deps, getattr(program, "deps", None), self._deps))
            driven.loaded.recorder.writes.told = partial(self._waits, run.key)
            if driven.cancelled or run.cancel_requested:
                driven.loaded.cancel()
            if self._closing:
                await program.close()
                return
            await self.runner(program).drive(driven.loaded)
            self._broken.pop(run.key, None)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  (recorded with the run, or kept for whoever waits for it)
            await self._fell(
                run,
                given,
                error,
                progressed=driven.loaded is not None and driven.loaded.recorder.steps > 0,
                cancelled=driven.loaded is None and (driven.cancelled or run.cancel_requested),
            )
        finally:
            self._held_up.pop(run.key, None)
            if self._driven.get(run.key) is driven:
                del self._driven[run.key]
            self.feed.end(run.key)

    def _waits(self, key: Key, error: Unavailable | None, tries: int) -> None:
        """A run waits for the store with something to write, or does so no longer."""
        if error is None:
            self._held_up.pop(key, None)
        else:
            self._held_up[key] = _Broken(error, tries)
            if tries == HELD_UP_AFTER:
                self.feed.stir(key)

    async def _fell(self, run: Run, given: Given, error: BaseException, *, progressed: bool, cancelled: bool) -> None:
        """A run could not go on. Somebody else may have it; else it ends as failed, or as cancelled if it was to stop anyway; where the
        store does not answer it is taken up again later."""
        if isinstance(error, Conflict) and error.code == "lost_lease":
            return
        if not isinstance(error, Unavailable):
            try:
                if cancelled:
                    await end_as_cancelled(self.store, self.feed, self.clock, run)
                else:
                    await end_as_failed(self.store, self.feed, self.clock, run, error)
                return
            except Conflict:
                return
            except Exception as second:  # noqa: BLE001  (as above)
                error = second
        before = self._broken.get(run.key)
        broken = self._broken[run.key] = _Broken(error, 1 if before is None or progressed else before.times + 1)
        if isinstance(error, Unavailable) and broken.times <= HEALS and not self._closing:
            self._healing[run.key] = asyncio.create_task(self._heal(run, given))

    async def _heal(self, run: Run, given: Given) -> None:
        """Claim a run again once the store answers, and go on from what is durable."""
        broken = self._broken[run.key]
        try:
            while broken.times <= HEALS:
                await self.clock.sleep(min(0.05 * 2**broken.times, HEAL_SECONDS))
                try:
                    row = next(iter(await self.store.rows(Run, owner=run.owner, id=run.id)), None)
                    if row is None or row.status not in ACTIVE or row.holder != self.holder:
                        self._broken.pop(run.key, None)
                    else:
                        await self.claim(row, given)
                    return
                except Unavailable as error:
                    broken.error, broken.times = error, broken.times + 1
        finally:
            self._healing.pop(run.key, None)

    def runner(self, program: Program) -> Runner:
        """What drives the runs of a program, made once. Raises DocumentError for a graph that cannot run."""
        known = self._runners.get(id(program))
        if known is None:
            while len(self._runners) >= RUNNERS:
                del self._runners[next(iter(self._runners))]
            known = self._runners[id(program)] = (program, Runner(self.store, self.feed, self.clock, program, self._services, self._warm))
        return known[1]


def _not_recorded(error: Exception, key: Key) -> Unavailable:
    """What whoever waits for a run is told that cannot be recorded at the moment."""
    kept = "What it has done is kept, and written as soon as that is possible while this process runs"
    return Unavailable(f"run {key[1]} cannot be recorded: {error}. {kept}", run=key[1])


def first_given(*values: object) -> object:
    """The first value that is not None."""
    return next((value for value in values if value is not None), None)
