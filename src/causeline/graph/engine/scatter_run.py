"""Running a scatter: a few workers take items from one source, and each finished item is made durable before it counts.

Law: one failing item never fails another. A worker pulls only when it is free, so memory follows the concurrency. When an item
waits for an answer the others still finish.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from causeline.errors import Unavailable
from causeline.graph.documents.document import Scatter
from causeline.graph.engine.apply import fold, item_writes
from causeline.graph.engine.binding import Program, Site
from causeline.graph.engine.channels import MISSING, Channels, read
from causeline.graph.engine.control import Control, JournalFailed, Slot, failure_of
from causeline.graph.engine.embedded import INDEX_KEY, resolve, seeds
from causeline.graph.engine.gather import ERROR
from causeline.graph.engine.item_sources import Pull, Unit, open_source
from causeline.graph.engine.position import Branch, Child, Fan
from causeline.graph.engine.scatter import SUCCESS, pick, port_of, take
from causeline.graph.engine.step_events import Failure, LimitReached, Path, Progress, Status
from causeline.graph.engine.visit import NOTHING, Left, again, call, failure_names
from causeline.graph.node import PARKED

_QUIET = frozenset({SUCCESS, "all-success", "partial"})


class SourceBroken(Unavailable):
    """The source of a scatter raised. Items already pulled have finished; no `error` route catches this."""


class Walk(Protocol):
    """A child document under way."""

    failure: Failure | None

    async def run(self, slot: Slot) -> Status | None: ...

    def has_work(self) -> bool: ...


class Host(Protocol):
    """The frame a scatter stands in; `step` is the index of the top-level step under way."""

    control: Control
    program: Program
    channels: Channels
    path: Path
    item: Any

    @property
    def number(self) -> int: ...

    def open(self, iri: str, values: Mapping[str, Any], site: Site) -> Child: ...

    def item_frame(self, child: Child, site: Site, key: str, index: int, item: Any) -> Walk: ...

    async def journal_progress(self, event: Progress, slot: Slot) -> None: ...


class Done:
    """How an item ended: its port, its final state, and why it failed."""

    __slots__ = ("failure", "port", "state")

    def __init__(self, port: str, state: Mapping[str, Any], failure: Failure | None = None) -> None:
        self.port = port
        self.state = state
        self.failure = failure


class Scan:
    """One scatter under way, shared by its workers."""

    def __init__(self, host: Host, site: Site, fan: Fan, pull: Pull, key: str) -> None:
        assert isinstance(site.placement, Scatter)
        self.host = host
        self.site = site
        self.scatter = site.placement
        self.fan = fan
        self.pull = pull
        self.key = key
        self.path = (*host.path, site.name)
        self.seeds = seeds(self.scatter.state_input, host.channels.values)
        self.units = sum(fan.tally.values())
        self.broken: Exception | None = None
        self.fault: Exception | None = None

    async def work(self, slot: Slot) -> None:
        """One worker: pull, run, make durable, until nothing is left or everything stops."""
        control = self.host.control
        ticks = control.ticks
        try:
            while control.halted is None and self.broken is None and self.fault is None:
                if ticks() >= control.breathe_at:
                    await control.breathe()
                    continue
                unit = await self._next()
                if unit is None:
                    return
                done = await self._run(unit, slot)
                if done is not None:
                    await self._finish(unit, done, slot)
        except BaseException as error:
            if control.caught(error, slot, self.site.name, self.host.path):
                return
            if not isinstance(error, Exception):
                raise
            self.fault = self.fault or error  # told as it is, however many workers there are

    async def _next(self) -> Unit | None:
        try:
            unit = await self.pull.next()
        except LimitReached:
            raise
        except Exception as error:  # noqa: BLE001 - a source of the caller's may raise anything
            self.broken = error
            return None
        if unit is None:
            self.fan.total = self.units
        else:
            self.units += 1
        return unit

    async def _run(self, unit: Unit, slot: Slot) -> Done | None:
        """Run one item. None if it waits for an answer or everything stops. Whatever it raises is its own failure."""
        path = (*self.path, unit.index)
        try:
            if self.site.node is not None:
                return await self._node(unit, path, slot)
            return await self._document(unit, path, slot)
        except (LimitReached, JournalFailed):
            raise
        except Exception as error:  # noqa: BLE001 - it fails its item and nothing else
            return Done(ERROR, self._values(unit), failure_of(error, self.site.name, path))

    def _values(self, unit: Unit) -> dict[str, Any]:
        return {**self.seeds, self.scatter.item_key: unit.value, INDEX_KEY: unit.index}

    async def _node(self, unit: Unit, path: Path, slot: Slot) -> Done | None:
        index, values, answer = unit.index, self._values(unit), None
        if index in self.fan.parked:
            key = f"{self.key}/{index}"
            if key not in self.host.control.answers:
                return None
            answer = self.host.control.answers[key]
        left = await call(
            self.host.control,
            slot,
            self.site,
            MappingProxyType(values),
            path,
            self.host.number,
            item=unit.value,
            index=index,
            answer=answer,
            reducers=self.host.program.reducers,
        )
        if left.port == PARKED:
            self.fan.parked[index] = left.question
            return None
        if not self.site.feeds:
            return Done(left.port, NOTHING)
        if not self.host.program.reducers:
            return Done(left.port, {**values, **left.writes})
        channels = Channels(values, self.host.program.reducers)
        channels.apply(left.writes)
        return Done(left.port, channels.values)

    async def _document(self, unit: Unit, path: Path, slot: Slot) -> Done | None:
        attempt, waited = 1, 0.0
        while True:
            child = self.fan.children.get(unit.index)
            if child is None:
                child = self._open(unit)
            frame = self.host.item_frame(child, self.site, self.key, unit.index, unit.value)
            if not frame.has_work():
                return None
            status = await frame.run(slot)
            if status is None or status == "interrupted":
                return None
            if status == "completed":
                return Done(SUCCESS, child.channels.values)
            failure = frame.failure
            assert failure is not None
            delay = again(self.host.control, self.scatter.retry, failure_names(failure), attempt, waited, failure.cause)
            if delay is None:
                return Done(ERROR, child.channels.values, failure)
            del self.fan.children[unit.index]
            waited = delay
            await self.host.control.clock.sleep(waited)
            attempt += 1

    def _open(self, unit: Unit) -> Child:
        assert self.site.dag is not None
        iri = resolve(self.site.dag, self.host.channels.values, unit.value, self.site.name)
        child = self.host.open(iri, self._values(unit), self.site)
        self.fan.children[unit.index] = child
        rows = self.fan.pending.pop(unit.index, None)
        if rows is not None:
            fold(self.host.control.programs, child, [Progress.from_plain(row) for row in rows])
        return child

    async def _finish(self, unit: Unit, done: Done, slot: Slot) -> None:
        control, site, fan = self.host.control, self.site, self.fan
        state = done.state
        if done.failure is not None:
            state = {**state, ERROR: done.failure.to_plain()}
        kept = pick(site.feeds, site.placement.id, unit.index, unit.value, done.port, state) if site.feeds else []
        failure = None if done.failure is None else done.failure.to_plain()
        if not control.tells:
            take(fan, site.feeds, unit.index, unit.items, done.port, kept, failure)
            return
        event = Progress(self.host.number, (*self.path, unit.index), unit.index, done.port, item_writes(kept, unit.items, failure))
        await self.host.journal_progress(event, slot)
        take(fan, site.feeds, unit.index, unit.items, done.port, kept, failure)
        await control.tell(event)


async def scatter(host: Host, branch: Branch, site: Site, slot: Slot, key: str) -> Left | None:
    """Run a scatter to its end, or until all that is left waits for answers. None while stopping. Raises SourceBroken."""
    placement = site.placement
    assert isinstance(placement, Scatter)
    assert site.outcome is not None
    control = host.control
    begun = isinstance(branch.inner, Fan)
    fan = branch.inner if isinstance(branch.inner, Fan) else Fan()
    branch.inner = fan
    found = (
        control.sources[placement.source]
        if not host.path and placement.source in control.sources
        else read(host.channels.values, placement.source)
    )
    if begun and found is MISSING and fan.total != sum(fan.tally.values()):
        raise SourceBroken(
            f"{site.name}: the source {placement.source!r} of an unfinished scatter is not there; "
            "hand it in again with resume(..., sources={...}), from its beginning",
            code="source_missing",
        )
    pull = open_source(placement, found, fan, control.limits.width, control.clock.sleep)
    scan = Scan(host, site, fan, pull, key)
    try:
        workers = min(placement.concurrency, placement.throttle or placement.concurrency)
        if workers == 1:
            await scan.work(slot)
        else:
            await control.together(slot, [scan.work] * workers)
    finally:
        await pull.close()
    if control.halted is not None:
        return None
    if scan.fault is not None:
        raise scan.fault
    if scan.broken is not None:
        broken = failure_of(scan.broken, site.name, host.path)
        raise SourceBroken(f"{site.name}: the source {placement.source!r} broke off: {broken.message}", code=broken.code) from scan.broken
    if fan.parked or fan.children:
        return Left(PARKED, own=False)
    port = port_of(fan, site.outcome, site.routes)
    return Left(port, NOTHING if fan.failure is None or port in _QUIET else {ERROR: fan.failure[1]})


def has_work(host: Host, fan: Fan, site: Site, key: str) -> bool:
    """False if items are left and all of them wait for answers that were not given."""
    known = len(fan.parked) + len(fan.children)
    if not known or fan.total is None or fan.total - sum(fan.tally.values()) > known:
        return True
    return any(f"{key}/{index}" in host.control.answers for index in fan.parked) or any(
        host.item_frame(child, site, key, index, None).has_work() for index, child in fan.children.items()
    )
