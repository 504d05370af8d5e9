"""Running a scatter: a few workers take items from one source, and each finished item is made durable before it counts.

Law: one failing item never fails another. A worker pulls only when it is free, so memory follows the concurrency. When an item
waits for an answer the others still finish. A scatter goes on with the source and the seeds it began with.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, cast

from causeline.errors import Unavailable
from causeline.graph.documents.document import Scatter
from causeline.graph.engine import apply
from causeline.graph.engine.binding import BoundDocument, Site
from causeline.graph.engine.channels import Channels, lent
from causeline.graph.engine.control import Control, JournalFailed, WalkTask, failure_of
from causeline.graph.engine.embedded import INDEX_KEY, resolve, seeds
from causeline.graph.engine.gather import ERROR
from causeline.graph.engine.item_sources import Pull, Unit, open_source
from causeline.graph.engine.plain_values import NotPlain, plain
from causeline.graph.engine.position import Branch, Child, ParkedItem, ScatterState, key_part
from causeline.graph.engine.scatter import SUCCESS, FinishedItem, pick, port_of
from causeline.graph.engine.state_paths import MISSING
from causeline.graph.engine.step_events import Failure, LimitReached, Path, Progress, Status, Tally
from causeline.graph.engine.visit import NOTHING, Attempts, VisitResult, again, call, declared, failure_names, note_try
from causeline.graph.node import PARKED

_QUIET = frozenset({SUCCESS, "all-success", "partial"})


class SourceBroken(Unavailable):
    """The source of a scatter raised. Items already pulled have finished; no `error` route catches this."""


class ItemWalk(Protocol):
    """A child document under way."""

    failure: Failure | None

    async def run(self, walk: WalkTask) -> Status | None: ...

    def has_work(self) -> bool: ...


class Host(Protocol):
    """The frame a scatter stands in."""

    control: Control
    bound: BoundDocument
    channels: Channels
    child: Child
    path: Path
    place: Path
    item: Any

    def step_of(self, branch: Branch | None) -> int: ...

    def top_of(self, branch: Branch) -> Branch | None: ...

    def open(self, iri: str, values: Mapping[str, Any], site: Site) -> Child: ...

    def item_frame(self, branch: Branch, child: Child, site: Site, key: str, index: int, item: Any) -> ItemWalk: ...

    def storable(self, mapping: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]: ...

    async def begun(self, branch: Branch, site: Site, began: Mapping[str, Any], walk: WalkTask) -> None: ...

    async def record(self, row: Progress, walk: WalkTask, top: Branch | None) -> None: ...

    def recorded(self, row: Progress) -> None: ...


class ItemResult:
    """How an item ended: its port, its final state, why it failed, and the tries before."""

    __slots__ = ("attempts", "failure", "port", "state")

    def __init__(self, port: str, state: Mapping[str, Any], failure: Failure | None = None, attempts: Attempts = ()) -> None:
        self.port = port
        self.state = state
        self.failure = failure
        self.attempts = attempts


class ScatterRun:
    """One scatter under way, shared by its workers."""

    def __init__(self, host: Host, branch: Branch, site: Site, state: ScatterState, pull: Pull, key: str, length: int | None) -> None:
        assert isinstance(site.placement, Scatter)
        self.host = host
        self.branch = branch
        self.site = site
        self.scatter = site.placement
        self.state = state
        self.pull = pull
        self.key = key
        self.length = length
        self.path = (*host.path, site.name)
        self.step = host.step_of(branch)
        self.seeds = {**seeds(self.scatter.state_input, host.channels), **(state.seeds or {})}
        self.units = self.done = sum(state.tally.values())
        self.failed = state.tally.get(ERROR, 0)
        self.retried = state.retried
        self.held = False
        self.broken: Exception | None = None
        self.fault: Exception | None = None

    async def work(self, walk: WalkTask) -> None:
        """One worker: pull, run, make durable, until nothing is left or everything stops."""
        control = self.host.control
        ticks = control.ticks
        try:
            while not walk.halted and self.broken is None and self.fault is None:
                if ticks() >= control.breathe_at:
                    await control.breathe()
                    continue
                if control.gate.shut and control.gate.holds():
                    self.held = self.held or self.units != self.length
                    return
                unit = await self._next()
                if unit is None:
                    return
                result = await self._run(unit, walk)
                if result is not None:
                    await self._finish(unit, result, walk)
        except BaseException as error:
            if control.caught(error, walk, self.site.name, self.host.path):
                return
            if control.gate.hands_back(error):
                self.held = True
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
            self.state.total = self.units
        else:
            self.units += 1
        return unit

    async def _run(self, unit: Unit, walk: WalkTask) -> ItemResult | None:
        """Run one item. None if it waits for an answer or everything stops. Whatever it raises is its own failure."""
        path = (*self.path, unit.index)
        tries: list[Mapping[str, Any]] | None = None if self.site.retry is None else []
        try:
            if self.site.node is not None:
                return await self._node(unit, path, walk, tries)
            return await self._document(unit, path, walk, tries)
        except (LimitReached, JournalFailed):
            raise
        except Exception as error:
            if self.host.control.gate.hands_back(error):
                raise
            # it fails its item and nothing else
            return ItemResult(ERROR, self._values(unit), failure_of(error, self.site.name, path), tuple(tries or ()))

    def _values(self, unit: Unit) -> dict[str, Any]:
        return {**self.seeds, self.scatter.item_key: unit.value, INDEX_KEY: unit.index}

    async def _node(self, unit: Unit, path: Path, walk: WalkTask, tries: list[Mapping[str, Any]] | None) -> ItemResult | None:
        index, values, answer = unit.index, self._values(unit), None
        node, reducers = self.site.node, self.host.bound.reducers
        assert node is not None
        if index in self.state.parked:
            key = f"{self.key}/{index}"
            if key not in self.host.control.answers:
                return None
            answer = self.host.control.answers[key]
            values = _after(values, self.state.parked[index].writes, reducers)
        result = await call(
            self.host.control,
            walk,
            self.site,
            MappingProxyType(values),
            path,
            self.step,
            item=unit.value,
            index=index,
            answer=answer,
            reducers=reducers,
            tries=tries,
        )
        if result.port == PARKED:
            before = self.state.parked[index].writes if index in self.state.parked else {}
            self.state.parked[index] = ParkedItem(result.question, {**before, **result.writes})
            return None
        declared(result.port, node, self.site)
        state = _after(values, result.writes, reducers) if self.site.feeds else NOTHING
        return ItemResult(result.port, state, attempts=result.attempts)

    async def _document(self, unit: Unit, path: Path, walk: WalkTask, tries: list[Mapping[str, Any]] | None) -> ItemResult | None:
        attempt, waited = 1, 0.0
        while True:
            child = self.state.children.get(unit.index)
            if child is None:
                child = self._open(unit)
            frame = self.host.item_frame(self.branch, child, self.site, self.key, unit.index, unit.value)
            if not frame.has_work():
                return None
            status = await frame.run(walk)
            if status is None or status == "interrupted":
                self.held = self.held or status is None
                return None
            if status == "completed":
                return ItemResult(SUCCESS, child.channels.values, attempts=tuple(tries or ()))
            failure = frame.failure
            assert failure is not None
            delay = again(self.host.control, self.scatter.retry, failure_names(failure), attempt, waited, failure.cause)
            if delay is None:
                return ItemResult(ERROR, child.channels.values, failure, tuple(tries or ()))
            await self._again(unit, walk)
            waited = delay
            note_try(self.host.control, path, self.step, tries, attempt, failure.code, waited)
            await self.host.control.gate.rest(self.host.control.clock, waited)
            attempt += 1

    async def _again(self, unit: Unit, walk: WalkTask) -> None:
        """Begin an item's document anew; what was journalled of the try before must not be taken for the next one's."""
        if self.host.control.tells:
            row = self._row(unit, apply.AGAIN, {apply.AGAIN: True})
            await self.host.record(row, walk, self.host.top_of(self.branch))
            self.host.recorded(row)
        apply.again(self.state, unit.index)

    def _open(self, unit: Unit) -> Child:
        assert self.site.dag is not None
        iri = resolve(self.site.dag, self.host.channels.values, unit.value, self.site.name)
        child = self.host.open(iri, self._values(unit), self.site)
        self.state.children[unit.index] = child
        rows = self.state.pending.pop(unit.index, None)
        if rows is not None:
            apply.fold(self.host.control.documents, child, [Progress.from_plain(row) for row in rows])
        return child

    async def _finish(self, unit: Unit, result: ItemResult, walk: WalkTask) -> None:
        control, site = self.host.control, self.site
        state = result.state
        failure = None if result.failure is None else result.failure.to_plain()
        if failure is not None:
            state = {**state, ERROR: failure}
        kept = pick(site.feeds, site.placement.id, unit.index, unit.value, result.port, state) if site.feeds else []
        finished = FinishedItem(unit.index, unit.items, result.port, kept, failure, result.attempts)
        if not control.tells:
            apply.item(self.state, site, finished)
            return
        row = self._row(unit, result.port, finished.to_writes(), finished)
        await self.host.record(row, walk, self.host.top_of(self.branch))
        apply.item(self.state, site, finished)
        self.host.recorded(row)
        await control.tell(row)

    def _row(self, unit: Unit, port: str, writes: Mapping[str, Any], finished: FinishedItem | None = None) -> Progress:
        control = self.host.control
        control.rows += 1
        place = (*self.host.place, key_part(self.host.child.plan, self.branch), unit.index)
        tally = None
        if finished is not None:
            self.done += 1
            self.failed += port == ERROR
            self.retried += bool(finished.attempts)
            tally = Tally(self.done, self.failed, self.retried, self.length)
        return Progress(control.steps, place, unit.index, port, writes, control.rows, tally)


def _after(values: Mapping[str, Any], writes: Mapping[str, Any], reducers: Mapping[str, Any]) -> dict[str, Any]:
    """An item's state with what its body wrote."""
    if not reducers:
        return {**values, **writes}
    channels = Channels(values, reducers)
    channels.apply(writes)
    return channels.values


async def scatter(host: Host, branch: Branch, site: Site, walk: WalkTask, key: str) -> VisitResult | None:
    """Run a scatter to its end, or until all that is left waits for answers. None while stopping, and where what is left must not begin.
    Raises SourceBroken."""
    placement = site.placement
    assert isinstance(placement, Scatter)
    assert site.outcome is not None
    control = host.control
    begun = isinstance(branch.inner, ScatterState)
    state = branch.inner if isinstance(branch.inner, ScatterState) else ScatterState()
    branch.inner = state
    found = _source(host, placement, state)
    if begun and found is MISSING and state.total != sum(state.tally.values()):
        raise SourceBroken(
            f"{site.name}: the source {placement.source!r} of an unfinished scatter is not there; "
            "hand it in again with resume(..., sources={...}), from its beginning",
            code="source_missing",
        )
    if not begun and host.bound.forks:
        await _begin(host, branch, site, placement, state, found, walk)
    pull = open_source(placement, found, state.done, control.limits.width, control.clock.sleep)
    length = len(cast("Sequence[Any]", found)) if isinstance(found, Sequence) and placement.reservoir is None else None
    work = ScatterRun(host, branch, site, state, pull, key, length)
    try:
        workers = min(placement.concurrency, placement.throttle or placement.concurrency)
        if workers == 1:
            await work.work(walk)
        else:
            await control.together(walk, [work.work] * workers)
    finally:
        await pull.close()
    if walk.halted:
        return None
    if work.fault is not None:
        raise work.fault
    if work.held:
        return None
    if work.broken is not None:
        broken = failure_of(work.broken, site.name, host.path)
        raise SourceBroken(f"{site.name}: the source {placement.source!r} broke off: {broken.message}", code=broken.code) from work.broken
    if state.parked or state.children:
        return VisitResult(PARKED, asks=False)
    port = port_of(state, site.outcome, site.routes)
    return VisitResult(port, NOTHING if state.failure is None or port in _QUIET else {ERROR: state.failure[1]})


def _source(host: Host, placement: Scatter, state: ScatterState) -> Any:
    """What was handed in, else what the scatter began with, else what the state holds."""
    if not host.path and placement.source in host.control.sources:
        return host.control.sources[placement.source]
    return lent(host.channels, placement.source) if state.source is MISSING else state.source


async def _begin(host: Host, branch: Branch, site: Site, placement: Scatter, state: ScatterState, found: Any, walk: WalkTask) -> None:
    """Keep what the scatter begins with: other branches may change it before it is done."""
    began: dict[str, Any] = {}
    given = not host.path and placement.source in host.control.sources
    if not given and isinstance(found, list | tuple):
        try:
            state.source = began["source"] = plain(list(cast("list[Any]", found)), placement.source)
        except NotPlain:
            state.source = list(cast("list[Any]", found))
    state.seeds = began["seeds"] = host.storable(placement.state_input, seeds(placement.state_input, host.channels))
    await host.begun(branch, site, began, walk)


def has_work(host: Host, branch: Branch, state: ScatterState, site: Site, key: str) -> bool:
    """False if items are left and all of them wait for answers that were not given."""
    known = len(state.parked) + len(state.children)
    if not known or state.total is None or state.total - sum(state.tally.values()) > known:
        return True
    return any(f"{key}/{index}" in host.control.answers for index in state.parked) or any(
        host.item_frame(branch, child, site, key, index, None).has_work() for index, child in state.children.items()
    )
