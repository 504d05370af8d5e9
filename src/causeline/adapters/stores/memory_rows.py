"""What a store in memory keeps, and its rows by filter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from causeline.adapters.stores.row_filters import Wanted, no_cursor
from causeline.causal import CausalNode
from causeline.run.ledger import Call
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Interrupt, Progress, Run, Session

Piece = tuple[int, tuple[str | int, ...], int]


class KeptSession:
    """A session with everything keyed by it. `active` are its queued and running runs in the order of the queue. `head` and `updated_at`
    are kept apart from the row, because each step changes them."""

    __slots__ = ("active", "checkpoints", "head", "interrupts", "nodes", "row", "running", "runs", "updated_at")

    def __init__(self, row: Session) -> None:
        self.row = row
        self.head = row.head
        self.updated_at = row.updated_at
        self.runs: dict[str, KeptRun] = {}
        self.active: dict[str, KeptRun] = {}
        self.running: KeptRun | None = None
        self.checkpoints: dict[str, Checkpoint] = {}
        self.nodes: dict[str, CausalNode] = {}
        self.interrupts: dict[str, Interrupt] = {}

    def add(self, run: "KeptRun") -> None:
        """Take in a new run, the last of the queue if it waits or runs."""
        self.runs[run.row.id] = run
        if run.row.status in ACTIVE:
            self.active[run.row.id] = run
        if run.row.status == "running":
            self.running = run

    def stored(self) -> Session:
        """The row as it is now."""
        return replace(self.row, head=self.head, updated_at=self.updated_at)

    def ordered_checkpoints(self) -> Sequence[Checkpoint]:
        """Run by run, as they came. Runs of one session follow each other; only those of one that was loaded may be mixed."""
        return sorted(self.checkpoints.values(), key=lambda row: self.runs[row.run].row.queue)

    def turn(self) -> "KeptRun | None":
        """The run whose turn it is."""
        return self.running or next(iter(self.active.values()), None)


class KeptRun:
    """A run with everything keyed by it. `head` is kept apart from the row, because each step changes it."""

    __slots__ = ("calls", "events", "head", "progress", "row", "session")

    def __init__(self, row: Run, session: KeptSession) -> None:
        self.row = row
        self.head = row.head
        self.session = session
        self.calls: dict[str, Call] = {}
        self.events: list[Mapping[str, Any]] = []
        self.progress: dict[Piece, Progress] = {}

    def stored(self) -> Run:
        """The row as it is now."""
        last = len(self.events)
        row = self.row
        return row if row.head == self.head and row.last_event == last else replace(row, head=self.head, last_event=last)

    def change(self, **fields: Any) -> None:
        """Change fields of the row, and its place in the session with its status."""
        self.row = replace(self.row, **fields)
        if self.row.status not in ACTIVE:
            self.session.active.pop(self.row.id, None)
        if self.row.status == "running":
            self.session.running = self
        elif self.session.running is self:
            self.session.running = None


class KeptRows:
    """All that is kept. `busy` are the sessions that may have active runs."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], KeptSession] = {}
        self.runs: dict[tuple[str, str], KeptRun] = {}
        self.busy: dict[tuple[str, str], KeptSession] = {}

    def active(self) -> Iterable[KeptRun]:
        """The queued and running runs of all sessions. Costs their number, not that of all runs."""
        return (run for session in self._busy() for run in session.active.values())

    def running(self) -> Iterable[KeptRun]:
        """The running runs of all sessions."""
        return (session.running for session in self._busy() if session.running is not None)

    def read(self, kind: type, wanted: Wanted) -> Sequence[Any]:
        """The rows of one kind. Raises Missing for a cursor that names none."""
        found = self._all(kind, wanted)
        if wanted.newest:
            found = reversed(list(found))
        if wanted.after is not None:
            found = _behind(kind, found, wanted.after)
        return list(islice((row for row in found if _fits(row, wanted)), wanted.limit))

    def _busy(self) -> Iterable[KeptSession]:
        for key, session in list(self.busy.items()):
            if session.active:
                yield session
            else:
                del self.busy[key]

    def _all(self, kind: type, wanted: Wanted) -> Iterable[Any]:
        if kind is Run:
            named = wanted if wanted.run is not None or wanted.id is None else replace(wanted, run=wanted.id)
            return (run.stored() for run in self._runs(named) if not wanted.status or run.row.status in wanted.status or wanted.after)
        if kind is CallRow:
            return (CallRow(run=run.row.id, call=call) for run in self._runs(wanted) for call in run.calls.values())
        if kind is Progress:
            return (piece for run in self._runs(wanted) for piece in run.progress.values())
        sessions = self._sessions(wanted)
        if kind is Session:
            return (session.stored() for session in sessions)
        if kind is Checkpoint:
            return (row for session in sessions for row in session.ordered_checkpoints())
        return (row for session in sessions for row in session.interrupts.values())

    def _sessions(self, wanted: Wanted) -> Iterable[KeptSession]:
        if wanted.owner is not None and wanted.session is not None:
            session = self.sessions.get((wanted.owner, wanted.session))
            return () if session is None else (session,)
        return (
            session for (owner, name), session in self.sessions.items() if wanted.owner in (None, owner) and wanted.session in (None, name)
        )

    def _runs(self, wanted: Wanted) -> Iterable[KeptRun]:
        if wanted.owner is not None and wanted.run is not None:
            run = self.runs.get((wanted.owner, wanted.run))
            return [run] if run is not None and _belongs(run, wanted) else []
        if wanted.turn:
            turns = (session.turn() for session in self._busy())
            runs: Iterable[KeptRun] = (run for run in turns if run is not None and _belongs(run, wanted))
        elif wanted.status and ACTIVE.issuperset(wanted.status) and wanted.after is None:
            runs = (run for run in self.active() if _belongs(run, wanted))
        else:
            runs = (run for session in self._sessions(wanted) for run in session.runs.values())
        return sorted(runs, key=lambda run: run.row.queue)


def _belongs(run: KeptRun, wanted: Wanted) -> bool:
    return wanted.owner in (None, run.row.owner) and wanted.session in (None, run.row.session)


def _behind(kind: type, rows: Iterable[Any], after: str) -> Iterable[Any]:
    rows = iter(rows)
    for row in rows:
        if after == (row.call.call_id if isinstance(row, CallRow) else row.id):
            return rows
    raise no_cursor(kind, after)


def _fits(row: Any, wanted: Wanted) -> bool:
    name, status = wanted.id, wanted.status
    if isinstance(row, CallRow):
        return wanted.run in (None, row.run) and name in (None, row.call.call_id) and (not status or row.call.state in status)
    if wanted.run is not None and wanted.run != (row.id if isinstance(row, Run) else row.run):
        return False
    if (name is not None and name != row.id) or (wanted.parent is not None and wanted.parent != row.parent_run):
        return False
    return not status or (row.state if isinstance(row, Interrupt) else row.status) in status
