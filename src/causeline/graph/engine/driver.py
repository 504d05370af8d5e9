"""The driver: follows the machine's branches, runs what stands where they are, and feeds the machine what came of it.

Law: no task per visit: a branch is followed by one coroutine
that awaits what really waits; tasks exist only for branches and scatter workers that run at once.
"""

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, cast

from causeline.errors import Invalid, Missing
from causeline.graph.documents.document import Embedded, Gather, Scatter, Terminal
from causeline.graph.engine import scatter_run
from causeline.graph.engine.binding import Site
from causeline.graph.engine.commit import Level
from causeline.graph.engine.control import Control, JournalFailed, Slot, failure_of
from causeline.graph.engine.embedded import open_child, outputs, resolve, seeds
from causeline.graph.engine.gather import ERROR, GATHERED, port_of, total_of, writes_of
from causeline.graph.engine.gather import failure_of as gathered_failure
from causeline.graph.engine.position import Branch, Child, Fan, key_part
from causeline.graph.engine.step_events import Failure, LimitReached, Path, Status
from causeline.graph.engine.visit import BadOutcome, Left, call
from causeline.graph.engine.walk import PhaseReturned, step, verdict
from causeline.graph.node import PARKED


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


class Frame(Level):
    """One document under way: the top-level one, an embedded one, or that of a scatter item."""

    __slots__ = ("count", "failure", "index", "item", "key")

    def __init__(
        self,
        control: Control,
        child: Child,
        *,
        path: Path = (),
        key: str = "",
        depth: int = 1,
        item: Any = None,
        index: int | None = None,
        step: int = 0,
        count: Count | None = None,
    ) -> None:
        super().__init__(control, child, path, depth, step)
        self.key = key
        self.item = item
        self.index = index
        self.count = count or Count()
        self.failure: Failure | None = None

    # -- the whole document

    async def run(self, slot: Slot) -> Status | None:
        """Walk until nothing is left to run. None if the execution is stopping; `failure` says why it failed or stalled."""
        plan = self.program.plan
        if self.position.pre < len(plan.pre) and self.control.halted is None:
            await self._pre(slot)
        if self.failure is None and self.control.halted is None:
            ready = [branch for branch in self.position.branches if self._may_run(branch)]
            if len(ready) == 1:
                await self._follow(ready[0], slot)
            elif ready:
                self.lock = self.control.lock()
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
        name = next(
            one.name for number in self.position.reached if isinstance(one := placements[number], Terminal) and one.outcome == "failed"
        )
        told = self.channels.values.get(ERROR)
        if isinstance(told, dict) and "code" in told and "message" in told:
            error = cast("dict[str, Any]", told)
            return Failure(str(error["code"]), str(error["message"]), str(error.get("placement", name)), self.path)
        return Failure("failed_terminal", f"{title} ended at {name}", name, self.path)

    def _may_run(self, branch: Branch) -> bool:
        """False for a branch that only waits for answers it has not got."""
        if branch.waits:
            return self._key(branch) in self.control.answers
        if branch.folded:
            return True  # even if nothing is left to run, so that a step makes it count
        if isinstance(branch.inner, Child):
            return self._embedded_frame(branch.inner, branch, self.program.sites[branch.at]).has_work()
        if isinstance(branch.inner, Fan):
            return scatter_run.has_work(self, branch.inner, self.program.sites[branch.at], self._key(branch))
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
        control, sites = self.control, self.program.sites
        ticks = control.ticks
        at: Branch | None = branch
        try:
            while at is not None and control.halted is None and self.failure is None:
                if ticks() >= control.breathe_at:
                    await control.breathe()
                    continue
                branch = at
                site = sites[branch.at]
                self._enter(site)
                left = await self._visit(branch, site, slot)
                at = None if left is None else await self.commit(branch, site, left, slot)
        except BaseException as error:
            name = sites[branch.at].name
            if control.caught(error, slot, name, self.path):
                return
            if not isinstance(error, Exception):
                raise
            if self.failure is None:
                self.failure = error.failure if isinstance(error, ChildFailed) else failure_of(error, name, self.path)

    def _enter(self, site: Site) -> None:
        """Count a visit. Raises LimitReached."""
        self.count.used += 1
        bound = self.control.limits.visits
        if self.count.used > bound:
            raise LimitReached("visits", bound, site.name)
        if self.control.on_start is not None and self.depth == 1:
            self.control.on_start(self.control.steps, site.name)

    async def _visit(self, branch: Branch, site: Site, slot: Slot) -> Left | None:
        """Run what stands here. A failure becomes the port `error` where that has a route. None while stopping."""
        try:
            left = await self._run(branch, site, slot)
            if left is not None:
                self.channels.check(left.writes, left.extended)
            return left
        except (LimitReached, JournalFailed, scatter_run.SourceBroken):
            raise
        except Exception as error:
            if ERROR not in site.routes:
                raise
            return Left(ERROR, {ERROR: failure_of(error, site.name, self.path).to_plain()})

    def _run(self, branch: Branch, site: Site, slot: Slot) -> Coroutine[Any, Any, Left | None]:
        kind = type(site.placement)
        if kind is Scatter:
            return scatter_run.scatter(self, branch, site, slot, self._key(branch))
        if kind is Embedded:
            return self._embedded(branch, site, slot)
        if kind is Gather:
            return self._gather(branch, site, slot)
        return self._call(site, slot, branch)

    def _call(
        self, site: Site, slot: Slot, branch: Branch | None, state: Mapping[str, Any] | None = None, item: Any = None
    ) -> Coroutine[Any, Any, Left]:
        """Call the site's node with the document's state, or another."""
        answer = self.control.answers.get(self._key(branch)) if branch is not None and branch.waits else None
        return call(
            self.control,
            slot,
            site,
            self.channels.view if state is None else state,
            (*self.path, site.name),
            self.number,
            item=self.item if item is None else item,
            index=self.index,
            answer=answer,
            reducers=self.program.reducers,
        )

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
            raise Missing(
                f"{site.name}: the document {iri} is not registered; register it before this one runs",
                code="unknown_document",
                document=iri,
            )
        return open_child(program, values)

    def _embedded_frame(self, child: Child, branch: Branch, site: Site) -> "Frame":
        return Frame(
            self.control,
            child,
            path=(*self.path, site.name),
            key=f"{self._key(branch)}/",
            depth=self.depth + 1,
            item=self.item,
            index=self.index,
            step=self.number,
            count=self.count,
        )

    def item_frame(self, child: Child, site: Site, key: str, index: int, item: Any) -> "Frame":
        """The frame of one scatter item's document."""
        return Frame(
            self.control,
            child,
            path=(*self.path, site.name, index),
            key=f"{key}/{index}/",
            depth=self.depth + 1,
            item=item,
            index=index,
            step=self.number,
        )

    async def _gather(self, branch: Branch, site: Site, slot: Slot) -> Left:
        gather = site.placement
        assert isinstance(gather, Gather)
        assert site.strategy is not None
        arrived = branch.arrived or []
        total = total_of(gather, site.strategy, arrived)
        port = port_of(arrived)
        told: Mapping[str, Any] = gathered_failure(arrived) if port == ERROR else {}
        if site.node is not None:
            state = MappingProxyType({**self.channels.values, GATHERED: total})
            left = await self._call(site, slot, branch, state, total)
            if left.port == PARKED or (left.port != "success" and left.port in site.routes):
                return left
            return Left(port, {**told, **left.writes}, attempt=left.attempt)
        writes, extended = writes_of(gather, site.strategy, total, self.channels.values)
        return Left(port, {**told, **writes}, extended=extended)

    # -- phases

    async def _pre(self, slot: Slot) -> None:
        plan = self.program.plan
        for number in plan.pre[self.position.pre :]:
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
        for number in self.program.plan.post[self.position.post if over else 0 :]:
            site = self.program.sites[number]
            try:
                await self._phase(site, slot, counts=over)
            except BaseException as error:
                if self.control.caught(error, slot, site.name, self.path):
                    return
                if not isinstance(error, Exception):
                    raise
                self.control.warnings.append(failure_of(error, site.name, self.path, code="post_phase_failed"))
                if over:  # it has had its turn
                    step(self.program.plan, self.position, PhaseReturned(number))

    async def _phase(self, site: Site, slot: Slot, *, counts: bool = True) -> None:
        left = await self._call(site, slot, None)
        if left.port == PARKED:
            raise BadOutcome(f"{site.name}: a phase cannot wait for an answer", placement=site.name)
        if counts:
            self.channels.check(left.writes, left.extended)
            await self.commit_phase(site, left, slot)
