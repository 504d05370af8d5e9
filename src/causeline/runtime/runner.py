"""One run in this process: load it, drive it, record it, end it.

Law: a runner that takes a run over does what the one before it would have done. What it cannot record it raises;
whether the run is taken up again is not decided here.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from causeline.causal import AgentState
from causeline.errors import CauselineError
from causeline.graph import Dispatcher, Execution, Reducer, Result
from causeline.models.messages import Message
from causeline.policy import Clock
from causeline.run.ledger import Call, Ledger, arguments_hash
from causeline.run.scope import Patience, RunScope
from causeline.runtime.branch_history import CALLS, LOG, RESULT, Branch, context_at, usage_of
from causeline.runtime.feed import Feed
from causeline.runtime.open_ends import calls_left, questions_left, unheard
from causeline.runtime.program import Program
from causeline.runtime.recorder import WAIT, Recorder
from causeline.runtime.records import CallRow, Checkpoint, Commit, Interrupt, Progress, Run, RunPatch, RunStatus, Session
from causeline.runtime.store import Store
from causeline.runtime.times import iso

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

    def cancel(self) -> None:
        """Stop soon. What the caller said is not lost: it is taken in first, with the run's first step."""
        if self.run.head is None and self.run.input and not self.recorder.steps:
            self.recorder.after_step = self.execution.cancel
        else:
            self.execution.cancel()


class Runner:
    """Drives runs of one program."""

    def __init__(self, store: Store, feed: Feed, clock: Clock, program: Program, services: Mapping[type, object]) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.program = program
        self.services = services
        self._dispatcher = Dispatcher(limits=program.limits)
        self._reducers = {
            LOG: Reducer("log", lambda old, _new: old, stored=False),  # the recorder appends, with the commit
            CALLS: Reducer("calls", lambda _old, new: new, stored=False),
        }
        self._dispatcher.register_all([program.document, *program.documents], program.nodes, reducers=self._reducers)

    async def load(self, run: Run) -> Loaded:
        """Read the run's branch and stand at its next step. Raises what the store or the engine raises."""
        asked = [row for name in run.answers for row in await self.store.rows(Interrupt, owner=run.owner, id=name)]
        if asked and run.head is None:
            # A run that answered other questions of this pause may have paused again since this one was asked for.
            run = replace(run, base=asked[0].checkpoint)
        tip = run.head or run.base
        links = await self.store.branch(run.owner, run.session, tip) if tip is not None else ()
        branch = Branch.read(links, self._reducers)
        scope = scope_of(run, asked)
        scope.before = context_at(links, run.base)
        scope.asked_by = branch.asked_by()
        recorder = Recorder(
            self.store,
            run,
            scope,
            branch.state,
            head=tip,
            session_head=await self._session_head(run),
            document=self.program.document.hash,
            clock=self.clock,
            publish=self.feed.publish,
        )
        recorder.asked = asked
        recorder.usage.update(usage_of(links, run.id))
        progress: Sequence[Progress] = ()
        if run.epoch > 1:
            progress = await self._take_over(run, recorder)
            recorder.wait = next((one.writes for one in progress if one.port == WAIT), None)
        if branch.head is not None and (run.head is not None or run.answers):
            recorder.pauses = dict(branch.head.facts.get("pauses", {}))
        if tip is not None and (run.answers or run.at is None):
            recorder.known = await questions_left(self.store, run, asked[0].checkpoint if asked else run.base)
        if run.head is None:
            recorder.opened.update(recorder.known if run.answers else {})
            branch.channels.pop(RESULT, None)  # how an earlier run ended says nothing of this one
            scope.input = [*await unheard(self.store, run, branch.head), *scope.input]
            await self._carry_over(run, recorder, branch)
        services: dict[type, object] = {
            RunScope: scope,
            Ledger: recorder,
            Patience: recorder,
            **self.services,
            **self.program.services(scope),
        }
        base = next((link.checkpoint for link in links if link.checkpoint.id == run.base), None) if run.answers else None
        before = base.position["visits"] if base is not None else 0
        return Loaded(run, self._execute(run, branch, recorder, services, progress, before), recorder)

    async def drive(self, loaded: Loaded) -> None:
        """Execute to the end and record how it ended. Cancelling the task parks the run. Raises what kept it from being recorded."""
        run, recorder = loaded.run, loaded.recorder
        if run.head is None and run.epoch == 1:
            recorder.emit({"type": "run_started", "checkpoint_id": run.base, "agent": run.agent})
        try:
            await self._end(run, recorder, await loaded.execution)
        except asyncio.CancelledError:
            await asyncio.shield(self._park(recorder))
            raise
        finally:
            await recorder.close()

    # loading

    async def _session_head(self, run: Run) -> str | None:
        """What the next commit expects. A run that began this moment and goes on from the session's head began with it."""
        if run.epoch == 1 and run.at is None:
            return run.base
        sessions = await self.store.rows(Session, owner=run.owner, id=run.session)
        return sessions[0].head if sessions else None

    async def _take_over(self, run: Run, recorder: Recorder) -> Sequence[Progress]:
        """Go on where another process stopped: its events, its calls (a started one without a result is of unknown
        outcome from now on), its finished pieces of the step under way."""
        recorder.adopt_events(await events_of(self.store, run))
        for row in await self.store.rows(Interrupt, owner=run.owner, run=run.id, status=("open",)):
            recorder.opened[row.id] = row
        calls = [row.call for row in await self.store.rows(CallRow, owner=run.owner, run=run.id)]
        latest = max((call.step for call in calls), default=0)
        recorder.adopt_calls([call for call in calls if call.step == latest], stored=True)
        lost = [replace(call, state="unknown") for call in calls if call.step == latest and call.state == "started"]
        if lost:
            await recorder.move(lost)
        step = await self._next_step(run)
        return [row for row in await self.store.rows(Progress, owner=run.owner, run=run.id) if row.step == step]

    async def _next_step(self, run: Run) -> int:
        if run.head is None:
            return 0
        rows = await self.store.rows(Checkpoint, owner=run.owner, run=run.id, id=run.head)
        return rows[0].step + 1 if rows else 0

    async def _carry_over(self, run: Run, recorder: Recorder, branch: Branch) -> None:
        """Calls this branch has left open: as the run before left them when this one goes on from it; anew in a fork,
        where only the client's calls stay the client's. Where a process before this one carried them over already, its rows count."""
        if branch.head is None or not branch.transcript.open:
            return
        mine = {call.call_id: call for call in recorder.open_calls()}
        earlier = await calls_left(self.store, run, branch.head)
        continues = run.at is None or bool(run.answers)
        calls: list[Call] = []
        for index, (call_id, (_, name, arguments)) in enumerate(branch.transcript.open.items()):
            before = earlier.get(call_id)
            if call_id in mine:
                if mine[call_id].attempts > (before.attempts if before is not None else 0):
                    recorder.scope.answers.pop(call_id, None)  # a decision is good for one start
                continue
            if before is not None and continues:
                state = "unknown" if before.state == "started" else before.state
                calls.append(replace(before, state=state, step=0))
                continue
            client = before is not None and before.client
            calls.append(
                Call(
                    call_id=call_id,
                    name=name,
                    arguments=arguments,
                    args_hash=arguments_hash(arguments),
                    index=index,
                    step=0,
                    client=client,
                    state="awaiting" if client else "pending",
                )
            )
        recorder.adopt_calls(calls, stored=False)

    def _execute(
        self, run: Run, branch: Branch, recorder: Recorder, services: Mapping[type, object], progress: Sequence[Progress], before: int
    ) -> Execution:
        """Start at the entrypoint, or stand again where a checkpoint stood. `before` are steps of earlier runs, which do not count."""
        head = branch.head
        iri = self.program.document.id
        stands = head is not None and (run.head is not None or bool(run.answers) or (run.at is not None and not self.program.fresh))
        if head is None or not stands:
            return self._dispatcher.execute(iri, branch.channels, journal=recorder, services=services)
        saved = {
            "position": head.position,
            "document": branch.document,
            "channels": {channel: value for channel, value in branch.channels.items() if channel not in self._reducers},
            "progress": [
                {"step": one.step, "path": list(one.path), "index": one.index, "port": one.port, "writes": one.writes}
                for one in progress
                if one.port != WAIT
            ],
        }
        answers = _answers(recorder.pauses, run, recorder.asked, {one.tool_call_id for one in recorder.opened.values()})
        recorder.entered = frozenset(answers)
        first = head.step + 1 if run.head is not None else 0
        limits = replace(self.program.limits, visits=self.program.limits.visits + before) if before else None
        return self._dispatcher.resume(
            iri, saved, answers=answers, state={LOG: branch.state}, journal=recorder, services=services, first_step=first, limits=limits
        )

    # ending

    async def _end(self, run: Run, recorder: Recorder, result: Result) -> None:
        told: Mapping[str, Any] = result.state.get(RESULT) or {}
        status = STATUS[result.status]
        error: Mapping[str, Any] | None = told.get("error")
        reason = REASONS.get(result.status) or told.get("stop_reason")
        if result.error is not None and not (error and result.error.code == "failed_terminal"):  # what led there says more
            error = result.error.to_plain()
            reason = LIMIT_REASONS.get(result.error.code, reason)
        if status == "succeeded" and reason is None:
            reason = "answered"
        pending = list(told.get("pending_tool_call_ids") or ()) if status == "succeeded" else []
        answer = told.get("answer") if status == "succeeded" else None
        await self._record(recorder, status, reason, answer=answer, error=error, pending=pending)

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
            await recorder.finish_run(patch, {"type": "run_error", **common, **told})
            return
        held = [one.id for one in recorder.opened.values() if one.checkpoint == recorder.head] if status == "interrupted" else []
        await recorder.finish_run(
            patch, {"type": "run_finished", **common, "answer": answer, "pending_tool_call_ids": list(pending), "interrupts": held}
        )

    async def _park(self, recorder: Recorder) -> None:
        """This process stops; somebody else may go on at once."""
        try:
            await recorder.park()
        except CauselineError:
            return


def _answers(pauses: Mapping[str, Sequence[str]], run: Run, asked: Sequence[Interrupt], opened: Collection[str]) -> Mapping[str, Any]:
    """Answers by the key of the pause. A pause that holds calls is entered again with all decisions, and reads them by call;
    a node's own question gets the value itself. A pause none of them is for is not entered, nor one that has asked anew since."""
    own = {one.tool_call_id: run.answers[one.id] for one in asked if one.tool_call_id not in opened}
    answers: dict[str, Any] = {}
    for key, calls in pauses.items():
        if key in own and list(calls) == [key]:
            answers[key] = own[key].get("value") if own[key].get("decision") == "answer" else own[key]
        elif any(call in own for call in calls):
            answers[key] = run.answers
    return answers


async def end_as_failed(store: Store, feed: Feed, clock: Clock, run: Run, error: Exception) -> None:
    """End a run that could not be loaded, or not be recorded as it went."""
    info = {"code": error.code if isinstance(error, CauselineError) else "internal", "message": str(error) or type(error).__name__}
    patch = RunPatch(status="failed", error=info, finished_at=iso(clock.now()))
    await _end_as_it_is(store, feed, clock, run, patch, {"type": "run_error", "status": "failed", "stop_reason": None, **info})


async def end_as_cancelled(store: Store, feed: Feed, clock: Clock, run: Run) -> None:
    """End a run where it stands, without its program."""
    told: Mapping[str, Any] = {
        "status": "cancelled",
        "stop_reason": "cancelled",
        "answer": None,
        "pending_tool_call_ids": [],
        "interrupts": [],
        "usage": run.usage or {},
    }
    patch = RunPatch(status="cancelled", stop_reason="cancelled", finished_at=iso(clock.now()))
    await _end_as_it_is(store, feed, clock, run, patch, {"type": "run_finished", **told})


async def _end_as_it_is(store: Store, feed: Feed, clock: Clock, run: Run, patch: RunPatch, event: Mapping[str, Any]) -> None:
    recorder = Recorder(
        store, run, scope_of(run, ()), AgentState(), head=run.head, session_head=run.base, document="", clock=clock, publish=feed.publish
    )
    recorder.adopt_events(await events_of(store, run))
    await recorder.finish_run(patch, event)
    await recorder.close()


async def hand_back(store: Store, clock: Clock, run: Run) -> None:
    """Let somebody else have a run that was claimed and not begun."""
    with suppress(CauselineError):
        await store.commit(
            Commit(run=run.id, session=run.session, owner=run.owner, epoch=run.epoch, at=iso(clock.now()), patch=RunPatch(status="queued"))
        )


def scope_of(run: Run, asked: Sequence[Interrupt]) -> RunScope:
    """What the run's nodes may know of it. A decision goes with the kind and the arguments it was made on."""
    return RunScope(
        run_id=run.id,
        session_id=run.session,
        owner=run.owner,
        started_at=run.started_at or run.created_at,
        input=[Message.from_json(one) for one in run.input],
        client_tools=run.tools,
        context=run.context,
        answers={one.tool_call_id: {**run.answers[one.id], "kind": one.kind, "args_hash": one.args_hash} for one in asked},
    )


async def events_of(store: Store, run: Run) -> Sequence[Mapping[str, Any]]:
    """Every durable event of a run."""
    events: list[Mapping[str, Any]] = []
    while batch := await store.events(run.owner, run.id, events[-1]["seq"] if events else 0):
        events.extend(batch)
    return events
