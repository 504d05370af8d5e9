"""Making a finished visit count, each in its turn.

Law: what a visit writes is worked out when it has its turn, the journal has it before it counts, and nothing that depends on it runs
before that. If the journal raises, channels and position are those before the visit.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from causeline.errors import Invalid
from causeline.graph.documents.document import Terminal
from causeline.graph.engine import apply
from causeline.graph.engine.apply import FinishedVisit, Settled
from causeline.graph.engine.binding import BoundDocument, Site
from causeline.graph.engine.channels import PLACE, Changes, Preview
from causeline.graph.engine.control import Control, JournalFailed, WalkTask, failure_of, leaked
from causeline.graph.engine.embedded import leave
from causeline.graph.engine.gather import ERROR
from causeline.graph.engine.position import Branch, Child, ScatterState, key_part, pauses_of
from causeline.graph.engine.position_json import moved_to_plain, position_to_plain
from causeline.graph.engine.scatter import arrival_of
from causeline.graph.engine.step_events import Path, Progress, Step
from causeline.graph.engine.visit import NOTHING, VisitResult
from causeline.graph.engine.walk import phase_over, returned
from causeline.graph.node import PARKED

MANY_ROWS = 4096


class NoRoute(Invalid):
    """A visit left by a port that leads nowhere."""

    code = "no_route"


class Commits:
    """One document under way, as far as its visits are made to count. `depth` is 1 for the top-level document; `path` are names, `place`
    the same with what tells branches apart; `top` is the top-level branch this is inside of, where others run beside it; `lock` is there
    while several branches run here."""

    __slots__ = ("_step", "bound", "channels", "child", "control", "depth", "lock", "path", "place", "position", "top")

    def __init__(self, control: Control, child: Child, path: Path, place: Path, depth: int, step: int, top: Branch | None) -> None:
        self.control = control
        self.child = child
        self.bound: BoundDocument = control.documents[child.plan.document.id]
        self.position = child.position
        self.channels = child.channels
        self.path = path
        self.place = place
        self.depth = depth
        self.top = top
        self.lock: AbstractAsyncContextManager[Any] | None = None
        self._step = step

    def step_of(self, branch: Branch | None) -> int:
        """The number of the top-level visit this is part of: the same when it is made again after a crash."""
        if self.depth > 1:
            return self._step
        return self.control.steps if branch is None else max(0, branch.since - self.control.offset)

    def top_of(self, branch: Branch) -> Branch | None:
        """The top-level branch whose rows tell of what happens inside this one."""
        return branch if self.depth == 1 and self.bound.forks else self.top

    async def commit(self, branch: Branch, site: Site, result: VisitResult, walk: WalkTask) -> Branch | None:
        """Take a visit's result: the branch to follow, or None. Raises NoRoute, JournalFailed."""
        control = self.control
        if self.lock is None:
            if control.tells or self.bound.forks or site.feeds or result.placing or result.port not in site.routes:
                return await self._turn(branch, site, result, walk)
            self.channels.apply(result.writes)
            return returned(self.child.plan, self.position, branch, result.port)
        walk.busy += 1  # what has finished is not lost while it waits for its turn
        try:
            async with self.lock:
                return None if control.torn is not None else await self._turn(branch, site, result, walk)
        finally:
            walk.busy -= 1

    async def commit_phase(self, site: Site, result: VisitResult, walk: WalkTask) -> None:
        """Take a phase's result."""
        changes = self.channels.changes(result.writes)
        ready = self.channels.prepared(changes)
        delta = self.channels.delta(changes)
        event: Step | Progress | None = None
        if self.control.tells and self.depth == 1:
            after = next(iter(self.position.branches), None) if site.number in self.child.plan.pre else None
            following = None if after is None else self.child.plan.placements[after.at].name
            position = self._position(None, site, None)
            event = self._step_event(site, result, result.port, following, delta, position, settled=Settled(changes, ready=ready))
        elif self.control.tells:
            event = self._row((*self.place, site.name), result.port, apply.visit_writes(delta, None))
        await self._journal(event, walk)
        apply.phase(self.child, site.number, changes, ready)
        await self._tell(event)

    # one turn

    async def _turn(self, branch: Branch, site: Site, result: VisitResult, walk: WalkTask) -> Branch | None:
        finished, settled = self._settle(branch, site, result)
        if not self.control.tells:
            return apply.visit(self.child, branch, finished, settled)
        event: Step | Progress | None = None
        delta = self.channels.delta(finished.changes)
        if self.depth == 1:
            counted = delta if settled.counted is finished.changes else self.channels.delta(settled.counted)
            position = self._position(branch, site, (finished, settled), delta, counted)
            event = self._step_event(
                site, result, finished.port, self._next(site, finished.port), counted, position, branch=branch, settled=settled
            )
        elif finished.port != PARKED:
            place = (*self.place, key_part(self.child.plan, branch))
            event = self._row(place, finished.port, apply.visit_writes(delta, finished.arrival))
        await self._journal(event, walk)
        following = apply.visit(self.child, branch, finished, settled)
        if self.depth > 1 or self.control.deliver is not None or self.control.observers:
            await self._tell(event)
        return following

    def _settle(self, branch: Branch, site: Site, result: VisitResult) -> tuple[FinishedVisit, Settled]:
        """What the visit comes to now. Writes that do not fit leave by `error` where that has a route."""
        try:
            return self._settled(branch, site, result)
        except NoRoute:
            raise
        except Exception as error:
            if ERROR not in site.routes or result.port == ERROR:
                raise
            failure = failure_of(error, site.name, self.path).to_plain()
            return self._settled(branch, site, VisitResult(ERROR, {ERROR: failure}, attempts=result.attempts))

    def _settled(self, branch: Branch, site: Site, result: VisitResult) -> tuple[FinishedVisit, Settled]:
        changes = self.channels.changes(result.writes, result.placing)
        settled = apply.settle(self.bound, self.child, branch, changes)
        port = result.port
        if port == PARKED:
            return FinishedVisit(port, changes, asks=result.asks, question=result.question), settled
        if port not in site.routes:
            port = self.child.plan.decide(site.number, port, Preview(self.channels, changes))
            if port not in site.routes:
                routes = ", ".join(site.routes) or "none"
                raise NoRoute(f"{site.name} left by {port!r}, which leads nowhere; its routes are {routes}", placement=site.name, port=port)
        arrival = self._arrival(branch, site, result, port, changes) if site.feeds else None
        return FinishedVisit(port, changes, arrival), settled

    def _arrival(self, branch: Branch, site: Site, result: VisitResult, port: str, changes: Changes) -> Any:
        """What the visit leaves for the gather it leads to: as the branch means it, whatever others wrote."""
        target = site.routes[port]
        if isinstance(branch.inner, ScatterState):
            return arrival_of(branch.inner, site.feeds, target)
        preview = Preview(self.channels, changes)
        writes = {channel: preview[channel] if op == PLACE else value for channel, (op, value) in changes.items()}
        return leave(site.feeds, target, site.placement.id, writes, port, preview if result.state is None else result.state)

    # what is told

    def _next(self, site: Site, port: str) -> str | None:
        if port == PARKED:
            return site.name
        target = self.child.plan.placements[site.routes[port]]
        return None if isinstance(target, Terminal) else target.name

    def _position(
        self, branch: Branch | None, site: Site, outcome: tuple[FinishedVisit, Settled] | None, delta: Any = None, counted: Any = None
    ) -> Mapping[str, Any]:
        """Where the document is after a step: whole, or what changes."""
        whole, self.control.whole = not self.bound.forks or self.control.whole, False
        if not whole:
            if branch is None or outcome is None:
                return apply.phase_change(self.child, site.name)
            return apply.position_change(self.child, branch, outcome[0], delta, counted)
        if outcome is not None and not self.bound.forks and outcome[0].port != PARKED:
            moved = moved_to_plain(self.child.plan, self.position, site.routes[outcome[0].port])
            if moved is not None:
                return moved
        after = self.position.fork()
        if branch is None or outcome is None:
            phase_over(self.child.plan, after, site.number)
        else:
            twin = after.branches[self.position.branches.index(branch)]
            apply.move(self.child.plan, after, twin, outcome[0], outcome[1].races)
        found = position_to_plain(self.child.plan, after)
        rows = [row for one in self.position.branches for row in one.rows if row["number"] in self.control.unwritten and one is not branch]
        for one in self.position.branches:
            one.rows = []
        return {**found, "rows": rows} if rows else found

    def _step_event(
        self,
        site: Site,
        result: VisitResult,
        port: str,
        following: str | None,
        delta: Mapping[str, Any],
        position: Mapping[str, Any],
        *,
        branch: Branch | None = None,
        settled: Settled | None = None,
    ) -> Step:
        number = self.control.steps
        self.control.steps += 1
        writes = result.writes
        if settled is not None and result.placing:  # a change inside a channel is told as what the channel comes to
            writes = {
                channel: settled.ready.get(channel, value) if op == PLACE else value for channel, (op, value) in settled.counted.items()
            }
        asking = None
        if port == PARKED and branch is not None:
            asking = Branch(branch.at, branch.lineage, branch.since, branch.inner, None, result.asks, result.question)
        return Step(
            index=number,
            placement=site.placement.id,
            node=site.name,
            port=port,
            next=following,
            writes=writes,
            delta=delta,
            position=position,
            attempts=result.attempts,
            pauses=() if asking is None else tuple(pauses_of(self.child.plan, asking)),
            roles=site.roles,
            state=self.channels.view,
            results=self._results(settled) if settled is not None and settled.ready else NOTHING,
        )

    def _results(self, settled: Settled) -> dict[str, Any]:
        return {channel: settled.ready[channel] for channel, (op, _) in settled.counted.items() if op != PLACE and channel in settled.ready}

    def _row(self, place: Path, port: str, writes: Mapping[str, Any]) -> Progress:
        self.control.rows += 1
        return Progress(self.control.steps, place, self.position.visits + 1, port, writes, self.control.rows)

    async def _journal(self, event: Step | Progress | None, walk: WalkTask) -> None:
        if isinstance(event, Progress):
            await self.record(event, walk, self.top)
        elif event is not None and self.control.journal is not None:
            walk.busy += 1
            try:
                await self.control.journal.step(event)
            except BaseException as error:
                self.control.steps -= 1
                raise self._torn(error, walk) from error
            finally:
                walk.busy -= 1

    async def record(self, row: Progress, walk: WalkTask, top: Branch | None) -> None:
        """Make progress durable before it counts. Steps of other branches take it along from now on. Raises JournalFailed."""
        if top is not None:
            self.control.unwritten.add(row.number)
            top.rows.append({"path": list(row.path), "index": row.index, "port": row.port, "writes": row.writes, "number": row.number})
            top.counted += 1
            if len(top.rows) > max(MANY_ROWS, top.counted // 2):  # the whole is not much more than that
                self.control.whole = True
                top.rows = [kept for kept in top.rows if kept["number"] in self.control.unwritten]
        if self.control.journal is None:
            return
        walk.busy += 1
        try:
            await self.control.journal.progress(row)
        except BaseException as error:
            raise self._torn(error, walk) from error
        finally:
            walk.busy -= 1

    def recorded(self, row: Progress) -> None:
        """The row counts."""
        self.control.unwritten.discard(row.number)

    async def _tell(self, event: Step | Progress | None) -> None:
        if event is None:
            return
        if isinstance(event, Progress):
            self.recorded(event)
        await self.control.tell(event)

    def _torn(self, error: BaseException, walk: WalkTask) -> JournalFailed:
        """Note what the journal raised first; raises it again if it ends this walk by itself."""
        found = leaked(error, walk, "the journal")
        self.control.torn = self.control.torn or found
        if not isinstance(found, Exception):
            raise found
        return JournalFailed("the journal failed")
