"""The driver: follows the machine's branches, runs what stands where they are, and makes each finished visit durable before going on.

Law: a visit counts in this order: outcome, journal, channels and position. No task per visit: a branch is followed by one coroutine
that awaits what really waits; tasks exist only for branches and scatter workers that run at once.
"""

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from causeline.errors import Invalid, Missing
from causeline.graph import pool
from causeline.graph.calls import PARKED, BadOutcome, Left, call, checked
from causeline.graph.control import Control, JournalFailed, Slot, failure_of
from causeline.graph.document import Embedded, Gather, Scatter, Terminal
from causeline.graph.embed import leave, open_child, outputs, resolve, seeds
from causeline.graph.events import Failure, LimitReached, Path, Progress, Status, Step
from causeline.graph.gather import ERROR, GATHERED, port_of, total_of, writes_of
from causeline.graph.gather import failure_of as gathered_failure
from causeline.graph.machine import Parked, PhaseReturned, returned, settle, step, verdict
from causeline.graph.position import Branch, Child, Fan, Pause, Position, key_part, pauses_of
from causeline.graph.program import Program, Site
from causeline.graph.replay import placement_writes
from causeline.graph.scatter import arrival_of
from causeline.graph.state import Preview


class NoRoute(Invalid):
    """A visit left by a port that leads nowhere."""

    code = "no_route"


class ChildFailed(Invalid):
    """A child document failed or stalled, and its placement has no `error` route."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, code=failure.code)
        self.failure = failure


class Count:
    """Visits so far, shared by a document and the documents embedded in it."""

    __slots__ = ("used",)

    def __init__(self, used: int = 0) -> None:
        self.used = used


class Frame:
    """One running document: the top-level one, an embedded one, or that of a scatter item."""

    __slots__ = ("_step", "channels", "control", "count", "depth", "failure", "index", "item", "key", "lock", "path", "position", "program")

    def __init__(self, control: Control, child: Child, *, path: Path = (), key: str = "", depth: int = 1, item: Any = None,
                 index: int | None = None, step: int = 0, count: Count | None = None) -> None:
        self.control = control
        self.program: Program = control.programs[child.plan.document.id]
        self.position: Position = child.position
        self.channels = child.channels
        self.path = path
        self.key = key
        self.depth = depth
        self.item = item
        self.index = index
        self.count = count or Count()
        self.failure: Failure | None = None
        self.lock: asyncio.Lock | None = None
        self._step = step

    @property
    def number(self) -> int:
        """The index of the top-level step under way."""
        return self.control.steps if self.depth == 1 else self._step

    # -- the whole document

    async def run(self, slot: Slot) -> Status | None:
        """Walk until nothing is left to run. None if the execution is stopping; `failure` says why it failed or stalled."""
        plan = self.program.plan
        if self.position.pre < len(plan.pre):
            await self._pre(slot)
        if self.failure is None and self.control.halted is None:
            ready = [branch for branch in self.position.branches if self._may_run(branch)]
            if len(ready) == 1:
                await self._follow(ready[0], slot)
            elif ready:
                self.lock = asyncio.Lock()
                await self.control.together(slot, [lambda own, branch=branch: self._follow(branch, own) for branch in ready])
        status = self._status()
        if plan.post:
            await self._post(slot)
        return status

    def _status(self) -> Status | None:
        if self.control.halted is not None:
            return None
        if self.failure is not None:
            return "failed"
        if self.position.branches:
            return "interrupted"
        status = verdict(self.program.plan, self.position)
        if status != "completed":
            self.failure = self._ending(status)
        return status

    def _ending(self, status: Status) -> Failure:
        """Why a walk without anything left to run has not completed."""
        placements = self.program.plan.placements
        title = self.program.plan.document.name
        if status == "stalled":
            waiting = ", ".join(placements[number].name for number, one in self.position.barriers.items() if one.waiting)
            told = f"the barrier of {waiting} still waits" if waiting else "no terminal was reached"
            return Failure("stalled", f"{title}: nothing is left to run and {told}", waiting, self.path)
        name = next(one.name for number in self.position.reached if isinstance(one := placements[number], Terminal) and one.outcome == "failed")
        error = self.channels.values.get(ERROR)
        if isinstance(error, dict) and "code" in error and "message" in error:
            return Failure(str(error["code"]), str(error["message"]), str(error.get("placement", name)), self.path)
        return Failure("failed_terminal", f"{title} ended at {name}", name, self.path)

    def _may_run(self, branch: Branch) -> bool:
        """False for a branch that only waits for answers it has not got."""
        if branch.waits:
            return self._key(branch) in self.control.answers
        if isinstance(branch.inner, Child):
            return self._embedded_frame(branch.inner, branch, self.program.sites[branch.at]).has_work()
        if isinstance(branch.inner, Fan):
            return pool.has_work(self, branch.inner, self.program.sites[branch.at], self._key(branch))
        return True

    def has_work(self) -> bool:
        """False if all that is left here waits for answers that were not given."""
        branches = self.position.branches
        return not branches or any(self._may_run(branch) for branch in branches)

    def _key(self, branch: Branch) -> str:
        return self.key + key_part(self.program.plan, branch)

    # -- one branch

    async def _follow(self, branch: Branch, slot: Slot) -> None:
        """Visit placement after placement until the branch ends, waits, or everything stops."""
        control, count, sites = self.control, self.count, self.program.sites
        bound = control.limits.visits
        monotonic = time.monotonic
        try:
            while control.halted is None and self.failure is None:
                if monotonic() >= control.breathe_at:
                    await control.breathe()
                    continue
                site = sites[branch.at]
                count.used += 1
                if count.used > bound:
                    raise LimitReached("visits", bound, site.name)
                if control.on_start is not None and self.depth == 1:
                    control.on_start(control.steps, site.name)
                left = await self._visit(branch, site, slot)
                if left is None:
                    return
                following = await self._commit(branch, site, left, slot)
                if following is None:
                    return
                branch = following
        except BaseException as error:
            name = sites[branch.at].name
            if control.caught(error, slot, name, self.path):
                return
            if not isinstance(error, Exception):
                raise
            if self.failure is None:
                self.failure = error.failure if isinstance(error, ChildFailed) else failure_of(error, name, self.path)

    async def _visit(self, branch: Branch, site: Site, slot: Slot) -> Left | None:
        """Run what stands here. A failure becomes the port `error` where that has a route. None while stopping."""
        kind = type(site.placement)
        try:
            if kind is Scatter:
                return await pool.scatter(self, branch, site, slot, self._key(branch))
            if kind is Embedded:
                return await self._embedded(branch, site, slot)
            if kind is Gather:
                return await self._gather(branch, site, slot)
            answer = self.control.answers.get(self._key(branch)) if branch.waits else None
            return checked(await call(self.control, slot, site, self.channels.view, (*self.path, site.name), self.number, item=self.item,
                                      index=self.index, answer=answer), site)
        except (LimitReached, JournalFailed, pool.SourceBroken):
            raise
        except Exception as error:
            if ERROR not in site.routes:
                raise
            return Left(ERROR, {ERROR: failure_of(error, site.name, self.path).to_plain()})

    async def _embedded(self, branch: Branch, site: Site, slot: Slot) -> Left | None:
        placement = site.placement
        assert isinstance(placement, Embedded)
        assert site.dag is not None
        values = self.channels.values
        child = branch.inner
        if not isinstance(child, Child):
            child = self.open(resolve(site.dag, values, self.item, site.name), seeds(placement.state_input, values), site)
            branch.inner = child
        frame = self._embedded_frame(child, branch, site)
        status = await frame.run(slot)
        if status is None:
            return None
        if status == "interrupted":
            return Left(PARKED, own=False)
        inner = child.channels.values
        writes = outputs(placement, inner, values)
        if status == "completed":
            return Left("success", writes, state=inner)
        failure = frame.failure
        assert failure is not None
        if ERROR not in site.routes:
            raise ChildFailed(failure)
        return Left(ERROR, {**writes, ERROR: failure.to_plain()}, state=inner)

    def open(self, iri: str, values: Mapping[str, Any], site: Site) -> Child:
        """A child document at its start. Raises Missing, LimitReached."""
        if self.depth >= self.control.limits.depth:
            raise LimitReached("depth", self.control.limits.depth, site.name)
        program = self.control.programs.get(iri)
        if program is None:
            raise Missing(f"{site.name}: the document {iri} is not registered; register it before this one runs", code="unknown_document", document=iri)
        return open_child(program, values)

    def _embedded_frame(self, child: Child, branch: Branch, site: Site) -> "Frame":
        return Frame(self.control, child, path=(*self.path, site.name), key=f"{self._key(branch)}/", depth=self.depth + 1, item=self.item,
                     index=self.index, step=self.number, count=self.count)

    def item_frame(self, child: Child, site: Site, key: str, index: int, item: Any) -> "Frame":
        """The frame of one scatter item's document."""
        return Frame(self.control, child, path=(*self.path, site.name, index), key=f"{key}/{index}/", depth=self.depth + 1, item=item,
                     index=index, step=self.number)

    async def _gather(self, branch: Branch, site: Site, slot: Slot) -> Left:
        gather = site.placement
        assert isinstance(gather, Gather)
        assert site.strategy is not None
        arrived = branch.arrived or []
        total = total_of(gather, site.strategy, arrived)
        port = port_of(arrived)
        told = gathered_failure(arrived) if port == ERROR else {}
        if site.node is not None:
            state = MappingProxyType({**self.channels.values, GATHERED: total})
            answer = self.control.answers.get(self._key(branch)) if branch.waits else None
            left = checked(await call(self.control, slot, site, state, (*self.path, site.name), self.number, item=total, index=self.index,
                                      answer=answer), site)
            if left.port == PARKED or (left.port != "success" and left.port in site.routes):
                return left
            return Left(port, {**told, **left.writes}, attempt=left.attempt)
        writes, extended = writes_of(gather, site.strategy, total, self.channels.values)
        return Left(port, {**told, **writes}, extended=extended)

    # -- making it count

    async def _commit(self, branch: Branch, site: Site, left: Left, slot: Slot) -> Branch | None:
        """Take the outcome: the branch to follow, or None."""
        port = left.port
        if port not in site.routes and port != PARKED:
            port = self.program.plan.decide(site.number, port, Preview(self.channels, left.writes))
            if port not in site.routes:
                routes = ", ".join(site.routes) or "none"
                raise NoRoute(f"{site.name} left by {port!r}, which leads nowhere; its routes are {routes}", placement=site.name, port=port)
        if self.lock is None:
            return await self._advance(branch, site, left, port, slot)
        async with self.lock:
            return None if self.control.torn is not None else await self._advance(branch, site, left, port, slot)

    async def _advance(self, branch: Branch, site: Site, left: Left, port: str, slot: Slot) -> Branch | None:
        control, position, plan = self.control, self.position, self.program.plan
        writes = left.writes
        arrival = self._arrival(branch, site, left, port) if site.feeds and port != PARKED else None
        if self.program.forks:
            writes = settle(position, branch, writes, self.channels.values, self.program.ordered | left.extended)
        event: Step | Progress | None = None
        if control.tells and self.depth > 1 and port != PARKED:
            event = Progress(self._step, (*self.path, site.name), position.visits, port,
                             placement_writes(self.channels.delta(writes, left.extended), arrival))
            await self.journal_progress(event, slot)
        before = position.fork() if self.depth == 1 and control.journal is not None else None
        if port == PARKED:
            step(plan, position, Parked(branch, left.own, left.question))
            following = None
        else:
            following = returned(plan, position, branch, port, arrival)
        if control.tells and self.depth == 1:
            event = self._told(site, left, port, writes, following, tuple(pauses_of(plan, branch)) if port == PARKED else ())
            await self._journal_step(event, before, slot)
        self.channels.apply(writes, left.extended)
        if event is not None:
            await control.tell(event)
        return following

    def _arrival(self, branch: Branch, site: Site, left: Left, port: str) -> Any:
        target = site.routes[port]
        if isinstance(branch.inner, Fan):
            return arrival_of(branch.inner, site.feeds, target)
        state = Preview(self.channels, left.writes) if left.state is None else left.state
        return leave(site.feeds, target, site.placement.id, dict(left.writes), port, state)

    def _told(self, site: Site, left: Left, port: str, writes: Mapping[str, Any], following: Branch | None,
              asked: tuple[Pause, ...] = ()) -> Step:
        plan = self.program.plan
        number = self.control.steps
        self.control.steps += 1
        target = site.name if port == PARKED else None
        if following is not None:
            target = plan.placements[following.at].name
        elif port in site.routes and not isinstance(plan.placements[site.routes[port]], Terminal):
            target = plan.placements[site.routes[port]].name
        return Step(index=number, placement=site.placement.id, node=site.name, port=port, next=target, writes=left.writes,
                    delta=self.channels.delta(writes, left.extended), position=self.position.to_plain(plan), attempt=left.attempt,
                    pauses=asked)

    async def _journal_step(self, event: Step, before: Position | None, slot: Slot) -> None:
        if before is None or self.control.journal is None:
            return
        slot.busy += 1
        try:
            await self.control.journal.step(event)
        except BaseException as error:
            self.position = before
            self.control.steps -= 1
            self.control.torn = error
            if isinstance(error, Exception):
                raise JournalFailed("the journal failed") from error
            raise
        finally:
            slot.busy -= 1

    async def journal_progress(self, event: Progress, slot: Slot) -> None:
        """Make progress durable before it counts."""
        if self.control.journal is None:
            return
        slot.busy += 1
        try:
            await self.control.journal.progress(event)
        except Exception as error:
            self.control.torn = error
            raise JournalFailed("the journal failed") from error
        finally:
            slot.busy -= 1

    # -- phases

    async def _pre(self, slot: Slot) -> None:
        plan = self.program.plan
        for number in plan.pre[self.position.pre:]:
            site = self.program.sites[number]
            try:
                await self._phase(site, slot)
            except BaseException as error:
                if not self.control.caught(error, slot, site.name, self.path):
                    if not isinstance(error, Exception):
                        raise
                    self.failure = failure_of(error, site.name, self.path)
                return

    async def _post(self, slot: Slot) -> None:
        """Post phases run on every way out. What they write counts only where the walk is over; where it can be
        resumed they run for their effects."""
        over = not self.position.branches and self.control.halted is None
        for number in self.program.plan.post[self.position.post if over else 0:]:
            site = self.program.sites[number]
            try:
                await self._phase(site, slot, counts=over)
            except BaseException as error:
                if self.control.caught(error, slot, site.name, self.path):
                    return
                if not isinstance(error, Exception):
                    raise
                self.control.warnings.append(failure_of(error, site.name, self.path, code="post_phase_failed"))

    async def _phase(self, site: Site, slot: Slot, *, counts: bool = True) -> None:
        left = checked(await call(self.control, slot, site, self.channels.view, (*self.path, site.name), self.number, item=self.item,
                                  index=self.index), site)
        if left.port == PARKED:
            raise BadOutcome(f"{site.name}: a phase cannot wait for an answer", placement=site.name)
        if not counts:
            return
        control, position = self.control, self.position
        before = position.fork() if self.depth == 1 and control.journal is not None else None
        if control.tells and self.depth > 1:
            event: Step | Progress = Progress(self._step, (*self.path, site.name), position.visits, left.port,
                                              placement_writes(self.channels.delta(left.writes), None))
            await self.journal_progress(event, slot)
        step(self.program.plan, position, PhaseReturned(site.number))
        if control.tells and self.depth == 1:
            first = next(iter(position.branches), None) if site.number in self.program.plan.pre else None
            event = self._told(site, left, left.port, left.writes, first)
            await self._journal_step(event, before, slot)
        else:
            event = None
        self.channels.apply(left.writes)
        if event is not None:
            await control.tell(event)

