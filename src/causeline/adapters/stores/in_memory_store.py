"""A store in this process's memory: a real backend under the same laws, for scripts and tests.

Law: no method awaits while it changes anything, so each is one transaction, and everything is checked before
the first change. It hands back the records it was given and copies no history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.signal import Signal, wake
from causeline.causal import CausalNode
from causeline.run.ledger import Call
from causeline.runtime.records import (
    ACTIVE,
    CallRow,
    Checkpoint,
    Commit,
    Interrupt,
    Link,
    OnBusy,
    Progress,
    Run,
    RunPatch,
    Session,
    Started,
)
from causeline.runtime.store import Row

_Piece = tuple[int, tuple[str | int, ...], int]


class _Session:
    """A session with everything keyed by it."""

    __slots__ = ("active", "checkpoints", "interrupts", "nodes", "row", "runs")

    def __init__(self, row: Session) -> None:
        self.row = row
        self.runs: dict[str, _Run] = {}
        self.active: dict[str, _Run] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.nodes: dict[str, CausalNode] = {}
        self.interrupts: dict[str, Interrupt] = {}


class _Run:
    """A run with everything keyed by it. `head` is kept apart from the row, because each step changes it."""

    __slots__ = ("calls", "events", "head", "progress", "row", "session")

    def __init__(self, row: Run, session: _Session) -> None:
        self.row = row
        self.head = row.head
        self.session = session
        self.calls: dict[str, Call] = {}
        self.events: list[Mapping[str, Any]] = []
        self.progress: dict[_Piece, Progress] = {}

    def stored(self) -> Run:
        return self.row if self.row.head == self.head else replace(self.row, head=self.head)

    def change(self, **fields: Any) -> None:
        self.row = replace(self.row, **fields)
        if self.row.status not in ACTIVE:
            self.session.active.pop(self.row.id, None)


class InMemoryStore:
    """See `causeline.runtime.store.Store`. Closing it keeps what is in it; it is gone with the object."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._runs: dict[tuple[str, str], _Run] = {}
        self._busy: dict[tuple[str, str], _Session] = {}
        self._last = 0
        self._signal = Signal()

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        self._changed()

    # runs

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        rules.check_start(run)
        known = self._runs.get((run.owner, run.id))
        if known is not None:
            if not rules.same_start(known.row, run):
                raise refusals.run_conflict(run.id)
            return Started(run=known.stored(), known=True)
        session = self._sessions.get((run.owner, run.session))
        fresh = session is None
        if session is None:
            session = _Session(Session(id=run.session, owner=run.owner, head=None, created_at=run.created_at, updated_at=run.created_at))
        if run.at is not None and run.at not in session.checkpoints:
            raise refusals.no_checkpoint(run.at, run.session)
        active = list(session.active.values())
        for name in run.answers:
            if name not in session.interrupts:
                raise refusals.no_interrupt(name, run.session)
            if session.interrupts[name].state != "open":
                raise refusals.interrupt_closed(name, session.interrupts[name].state)
        if active and on_busy == "reject":
            raise refusals.session_busy(run.session, active[0].row.id)
        if fresh:
            self._sessions[run.owner, run.session] = session
        return Started(run=self._add(run, session, active, on_busy))

    def _add(self, run: Run, session: _Session, active: Sequence[_Run], on_busy: OnBusy) -> Run:
        if active and on_busy == "cancel":
            for other in active:
                self._cancel(other, run.created_at)
        waits = run.status == "queued" or bool(active)
        row = rules.as_queued(run) if waits else rules.as_running(run, run.at or session.row.head)
        self._last += 1
        kept = _Run(replace(row, queue=self._last), session)
        session.row = replace(session.row, updated_at=run.created_at)
        self._busy[run.owner, run.session] = session
        session.runs[run.id] = session.active[run.id] = self._runs[run.owner, run.id] = kept
        for name, decision in run.answers.items():
            session.interrupts[name] = replace(session.interrupts[name], state="answered", decision=decision, answered_by=run.id)
        if not waits:
            self._supersede(kept)
        self._changed()
        return kept.row

    @staticmethod
    def _supersede(run: _Run) -> None:
        if not rules.speaks(run.row):
            return
        interrupts = run.session.interrupts
        for name, interrupt in interrupts.items():
            if interrupt.state == "open" and interrupt.checkpoint == run.row.base:
                interrupts[name] = replace(interrupt, state="superseded")

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        run = self._runs.get((owner, run_id))
        if run is None or run.row.status not in ACTIVE or (run.row.epoch, run.row.beat) != (epoch, beat):
            return None
        if run.row.status == "queued" and not self._first(run):
            return None
        begins = run.row.started_at is None
        run.change(status="running", holder=holder, epoch=epoch + 1)
        if begins:
            run.change(started_at=at, base=run.row.at or run.session.row.head)
            self._supersede(run)
        self._changed()
        return run.stored()

    @staticmethod
    def _first(run: _Run) -> bool:
        return all(one.row.status == "queued" and one.row.queue >= run.row.queue for one in run.session.active.values())

    async def renew(self, holder: str) -> Sequence[Run]:
        held = [run for run in self._active() if run.row.holder == holder and run.row.status == "running"]
        for run in held:
            run.change(beat=run.row.beat + 1)
        if held:
            self._changed()
        return [run.stored() for run in held]

    async def cancel(self, owner: str, run_id: str, at: str) -> Run:
        run = self._run(owner, run_id)
        if run.row.status in ACTIVE:
            self._cancel(run, at)
            self._changed()
        return run.stored()

    @staticmethod
    def _cancel(run: _Run, at: str) -> None:
        if run.row.status == "queued":
            run.change(status="cancelled", stop_reason="cancelled", finished_at=at)
        else:
            run.change(cancel_requested=True)

    # commits

    async def commit(self, commit: Commit) -> None:
        rules.check_commit(commit)
        run = self._run(commit.owner, commit.run)
        if run.row.session != commit.session:
            raise refusals.no_run(commit.run)
        self._check(run, commit)
        if commit.checkpoint is not None:
            self._advance(run, commit, commit.checkpoint)
        for call in commit.calls:
            run.calls[call.call_id] = call
        for interrupt in commit.interrupts:
            self._keep(run.session.interrupts, interrupt)
        for piece in commit.progress:
            run.progress[piece.step, tuple(piece.path), piece.index] = piece
        if commit.events:
            run.events.extend({**event, "seq": commit.first_event + place} for place, event in enumerate(commit.events))
        if commit.patch is not None:
            self._patch(run, commit.patch)
        self._changed()

    @staticmethod
    def _check(run: _Run, commit: Commit) -> None:
        """Everything that may refuse a commit."""
        row, session = run.row, run.session
        if row.status != "running" or row.epoch != commit.epoch:
            raise refusals.lost_lease(commit, row.status, row.epoch)
        if commit.events and commit.first_event != len(run.events) + 1:
            raise refusals.event_gap(commit, len(run.events))
        checkpoint = commit.checkpoint
        if checkpoint is not None:
            if session.row.head != commit.expect_head:
                raise refusals.stale_head(commit, session.row.head)
            if checkpoint.parent is not None and checkpoint.parent not in session.checkpoints:
                raise refusals.no_checkpoint(checkpoint.parent, commit.session)
            if checkpoint.id in session.checkpoints:
                raise refusals.twice(checkpoint.id, commit.session)
        for call in commit.calls:
            there = run.calls.get(call.call_id)
            if there is not None and there.state not in rules.MOVES_INTO[call.state]:
                raise refusals.call_moved(row.id, call, there.state)

    @staticmethod
    def _advance(run: _Run, commit: Commit, checkpoint: Checkpoint) -> None:
        session = run.session
        session.checkpoints[checkpoint.id] = checkpoint
        for node in commit.nodes:
            session.nodes.setdefault(node.id, node)
        run.head = checkpoint.id
        session.row = replace(session.row, head=checkpoint.id, updated_at=commit.at)
        if run.progress:
            run.progress = {key: piece for key, piece in run.progress.items() if key[0] > checkpoint.step}

    @staticmethod
    def _keep(interrupts: dict[str, Interrupt], given: Interrupt) -> None:
        there = interrupts.get(given.id)
        if there is not None and there.state != "open":
            given = replace(given, state=there.state, decision=there.decision, answered_by=there.answered_by)
        interrupts[given.id] = given

    @staticmethod
    def _patch(run: _Run, patch: RunPatch) -> None:
        fields = {name: value for name in RunPatch.__slots__ if (value := getattr(patch, name)) is not None}
        if patch.status is not None and patch.status != "running":
            fields["holder"] = None
        run.change(**fields)

    # reading

    async def rows(
        self,
        kind: type[Row],
        *,
        owner: str | None,
        session: str | None = None,
        run: str | None = None,
        id: str | None = None,
        status: Sequence[str] = (),
        limit: int | None = None,
    ) -> Sequence[Row]:
        rules.check_filters(kind, run=run, id=id, status=status)
        found: Iterable[Any]
        if kind is Run and status and ACTIVE.issuperset(status):
            found = sorted((one.stored() for one in self._active() if self._belongs(one, owner, session)), key=lambda row: row.queue)
        elif kind in (Run, CallRow, Progress):
            found = self._by_run(kind, owner, session, run)
        else:
            found = self._by_session(kind, self._of(owner, session))
        wanted = (row for row in found if self._fits(row, run, id, status))
        return cast("Sequence[Row]", list(islice(wanted, limit)))

    def _of(self, owner: str | None, session: str | None) -> Iterable[_Session]:
        if owner is not None and session is not None:
            one = self._sessions.get((owner, session))
            return () if one is None else (one,)
        return (one for (whose, name), one in self._sessions.items() if owner in (None, whose) and session in (None, name))

    @staticmethod
    def _belongs(run: _Run, owner: str | None, session: str | None) -> bool:
        return owner in (None, run.row.owner) and session in (None, run.row.session)

    @staticmethod
    def _by_session(kind: type, sessions: Iterable[_Session]) -> Iterable[Any]:
        if kind is Session:
            return (one.row for one in sessions)
        if kind is Checkpoint:
            return (row for one in sessions for row in one.checkpoints.values())
        return (row for one in sessions for row in one.interrupts.values())

    def _by_run(self, kind: type, owner: str | None, session: str | None, run: str | None) -> Iterable[Any]:
        if owner is not None and run is not None:
            one = self._runs.get((owner, run))
            runs = [] if one is None or not self._belongs(one, owner, session) else [one]
        else:
            runs = sorted((one for kept in self._of(owner, session) for one in kept.runs.values()), key=lambda one: one.row.queue)
        if kind is Run:
            return (one.stored() for one in runs)
        if kind is CallRow:
            return (CallRow(run=one.row.id, call=call) for one in runs for call in one.calls.values())
        return (piece for one in runs for piece in one.progress.values())

    @staticmethod
    def _fits(row: Any, run: str | None, name: str | None, status: Sequence[str]) -> bool:
        if isinstance(row, CallRow):
            return run in (None, row.run) and name in (None, row.call.call_id) and (not status or row.call.state in status)
        if run is not None and run != (row.id if isinstance(row, Run) else row.run):
            return False
        if name is not None and name != row.id:
            return False
        return not status or (row.state if isinstance(row, Interrupt) else row.status) in status

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        kept = self._sessions.get((owner, session))
        links: list[Link] = []
        while head is not None:
            checkpoint = None if kept is None else kept.checkpoints.get(head)
            if kept is None or checkpoint is None:
                raise refusals.no_checkpoint(head, session)
            links.append(Link(checkpoint, [kept.nodes[name] for name in checkpoint.appended]))
            head = checkpoint.parent
        links.reverse()
        return links

    async def node(self, owner: str, node_id: str) -> Sequence[tuple[str, CausalNode]]:
        return [(name, kept.nodes[node_id]) for (whose, name), kept in self._sessions.items() if whose == owner and node_id in kept.nodes]

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        start = max(after, 0)
        return self._run(owner, run_id).events[start : start + limit]

    async def changed(self, seen: int, timeout: float) -> int:
        return await self._signal.wait(seen, timeout)

    # whole sessions

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        if (session.owner, session.id) in self._sessions:
            raise refusals.session_exists(session.id)
        for row in runs:
            if (session.owner, row.id) in self._runs:
                raise refusals.run_exists(row.id, session.id)
        ordered = rules.check_session(session, runs, links, calls)
        kept = _Session(session)
        for row in runs:
            self._last += 1
            kept.runs[row.id] = _Run(replace(row, queue=self._last), kept)
        kept.active.update((name, run) for name, run in kept.runs.items() if run.row.status in ACTIVE)
        for link in ordered:
            kept.checkpoints[link.checkpoint.id] = link.checkpoint
            for node in link.nodes:
                kept.nodes.setdefault(node.id, node)
        for call in calls:
            kept.runs[call.run].calls[call.call.call_id] = call.call
        self._sessions[session.owner, session.id] = self._busy[session.owner, session.id] = kept
        self._runs.update(((session.owner, name), run) for name, run in kept.runs.items())
        self._changed()

    async def delete(self, owner: str, session: str) -> None:
        kept = self._sessions.get((owner, session))
        if kept is None:
            raise refusals.no_session(session)
        for name in kept.active:
            raise refusals.still_active(session, name)
        for name in kept.runs:
            del self._runs[owner, name]
        del self._sessions[owner, session]
        self._changed()

    # inside

    def _run(self, owner: str, run_id: str) -> _Run:
        run = self._runs.get((owner, run_id))
        if run is None:
            raise refusals.no_run(run_id)
        return run

    def _active(self) -> Iterable[_Run]:
        """The queued and running runs of all sessions. Costs their number, not that of all runs."""
        for key, session in list(self._busy.items()):
            if session.active:
                yield from session.active.values()
            else:
                del self._busy[key]

    def _changed(self) -> None:
        for futures in self._signal.grow().values():
            wake(futures)
