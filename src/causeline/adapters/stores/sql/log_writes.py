"""How a commit is written: one row of the log under a fence that needs no look-up, and beside it what others may change."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.sql import encoding, log_rows, memory_operations
from causeline.adapters.stores.sql.log_rows import PackedCommit
from causeline.adapters.stores.sql.operation import Again, Many, Operation, Rows
from causeline.adapters.stores.sql.tips import Key, Tip, Tips
from causeline.errors import CauselineError
from causeline.memory.backend import Collection
from causeline.runtime.records import Commit, RunPatch

FILL = 256
"""Rows whose ids are indexed at once: in sorted order a page of the index is written for many of them."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A commit, encoded."""

    commit: Commit
    row: PackedCommit
    interrupts: Sequence[Sequence[Any]]
    progress: Sequence[Sequence[Any]]
    patch: Sequence[Any] | None
    context: bytes | None
    memories: Sequence[tuple[Collection, Sequence[Sequence[Any]]]]

    @property
    def plain(self) -> bool:
        """Whether it is one row of the log and nothing else."""
        return not (self.interrupts or self.progress or self.memories) and self.patch is None and self.context is None

    @property
    def key(self) -> Key:
        """The run it belongs to."""
        return self.commit.owner, self.commit.run


def writing(commit: Commit) -> Writing:
    """A commit, checked for itself and encoded. Raises Misuse and Invalid."""
    rules.check_commit(commit)
    return Writing(
        commit=commit,
        row=log_rows.packed(commit),
        interrupts=[encoding.interrupt_columns(interrupt) for interrupt in commit.interrupts],
        progress=[encoding.progress_columns(piece) for piece in commit.progress],
        patch=None if commit.patch is None else _patch_columns(commit.patch),
        context=encoding.dump_or_none(commit.took_context),
        memories=[(where, [memory_operations.columns(row) for _, row in rows]) for where, rows in groupby(commit.memories, itemgetter(0))],
    )


def _patch_columns(patch: RunPatch) -> Sequence[Any]:
    return (
        patch.status, patch.stop_reason, encoding.dump_or_none(patch.answer), encoding.dump_or_none(patch.error),
        encoding.dump_or_none(patch.usage), encoding.dump_or_none(patch.pending_tool_call_ids), patch.finished_at,
    )  # fmt: skip


def write(given: Writing, tips: Tips) -> Operation[None]:
    """See `Store.commit`. What it refuses it refuses before it has written anything."""
    tips.touch(given.key)
    tip = tips.get(given.key)
    if tip is not None:
        with suppress(CauselineError):  # what is remembered may be old; the reason is told from what is stored
            ready = yield from prepared(given, tip)
            if (yield from _add(given, tip, tips, ready)):
                return
    tips.drop(given.key)
    tip = yield from read_tip(given)
    ready = yield from prepared(given, tip)
    tips.keep(given.key, tip)
    if not (yield from _add(given, tip, tips, ready)):
        raise Again


def read_tip(given: Writing) -> Operation[Tip]:
    """Where the run stands. Raises Missing."""
    commit = given.commit
    rows = yield "tip", (commit.owner, commit.run, commit.session)
    if not rows:
        raise refusals.no_run(commit.run)
    run, session, status, epoch, commits, events, head, tail, session_head, session_tail, forked, pieces = rows[0]
    states: dict[str, int] | None = None if commits else {}
    return Tip(
        run, session, commit.session, status, epoch, commits, events, head, tail, session_head, session_tail, bool(forked),
        -1 if pieces is None else pieces, states,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ready:
    """A commit that may follow a tip: the columns of its row, whether it begins a branch beside the session's head, and whether the
    row is all there is to write."""

    columns: Sequence[Any]
    forks: bool
    plain: bool


def prepared(given: Writing, tip: Tip) -> Operation[Ready]:
    """The row of a commit that follows a tip. Only reads. Raises Conflict and Missing where it may not follow."""
    commit, row = given.commit, given.row
    if tip.session_id != commit.session:
        raise refusals.no_run(commit.run)
    tip.check(commit)
    parent, forks = (yield from _parent(given, tip)) if row.keys is not None else (None, False)
    if row.calls:
        if tip.states is None:
            yield from _read_calls(tip)
        tip.check_calls(commit, row)
    if row.nodes and tip.nodes is None and (forks or tip.forked):
        rows = yield "session_keys", (tip.session,)
        tip.nodes = log_rows.rows_of_ids(rows)
    body = log_rows.body(row, tip.specs, tip.nodes or {})
    plain = given.plain and not forks and (row.keys is None or tip.pieces < 0)
    return Ready((tip.run, tip.events + 1, len(commit.events), len(row.calls), parent, row.keys, body), forks, plain)


def _parent(given: Writing, tip: Tip) -> Operation[tuple[int | None, bool]]:
    """The row of the checkpoint's parent, and whether that is another than the session's head."""
    checkpoint, row = given.commit.checkpoint, given.row
    assert checkpoint is not None
    last, tail = tip.last()
    if row.parent == last:
        return tail, False
    parent = yield from checkpoint_row(tip.session, row.parent)
    if parent is None and row.parent is not None:
        raise refusals.no_checkpoint(str(checkpoint.parent), checkpoint.session)
    if (yield from checkpoint_row(tip.session, row.head)) is not None:
        raise refusals.twice(checkpoint.id, checkpoint.session)
    return parent, True


def _read_calls(tip: Tip) -> Operation[None]:
    fold = log_rows.CallFold()
    for _, body in (yield "calls_of_run", (tip.run,)):
        fold.read(body)
    tip.states, tip.specs = fold.states(), fold.specs()


def _add(given: Writing, tip: Tip, tips: Tips, ready: Ready) -> Operation[bool]:
    """Write the row and what goes with it, if the run still stands where the tip says."""
    commit, row = given.commit, given.row
    if ready.forks or given.patch is not None or given.context is not None:
        yield "session_hold", (tip.session,)
    ((number,),) = yield "log_add", ready.columns
    fence = (tip.run, tip.epoch, tip.commits, len(commit.events))
    moved = yield ("run_note", fence) if row.keys is None else ("run_move", (*fence, row.head, number, commit.at))
    if not moved:
        yield "log_drop", (number,)
        return False
    tip.moved(row, len(commit.events), number)
    if ready.forks:
        tip.forked = True
        yield "session_fork", (tip.session,)
    yield from _write_beside(given, tip, tips)
    if tips.placed is not None and number - tips.placed >= FILL:
        yield from fill(tips)
    return True


def _write_beside(given: Writing, tip: Tip, tips: Tips) -> Operation[None]:
    """What of a commit is no part of its row, because others change it."""
    if given.commit.checkpoint is not None and tip.pieces >= 0:
        yield "progress_fold", (tip.run, given.commit.checkpoint.step)
        if tip.pieces <= given.commit.checkpoint.step:
            tip.pieces = -1
    if given.interrupts:
        yield "interrupt_put", Many((tip.session, *interrupt) for interrupt in given.interrupts)
    if given.progress:
        yield "progress_put", Many((tip.run, *piece) for piece in given.progress)
        tip.pieces = max(tip.pieces, *[piece[0] for piece in given.progress])
    if given.patch is not None:
        if given.patch[0] is not None:
            tips.drop(given.key)
            yield "session_rest", (tip.session, tip.run)
        yield "run_patch", (tip.run, *given.patch)
    if given.context is not None:
        yield "context_taken", (tip.session, given.context)
    for where, rows in given.memories:
        yield from memory_operations.put(where, rows)


def fill(tips: Tips) -> Operation[None]:
    """Index the ids of all rows that are not indexed yet, those of other processes too."""
    ((placed,),) = yield "placed", ()
    rows = yield "log_keys_after", (placed,)
    if rows:
        yield "place_add", Many(sorted(places_of(rows)))
        yield "placed_set", (rows[-1][0],)
    tips.placed = rows[-1][0] if rows else placed


def places_of(rows: Rows) -> Iterable[tuple[int, int]]:
    """(the beginning of an id as a number, its row) of every id the rows tell of."""
    return [(place_of(name), number) for number, keys in rows for name in (keys[: log_rows.ID], *log_rows.ids(keys))]


def place_of(key: bytes) -> int:
    """The first 6 bytes of an id as a number, which is what the index holds. Two ids may share them; the row says which it is."""
    return int.from_bytes(key[:6])


def checkpoint_row(session: int, key: bytes | None) -> Operation[int | None]:
    """The row that tells of a checkpoint of the session, if there is one."""
    if key is not None:
        for (number,) in (yield "places", (place_of(key), key)):
            rows = yield "log_keys_in_session", (number, session)
            if rows and rows[0][0][: log_rows.ID] == key:
                return number
    return None
