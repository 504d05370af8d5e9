"""What a write does, as a conversation with a database: one generator for each method of a store.

Law: a generator yields `(name of a query, its parameters)` and is sent the rows; given `Many` parameters
the query runs once for each and there are no rows. It knows no driver. Whoever runs it does so in one transaction, and what
it raises rolls that back. Values are encoded before the transaction begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.sql import encoding, memory_operations
from causeline.adapters.stores.sql.operation import Many, Operation, Rows
from causeline.errors import CauselineError, Invalid
from causeline.memory.backend import Collection
from causeline.runtime.records import CallRow, Checkpoint, Commit, Link, OnBusy, Run, RunPatch, Session, Started

MAX_NODES = 65_536
"""Nodes of one checkpoint: their place in it is 16 bits of their number."""


class Again(Exception):
    """Another transaction came in between; a second try sees what it did."""


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint and its nodes as columns."""

    id: bytes
    columns: Sequence[Any]
    nodes: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Writing:
    """A commit as columns."""

    commit: Commit
    step: Step | None
    expect_head: bytes | None
    calls: Sequence[Sequence[Any]]
    interrupts: Sequence[Sequence[Any]]
    progress: Sequence[Sequence[Any]]
    events: bytes | None
    patch: Sequence[Any] | None
    context: bytes | None
    memories: Sequence[tuple[Collection, Sequence[Any]]]

    @property
    def size(self) -> int:
        """Bytes of what may be large in it."""
        nodes = sum([len(node[-1]) for node in self.step.nodes]) if self.step is not None else 0
        return nodes + len(self.events or b"") + sum([len(call[2]) for call in self.calls])


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
    if run.at is not None:
        yield from _checkpoint_no(session, run.session, run.at)
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


def _checkpoint_no(session: int, name: str, checkpoint: str) -> Operation[int]:
    packed = encoding.pack("ck_", checkpoint)
    rows: Rows = ()
    if packed is not None:
        rows = yield "checkpoint_no", (session, packed)
    if not rows:
        raise refusals.no_checkpoint(checkpoint, name)
    return rows[0][0]


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
        yield "interrupts_supersede", (session, encoding.pack_checkpoint(run.base))


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


# commits


def step_columns(checkpoint: Checkpoint, nodes: Sequence[Any]) -> Step:
    """A checkpoint and its nodes, encoded. Raises Invalid."""
    if len(nodes) > MAX_NODES:
        raise Invalid(f"checkpoint {checkpoint.id} appends {len(nodes)} nodes; a step may append {MAX_NODES}")
    parent = None if checkpoint.parent is None else encoding.pack("ck_", checkpoint.parent)
    if parent is None and checkpoint.parent is not None:
        raise refusals.no_checkpoint(checkpoint.parent, checkpoint.session)
    rows = [encoding.node_columns(node) for node in nodes]
    appended, frontier = b"".join([row[0] for row in rows]), encoding.pack_nodes(checkpoint.frontier)
    name = encoding.pack_checkpoint(checkpoint.id)
    columns = (checkpoint.step, parent, name, appended, frontier, checkpoint.created_at, encoding.checkpoint_body(checkpoint))
    return Step(name, columns, rows)


def writing(commit: Commit) -> Writing:
    """A commit, checked for itself and encoded. Raises Misuse and Invalid."""
    rules.check_commit(commit)
    return Writing(
        commit=commit,
        step=None if commit.checkpoint is None else step_columns(commit.checkpoint, commit.nodes),
        expect_head=None if commit.expect_head is None else encoding.pack("ck_", commit.expect_head) or b"",
        calls=[encoding.call_columns(call) for call in commit.calls],
        interrupts=[encoding.interrupt_columns(interrupt) for interrupt in commit.interrupts],
        progress=[encoding.progress_columns(piece) for piece in commit.progress],
        events=encoding.events_body(commit.events) if commit.events else None,
        patch=None if commit.patch is None else _patch_columns(commit.patch),
        context=encoding.dump_or_none(commit.took_context),
        memories=[(where, memory_operations.columns(row)) for where, row in commit.memories],
    )


def _patch_columns(patch: RunPatch) -> Sequence[Any]:
    return (
        patch.status, patch.stop_reason, encoding.dump_or_none(patch.answer), encoding.dump_or_none(patch.error),
        encoding.dump_or_none(patch.usage), encoding.dump_or_none(patch.pending_tool_call_ids), patch.finished_at,
    )  # fmt: skip


def write(given: Writing) -> Operation[None]:
    """See `Store.commit`."""
    commit = given.commit
    run, session = yield from (_fence(given) if given.step is None else _advance(given, given.step))
    for place, call in enumerate(given.calls):
        rows = yield "call_put", (run, *call)
        if not rows:
            raise (yield from why_not_moved(given, place))
    if given.interrupts:
        yield "interrupt_put", Many((session, *interrupt) for interrupt in given.interrupts)
    if given.progress:
        yield "progress_put", Many((run, *piece) for piece in given.progress)
    if given.events is not None:
        yield "events_add", (run, commit.first_event, given.events)
    if given.patch is not None:
        yield "run_patch", (run, *given.patch)
    if given.context is not None:
        yield "context_taken", (session, given.context)
    for where, row in given.memories:
        yield from memory_operations.put(where, [row])


def _fence(given: Writing) -> Operation[tuple[int, int]]:
    """The numbers of run and session, if this writer may write the run."""
    commit = given.commit
    rows = yield "run_write", (commit.owner, commit.run, commit.session, commit.epoch, len(commit.events), _first(commit))
    if not rows:
        raise (yield from why_refused(given))
    return rows[0][0], rows[0][1]


def _advance(given: Writing, step: Step) -> Operation[tuple[int, int]]:
    """As `_fence`, and the head of session and run moves on to the checkpoint."""
    commit = given.commit
    rows = yield "session_move", (commit.owner, commit.session, step.id, commit.at, given.expect_head)
    if not rows:
        raise (yield from why_refused(given))
    session = rows[0][0]
    rows = yield "run_move", (commit.owner, commit.run, session, commit.epoch, step.id, len(commit.events), _first(commit))
    if not rows:
        raise (yield from why_refused(given))
    run = rows[0][0]
    yield from _add_step(step, session, run, commit.checkpoint)
    return run, session


def _first(commit: Commit) -> int:
    return commit.first_event if commit.events else 0


def _add_step(step: Step, session: int, run: int, checkpoint: Checkpoint | None) -> Operation[None]:
    assert checkpoint is not None
    rows = yield "checkpoint_add", (session, run, *step.columns)
    if not rows:
        raise refusals.twice(checkpoint.id, checkpoint.session)
    number, parent = rows[0]
    if parent is None and checkpoint.parent is not None:
        raise refusals.no_checkpoint(checkpoint.parent, checkpoint.session)
    if step.nodes:
        first = number << 16
        yield "node_add", Many((first + place, session, *node) for place, node in enumerate(step.nodes))
    yield "progress_fold", (run, checkpoint.step)


def why_refused(given: Writing) -> Operation[CauselineError]:
    """The reason for which a fenced write found no row to change."""
    commit = given.commit
    rows = yield "run_state", (commit.owner, commit.run, commit.session)
    if not rows:
        return refusals.no_run(commit.run)
    status, epoch, events, head = rows[0]
    if status != "running" or epoch != commit.epoch:
        return refusals.lost_lease(commit, status, epoch)
    if commit.events and commit.first_event != events + 1:
        return refusals.event_gap(commit, events)
    return refusals.stale_head(commit, encoding.unpack_checkpoint(head))


def why_not_moved(given: Writing, place: int) -> Operation[CauselineError]:
    """The reason for which the call at this place could not be written."""
    commit = given.commit
    rows = yield "run_no", (commit.owner, commit.run)
    rows = yield "call_state", (rows[0][0], given.calls[place][0])
    return refusals.call_moved(commit.run, commit.calls[place], encoding.STATES[rows[0][0]])


# whole sessions


def put_session(owner: str, session: str, at: str, metadata: bytes | None, context: bytes | None) -> Operation[Session]:
    """See `Store.put_session`; metadata and context as `encoding.dump_or_none` gives them."""
    rows = yield "session_put", (owner, session, at, metadata, context)
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
    for link in links:
        yield from _add_step(step_columns(link.checkpoint, link.nodes), number, numbers[link.checkpoint.run], link.checkpoint)
    for row in calls:
        yield "call_put", (numbers[row.run], *encoding.call_columns(row.call))


DELETIONS = (
    "delete_events", "delete_progress", "delete_calls", "delete_run_bodies", "delete_interrupts", "delete_nodes", "delete_checkpoints",
    "delete_runs", "delete_session",
)  # fmt: skip


def delete(owner: str, name: str) -> Operation[None]:
    """See `Store.delete`."""
    rows = yield "session_lock", (owner, name)
    if not rows:
        raise refusals.no_session(name)
    session = rows[0][0]
    active = yield "runs_active_first", (session,)
    if active:
        raise refusals.still_active(name, active[0][1])
    yield from memory_operations.clear((owner, "runs"), (name,))
    for deletion in DELETIONS:
        yield deletion, (session,)
