"""Runs below runs: a call of one run that is carried out by a run of its own.

Law: the id of such a run follows from the call that asked for it, so it is started once, whatever dies; a second asking finds it, and
takes it over if nobody drives it. It has a session of its own and ends with what it hangs on. What it asks a person is asked by the run
above too, and answers that come there are handed down.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from causeline.errors import Conflict, Misuse
from causeline.events import RunEvent
from causeline.models.messages import Message
from causeline.run.ledger import Call
from causeline.run.scope import RunScope, SubRun
from causeline.runtime.chains import Chains, answering_name, names_below
from causeline.runtime.dispatch import Given
from causeline.runtime.local_dispatch import LocalDispatch
from causeline.runtime.program import Program
from causeline.runtime.records import ACTIVE, Interrupt, Run
from causeline.runtime.times import iso

Tell = Callable[[RunEvent], object]


class RunsBelow:
    """See `causeline.run.scope.SubRuns`."""

    def __init__(self, dispatch: LocalDispatch) -> None:
        self._dispatch = dispatch

    async def run(self, scope: RunScope, call: Call, program: Any, prompt: str, tell: Tell) -> SubRun:
        below = _Below(self._dispatch, scope, call, cast("Program", program))
        run = await below.start(prompt)
        used: list[Mapping[str, Any]] = []
        try:
            while True:
                mine = run.parent_run == scope.run_id or run.id == below.answering
                run = await (below.told(run, tell) if mine else below.ended(run))
                if mine:
                    used.append({"run": run.id, "usage": run.usage or {}})
                further = await below.goes_on(run) if run.status == "interrupted" else None
                if further is None:
                    break
                run = further
        except Misuse:
            if not self._dispatch.driving.leaves((scope.owner, scope.run_id)):
                raise
            return SubRun(run_id=run.id, session=run.session, status="queued", usage=used)
        except asyncio.CancelledError:
            if not self._dispatch.driving.leaves((scope.owner, scope.run_id)):
                await asyncio.shield(self._dispatch.cancel(scope.owner, run.id))
            raise
        return SubRun(
            run_id=run.id,
            session=run.session,
            status=run.status,
            stop_reason=run.stop_reason,
            answer=run.answer,
            error=run.error,
            interrupts=[_entry(row) for row in await below.chains.questions(run) if row.state == "open"],
            usage=used,
        )


class _Below:
    """The runs of one call, for the run of `scope`."""

    def __init__(self, dispatch: LocalDispatch, scope: RunScope, call: Call, program: Program) -> None:
        self.chains = Chains(dispatch.store, scope.owner)
        self.answering = answering_name(scope.run_id, call)
        self._dispatch = dispatch
        self._scope = scope
        self._call = call
        self._program = program
        self._agent = dispatch.programs.name_of(scope.owner, program, above=scope.path[-1] if scope.path else "")

    async def start(self, prompt: str) -> Run:
        """The call's first run, which may be there already."""
        run_id, session = names_below(self._call)
        return await self._stored(
            run_id, session, self._scope.run_id, parent_call=self._call.call_id, input=[Message("user", prompt).to_json()]
        )

    async def told(self, run: Run, tell: Tell) -> Run:
        """Wait for the end of a run and tell its events meanwhile. Raises as `ended`."""
        named = {"tool_call_id": self._call.call_id, "sub_run_id": run.id, "sub_session_id": run.session}
        tell(RunEvent(type="sub_run_started", **named, agent=run.agent))
        async for batch in self._dispatch.feed.follow(run.owner, run.id):
            for event in batch:
                tell(RunEvent(type="sub_run_event", run_id=run.id, number=event["seq"]))
        ended = await self.ended(run)
        tell(RunEvent(type="sub_run_finished", **named, status=ended.status, stop_reason=ended.stop_reason))
        return ended

    async def ended(self, run: Run) -> Run:
        """Wait for the end of a run. Raises Conflict where it cannot be had."""
        ended = await self._dispatch.ended(run.owner, run.id)
        if ended.status in ACTIVE:
            raise Conflict(f"run {run.id} did not end", code="run_held", run=run.id)
        return ended

    async def goes_on(self, run: Run) -> Run | None:
        """The run that goes on from an interrupted one: it is there, or answers for it have come to the run above. None while a person
        has to answer."""
        questions = await self.chains.questions(run)
        answered_by = next((row.answered_by for row in questions if row.answered_by is not None), None)
        if answered_by is not None:
            further = await self.chains.row(answered_by)
            await self._dispatch.accept(further, Given(self._program, self._scope.deps))
            return further
        answers = {row.id: self._scope.answers_below[row.id] for row in questions if row.id in self._scope.answers_below}
        if not answers:
            return None
        return await self._stored(self.answering, run.session, run.id, at=run.head, answers=answers, tools=run.tools)

    async def _stored(self, run_id: str, session: str, parent_run: str, **more: Any) -> Run:
        dispatch = self._dispatch
        at = iso(dispatch.clock.now())
        run = Run(
            id=run_id,
            session=session,
            owner=self._scope.owner,
            status="running",
            agent=self._agent,
            created_at=at,
            started_at=at,
            manifest=self._program.manifest(),
            parent_run=parent_run,
            holder=dispatch.holder,
            **more,
        )
        started = await dispatch.store.start(run, "reject")
        await dispatch.accept(started.run, Given(self._program, self._scope.deps))
        return started.run


def _entry(row: Interrupt) -> Mapping[str, Any]:
    """A question of a run below, as a step of the run above asks it."""
    return {
        "id": row.id,
        "run": row.run,
        "path": list(row.path),
        "kind": row.kind,
        "tool_call_id": row.tool_call_id,
        "name": row.name,
        "arguments": row.arguments,
        "args_hash": row.args_hash,
        "question": row.question,
        "reason": row.reason,
    }
