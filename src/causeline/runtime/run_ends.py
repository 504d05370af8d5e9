"""Ends of runs that no runner carries out: one that could not be loaded, whose program is not known, or that is given back unbegun."""

from collections.abc import Sequence
from contextlib import suppress

from causeline.causal import AgentState
from causeline.errors import CauselineError, words_of
from causeline.events import RunEvent
from causeline.models.failures import ModelError
from causeline.models.messages import Message
from causeline.policy import Clock
from causeline.run.scope import RunScope
from causeline.runtime.event_buffer import told_so_far
from causeline.runtime.feed import Feed
from causeline.runtime.left_behind import events_of
from causeline.runtime.recorder import Recorder
from causeline.runtime.records import Commit, Interrupt, Run, RunPatch
from causeline.runtime.starting_point import StartingPoint
from causeline.runtime.store import Store
from causeline.runtime.times import iso

BROKEN = "tool_error"
"""The stop reason of a run that something else than its model, a limit or a caller ended."""


def stop_reason_of(error: BaseException | None) -> str | None:
    """The stop reason an error stands for, where it says or a model raised it."""
    if isinstance(error, ModelError):
        return "model_error"
    said = error.facts.get("stop_reason") if isinstance(error, CauselineError) else None
    return said if isinstance(said, str) else None


async def end_as_failed(store: Store, feed: Feed, clock: Clock, run: Run, error: BaseException) -> None:
    """End a run that could not be loaded, or not be recorded as it went."""
    info = {"code": error.code if isinstance(error, CauselineError) else "internal", "message": words_of(error) or type(error).__name__}
    patch = RunPatch(status="failed", stop_reason=BROKEN, error=info, finished_at=iso(clock.now()))
    ended = RunEvent(type="run_error", status="failed", stop_reason=BROKEN, usage=run.usage or {}, **info)
    await _end_as_it_is(store, feed, clock, run, patch, ended)


async def end_as_cancelled(store: Store, feed: Feed, clock: Clock, run: Run) -> None:
    """End a run where it stands, without its program."""
    ended = RunEvent(
        type="run_finished",
        status="cancelled",
        stop_reason="cancelled",
        answer=None,
        pending_tool_call_ids=[],
        interrupts=[],
        usage=run.usage or {},
    )
    patch = RunPatch(status="cancelled", stop_reason="cancelled", finished_at=iso(clock.now()))
    await _end_as_it_is(store, feed, clock, run, patch, ended)


async def _end_as_it_is(store: Store, feed: Feed, clock: Clock, run: Run, patch: RunPatch, event: RunEvent) -> None:
    start = StartingPoint(state=AgentState(), head=run.head, session_head=run.base, told=told_so_far(await events_of(store, run)))
    recorder = Recorder(store, run, scope_of(run, ()), start, document="", clock=clock, publish=feed.publish)
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
        answers={
            row.tool_call_id: {**run.answers[row.id], "kind": row.kind, "args_hash": row.args_hash}
            for row in asked
            if row.parent_call is None
        },
        answers_below={row.id: run.answers[row.id] for row in asked if row.parent_call is not None},
    )
