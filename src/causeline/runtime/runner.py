"""One run in this process: load it, drive it, record it, end it.

Law: a runner that takes a run over does what the one before it would have done. What it cannot record it raises;
whether the run is taken up again is not decided here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from causeline.errors import CauselineError
from causeline.events import RunEvent
from causeline.graph import Dispatcher, Execution, Reducer, Result
from causeline.policy import Clock
from causeline.run.ledger import FINISHED, Call, Ledger
from causeline.run.scope import Notes, Patience, RunScope
from causeline.runtime.beginning import Answers, Beginning, Fork, Fresh, TakesOver, beginning_of
from causeline.runtime.branch_history import CALLS, CONTEXT, LOG, RESULT, Branch, context_at, usage_of
from causeline.runtime.chains import Chains
from causeline.runtime.feed import Feed
from causeline.runtime.graph_reports import RunInputs
from causeline.runtime.left_behind import Left, answers_by_pause, carried_over, left_by_another, results_in
from causeline.runtime.open_ends import calls_left, questions_left, unheard
from causeline.runtime.program import OUTPUT, GraphProgram, Program
from causeline.runtime.question_keeping import told_void
from causeline.runtime.recorder import WAIT, Recorder
from causeline.runtime.records import Interrupt, Link, Progress, Run, RunPatch, RunStatus, Session
from causeline.runtime.run_ends import BROKEN, scope_of, stop_reason_of
from causeline.runtime.starting_point import StartingPoint
from causeline.runtime.store import Store
from causeline.runtime.times import iso
from causeline.runtime.warm_branches import WarmBranches

STATUS: Mapping[str, RunStatus] = {
    "completed": "succeeded",
    "failed": "failed",
    "timed_out": "failed",
    "stalled": "failed",
    "interrupted": "interrupted",
    "cancelled": "cancelled",
}
REASONS: Mapping[str, str] = {"timed_out": "timeout", "stalled": "stalled", "interrupted": "interrupted", "cancelled": "cancelled"}
LIMIT_REASONS: Mapping[str, str] = {"limit_visits": "max_steps", "limit_depth": "max_steps", "limit_width": "max_steps"}


@dataclass(slots=True)
class Loaded:
    """A run that stands at its next step."""

    run: Run
    execution: Execution
    recorder: Recorder
    branch: Branch
    opening: Sequence[RunEvent] = ()

    def drain(self) -> None:
        """Let what has begun finish, begin nothing new, and hand the run back then."""
        self.recorder.draining = True
        self.execution.drain()

    def cancel(self) -> None:
        """Stop soon. What the caller said is not lost: it is taken in first, with the run's first step."""
        if self.run.head is None and self.run.input and not self.recorder.steps:
            self.recorder.after_next_step(self.execution.cancel)
        else:
            self.execution.cancel()


class Runner:
    """Drives runs of one program."""

    def __init__(
        self, store: Store, feed: Feed, clock: Clock, program: Program, services: Mapping[type, object], warm: WarmBranches
    ) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.program = program
        self.services = services
        self.warm = warm
        self._dispatcher = Dispatcher(limits=program.limits)
        self._reducers = {
            LOG: Reducer("log", lambda old, _new: old, stored=False),  # the recorder appends, with the commit
            CALLS: Reducer("calls", lambda _old, new: new, stored=False),
        }
        own = program.reducers if isinstance(program, GraphProgram) else {}
        self._all_reducers: Mapping[str, Reducer] = {**own, **self._reducers}
        self._dispatcher.register_all([program.document, *program.documents], program.nodes, reducers=self._all_reducers)

    async def load(self, run: Run, deps: object = None) -> Loaded:
        """Open the program, read the run's branch and stand at its next step. Has to be driven then, which closes the program.
        Raises what the program, the store or the engine raises."""
        await self.program.open()
        try:
            return await self._load(run, deps)
        except BaseException:
            await self.program.close()
            raise

    async def _load(self, run: Run, deps: object) -> Loaded:
        asked = [row for name in run.answers for row in await self.store.rows(Interrupt, owner=run.owner, session=run.session, id=name)]
        if asked and run.head is None:
            # A run that answered other questions of this pause may have paused again since this one was asked for.
            run = replace(run, base=asked[0].checkpoint)
        tip = run.head or run.base
        warm = self.warm.take(run, self.program, tip) if run.head is None else None
        links = await self.store.branch(run.owner, run.session, tip) if tip is not None and warm is None else ()
        branch = warm if warm is not None else Branch.read(links, self._all_reducers)
        beginning = beginning_of(run, branch.head, asked_at=asked[0].checkpoint if asked else None, fresh=self.program.fresh)
        session = await self._session(run)
        scope = _scope(run, asked, session, branch, beginning, links)
        scope.deps = deps
        scope.path = await Chains(self.store, run.owner).path(run)
        if beginning.hears:
            scope.input = [*await unheard(self.store, run, branch.head), *scope.input]
        left = await left_by_another(self.store, run, beginning, results_in(links, run.id))
        carried = await self._carried(run, beginning, branch, left, scope)
        known = await questions_left(self.store, run, beginning.asks) if beginning.asks is not None else {}
        opened = {**left.opened, **(known if isinstance(beginning, Answers) else {})}
        pauses = dict(branch.head.facts.get("pauses", {})) if beginning.paused and branch.head is not None else {}
        answers = answers_by_pause(pauses, run, asked, opened)
        start = StartingPoint(
            state=branch.state,
            head=tip,
            session_head=run.base if run.epoch == 1 and run.at is None else session.head if session is not None else None,
            took_context=scope.next_context,
            usage=usage_of(links, run.id),
            told=left.told,
            calls=left.calls,
            carried=carried,
            known=known,
            opened=opened,
            pauses=pauses,
            entered=frozenset(answers),
            inputs=self._inputs(run, scope, branch),
            wait=next((one.writes for one in left.progress if one.port == WAIT), None),
        )
        if left.told.next_number > 1:
            scope.facts_at("")["epoch"] = run.epoch  # the step was begun by another process
        own = self.program.services(scope)
        notes: Any = own.get(Notes)
        recorder = Recorder(
            self.store, run, scope, start, document=self.program.document.hash, clock=self.clock, publish=self.feed.publish, notes=notes
        )
        if left.lost:
            await recorder.move(left.lost)
        if isinstance(beginning, TakesOver):
            await recorder.notes.take_over(links)
        services = {RunScope: scope, Ledger: recorder, Patience: recorder, **self.services, **own}
        before = _visits_before(run, branch, links)
        execution = self._execute(beginning, branch, recorder, services, _pieces(left.progress), answers, before)
        return Loaded(run, execution, recorder, branch, await self._opening(run, beginning, branch, begun=left.told.next_number > 1))

    async def drive(self, loaded: Loaded) -> None:
        """Execute to the end and record how it ended. Draining it, or cancelling the task, parks the run. Raises what kept it from
        being recorded."""
        run, recorder = loaded.run, loaded.recorder
        for event in loaded.opening:
            recorder.emit(event)
        try:
            result = await loaded.execution
            if loaded.execution.drained:
                await asyncio.shield(self._park(recorder))
                return
            await self._end(run, recorder, result)
            self.warm.keep(run, self.program, loaded.branch, recorder.state, recorder.links)
        except asyncio.CancelledError:
            await asyncio.shield(self._park(recorder))
            raise
        finally:
            await recorder.close()
            await self.program.close()

    # loading

    async def _opening(self, run: Run, beginning: Beginning, branch: Branch, *, begun: bool) -> Sequence[RunEvent]:
        """What is told before the first step: that another process takes it over; else that it starts, and what that makes void."""
        return [_opening(run, beginning, begun=begun), *(() if begun else await told_void(self.store, run, branch.head))]

    async def _session(self, run: Run) -> Session | None:
        return next(iter(await self.store.rows(Session, owner=run.owner, id=run.session)), None)

    async def _carried(self, run: Run, beginning: Beginning, branch: Branch, left: Left, scope: RunScope) -> Sequence[Call]:
        """Calls this branch has left open, for this run's ledger: as the run before left them when it goes on from there; anew in a
        fork, where only the client's calls stay the client's. Where a process before this one carried them over already, its rows count."""
        if beginning.calls in ("none", "own") or branch.head is None or not branch.transcript.open:
            return ()
        mine = {call.call_id: call for call in left.calls}
        earlier = await calls_left(self.store, run, branch.head)
        if beginning.calls != "anew":
            scope.settled = frozenset(call_id for call_id, call in earlier.items() if call.state in FINISHED)
        carried: list[Call] = []
        for index, (call_id, (_, name, arguments)) in enumerate(branch.transcript.open.items()):
            before = earlier.get(call_id)
            if call_id in mine:
                if mine[call_id].attempts > (before.attempts if before is not None else 0):
                    scope.answers.pop(call_id, None)  # a decision is good for one start
                continue
            carried.append(carried_over(scope, call_id, name, arguments, index, before, anew=beginning.calls == "anew"))
        return carried

    def _inputs(self, run: Run, scope: RunScope, branch: Branch) -> RunInputs:
        """The channels that a graph of one's own begins with: until its first step has them on record."""
        if run.head is not None or not isinstance(self.program, GraphProgram):
            return RunInputs()
        return RunInputs(self.program.inputs(scope.input, branch.channels), self._all_reducers)

    def _execute(
        self,
        beginning: Beginning,
        branch: Branch,
        recorder: Recorder,
        services: Mapping[type, object],
        progress: Sequence[Mapping[str, Any]],
        answers: Mapping[str, Any],
        before: int,
    ) -> Execution:
        """Start at the entrypoint, or stand again where a checkpoint stood. `before` are steps of earlier runs, which do not count."""
        iri, channels = self.program.document.id, branch.channels
        if not isinstance(beginning, TakesOver):
            channels.pop(RESULT, None)  # how an earlier run ended says nothing of this one
        channels.update(recorder.inputs.values)
        deps = recorder.scope.deps
        if isinstance(beginning, Fresh) or not beginning.enters:
            return self._dispatcher.execute(iri, channels, journal=recorder, services=services, progress=progress, deps=deps)
        standing: Mapping[str, Any] = branch.stands["channels"]
        stored = {
            channel: value
            for channel, value in standing.items()
            if channel not in self._reducers and (channel != RESULT or isinstance(beginning, TakesOver))
        }
        saved = {**branch.stands, "channels": {**stored, **recorder.inputs.values}, "progress": progress}
        first = beginning.tip.step + 1 if isinstance(beginning, TakesOver) else 0
        limits = replace(self.program.limits, visits=self.program.limits.visits + before) if before else None
        return self._dispatcher.resume(
            iri,
            saved,
            answers=answers,
            state={LOG: branch.state},
            journal=recorder,
            services=services,
            first_step=first,
            limits=limits,
            deps=deps,
        )

    # ending

    async def _end(self, run: Run, recorder: Recorder, result: Result) -> None:
        told: Mapping[str, Any] = result.state.get(RESULT) or {}
        status = STATUS[result.status]
        error: Mapping[str, Any] | None = told.get("error")
        reason = REASONS.get(result.status) or told.get("stop_reason")
        if result.error is not None and not (error and result.error.code == "failed_terminal"):  # what led there says more
            error = result.error.to_plain()
            reason = LIMIT_REASONS.get(result.error.code) or stop_reason_of(result.error.cause) or reason
        if reason is None:
            reason = "answered" if status == "succeeded" else BROKEN
        pending = list(told.get("pending_tool_call_ids") or ()) if status == "succeeded" else []
        answer = told.get("answer", self._output(result)) if status == "succeeded" else None
        await self._record(recorder, status, reason, answer=answer, error=error, pending=pending)

    def _output(self, result: Result) -> Any:
        """What a graph of one's own leaves as its answer, where it leaves no result."""
        return result.state.get(OUTPUT) if isinstance(self.program, GraphProgram) else None

    async def _record(
        self,
        recorder: Recorder,
        status: RunStatus,
        reason: str | None,
        *,
        answer: Any = None,
        error: Mapping[str, Any] | None = None,
        pending: Sequence[str] = (),
    ) -> None:
        usage = dict(recorder.usage)
        patch = RunPatch(
            status=status,
            stop_reason=reason,
            answer=answer,
            error=error,
            usage=usage,
            pending_tool_call_ids=list(pending),
            finished_at=iso(self.clock.now()),
        )
        common = {"status": status, "stop_reason": reason, "usage": usage}
        if status == "failed":
            told = error or {"code": reason or "failed", "message": f"the run ended: {reason}"}
            await recorder.finish_run(patch, RunEvent(type="run_error", **common, **told))
            return
        held = [one.id for one in recorder.questions.opened.values() if one.checkpoint == recorder.head] if status == "interrupted" else []
        await recorder.finish_run(
            patch, RunEvent(type="run_finished", **common, answer=answer, pending_tool_call_ids=list(pending), interrupts=held)
        )

    async def _park(self, recorder: Recorder) -> None:
        """This process stops; somebody else may go on at once."""
        try:
            await recorder.park()
        except CauselineError:
            return


def _opening(run: Run, beginning: Beginning, *, begun: bool) -> RunEvent:
    """What a run tells first in this process. Its very first event names the run it comes from: whose questions it answers, whose call
    it carries out, or where it forks."""
    if begun:
        return RunEvent(type="run_taken_over", epoch=run.epoch, holder=run.holder)
    parent = run.parent_run or (beginning.tip.run if isinstance(beginning, Fork) else None)
    return RunEvent(type="run_started", agent=run.agent, checkpoint_id=run.base, **({"parent_run_id": parent} if parent else {}))


def _scope(
    run: Run, asked: Sequence[Interrupt], session: Session | None, branch: Branch, beginning: Beginning, links: Sequence[Link]
) -> RunScope:
    """What the run's nodes may know of it, of its session, and of the branch it goes on from."""
    scope = scope_of(run, asked)
    if session is not None:
        scope.metadata = session.metadata
        scope.next_context = None if beginning.enters else session.next_context
    scope.before = context_at(links, run.base) if run.head is not None else branch.channels.get(CONTEXT) or {}
    scope.asked_by, scope.asked_in, scope.memo = branch.asked_by(), branch.asked_in(), branch.memo
    return scope


def _visits_before(run: Run, branch: Branch, links: Sequence[Link]) -> int:
    """How many visits runs before one that answers have made: they do not count against its own."""
    asked_at = next((link.checkpoint for link in links if link.checkpoint.id == run.base), branch.head)
    return asked_at.position["visits"] if run.answers and asked_at is not None else 0


def _pieces(progress: Sequence[Progress]) -> Sequence[Mapping[str, Any]]:
    """Finished pieces of the step under way, as the engine reads them."""
    return [
        {"step": one.step, "path": list(one.path), "index": one.index, "port": one.port, "writes": one.writes, "number": one.index}
        for one in progress
        if one.port != WAIT
    ]
