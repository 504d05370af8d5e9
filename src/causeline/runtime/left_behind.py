"""What a process that is gone left of a run's step under way, and what becomes of it.

Law: a call that was started and has no result is of unknown outcome from now on; it is never taken for one that did not start.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from causeline.run.ledger import Call, arguments_hash
from causeline.run.scope import RunScope
from causeline.runtime.beginning import Beginning, TakesOver
from causeline.runtime.event_buffer import ToldSoFar, told_so_far
from causeline.runtime.records import CallRow, Interrupt, Link, Progress, Run
from causeline.runtime.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Of a run that another process drove: what it told, the ledger rows the log has no results of, those of them whose outcome is unknown
    now, the questions it holds open, and the finished pieces of the step under way."""

    told: ToldSoFar = field(default_factory=ToldSoFar)
    calls: Sequence[Call] = ()
    lost: Sequence[Call] = ()
    opened: Mapping[str, Interrupt] = field(default_factory=dict[str, Interrupt])
    progress: Sequence[Progress] = ()


def results_in(links: Sequence[Link], run: str) -> set[str]:
    """The calls of a run whose results are in the log."""
    return {node.payload["call_id"] for link in links if link.checkpoint.run == run for node in link.nodes if node.kind == "tool_result"}


async def left_by_another(store: Store, run: Run, beginning: Beginning, answered: Collection[str]) -> Left:
    """Read what a process before this one left; nothing where this is the first. Rows of calls that are `answered` in the log are
    history."""
    if run.epoch <= 1:
        return Left()
    opened = {
        row.id: row
        for row in await store.rows(Interrupt, owner=run.owner, session=run.session, status=("open",))
        if row.checkpoint == run.head
    }
    rows = [row.call for row in await store.rows(CallRow, owner=run.owner, run=run.id)]
    calls = [call for call in rows if call.call_id not in answered]
    step = beginning.tip.step + 1 if isinstance(beginning, TakesOver) else 0
    return Left(
        told=told_so_far(await events_of(store, run)),
        calls=calls,
        lost=[replace(call, state="unknown") for call in calls if call.state == "started"],
        opened=opened,
        progress=[row for row in await store.rows(Progress, owner=run.owner, run=run.id) if row.step >= step],
    )


def carried_over(scope: RunScope, call_id: str, name: str, arguments: Any, index: int, before: Call | None, *, anew: bool) -> Call:
    """An open call of an earlier run as a row of the run of `scope`: as it was left, or `anew`. `before` is its newest row."""
    if before is not None and not anew:
        return replace(before, state="unknown" if before.state == "started" else before.state, step=0)
    client = before is not None and before.client
    return Call(
        call_id=call_id,
        name=name,
        arguments=arguments,
        args_hash=arguments_hash(arguments),
        index=index,
        step=0,
        client=client,
        state="awaiting" if client else "pending",
        opened_in=scope.run_id,
        idempotency_key=scope.idempotency_key(call_id),
    )


def answers_by_pause(
    pauses: Mapping[str, Sequence[str]], run: Run, asked: Sequence[Interrupt], opened: Mapping[str, Interrupt]
) -> Mapping[str, Any]:
    """Answers by the key of the pause. A pause that holds calls is entered again with all decisions, and reads them by call;
    a node's own question gets the value itself. A pause none of them is for is not entered, nor one that has asked anew since."""
    asked_anew = {row.tool_call_id for row in opened.values() if row.parent_call is None}
    own = {row.waiting_call: run.answers[row.id] for row in asked if row.parent_call is not None or row.tool_call_id not in asked_anew}
    answers: dict[str, Any] = {}
    for key, calls in pauses.items():
        if key in own and list(calls) == [key]:
            answers[key] = own[key].get("value") if own[key].get("decision") == "answer" else own[key]
        elif any(call in own for call in calls):
            answers[key] = run.answers
    return answers


async def events_of(store: Store, run: Run) -> Sequence[Mapping[str, Any]]:
    """Every durable event of a run."""
    events: list[Mapping[str, Any]] = []
    while batch := await store.events(run.owner, run.id, events[-1]["seq"] if events else 0):
        events.extend(batch)
    return events
