"""Turns what an execution does into commits: one step, one transaction.

Law: an event is handed on only when its number is durable; a tool result is written when it arrives, except
the last one of a step, which the step's own commit carries. Nothing here costs more as a run grows longer.
"""

import asyncio
import copy
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.causal import AgentState, Append, CausalNode, InvalidValue, apply, canonical, checkpoint_id
from causeline.errors import Invalid
from causeline.events import RunEvent
from causeline.graph import Emitted, HandBack, Retry, Step
from causeline.graph import Progress as Finished
from causeline.models.payload_checks import check_payload
from causeline.policy import Clock
from causeline.run.ledger import FINISHED, Call
from causeline.run.scope import Notes, RunScope
from causeline.runtime import records
from causeline.runtime.branch_history import CALLS, LOG, count_step
from causeline.runtime.event_buffer import EventBuffer
from causeline.runtime.graph_reports import GraphReports
from causeline.runtime.note_keeping import NoteKeeping
from causeline.runtime.patient_writes import PatientWrites
from causeline.runtime.question_keeping import OpenQuestions, interrupt_opened
from causeline.runtime.records import Checkpoint, Commit, Interrupt, Link, Run, RunPatch
from causeline.runtime.starting_point import StartingPoint
from causeline.runtime.store import Store
from causeline.runtime.times import iso

WAIT = "wait"
"""The port of a progress row that says until when (UTC seconds) a step waits for a provider that asked for it."""
LINKS = 256
"""Commits that are kept for the session's next run."""
Publish = Callable[[tuple[str, str], int, Sequence[Mapping[str, Any]]], None]


class Recorder:
    """The journal and the ledger of one run in this process."""

    def __init__(
        self,
        store: Store,
        run: Run,
        scope: RunScope,
        start: StartingPoint,
        *,
        document: str,
        clock: Clock,
        publish: Publish,
        notes: Notes | None = None,
    ) -> None:
        self.store = store
        self.run = run
        self.scope = scope
        self._key = run.key
        self.document = document
        self.clock = clock
        self.head = start.head
        self.session_head = start.session_head
        self.steps = 0
        self.usage = scope.used = copy.deepcopy(dict(start.usage))
        self.questions = OpenQuestions(run, scope, start)
        self.writes = PatientWrites(store, clock)
        self.events = EventBuffer(start.told, clock, self._write_events)
        self.emit = self.events.add
        """Tell something of this run, once it is durable."""
        self._publish = publish
        self._state = start.state
        self._wait = start.wait
        self._waits_until = 0.0
        self.inputs = start.inputs
        self._took_context = start.took_context
        self._calls = {call.call_id: call for call in (*start.calls, *start.carried)}
        self._rows = {call.call_id: call for call in start.carried}
        self.notes = NoteKeeping(run, notes, store, clock, self.emit)
        self.links: list[Link] | None = []
        """The commits of this process, as whoever reads them back would find them; None where they are too many to keep."""
        self._after_step: Callable[[], None] | None = None
        self.draining = False
        self._announced: set[str] = set()
        self._writing = asyncio.Lock()
        self._failure: BaseException | None = None
        self._started = clock.monotonic()
        self._reports = GraphReports(clock, self.emit)
        scope.retracted.update(start.told.retracted, start.told.unfinished)

    def after_next_step(self, action: Callable[[], None]) -> None:
        """Do this when the step under way is recorded."""
        self._after_step = action

    # stopping in good order

    def owes(self) -> bool:
        """Whether calls count as started that have not begun: their reply was committed with the word that they do."""
        return bool(self._announced)

    # the ledger

    def open_calls(self) -> Sequence[Call]:
        return sorted(self._calls.values(), key=lambda call: call.index)

    def begin(self, calls: Sequence[Call]) -> None:
        if self.draining and self._announced.isdisjoint(call.call_id for call in calls):
            raise HandBack
        if self._announced:
            self._announced.difference_update(call.call_id for call in calls)

    async def move(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self._calls[call.call_id] = self._rows[call.call_id] = call
        await self._whole(self._write())

    async def finish(self, call: Call) -> None:
        self._calls[call.call_id] = self._rows[call.call_id] = call
        for row in self._calls.values():
            if row.state not in FINISHED and not row.client:
                break
        else:
            return
        await self._whole(self._write(only_if_rows=True))

    # the journal

    def on_start(self, index: int, node: str) -> None:
        """A top-level visit begins."""
        self._started = self.clock.monotonic()
        self.emit(RunEvent(type="step_started", node=node, step=index))

    def on_emit(self, event: Emitted) -> None:
        """A node has something to tell: an event of the run, where the agent's own nodes speak, else one in an envelope that says whose
        it is, so that nothing a user's node emits can be taken for the run's word. Raises Invalid for what has no JSON form."""
        data: object = event.data
        if isinstance(data, RunEvent):
            self.emit(data)
            return
        try:
            canonical(data)
        except InvalidValue as error:
            raise Invalid(f"{event.node}: what is emitted must be JSON; {error.message}", placement=event.node) from error
        self.emit(RunEvent(type="node_event", step=event.step, node=event.node, path=list(event.path), data=copy.deepcopy(data)))

    def on_retry(self, retry: Retry) -> None:
        """A node, or a scatter's item, is tried again."""
        name = next(part for part in reversed(retry.path) if isinstance(part, str))
        told = {"attempt": retry.attempt, "wait": retry.wait, "code": retry.code}
        self.emit(RunEvent(type="node_retry", step=retry.step, node=name, path=list(retry.path), **told))

    async def progress(self, item: Finished) -> None:
        """Keep a finished piece of a step. Its number tells it from others at the same place: an inner loop comes there again."""
        row = records.Progress(run=self.run.id, step=item.step, path=list(item.path), index=item.number, port=item.port, writes=item.writes)
        self._reports.progress(item)
        await self._write(progress=(row,))

    # waits

    async def waiting(self, step: int, seconds: float) -> None:
        until = {"until": self.clock.now() + seconds, "seconds": seconds}
        self._waits_until = until["until"]
        await self._write(progress=(records.Progress(run=self.run.id, step=step, path=[], index=0, port=WAIT, writes=until),))

    def is_waiting(self) -> bool:
        return self.clock.now() < self._waits_until

    async def wait_out(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            rest = max(0.0, min(wait["until"] - self.clock.now(), wait["seconds"]))
            self._waits_until = self.clock.now() + rest
            await self.clock.sleep(rest)

    async def step(self, step: Step) -> None:
        """Commit one top-level visit. Its rows and events are made while nothing else can be written, so that no flush of
        events takes a part of it away."""
        async with self._writing:
            if self._failure is not None:
                raise self._failure
            nodes = await self._take(step)
        await self.notes.after_step(nodes, step.index)
        if self._after_step is not None:
            self._after_step()

    async def _take(self, step: Step) -> Sequence[CausalNode]:
        appends: Sequence[Append] = step.writes.get(LOG) or ()
        if step.index == 0:
            appends = self.inputs.heard(self.scope.input, appends)
        at = iso(self.clock.now())
        for append in appends:
            check_payload(append.kind, append.payload)
        nodes = apply(self._state, appends, at)
        if step.writes.get(CALLS):
            self._keep_calls(step.writes[CALLS])
        for append in appends:
            if append.kind == "tool_result":  # from here on the log has it
                self._calls.pop(append.payload["call_id"], None)
        if step.pauses or self.questions.pauses:
            self.questions.pause(step)
        checkpoint = self._checkpoint(step, nodes, at)
        if "usage" in checkpoint.facts or "sub_runs" in checkpoint.facts:
            count_step(self.usage, checkpoint.facts)
        self.emit(RunEvent(type="step_finished", node=step.node, step=step.index, checkpoint_id=checkpoint.id))
        if step.pauses or self.questions.opened:
            for interrupt in self.questions.ask(step, checkpoint):
                self.emit(interrupt_opened(interrupt))
        memories = self.notes.with_step(nodes, step.index)
        await self._commit(at, checkpoint=checkpoint, nodes=nodes, interrupts=list(self.questions.opened.values()), memories=memories)
        return nodes

    def _keep_calls(self, calls: Sequence[Call]) -> None:
        for call in calls:
            row = self._unbegun(call) if self.draining else call
            self._calls[call.call_id] = self._rows[call.call_id] = row
            if row.state == "started":
                self._announced.add(row.call_id)

    def _unbegun(self, call: Call) -> Call:
        """A call that a step would begin, where none may begin any more: whoever goes on with the run begins it."""
        before = self._calls.get(call.call_id)
        if call.state != "started" or (before is not None and before.state == "started"):
            return call
        return replace(call, state="pending", attempts=call.attempts - 1)

    def _checkpoint(self, step: Step, nodes: Sequence[CausalNode], at: str) -> Checkpoint:
        delta = dict(step.delta)
        for channel, value in step.results.items():
            delta[channel] = {"op": "override", "value": value}
        if step.index == 0:
            delta = {**self.inputs.under(delta), "document": self.document}
        appended = [node.id for node in nodes]
        frontier = sorted(self._state.frontier)
        name = checkpoint_id(
            parent=self.head,
            run=self.run.id,
            path=[],
            node=step.node,
            port=step.port,
            next=step.next,
            appended=appended,
            frontier=frontier,
            delta=delta,
            position=step.position,
        )
        facts = {**self.scope.facts.pop("", {}), **self.scope.facts.pop(step.node, {})}
        attempts = self._reports.attempts(step.attempts)
        if attempts:
            facts["attempts"] = [*facts.get("attempts", ()), *map(dict, attempts)]
        if self.questions.pauses:
            facts["pauses"] = dict(self.questions.pauses)
        facts["ms"] = round((self.clock.monotonic() - self._started) * 1000, 3)
        return Checkpoint(
            id=name,
            session=self.run.session,
            run=self.run.id,
            step=step.index,
            parent=self.head,
            path=[],
            node=step.node,
            port=step.port,
            next=step.next,
            appended=appended,
            frontier=frontier,
            delta=delta,
            position=step.position,
            created_at=at,
            facts=facts,
        )

    # events

    async def _write_events(self) -> None:
        await self._write(only_if_events=True)

    # writing

    async def finish_run(self, patch: RunPatch, event: RunEvent) -> None:
        """The last commit of the run in this process: its end, and the event that says so."""
        self.emit(event)
        await self._write(patch=patch)

    async def park(self) -> None:
        """Give the run back, to be claimed by whoever comes first."""
        await self._write(patch=RunPatch(status="queued"))

    @property
    def state(self) -> AgentState:
        """The log as it is now."""
        return self._state

    async def close(self) -> None:
        """Let a flush under way end; no write comes after."""
        await self.events.close()

    async def _write(
        self,
        *,
        progress: Sequence[records.Progress] = (),
        patch: RunPatch | None = None,
        only_if_rows: bool = False,
        only_if_events: bool = False,
    ) -> None:
        async with self._writing:
            if self._failure is not None:
                raise self._failure
            if (only_if_rows and not self._rows) or (only_if_events and not self.events):
                return
            await self._commit(iso(self.clock.now()), progress=progress, patch=patch, memories=self.notes.with_end(patch))

    async def _whole(self, write: Coroutine[Any, Any, None]) -> None:
        """Await a write to its end, also where whoever awaits it is cancelled: half a write would leave this process
        in doubt about what is durable. One that waits for the store is tried once more then."""
        task = asyncio.create_task(write)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self.writes.hurry()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()  # kept, and raised at the next write
            raise

    async def _commit(
        self,
        at: str,
        *,
        checkpoint: Checkpoint | None = None,
        nodes: Sequence[CausalNode] = (),
        interrupts: Sequence[Interrupt] = (),
        progress: Sequence[records.Progress] = (),
        patch: RunPatch | None = None,
        memories: Sequence[Any] = (),
    ) -> None:
        """Write what has come together. Only with `_writing` held."""
        rows, self._rows = list(self._rows.values()), {}
        first, events = self.events.take()
        commit = Commit(
            run=self.run.id,
            session=self.run.session,
            owner=self.run.owner,
            epoch=self.run.epoch,
            at=at,
            expect_head=self.session_head,
            checkpoint=checkpoint,
            nodes=nodes,
            calls=rows,
            interrupts=interrupts,
            progress=progress,
            first_event=first,
            events=events,
            patch=patch,
            took_context=self._took_context if checkpoint is not None else None,
            memories=memories,
        )
        try:
            await self.writes.write(commit)
        except Exception as error:
            self._failure = error  # nothing is written after a write that failed: what is durable stays a whole
            raise
        if checkpoint is not None:
            if self.links is not None:
                self.links.append(Link(checkpoint, nodes))
                if len(self.links) > LINKS:
                    self.links = None
            self.head = self.session_head = checkpoint.id
            self.steps = checkpoint.step + 1
            self._took_context = None
        if events:
            self._publish(self._key, first, events)
