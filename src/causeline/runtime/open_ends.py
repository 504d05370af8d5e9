"""What runs left behind that ended before a step of their own, and that the next run of the session must know of.

Law: a call that had an effect is never taken for one that had none, and what a caller said is never lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from causeline.models.messages import Message
from causeline.run.ledger import FINISHED, Call
from causeline.run.scope import message_id
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Run
from causeline.runtime.store import Store


async def calls_left(store: Store, run: Run, tip: Checkpoint) -> Mapping[str, Call]:
    """The calls that are open at `tip`, as they stand in the ledger: as its own run left them, then as runs did that went on from
    there and ended in mid-step."""
    found = {row.call.call_id: row.call for row in await store.rows(CallRow, owner=run.owner, run=tip.run)}
    answering = {one.answered_by for one in await store.rows(Interrupt, owner=run.owner, session=run.session) if one.checkpoint == tip.id}
    for one in await store.rows(Run, owner=run.owner, session=run.session):
        went_on = one.id in answering or (one.base == tip.id and one.at is None)
        if one.id == run.id or one.head is not None or not went_on:
            continue
        for row in await store.rows(CallRow, owner=run.owner, run=one.id):
            before = found.get(row.call.call_id)
            if before is None or row.call.attempts > before.attempts or row.call.state in FINISHED:
                found[row.call.call_id] = row.call
    return found


async def questions_left(store: Store, run: Run, tip: str | None) -> dict[str, Interrupt]:
    """The questions that stand open at `tip`, by id: those nobody has answered, and those answered by a run that still waits its turn."""
    rows = await store.rows(Interrupt, owner=run.owner, session=run.session, status=("open", "answered"))
    here = [row for row in rows if row.checkpoint == tip]
    if all(row.state == "open" for row in here):
        return {row.id: row for row in here}
    waiting = {one.id for one in await store.rows(Run, owner=run.owner, session=run.session, status=("queued",))}
    return {row.id: row for row in here if row.state == "open" or row.answered_by in waiting}


async def unheard(store: Store, run: Run, tip: Checkpoint | None) -> Sequence[Message]:
    """What callers said in runs behind the run of `tip` that were cancelled before their first step; the next one that has something
    to say says it too. Forks do not."""
    if run.at is not None or not any(message.get("role") == "user" for message in run.input):
        return ()
    waited = await _cancelled_behind(store, run.owner, run.session, tip.run if tip is not None else None)
    return [Message.from_json(message) for other in waited if other.queue < run.queue for message in other.input]


async def said_behind(store: Store, owner: str, session: str, tip_run: str | None) -> Sequence[Message]:
    """What callers said in runs that were cancelled while they waited behind the run of the session's head, and no run has taken in yet."""
    waited = await _cancelled_behind(store, owner, session, tip_run)
    return [
        replace(Message.from_json(message), id=message_id(run.id, 0, index)) for run in waited for index, message in enumerate(run.input)
    ]


async def _cancelled_behind(store: Store, owner: str, session: str, tip_run: str | None) -> Sequence[Run]:
    """The runs of a session that were cancelled before a step of their own, behind the run `tip_run`."""
    cancelled = [
        run for run in await store.rows(Run, owner=owner, session=session, status=("cancelled",)) if run.head is None and run.at is None
    ]
    if not cancelled:
        return ()
    last = 0
    if tip_run is not None:
        last = next((run.queue for run in await store.rows(Run, owner=owner, id=tip_run)), 0)
    return sorted((run for run in cancelled if run.queue > last), key=lambda run: run.queue)
