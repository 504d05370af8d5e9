"""A store in this process's memory: a real backend under the same laws, for scripts and tests.

Law: no method awaits while it changes anything, so each is one transaction, and everything is checked before
the first change. It hands back the records it was given and copies no history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.in_memory_items import InMemoryItems
from causeline.adapters.stores.memory_rows import KeptRows, KeptRun, KeptSession
from causeline.adapters.stores.row_filters import wanted_rows
from causeline.adapters.stores.signal import Signal, wake
from causeline.causal import CausalNode
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Commit, Interrupt, Link, OnBusy, Run, RunPatch, Session, Started
from causeline.runtime.store import Row, RowFilters


class InMemoryStore:
    """See `causeline.runtime.store.Store`. Closing it keeps what is in it; it is gone with the object."""

    def __init__(self) -> None:
        self._kept = KeptRows()
        self._last = 0
        self._signal = Signal()
        self._items = InMemoryItems()

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        self._changed()

    # runs

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        rules.check_start(run)
        known = self._kept.runs.get((run.owner, run.id))
        if known is not None:
            if not rules.same_start(known.row, run):
                raise refusals.run_conflict(run.id)
            return Started(run=known.stored(), known=True)
        session = self._kept.sessions.get((run.owner, run.session))
        fresh = session is None
        if session is None:
            session = KeptSession(Session(id=run.session, owner=run.owner, head=None, created_at=run.created_at, updated_at=run.created_at))
        if run.at is not None and run.at not in session.checkpoints:
            raise refusals.no_checkpoint(run.at, run.session)
        for name in run.answers:
            if name not in session.interrupts:
                raise refusals.no_interrupt(name, run.session)
            if session.interrupts[name].state != "open":
                raise refusals.interrupt_closed(name, session.interrupts[name].state)
        first = next(iter(session.active.values()), None)
        if first is not None and on_busy == "reject":
            raise refusals.session_busy(run.session, first.row.id)
        if fresh:
            self._kept.sessions[run.owner, run.session] = session
        return Started(run=self._add(run, session, on_busy))

    def _add(self, run: Run, session: KeptSession, on_busy: OnBusy) -> Run:
        waits = run.status == "queued" or bool(session.active)
        if on_busy == "cancel":
            for other in list(session.active.values()):
                self._cancel(other, run.created_at)
        row = rules.as_queued(run) if waits else rules.as_running(run, run.at or session.head)
        self._last += 1
        kept = KeptRun(replace(row, queue=self._last), session)
        session.updated_at = run.created_at
        self._kept.busy[run.owner, run.session] = session
        self._kept.runs[run.owner, run.id] = kept
        session.add(kept)
        for name, decision in run.answers.items():
            session.interrupts[name] = replace(session.interrupts[name], state="answered", decision=decision, answered_by=run.id)
        if not waits:
            self._supersede(kept)
        self._changed()
        return kept.row

    def _supersede(self, run: KeptRun) -> None:
        """What is open where a user speaks is void, also where the sessions of runs below hold it."""
        if not rules.speaks(run.row):
            return
        here = run.session.interrupts.values()
        void = {interrupt.id for interrupt in here if interrupt.state == "open" and interrupt.checkpoint == run.row.base}
        for (owner, _), session in self._kept.sessions.items() if void else ():
            for name in void & session.interrupts.keys() if owner == run.row.owner else ():
                if session.interrupts[name].state == "open":
                    session.interrupts[name] = replace(session.interrupts[name], state="superseded")

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        run = self._kept.runs.get((owner, run_id))
        if run is None or run.row.status not in ACTIVE or (run.row.epoch, run.row.beat) != (epoch, beat):
            return None
        if run.row.status == "queued" and run.session.turn() is not run:
            return None
        begins = run.row.started_at is None
        run.change(status="running", holder=holder, epoch=epoch + 1)
        if begins:
            run.change(started_at=at, base=run.row.at or run.session.head)
            self._supersede(run)
        self._changed()
        return run.stored()

    async def renew(self, holder: str) -> Sequence[Run]:
        held = [run for run in self._kept.running() if run.row.holder == holder]
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
    def _cancel(run: KeptRun, at: str) -> None:
        if run.row.status == "queued":
            run.change(status="cancelled", stop_reason="cancelled", finished_at=at)
        else:
            run.change(cancel_requested=True)

    # sessions

    async def put_session(
        self, owner: str, session: str, at: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        kept = self._kept.sessions.get((owner, session))
        if kept is None:
            kept = KeptSession(Session(id=session, owner=owner, head=None, created_at=at, updated_at=at))
            self._kept.sessions[owner, session] = kept
        row, kept.updated_at = kept.row, at
        kept.row = replace(
            row, metadata=row.metadata if metadata is None else metadata, next_context=row.next_context if context is None else context
        )
        self._changed()
        return kept.stored()

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
            run.events.extend(commit.events)
        if commit.patch is not None:
            self._patch(run, commit.patch)
        if commit.took_context is not None and rules.same_json(run.session.row.next_context, commit.took_context):
            run.session.row = replace(run.session.row, next_context=None)
        for where, row in commit.memories:
            self._items.put_now(where, [row])
        self._changed()

    @staticmethod
    def _check(run: KeptRun, commit: Commit) -> None:
        """Everything that may refuse a commit."""
        row, session, checkpoint = run.row, run.session, commit.checkpoint
        rules.check_fence(commit, status=row.status, epoch=row.epoch, last_event=len(run.events), head=session.head)
        if checkpoint is not None:
            if checkpoint.parent is not None and checkpoint.parent not in session.checkpoints:
                raise refusals.no_checkpoint(checkpoint.parent, commit.session)
            if checkpoint.id in session.checkpoints:
                raise refusals.twice(checkpoint.id, commit.session)
        for call in commit.calls:
            there = run.calls.get(call.call_id)
            if there is not None and there.state not in rules.MOVES_INTO[call.state]:
                raise refusals.call_moved(row.id, call, there.state)

    @staticmethod
    def _advance(run: KeptRun, commit: Commit, checkpoint: Checkpoint) -> None:
        session = run.session
        session.checkpoints[checkpoint.id] = checkpoint
        for node in commit.nodes:
            session.nodes.setdefault(node.id, node)
        run.head = checkpoint.id
        session.head, session.updated_at = checkpoint.id, commit.at
        if run.progress:
            run.progress = {key: piece for key, piece in run.progress.items() if key[0] > checkpoint.step}

    @staticmethod
    def _keep(interrupts: dict[str, Interrupt], given: Interrupt) -> None:
        there = interrupts.get(given.id)
        if there is not None and there.state != "open":
            given = replace(given, state=there.state, decision=there.decision, answered_by=there.answered_by)
        interrupts[given.id] = given

    @staticmethod
    def _patch(run: KeptRun, patch: RunPatch) -> None:
        fields = {name: value for name in RunPatch.__slots__ if (value := getattr(patch, name)) is not None}
        if patch.status is not None and patch.status != "running":
            fields["holder"] = None
        run.change(**fields)

    # reading

    async def rows(self, kind: type[Row], *, owner: str | None, **filters: Unpack[RowFilters]) -> Sequence[Row]:
        return self._kept.read(kind, wanted_rows(kind, owner, filters))

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        kept = self._kept.sessions.get((owner, session))
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
        return [
            (name, kept.nodes[node_id]) for (whose, name), kept in self._kept.sessions.items() if whose == owner and node_id in kept.nodes
        ]

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        start = max(after, 0)
        events = self._run(owner, run_id).events[start : start + limit]
        return [{**event, "seq": number} for number, event in enumerate(events, start + 1)]

    async def changed(self, seen: int, timeout: float) -> int:
        return await self._signal.wait(seen, timeout)

    def memory(self) -> InMemoryItems:
        return self._items

    # whole sessions

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        if (session.owner, session.id) in self._kept.sessions:
            raise refusals.session_exists(session.id)
        for row in runs:
            if (session.owner, row.id) in self._kept.runs:
                raise refusals.run_exists(row.id, session.id)
        ordered = rules.check_session(session, runs, links, calls)
        kept = KeptSession(session)
        for row in runs:
            self._last += 1
            kept.add(KeptRun(replace(row, queue=self._last, last_event=0), kept))
        for link in ordered:
            kept.checkpoints[link.checkpoint.id] = link.checkpoint
            for node in link.nodes:
                kept.nodes.setdefault(node.id, node)
        for call in calls:
            kept.runs[call.run].calls[call.call.call_id] = call.call
        self._kept.sessions[session.owner, session.id] = self._kept.busy[session.owner, session.id] = kept
        self._kept.runs.update(((session.owner, name), run) for name, run in kept.runs.items())
        self._changed()

    async def delete(self, owner: str, session: str) -> None:
        kept = self._kept.sessions.get((owner, session))
        if kept is None:
            raise refusals.no_session(session)
        for name in kept.active:
            raise refusals.still_active(session, name)
        for name in kept.runs:
            del self._kept.runs[owner, name]
        del self._kept.sessions[owner, session]
        self._items.clear((owner, "runs"), (session,))
        self._changed()

    # inside

    def _run(self, owner: str, run_id: str) -> KeptRun:
        run = self._kept.runs.get((owner, run_id))
        if run is None:
            raise refusals.no_run(run_id)
        return run

    def _changed(self) -> None:
        for futures in self._signal.grow().values():
            wake(futures)
