"""Making a finished visit count.

Law: the journal has it before channels and position do, and nothing that depends on it runs before that. If the journal
raises, the position is the one before the visit.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from causeline.errors import Invalid
from causeline.graph.documents.document import Terminal
from causeline.graph.engine.apply import placement_writes
from causeline.graph.engine.binding import Program, Site
from causeline.graph.engine.channels import Preview
from causeline.graph.engine.control import Control, JournalFailed, Slot, leaked
from causeline.graph.engine.embedded import leave
from causeline.graph.engine.position import Branch, Child, Fan, Position, pauses_of
from causeline.graph.engine.scatter import arrival_of
from causeline.graph.engine.step_events import Path, Progress, Step
from causeline.graph.engine.visit import Left
from causeline.graph.engine.walk import Parked, PhaseReturned, returned, settle, step
from causeline.graph.node import PARKED


class NoRoute(Invalid):
    """A visit left by a port that leads nowhere."""

    code = "no_route"


class Level:
    """One running document and how its visits are made to count. `depth` is 1 for the top-level document; `lock` is there while several
    branches run."""

    __slots__ = ("_step", "channels", "control", "depth", "lock", "path", "position", "program")

    def __init__(self, control: Control, child: Child, path: Path, depth: int, step: int) -> None:
        self.control = control
        self.program: Program = control.programs[child.plan.document.id]
        self.position: Position = child.position
        self.channels = child.channels
        self.path = path
        self.depth = depth
        self.lock: AbstractAsyncContextManager[Any] | None = None
        self._step = step

    @property
    def number(self) -> int:
        """The index of the top-level step under way."""
        return self.control.steps if self.depth == 1 else self._step

    async def commit(self, branch: Branch, site: Site, left: Left, slot: Slot) -> Branch | None:
        """Take a visit's outcome: the branch to follow, or None. Raises NoRoute, JournalFailed."""
        port = left.port
        if port not in site.routes and port != PARKED:
            port = self.program.plan.decide(site.number, port, Preview(self.channels, left.writes))
            if port not in site.routes:
                routes = ", ".join(site.routes) or "none"
                raise NoRoute(f"{site.name} left by {port!r}, which leads nowhere; its routes are {routes}", placement=site.name, port=port)
        if self.lock is None:
            if self.control.tells or self.program.forks or port == PARKED:
                return await self._advance(branch, site, left, port, slot)
            arrival = self._arrival(branch, site, left, port) if site.feeds else None
            self.channels.apply(left.writes, left.extended)
            return returned(self.program.plan, self.position, branch, port, arrival)
        async with self.lock:
            return None if self.control.torn is not None else await self._advance(branch, site, left, port, slot)

    async def commit_phase(self, site: Site, left: Left, slot: Slot) -> None:
        """Take a phase's outcome."""
        plan, position = self.program.plan, self.position

        def move() -> Branch | None:
            step(plan, position, PhaseReturned(site.number))
            return next(iter(position.branches), None) if site.number in plan.pre else None

        await self._count(site, left, left.port, left.writes, None, move, slot)

    async def _advance(self, branch: Branch, site: Site, left: Left, port: str, slot: Slot) -> Branch | None:
        position, plan, writes = self.position, self.program.plan, left.writes
        arrival = self._arrival(branch, site, left, port) if site.feeds and port != PARKED else None
        races: Mapping[str, Any] = {}
        if self.program.forks:
            writes, races = settle(position, branch, writes, self.channels.values, self.program.ordered | left.extended)

        def move() -> Branch | None:
            position.races.update(races)
            if port != PARKED:
                return returned(plan, position, branch, port, arrival)
            step(plan, position, Parked(branch, left.own, left.question))
            return None

        if self.control.tells:
            return await self._count(site, left, port, writes, arrival, move, slot, asked=branch)
        self.channels.apply(writes, left.extended)
        return move()

    def _arrival(self, branch: Branch, site: Site, left: Left, port: str) -> Any:
        """What the visit leaves for the gather it leads to."""
        target = site.routes[port]
        if isinstance(branch.inner, Fan):
            return arrival_of(branch.inner, site.feeds, target)
        state = Preview(self.channels, left.writes, left.extended) if left.state is None else left.state
        return leave(site.feeds, target, site.placement.id, dict(left.writes), port, state)

    async def _count(
        self,
        site: Site,
        left: Left,
        port: str,
        writes: Mapping[str, Any],
        arrival: Any,
        move: Callable[[], Branch | None],
        slot: Slot,
        *,
        asked: Branch | None = None,
    ) -> Branch | None:
        """Journal, then move the position and take the writes, then tell. A reducer that raises does so before any of it."""
        event: Step | Progress | None = None
        reduced = self.channels.reduced(writes)
        if self.depth == 1:
            before = self.position.fork() if self.control.journal is not None else None
            following = move()
            event = self._told(site, left, port, writes, following, asked)
            await self._journal_step(event, before, slot)
        else:
            if port != PARKED:
                path = (*self.path, site.name)
                event = Progress(
                    self._step, path, self.position.visits, port, placement_writes(self.channels.delta(writes, left.extended), arrival)
                )
                await self.journal_progress(event, slot)
            following = move()
        self.channels.apply(writes, left.extended, reduced)
        if event is not None:
            await self.control.tell(event)
        return following

    def _told(self, site: Site, left: Left, port: str, writes: Mapping[str, Any], following: Branch | None, asked: Branch | None) -> Step:
        plan = self.program.plan
        number = self.control.steps
        self.control.steps += 1
        target = site.name if port == PARKED else None
        if following is not None:
            target = plan.placements[following.at].name
        elif port in site.routes and not isinstance(plan.placements[site.routes[port]], Terminal):
            target = plan.placements[site.routes[port]].name
        return Step(
            index=number,
            placement=site.placement.id,
            node=site.name,
            port=port,
            next=target,
            writes=left.writes,
            delta=self.channels.delta(writes, left.extended),
            position=self.position.to_plain(plan),
            attempt=left.attempt,
            pauses=tuple(pauses_of(plan, asked)) if port == PARKED and asked is not None else (),
        )

    async def _journal_step(self, event: Step, before: Position | None, slot: Slot) -> None:
        if before is None or self.control.journal is None:
            return
        slot.busy += 1
        try:
            await self.control.journal.step(event)
        except BaseException as error:
            self.position = before
            self.control.steps -= 1
            raise self._torn(error, slot) from error
        finally:
            slot.busy -= 1

    async def journal_progress(self, event: Progress, slot: Slot) -> None:
        """Make progress durable before it counts. Raises JournalFailed."""
        if self.control.journal is None:
            return
        slot.busy += 1
        try:
            await self.control.journal.progress(event)
        except BaseException as error:
            raise self._torn(error, slot) from error
        finally:
            slot.busy -= 1

    def _torn(self, error: BaseException, slot: Slot) -> JournalFailed:
        """Note what the journal raised first; raises it again if it ends this walk by itself."""
        found = leaked(error, slot, "the journal")
        self.control.torn = self.control.torn or found
        if not isinstance(found, Exception):
            raise found
        return JournalFailed("the journal failed")
