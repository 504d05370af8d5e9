"""What runs left behind that ended before a step of their own, and that the next run of the session must know of.

Law: a call that had an effect is never taken for one that had none, and what a caller said is never lost.
"""

from collections.abc import Mapping, Sequence

from causeline.models.messages import Message
from causeline.run.ledger import FINISHED, Call
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
    last = 0
    if tip is not None:
        last = next((one.queue for one in await store.rows(Run, owner=run.owner, id=tip.run)), 0)
    waited = [
        one
        for one in await store.rows(Run, owner=run.owner, session=run.session, status=("cancelled",))
        if one.head is None and one.at is None and last < one.queue < run.queue
    ]
    return [Message.from_json(message) for one in sorted(waited, key=lambda one: one.queue) for message in one.input]
