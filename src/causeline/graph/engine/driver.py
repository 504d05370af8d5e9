"""The driver: follows the branches of a document, runs what stands where they are, and has commit make count what came of it.

Law: no task per visit: a branch is followed by one coroutine
that awaits what really waits; tasks exist only for branches and scatter workers that run at once.
"""

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, cast

from causeline.errors import Invalid, Missing
from causeline.graph.documents.document import Embedded, Gather, Scatter, Terminal
from causeline.graph.engine import scatter_run
from causeline.graph.engine.apply import BEGUN
from causeline.graph.engine.binding import Site
from causeline.graph.engine.commit import Commits
from causeline.graph.engine.control import Control, JournalFailed, WalkTask, failure_of
from causeline.graph.engine.embedded import open_child, placing_of, resolve, seeds
from causeline.graph.engine.gather import ERROR, GATHERED, port_of, total_of
from causeline.graph.engine.gather import failure_of as gathered_failure
from causeline.graph.engine.gather import placing_of as gathered_placing
from causeline.graph.engine.plain_values import NotPlain, plain
from causeline.graph.engine.position import Branch, Child, ScatterState, key_part
from causeline.graph.engine.step_events import Failure, LimitReached, Path, Progress, Status
from causeline.graph.engine.visit import BadOutcome, VisitResult, call
from causeline.graph.engine.walk import phase_over, verdict
from causeline.graph.node import PARKED


class ChildFailed(Invalid):
    """A child document failed or stalled, and its placement has no `error` route."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, code=failure.code)
        self.failure = failure


class VisitCount:
    """Visits so far, shared by a document and the documents embedded in it."""

    __slots__ = ("used",)

    def __init__(self, used: int = 0) -> None:
        self.used = used


class Frame(Commits):
    """One document under way: the top-level one, an embedded one, or that of a scatter item."""

    __slots__ = ("count", "failure", "held", "index", "item", "key", "walks")

    def __init__(
        self,
        control: Control,
        child: Child,
        *,
        path: Path = (),
        place: Path = (),
        key: str = "",
        depth: int = 1,
        item: Any = None,
        index: int | None = None,
        step: int = 0,
        count: VisitCount | None = None,
        top: Branch | None = None,
    ) -> None:
        super().__init__(control, child, path, place, depth, step, top)
        self.key = key
        self.item = item
        self.index = index
        self.count = count or VisitCount()
        self.failure: Failure | None = None
        self.held = False
        """True once something here was left for later."""
        self.walks: list[WalkTask] = []

    # -- the whole document

    async def run(self, walk: WalkTask) -> Status | None:
        """Walk until nothing is left to run. None if this walk is to stop, or has left something for later; `failure` says why it failed
        or stalled."""
        plan = self.child.plan
        if self.position.pre < len(plan.pre) and not walk.halted:
            await self._pre(walk)
        if self.failure is None and not walk.halted and not self.held:
            ready = [branch for branch in self.position.branches if self._may_run(branch)]
            if len(ready) == 1:
                await self._follow(ready[0], walk)
            elif ready:
                self.lock = self.control.lock()
                await self.control.together(walk, [lambda part, branch=branch: self._beside(branch, part) for branch in ready])
        status = self._status(walk)
        if plan.post:
            await self._post(walk)
        return status

    def _status(self, walk: WalkTask) -> Status | None:
        if walk.halted:
            return None
        if self.failure is not None:
            return "failed"
        if self.held:
            return None
        if self.position.branches:
            return "interrupted"
        status = verdict(self.child.plan, self.position)
        if status != "completed":
            self.failure = self._ending(status)
        return status

    def _ending(self, status: Status) -> Failure:
        """Why a walk without anything left to run has not completed."""
        placements = self.child.plan.placements
        title = self.child.plan.document.name
        if status == "stalled":
            waiting = ", ".join(placements[number].name for number, barrier in self.position.barriers.items() if barrier.waiting)
            reason = f"the barrier of {waiting} still waits" if waiting else "no terminal was reached"
            return Failure("stalled", f"{title}: nothing is left to run and {reason}", waiting, self.path)
        name = next(
            place.name
            for number in self.position.reached
            if isinstance(place := placements[number], Terminal) and place.outcome == "failed"
        )
        written = self.channels.values.get(ERROR)
        if isinstance(written, dict) and "code" in written and "message" in written:
            error = cast("dict[str, Any]", written)
            return Failure(str(error["code"]), str(error["message"]), str(error.get("placement", name)), self.path)
        return Failure("failed_terminal", f"{title} ended at {name}", name, self.path)

    def _may_run(self, branch: Branch) -> bool:
        """False for a branch that only waits for answers it has not got."""
        if branch.waits:
            return self._key(branch) in self.control.answers
        if branch.resumed:
            return True  # even if nothing is left to run, so that a step makes it count
        if isinstance(branch.inner, Child):
            return self._embedded_frame(branch.inner, branch, self.bound.sites[branch.at]).has_work()
        if isinstance(branch.inner, ScatterState):
            return scatter_run.has_work(self, branch, branch.inner, self.bound.sites[branch.at], self._key(branch))
        return True

    def has_work(self) -> bool:
        """False if all that is left here waits for answers that were not given."""
        branches = self.position.branches
        return not branches or any(self._may_run(branch) for branch in branches)

    def _key(self, branch: Branch) -> str:
        return self.key + key_part(self.child.plan, branch)

    # -- one branch

    async def _beside(self, branch: Branch, walk: WalkTask) -> None:
        """Follow one of several branches. One that fails stops the others promptly."""
        self.walks.append(walk)
        await self._follow(branch, walk)
        if self.failure is not None:
            self.control.stop_part([other for other in self.walks if other is not walk])

    async def _follow(self, branch: Branch, walk: WalkTask) -> None:
        """Visit placement after placement until the branch ends, waits, or everything stops."""
        control, sites = self.control, self.bound.sites
        ticks = control.ticks
        at: Branch | None = branch
        try:
            while at is not None and not walk.halted and self.failure is None:
                if ticks() >= control.breathe_at:
                    await control.breathe()
                    continue
                if control.gate.shut and control.gate.holds():
                    self.held = True
                    return
                branch = at
                site = sites[branch.at]
                self._enter(site)
                result = await self._visit(branch, site, walk)
                if result is None:
                    self.held = True
                    return
                at = await self.commit(branch, site, result, walk)
        except BaseException as error:
            name = sites[branch.at].name
            if control.caught(error, walk, name, self.path):
                return
            if control.gate.hands_back(error):
                self.held = True
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

    async def _visit(self, branch: Branch, site: Site, walk: WalkTask) -> VisitResult | None:
        """Run what stands here. A failure becomes the port `error` where that has a route. None while stopping."""
        tries: list[Mapping[str, Any]] | None = None if site.retry is None else []
        try:
            return await self._run(branch, site, walk, tries)
        except (LimitReached, JournalFailed, scatter_run.SourceBroken):
            raise
        except Exception as error:
            if ERROR not in site.routes or self.control.gate.hands_back(error):
                raise
            return VisitResult(ERROR, {ERROR: failure_of(error, site.name, self.path).to_plain()}, attempts=tuple(tries or ()))

    def _run(
        self, branch: Branch, site: Site, walk: WalkTask, tries: list[Mapping[str, Any]] | None
    ) -> Coroutine[Any, Any, VisitResult | None]:
        kind = type(site.placement)
        if kind is Scatter:
            return scatter_run.scatter(self, branch, site, walk, self._key(branch))
        if kind is Embedded:
            return self._embedded(branch, site, walk)
        if kind is Gather:
            return self._gather(branch, site, walk)
        return self._call(site, walk, branch, tries=tries)

    def _call(
        self,
        site: Site,
        walk: WalkTask,
        branch: Branch | None,
        state: Mapping[str, Any] | None = None,
        item: Any = None,
        tries: list[Mapping[str, Any]] | None = None,
    ) -> Coroutine[Any, Any, VisitResult]:
        """Call the site's node with the document's state, or another."""
        answer = self.control.answers.get(self._key(branch)) if branch is not None and branch.waits else None
        return call(
            self.control,
            walk,
            site,
            self.channels.view if state is None else state,
            (*self.path, site.name),
            self.step_of(branch),
            item=self.item if item is None else item,
            index=self.index,
            answer=answer,
            reducers=self.bound.reducers,
            concurrent=self.bound.forks or self.top is not None,
            tries=tries,
        )

    async def _embedded(self, branch: Branch, site: Site, walk: WalkTask) -> VisitResult | None:
        placement = site.placement
        assert isinstance(placement, Embedded)
        assert site.dag is not None
        child = branch.inner
        if not isinstance(child, Child):
            iri = resolve(site.dag, self.channels.values, self.item, site.name)
            values = seeds(placement.state_input, self.channels)
            child = self.open(iri, values, site)
            branch.inner = child
            await self.begun(branch, site, {"dag": iri, "seeds": self.storable(placement.state_input, values)}, walk)
        frame = self._embedded_frame(child, branch, site)
        status = await frame.run(walk)
        if status is None:
            return None
        if status == "interrupted":
            return VisitResult(PARKED, asks=False)
        inner = child.channels.values
        placing = placing_of(placement, inner)
        if status == "completed":
            return VisitResult("success", placing=placing, state=inner)
        failure = frame.failure
        assert failure is not None
        if ERROR not in site.routes:
            raise ChildFailed(failure)
        return VisitResult(ERROR, {ERROR: failure.to_plain()}, placing=placing, state=inner)

    def open(self, iri: str, values: Mapping[str, Any], site: Site) -> Child:
        """A child document at its start. Raises Missing, LimitReached."""
        if self.depth >= self.control.limits.depth:
            raise LimitReached("depth", self.control.limits.depth, site.name)
        bound = self.control.documents.get(iri)
        if bound is None:
            raise Missing(
                f"{site.name}: the document {iri} is not registered; register it before this one runs",
                code="unknown_document",
                document=iri,
            )
        return open_child(bound, values)

    async def begun(self, branch: Branch, site: Site, began: Mapping[str, Any], walk: WalkTask) -> None:
        """Put on record what unfinished work began with, where other branches could change that before it is gone on with."""
        if self.bound.forks and self.control.tells:
            self.control.rows += 1
            place = (*self.place, key_part(self.child.plan, branch))
            row = Progress(self.control.steps, place, 0, BEGUN, {BEGUN: began}, self.control.rows)
            await self.record(row, walk, self.top_of(branch))
            self.recorded(row)

    def storable(self, mapping: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the seeds that can be stored; others are read again where the work goes on."""
        found: dict[str, Any] = {}
        for key, value in values.items():
            reducer = self.bound.reducers.get(mapping[key].partition(".")[0])
            if reducer is None or reducer.stored:
                try:
                    found[key] = plain(value, key)
                except NotPlain:
                    continue
        return found

    def _embedded_frame(self, child: Child, branch: Branch, site: Site) -> "Frame":
        return Frame(
            self.control,
            child,
            path=(*self.path, site.name),
            place=(*self.place, key_part(self.child.plan, branch)),
            key=f"{self._key(branch)}/",
            depth=self.depth + 1,
            item=self.item,
            index=self.index,
            step=self.step_of(branch),
            count=self.count,
            top=self.top_of(branch),
        )

    def item_frame(self, branch: Branch, child: Child, site: Site, key: str, index: int, item: Any) -> "Frame":
        """The frame of one scatter item's document."""
        return Frame(
            self.control,
            child,
            path=(*self.path, site.name, index),
            place=(*self.place, key_part(self.child.plan, branch), index),
            key=f"{key}/{index}/",
            depth=self.depth + 1,
            item=item,
            index=index,
            step=self.step_of(branch),
            top=self.top_of(branch),
        )

    async def _gather(self, branch: Branch, site: Site, walk: WalkTask) -> VisitResult:
        gather = site.placement
        assert isinstance(gather, Gather)
        assert site.strategy is not None
        arrived = branch.arrived or []
        total = total_of(gather, site.strategy, arrived)
        port = port_of(arrived)
        failure: Mapping[str, Any] = gathered_failure(arrived) if port == ERROR else {}
        if site.node is not None:
            state = MappingProxyType({**self.channels.values, GATHERED: total})
            result = await self._call(site, walk, branch, state, total)
            if result.port == PARKED or (result.port != "success" and result.port in site.routes):
                return result
            return VisitResult(port, {**failure, **result.writes}, attempts=result.attempts)
        return VisitResult(port, failure, placing=gathered_placing(gather, site.strategy, total))

    # -- phases

    async def _pre(self, walk: WalkTask) -> None:
        plan = self.child.plan
        for number in plan.pre[self.position.pre :]:
            site = self.bound.sites[number]
            self.held = self.control.gate.holds()
            if self.held:
                return
            try:
                await self._phase(site, walk)
            except BaseException as error:
                if self.control.gate.hands_back(error):
                    self.held = True
                elif not self.control.caught(error, walk, site.name, self.path):
                    if not isinstance(error, Exception):
                        raise
                    self.failure = failure_of(error, site.name, self.path)
                return

    async def _post(self, walk: WalkTask) -> None:
        """Post phases run on every way out. What they write counts only where the walk is over; where it can be
        resumed they run for their effects."""
        over = not self.position.branches and not walk.halted and not self.held
        for number in self.child.plan.post[self.position.post if over else 0 :]:
            site = self.bound.sites[number]
            try:
                await self._phase(site, walk, counts=over)
            except BaseException as error:
                if self.control.caught(error, walk, site.name, self.path):
                    return
                if not isinstance(error, Exception):
                    raise
                self.control.warnings.append(failure_of(error, site.name, self.path, code="post_phase_failed"))
                if over:  # it has had its turn
                    phase_over(self.child.plan, self.position, number)

    async def _phase(self, site: Site, walk: WalkTask, *, counts: bool = True) -> None:
        result = await self._call(site, walk, None)
        if result.port == PARKED:
            raise BadOutcome(f"{site.name}: a phase cannot wait for an answer", placement=site.name)
        if counts:
            await self.commit_phase(site, result, walk)
