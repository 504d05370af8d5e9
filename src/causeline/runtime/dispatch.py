"""The runs this process drives: claim, heartbeat, notice cancels, take over what others left, hand back at the end.

Law: one task a run, none left behind; a claim is a compare-and-set in the store, so two processes never drive one run.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from causeline.errors import CauselineError, Conflict, Missing, Misuse, Unavailable
from causeline.policy import Clock
from causeline.runtime.feed import Feed, Key
from causeline.runtime.lease import BEAT_SECONDS, LEASE_SECONDS, LeaseWatch, evidently_gone, looked_up, new_holder, retire
from causeline.runtime.program import Program
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.run_ends import end_as_cancelled, end_as_failed, hand_back
from causeline.runtime.runner import Loaded, Runner
from causeline.runtime.store import Store
from causeline.runtime.times import iso

CANCEL_SECONDS = 0.05
WAIT_SECONDS = 1.0
HEAL_SECONDS = 5.0
HEALS = 10
TOLD_AFTER = 4
"""A run that the store kept from being recorded is taken up again, at most so many times without getting a step
further; whoever waits for it is told after fewer."""


@dataclass(slots=True)
class _Driven:
    task: asyncio.Task[None]
    loaded: Loaded | None = None
    cancelled: bool = False


@dataclass(slots=True)
class _Broken:
    error: Exception
    times: int


class Dispatch:
    """Runs of one runtime in this process. `lease_seconds` is how long another holder's counter may stand still, `beat_seconds`
    how often this one's moves."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        clock: Clock,
        program_of: Callable[[Run], Program],
        services: Mapping[type, object],
        *,
        lease_seconds: float = LEASE_SECONDS,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.holder = new_holder()
        self._program_of = program_of
        self._services = services
        self._beat_seconds = beat_seconds
        self._runners: dict[int, tuple[Program, Runner]] = {}
        self._driven: dict[Key, _Driven] = {}
        self._waiting: dict[Key, asyncio.Task[None]] = {}
        self._healing: dict[Key, asyncio.Task[None]] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._watch = LeaseWatch(lease_seconds)
        self._broken: dict[Key, _Broken] = {}
        self._open = self._closing = False
        feed.fault = self.fault

    def open(self) -> None:
        """Begin the heartbeat, and to listen for cancels from other processes. Raises Misuse if it was closed."""
        if self._closing:
            self.check_open()
        self._open = True
        self._keepers = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]

    async def close(self) -> None:
        """Hand back every run: stop it where it is, so that another process may go on at once."""
        self._closing = True
        tasks = [*self._keepers, *self._waiting.values(), *self._healing.values(), *(one.task for one in self._driven.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.clear()
        await self._leave_nothing()
        retire(self.holder)

    def check_open(self) -> None:
        """Raises Misuse unless this is open."""
        if self._closing:
            raise Misuse("this runtime is closed; open another one with `async with causeline.open(...)`")
        if not self._open:
            raise Misuse("this runtime is not open yet; use `async with causeline.open(...) as runtime:`")

    def fault(self, key: Key) -> Exception | None:
        """Why whoever waits for a run need not wait any longer: what kept it from being recorded, or that this is closed."""
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

    async def _leave_nothing(self) -> None:
        """Hand back what is still held in the store's eyes: runs whose task never began or was healing, and those that a caller was
        cancelled in starting. While this process lives, others would wait for it."""
        with suppress(CauselineError):
            for run in await self.store.rows(Run, owner=None, status=("running",)):
                if run.holder == self.holder:
                    await hand_back(self.store, self.clock, run)

    def drives(self, owner: str, run_id: str) -> bool:
        return (owner, run_id) in self._driven

    def leaves(self, owner: str, run_id: str) -> bool:
        """Whether a run of this process is being handed back, so that it goes on elsewhere, and with it all that hangs on it."""
        driven = self._driven.get((owner, run_id))
        return self._closing or driven is None or driven.task.cancelling() > 0

    def accept(self, run: Run, program: Program | None = None, *, known: bool) -> None:
        """Drive a run that was just stored: at once, or when its turn comes."""
        if known and (run.key in self._driven or run.key in self._waiting or run.status not in ACTIVE):
            return
        if run.status == "running" and not known:
            self._drive(run, program)
        elif run.status == "queued":
            self._waiting[run.key] = asyncio.create_task(self._queue(run, program))

    async def claim(self, run: Run, program: Program | None = None) -> bool:
        """Take a run over and drive it. False if somebody was quicker."""
        claimed = await self.store.claim(run.owner, run.id, self.holder, epoch=run.epoch, beat=run.beat, at=iso(self.clock.now()))
        if claimed is None:
            return False
        self._drive(claimed, program)
        return True

    async def gone(self, run: Run) -> bool:
        """Whether the holder of a run is gone. Waits out a lease where that cannot be looked up."""
        if run.holder == self.holder:
            return run.key not in self._driven
        while not self._watch.expired(run, self.clock.monotonic()):
            if run.holder is None or looked_up(run.holder):
                return False
            await self.clock.sleep(WAIT_SECONDS)
            fresh = next(iter(await self.store.rows(Run, owner=run.owner, id=run.id)), None)
            if fresh is None or fresh.status not in ACTIVE or (fresh.epoch, fresh.beat) != (run.epoch, run.beat):
                return False
        self._watch.forget(run)
        return True

    async def rescue(self, owner: str, session: str) -> None:
        """Take over the session's run if nobody drives it, so that it goes on before a new one starts: its process is evidently
        gone, or has handed it back."""
        for run in next_ones(await self.store.rows(Run, owner=owner, session=session, status=("queued", "running"))):
            if run.key in self._driven or run.key in self._waiting or run.key in self._healing:
                continue
            if run.status == "running" and run.holder != self.holder and not evidently_gone(run.holder):
                continue
            if self._can_drive(run):
                await self.claim(run)

    async def take(self, most: int) -> None:
        """Claim what waits for somebody: queued runs whose turn it is, and runs whose holder is gone; at most `most` at once."""
        for run in next_ones(await self.store.rows(Run, owner=None, status=("queued", "running"))):
            if len(self._driven) >= most:
                return
            if run.key in self._driven or run.key in self._waiting or run.key in self._healing:
                continue
            if self._can_drive(run) and (run.status == "queued" or self._watch.expired(run, self.clock.monotonic())):
                await self.claim(run)

    def _can_drive(self, run: Run) -> bool:
        """Whether the run's agent is known here, or can be built. If not it is left for a process that knows it."""
        try:
            self._program_of(run)
        except CauselineError:
            return False
        return True

    def stop(self, owner: str, run_id: str) -> None:
        """Ask a run of this process to end as cancelled."""
        driven = self._driven.get((owner, run_id))
        if driven is not None:
            driven.cancelled = True
            if driven.loaded is not None:
                driven.loaded.cancel()

    async def cancel(self, owner: str, run_id: str) -> Run:
        """Ask a run of any process to stop, and wait for its end where that is this one; one whose process is gone is taken over and
        ended. What it has started below itself is stopped with it. Raises Missing."""
        await self._wake(owner, run_id)
        run = await self.store.cancel(owner, run_id, iso(self.clock.now()))
        if run.status == "running":
            await self.rescue(owner, run.session)
            self.stop(owner, run_id)
            await self.wait(owner, run_id)
            await self._bury(owner, run_id)
            await self.wait(owner, run_id)
        for below in await self.store.rows(Run, owner=owner, status=("queued", "running")):
            if below.parent_run == run_id and below.parent_call is not None:
                await self.cancel(owner, below.id)
        return run

    async def _bury(self, owner: str, run_id: str) -> None:
        """End a cancelled run whose process is gone, so that its session is free again: with its program where that is known, else
        as it stands. Whether a process elsewhere is gone is waited out."""
        for run in await self.store.rows(Run, owner=owner, id=run_id, status=("running",)):
            if run.holder == self.holder or not await self.gone(run):
                return
            await (self.claim(run) if self._can_drive(run) else self._end(run))

    async def _wake(self, owner: str, run_id: str) -> None:
        """Take up a run that was handed back in its middle, so that it ends in good order, with an event that says so."""
        for run in await self.store.rows(Run, owner=owner, id=run_id, status=("queued",)):
            if run.started_at is None or run.key in self._waiting:
                continue
            if self._can_drive(run):
                await self.claim(run)
            else:
                await self._end(run)

    async def _end(self, run: Run) -> None:
        claimed = await self.store.claim(run.owner, run.id, self.holder, epoch=run.epoch, beat=run.beat, at=iso(self.clock.now()))
        if claimed is not None:
            await end_as_cancelled(self.store, self.feed, self.clock, claimed)

    async def wait(self, owner: str, run_id: str) -> None:
        """Wait until this process does not drive the run, nor has it queued, any more. Raises what kept the
        run from being recorded, such as Unavailable for a store that cannot write; it is taken up again when that is over."""
        key = (owner, run_id)
        while True:
            broken = self._broken.get(key)
            fault = self.fault(key) if broken is not None else None
            if fault is not None:
                raise fault
            driven = self._driven.get(key)
            several = (self._waiting.get(key), self._healing.get(key), driven.task if driven else None)
            tasks = [one for one in several if one is not None]
            if not tasks:
                return
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS if broken is not None else None, return_when=asyncio.FIRST_COMPLETED)

    async def ended(self, owner: str, run_id: str) -> Run:
        """Wait for a run's end, wherever it is driven, and return its row. Raises as `wait`, Missing, and Misuse when this is closed."""
        token = 0
        while True:
            await self.wait(owner, run_id)
            try:
                rows = await self.store.rows(Run, owner=owner, id=run_id)
            except CauselineError as error:
                raise (self.fault((owner, run_id)) or error) from error
            if not rows:
                raise Missing(f"no run {run_id!r}", run=run_id)
            if rows[0].status not in ACTIVE:
                return rows[0]
            fault = self.fault((owner, run_id))
            if fault is not None:
                raise fault
            token = await self.store.changed(token, WAIT_SECONDS)

    # inside

    def _drive(self, run: Run, program: Program | None) -> None:
        self.feed.begin(run.key)
        self._driven[run.key] = _Driven(asyncio.create_task(self._run(run, program), name=f"run {run.id}"))

    async def _run(self, run: Run, program: Program | None) -> None:
        driven = self._driven[run.key]
        try:
            program = program or self._program_of(run)
            runner = self.runner(program)
            driven.loaded = await runner.load(run)
            if driven.cancelled or run.cancel_requested:
                driven.loaded.cancel()
            await runner.drive(driven.loaded)
            self._broken.pop(run.key, None)
        except Exception as error:  # noqa: BLE001  (recorded with the run, or kept for whoever waits for it)
            await self._fell(
                run,
                program,
                error,
                progressed=driven.loaded is not None and driven.loaded.recorder.steps > 0,
                cancelled=driven.loaded is None and (driven.cancelled or run.cancel_requested),
            )
        finally:
            if self._driven.get(run.key) is driven:
                del self._driven[run.key]
            self.feed.end(run.key)

    async def _fell(self, run: Run, program: Program | None, error: Exception, *, progressed: bool, cancelled: bool) -> None:
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
            self._healing[run.key] = asyncio.create_task(self._heal(run, program))

    async def _heal(self, run: Run, program: Program | None) -> None:
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
                        await self.claim(row, program)
                    return
                except Unavailable as error:
                    broken.error, broken.times = error, broken.times + 1
        finally:
            self._healing.pop(run.key, None)

    def runner(self, program: Program) -> Runner:
        """What drives the runs of a program, made once. Raises DocumentError for a graph that cannot run."""
        known = self._runners.get(id(program))
        if known is None:
            known = self._runners[id(program)] = (program, Runner(self.store, self.feed, self.clock, program, self._services))
        return known[1]

    async def _queue(self, run: Run, program: Program | None) -> None:
        """Wait for a queued run's turn, then drive it, unless another process does."""
        token = 0
        try:
            while True:
                try:
                    active = await self.store.rows(Run, owner=run.owner, session=run.session, status=("queued", "running"))
                    own = next((one for one in active if one.id == run.id and one.status == "queued"), None)
                    if own is None or (own in next_ones(active) and await self.claim(own, program)):
                        return
                    await self.rescue(run.owner, run.session)
                    token = await self.store.changed(token, WAIT_SECONDS)
                except Unavailable:
                    await self.clock.sleep(WAIT_SECONDS)
        finally:
            self._waiting.pop(run.key, None)

    async def _beat(self) -> None:
        while True:
            await self.clock.sleep(self._beat_seconds)
            driven = dict(self._driven)
            if not driven:
                continue
            with suppress(CauselineError):
                held = {run.key for run in await self.store.renew(self.holder)}
                for key, one in driven.items():
                    if key not in held and one.loaded is not None:
                        one.task.cancel()

    async def _listen(self) -> None:
        """Cancels asked for by other processes."""
        token = 0
        while True:
            with suppress(CauselineError):
                token = await self.store.changed(token, WAIT_SECONDS)
                if self._driven:
                    for run in await self.store.rows(Run, owner=None, status=("running",)):
                        if run.cancel_requested and run.holder == self.holder:
                            self.stop(*run.key)
            await self.clock.sleep(CANCEL_SECONDS)


def next_ones(active: Sequence[Run]) -> Sequence[Run]:
    """Of the queued and running runs of some sessions, those that run, or are next: one for each session."""
    found: dict[tuple[str, str], Run] = {}
    for run in sorted(active, key=lambda one: (one.status != "running", one.queue)):
        found.setdefault((run.owner, run.session), run)
    return list(found.values())
