"""What starts, claims, moves and removes runs and sessions, as `operations` says how."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.sql import encoding, log_rows, memory_operations
from causeline.adapters.stores.sql.log_writes import checkpoint_row, places_of
from causeline.adapters.stores.sql.operation import Again, Many, Operation
from causeline.adapters.stores.sql.tips import Tips
from causeline.run.ledger import Call
from causeline.runtime.records import CallRow, Link, OnBusy, Run, Session, Started

# runs


def find(owner: str, run_id: str) -> Operation[Run | None]:
    """The stored run."""
    rows = yield "run_by_id", (owner, run_id)
    return encoding.run_from(rows[0]) if rows else None


def start(run: Run, body: bytes, on_busy: OnBusy) -> Operation[Started]:
    """See `Store.start`; `body` is `encoding.run_body(run)`."""
    known = yield from find(run.owner, run.id)
    if known is not None:
        if not rules.same_start(known, run):
            raise refusals.run_conflict(run.id)
        return Started(run=known, known=True)
    ((session, head),) = yield "session_enter", (run.owner, run.session, run.created_at)
    if run.at is not None and (yield from checkpoint_row(session, encoding.pack("ck_", run.at))) is None:
        raise refusals.no_checkpoint(run.at, run.session)
    waits = (yield from _turn(run, session, on_busy)) or run.status == "queued"
    row = rules.as_queued(run) if waits else rules.as_running(run, run.at or encoding.unpack_checkpoint(head))
    yield from _add_run(row, session, body)
    for name, decision in run.answers.items():
        yield from _answer(session, run, name, encoding.dump(decision))
    if not waits:
        yield from _supersede(row, session)
    stored = yield from find(run.owner, run.id)
    assert stored is not None
    return Started(run=stored)


def _turn(run: Run, session: int, on_busy: OnBusy) -> Operation[bool]:
    """Whether the run has to wait for others of its session."""
    active = yield "runs_active" if on_busy == "cancel" else "runs_active_first", (session,)
    if not active:
        return False
    yield "session_entered", (session,)
    if (yield from find(run.owner, run.id)) is not None:
        raise Again
    if on_busy == "reject":
        for name in run.answers:
            yield from _answerable(session, run, name)
        raise refusals.session_busy(run.session, active[0][1])
    if on_busy == "cancel":
        for _, name in active:
            yield "run_cancel", (run.owner, name, run.created_at)
    return True


def _add_run(run: Run, session: int, body: bytes) -> Operation[int]:
    rows = yield "run_add", encoding.run_columns(run, session)
    if not rows:
        raise Again
    yield "run_body_add", (rows[0][0], body)
    return rows[0][0]


def _answer(session: int, run: Run, name: str, decision: bytes) -> Operation[None]:
    rows = yield "interrupt_answer", (session, name, decision, run.id)
    if not rows:
        yield from _answerable(session, run, name)


def _answerable(session: int, run: Run, name: str) -> Operation[None]:
    rows = yield "interrupt_state", (session, name)
    if not rows:
        raise refusals.no_interrupt(name, run.session)
    if rows[0][0] != "open":
        raise refusals.interrupt_closed(name, rows[0][0])


def _supersede(run: Run, session: int) -> Operation[None]:
    if run.base is not None and rules.speaks(run):
        void = yield "interrupts_supersede", (session, encoding.pack_checkpoint(run.base))
        if void:
            yield "interrupt_supersede_below", Many((name, run.owner) for (name,) in void)


def claim(owner: str, run_id: str, holder: str, epoch: int, beat: int, at: str) -> Operation[Run | None]:
    """See `Store.claim`."""
    rows = yield "run_claim", (owner, run_id, holder, epoch, beat)
    if not rows:
        return None
    number, session, started_at = rows[0]
    run = yield from find(owner, run_id)
    assert run is not None
    if started_at is None:
        asked = None if run.at is None else encoding.pack_checkpoint(run.at)
        ((base,),) = yield "run_begin", (number, at, asked)
        run = replace(run, started_at=at, base=encoding.unpack_checkpoint(base))
        yield from _supersede(run, session)
    return run


def renew(holder: str) -> Operation[Sequence[Run]]:
    """See `Store.renew`."""
    yield "runs_renew", (holder,)
    rows = yield "runs_held", (holder,)
    return [encoding.run_from(row) for row in rows]


def cancel(owner: str, run_id: str, at: str) -> Operation[Run]:
    """See `Store.cancel`."""
    yield "run_cancel", (owner, run_id, at)
    run = yield from find(owner, run_id)
    if run is None:
        raise refusals.no_run(run_id)
    return run


# whole sessions


def put_session(owner: str, session: str, at: str, metadata: bytes | None, context: bytes | None) -> Operation[Session]:
    """See `Store.put_session`; metadata and context as `encoding.dump_or_none` gives them."""
    ((number,),) = yield "session_put", (owner, session, at, metadata, context)
    yield "session_entered", (number,)
    rows = yield "rows_session AND s.no = $1", (number,)
    return encoding.session_from(rows[0])


def load(session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> Operation[None]:
    """See `Store.load`; the rows have passed `rules.check_session`."""
    rows = yield "session_add", encoding.session_columns(session)
    if not rows:
        raise refusals.session_exists(session.id)
    number = rows[0][0]
    numbers: dict[str, int] = {}
    for run in runs:
        rows = yield "run_add", encoding.run_columns(run, number)
        if not rows:
            raise refusals.run_exists(run.id, session.id)
        numbers[run.id] = rows[0][0]
        yield "run_body_add", (rows[0][0], encoding.run_body(run))
    yield from _load_links(number, session, links, numbers)
    by_run: dict[str, list[Call]] = {}
    for row in calls:
        by_run.setdefault(row.run, []).append(row.call)
    for run, own in by_run.items():
        packed = log_rows.PackedCommit(calls=[log_rows.packed_call(call) for call in own])
        yield "log_add", (numbers[run], 1, 0, len(own), None, None, log_rows.body(packed, {}, {}))


def _load_links(number: int, session: Session, links: Sequence[Link], numbers: Mapping[str, int]) -> Operation[None]:
    rows: dict[str, int] = {}
    nodes: dict[bytes, int] = {}
    forked = False
    for link in links:
        checkpoint = link.checkpoint
        row = log_rows.packed_step(checkpoint, link.nodes)
        parent = None if checkpoint.parent is None else rows[checkpoint.parent]
        forked = forked or (bool(rows) and parent != next(reversed(rows.values())))
        body = log_rows.body(row, {}, nodes)
        ((place,),) = yield "log_add", (numbers[checkpoint.run], 1, 0, 0, parent, row.keys, body)
        rows[checkpoint.id] = place
        for name in log_rows.ids(row.keys or b""):
            nodes.setdefault(name, place)
        yield "run_tail", (numbers[checkpoint.run], place, row.head)
    yield "session_tail", (number, rows.get(session.head or ""), int(forked))


DELETIONS = ("delete_progress", "delete_run_bodies", "delete_interrupts", "delete_log", "delete_runs", "delete_session")


def delete(owner: str, name: str, tips: Tips) -> Operation[None]:
    """See `Store.delete`."""
    rows = yield "session_lock", (owner, name)
    if not rows:
        raise refusals.no_session(name)
    session = rows[0][0]
    active = yield "runs_active_first", (session,)
    if active:
        raise refusals.still_active(name, active[0][1])
    if tips.placed is not None:
        placed = yield "session_keys", (session,)
        yield "place_drop", Many(places_of(placed))
    yield from memory_operations.clear((owner, "runs"), (name,))
    for deletion in DELETIONS:
        yield deletion, (session,)
    if tips.placed is not None:
        yield "placed_back", ()
        tips.placed = -1
