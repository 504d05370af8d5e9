"""One run in this process: load it, drive it, record it, end it.

Law: a runner that takes a run over does what the one before it would have done; one that lost its lease stops
without a word, since somebody else speaks for the run now.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from causeline.causal import AgentState
from causeline.errors import CauselineError, Conflict, Invalid
from causeline.graph import Dispatcher, Execution, Reducer, Result
from causeline.models.messages import Message
from causeline.policy import Clock
from causeline.runtime.clock import iso
from causeline.runtime.feed import Feed
from causeline.runtime.history import CALLS, LOG, RESULT, Branch, context_at, usage_of
from causeline.runtime.program import Program
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Link, Progress, Run, RunPatch, RunStatus, Session
from causeline.runtime.recorder import Recorder
from causeline.runtime.store import Store
from causeline.tools.calls import Call, Ledger, arguments_hash
from causeline.tools.scope import Recall, RunScope

STATUS: Mapping[str, RunStatus] = {
    "completed": "succeeded", "failed": "failed", "timed_out": "failed", "stalled": "failed", "interrupted": "interrupted",
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

    def __init__(self, store: Store, feed: Feed, clock: Clock, program: Program, recall: Recall) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.program = program
        self.recall = recall
        self._dispatcher = Dispatcher(limits=program.limits)
        self._reducers = {
            LOG: Reducer("log", lambda old, _new: old, stored=False),  # the recorder appends, with the commit
            CALLS: Reducer("calls", lambda _old, new: new, stored=False),
        }
        self._dispatcher.register_all([program.document, *program.documents], program.nodes, reducers=self._reducers)

    async def load(self, run: Run) -> Loaded:
        """Read the run's branch and stand at its next step. Raises what the store or the engine raises."""
        links = await self.store.branch(run.owner, run.session, run.head or run.base)
        branch = Branch.read(links, self._reducers)
        asked = [row for name in run.answers for row in await self.store.rows(Interrupt, owner=run.owner, id=name)]
        scope = self._scope(run, asked)
        scope.before = context_at(links, run.base)
        scope.asked_by = branch.asked_by()
        recorder = Recorder(self.store, run, scope, branch.state, head=run.head or run.base, session_head=await self._session_head(run),
                            document=self.program.document.hash, clock=self.clock, publish=self.feed.publish)
        recorder.asked = asked
        recorder.usage.update(usage_of(links, run.id))
        progress: Sequence[Progress] = ()
        if run.epoch > 1:
            progress = await self._take_over(run, recorder)
        if run.head is None:
            branch.channels.pop(RESULT, None)  # how an earlier run ended says nothing of this one
            await self._carry_over(run, recorder, branch, links)
        services: dict[type, object] = {RunScope: scope, Ledger: recorder, Recall: self.recall, **self.program.services(scope)}
        base = next((link.checkpoint for link in links if link.checkpoint.id == run.base), None) if run.answers else None
        before = base.position["visits"] if base is not None else 0
        return Loaded(run, self._execute(run, branch, recorder, services, progress, before), recorder)

    async def drive(self, loaded: Loaded) -> None:
        """Execute to the end and record how it ended. A lost lease ends it silently; cancelling the task parks the run."""
        run, recorder = loaded.run, loaded.recorder
        if run.head is None and run.epoch == 1:
            recorder.emit({"type": "run_started", "checkpoint_id": run.base, "agent": run.agent})
        try:
            result = await loaded.execution
            await self._end(run, recorder, result)
        except Conflict:
            return
        except Invalid as error:
            await self._record(recorder, "failed", None, error={"code": error.code, "message": error.message})
        except asyncio.CancelledError:
            await asyncio.shield(self._park(recorder))
            raise
        finally:
            await recorder.close()

    async def fail(self, run: Run, error: BaseException) -> None:
        """End a run that could not even be loaded."""
        told = error if isinstance(error, CauselineError) else None
        recorder = Recorder(self.store, run, self._scope(run, ()), AgentState(), head=run.head, session_head=run.base,
                            document="", clock=self.clock, publish=self.feed.publish)
        recorder.adopt_events(await self._events(run))
        info = {"code": told.code if told else "internal", "message": str(error) or type(error).__name__}
        patch = RunPatch(status="failed", error=info, finished_at=iso(self.clock.now()))
        await recorder.finish_run(patch, {"type": "run_error", **info})
        await recorder.close()

    # loading

    @staticmethod
    def _scope(run: Run, asked: Sequence[Interrupt]) -> RunScope:
        return RunScope(run_id=run.id, session_id=run.session, owner=run.owner, started_at=run.started_at or run.created_at,
                        input=[Message.from_json(one) for one in run.input], client_tools=run.tools, context=run.context,
                        answers={one.tool_call_id: run.answers[one.id] for one in asked})

    async def _session_head(self, run: Run) -> str | None:
        sessions = await self.store.rows(Session, owner=run.owner, id=run.session)
        return sessions[0].head if sessions else None

    async def _events(self, run: Run) -> Sequence[Mapping[str, Any]]:
        events: list[Mapping[str, Any]] = []
        while batch := await self.store.events(run.owner, run.id, events[-1]["seq"] if events else 0):
            events.extend(batch)
        return events

    async def _take_over(self, run: Run, recorder: Recorder) -> Sequence[Progress]:
        """Go on where another process stopped: its events, its calls (a started one without a result is of unknown
        outcome from now on), its finished pieces of the step under way."""
        recorder.adopt_events(await self._events(run))
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

    async def _carry_over(self, run: Run, recorder: Recorder, branch: Branch, links: Sequence[Link]) -> None:
        """Calls this branch has left open: as the run before left them when this one goes on from it; anew in a fork,
        where only the client's calls stay the client's. Where a process before this one carried them over already, its rows count."""
        if not branch.transcript.open:
            return
        mine = {call.call_id: call for call in recorder.open_calls()}
        earlier = {row.call.call_id: row.call for row in await self.store.rows(CallRow, owner=run.owner, run=links[-1].checkpoint.run)}
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
            calls.append(Call(call_id=call_id, name=name, arguments=arguments, args_hash=arguments_hash(arguments), index=index, step=0,
                              client=client, state="awaiting" if client else "pending"))
        recorder.adopt_calls(calls, stored=False)
        if continues and run.answers:
            for row in await self.store.rows(Interrupt, owner=run.owner, session=run.session, status=("open",)):
                if row.checkpoint == run.base:
                    recorder.opened[row.id] = row

    def _execute(self, run: Run, branch: Branch, recorder: Recorder, services: Mapping[type, object], progress: Sequence[Progress],
                 before: int) -> Execution:
        """Start at the entrypoint, or stand again where a checkpoint stood. `before` are steps of earlier runs, which do not count."""
        head = branch.head
        iri = self.program.document.id
        stands = head is not None and (run.head is not None or bool(run.answers) or (run.at is not None and not self.program.fresh))
        if head is None or not stands:
            return self._dispatcher.execute(iri, branch.channels, journal=recorder, services=services)
        saved = {
            "position": head.position, "document": branch.document,
            "channels": {channel: value for channel, value in branch.channels.items() if channel not in self._reducers},
            "progress": [{"step": one.step, "path": list(one.path), "index": one.index, "port": one.port, "writes": one.writes} for one in progress],
        }
        answers = self._answers(head, run, [*recorder.opened.values(), *recorder.asked])
        first = head.step + 1 if run.head is not None else 0
        limits = replace(self.program.limits, visits=self.program.limits.visits + before) if before else None
        return self._dispatcher.resume(iri, saved, answers=answers, state={LOG: branch.state}, journal=recorder, services=services,
                                       first_step=first, limits=limits)

    @staticmethod
    def _answers(head: Checkpoint, run: Run, asked: Sequence[Interrupt]) -> Mapping[str, Any]:
        """Answers by the key of the pause. A pause that holds several interrupts gets their decisions by interrupt id, and
        reads them by call; a node's own question gets the value itself."""
        if not run.answers:
            return {}
        own = {one.tool_call_id: run.answers[one.id] for one in asked if one.id in run.answers}
        answers: dict[str, Any] = {}
        for key in head.facts.get("pauses", ()):
            decision = own.get(key)
            if decision is not None:
                answers[key] = decision.get("value") if decision.get("decision") == "answer" else decision
            elif not any(one.tool_call_id == key for one in asked):
                answers[key] = run.answers
        return answers

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

    async def _record(self, recorder: Recorder, status: RunStatus, reason: str | None, *, answer: Any = None,
                      error: Mapping[str, Any] | None = None, pending: Sequence[str] = ()) -> None:
        usage = dict(recorder.usage)
        patch = RunPatch(status=status, stop_reason=reason, answer=answer, error=error, usage=usage, pending_tool_call_ids=list(pending),
                         finished_at=iso(self.clock.now()))
        common = {"status": status, "stop_reason": reason, "usage": usage}
        if status == "failed":
            told = error or {"code": reason or "failed", "message": f"the run ended: {reason}"}
            await recorder.finish_run(patch, {"type": "run_error", **common, **told})
            return
        held = [one.id for one in recorder.opened.values() if one.checkpoint == recorder.head] if status == "interrupted" else []
        await recorder.finish_run(patch, {"type": "run_finished", **common, "answer": answer, "pending_tool_call_ids": list(pending), "interrupts": held})

    async def _park(self, recorder: Recorder) -> None:
        """This process stops; somebody else may go on at once."""
        try:
            await recorder.park()
        except CauselineError:
            return
