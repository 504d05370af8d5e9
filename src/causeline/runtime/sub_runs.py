"""Runs below runs: a call of one run that is carried out by a run of its own.

Law: the id of such a run follows from the idempotency key of the call that asked for it, so it is started once, whatever dies; a second
asking finds it, and takes it over if nobody drives it. It has a session of its own and ends with what it hangs on.
"""

import asyncio
from typing import Any, cast

from causeline.errors import Conflict
from causeline.models.messages import Message
from causeline.run.ledger import derive
from causeline.run.scope import RunScope, SubRun
from causeline.runtime.dispatch import Given
from causeline.runtime.local_dispatch import LocalDispatch
from causeline.runtime.program import Program
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.times import iso


def names_below(key: str) -> tuple[str, str]:
    """Id and session of the run that carries out the call with this idempotency key."""
    return derive("run_", key), derive("ses_", key)


class RunsBelow:
    """See `causeline.run.scope.SubRuns`."""

    def __init__(self, dispatch: LocalDispatch) -> None:
        self._dispatch = dispatch

    def named(self, key: str) -> tuple[str, str]:
        return names_below(key)

    async def run(self, scope: RunScope, call_id: str, key: str, program: Any, prompt: str) -> SubRun:
        dispatch = self._dispatch
        own = dispatch.programs.named(scope.owner, cast("Program", program))
        run_id, session = names_below(key)
        at = iso(dispatch.clock.now())
        run = Run(
            id=run_id,
            session=session,
            owner=scope.owner,
            status="running",
            agent=own.name,
            created_at=at,
            started_at=at,
            input=[Message("user", prompt).to_json()],
            manifest=own.manifest(),
            parent_run=scope.run_id,
            parent_call=call_id,
            holder=dispatch.holder,
        )
        try:
            started = await dispatch.store.start(run, "reject")
            await dispatch.accept(started.run, Given(own, scope.deps))
            await dispatch.ended(scope.owner, run_id)
        except asyncio.CancelledError:
            if not dispatch.driving.leaves((scope.owner, scope.run_id)):
                await asyncio.shield(dispatch.cancel(scope.owner, run_id))
            raise
        row = (await dispatch.store.rows(Run, owner=scope.owner, id=run_id))[0]
        if row.status in ACTIVE:
            raise Conflict(f"run {run_id} did not end", code="run_held", run=run_id)
        return SubRun(run_id=run_id, session=session, status=row.status, stop_reason=row.stop_reason, answer=row.answer, error=row.error)
