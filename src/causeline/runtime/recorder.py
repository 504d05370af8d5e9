"""Turns what an execution does into commits: one step, one transaction.

Law: an event is handed on only when its number is durable; a tool result is written when it arrives, except
the last one of a step, which the step's own commit carries. Nothing here costs more as a run grows longer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.causal import AgentState, CausalNode, apply, checkpoint_id
from causeline.errors import CauselineError
from causeline.graph import Emitted, Step
from causeline.graph import Progress as Finished
from causeline.models.payload_checks import check_payload
from causeline.policy import Clock
from causeline.run.ledger import FINISHED, Call
from causeline.run.scope import RunScope
from causeline.runtime import records
from causeline.runtime.branch_history import CALLS, LOG, add_usage
from causeline.runtime.interrupts import entries_of, interrupts_of
from causeline.runtime.records import Checkpoint, Commit, Interrupt, Run, RunPatch
from causeline.runtime.store import Store
from causeline.runtime.times import iso

SPOKEN = frozenset({"text_message_start", "reasoning_start", "tool_call_delta"})
DELTAS = frozenset({"text_message_content", "reasoning_content", "tool_call_delta"})
CALL_EVENTS = frozenset({"tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result", "sub_run_started", "sub_run_finished"})
FLUSH_SECONDS = 0.05
WAIT = "wait"
"""The port of a progress row that says until when (UTC seconds) a step waits for a provider that asked for it."""
Publish = Callable[[tuple[str, str], int, Sequence[Mapping[str, Any]]], None]


class Recorder:
    """The journal and the ledger of one run in this process."""

    def __init__(
        self,
        store: Store,
        run: Run,
        scope: RunScope,
        state: AgentState,
        *,
        head: str | None,
        session_head: str | None,
        document: str,
        clock: Clock,
        publish: Publish,
    ) -> None:
        self.store = store
        self.run = run
        self.scope = scope
        self.head = head
        self.session_head = session_head
        self.document = document
        self.clock = clock
        self.publish = publish
        self.steps = 0
        self.usage: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0, "cost": None}
        self.known: dict[str, Interrupt] = {}
        self.opened: dict[str, Interrupt] = {}
        self.pauses: dict[str, list[str]] = {}
        self.asked: Sequence[Interrupt] = ()
        self.wait: Mapping[str, Any] | None = None
        self.entered: frozenset[str] = frozenset()
        self.after_step: Callable[[], None] | None = None
        self._state = state
        self._calls: dict[str, Call] = {}
        self._rows: dict[str, Call] = {}
        self._events: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._next_event = 1
        self._announced: set[tuple[str, str]] = set()
        self._writing = asyncio.Lock()
        self._flush: asyncio.Handle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._started = clock.monotonic()

    # taking over what is there

    def adopt_calls(self, calls: Sequence[Call], *, stored: bool) -> None:
        """Start from these ledger rows; with `stored` False they are written under this run with the next commit."""
        for call in calls:
            self._calls[call.call_id] = call
            if not stored:
                self._rows[call.call_id] = call

    def adopt_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Go on after these durable events; a message left open is retracted, and calls are not announced twice."""
        speaking: dict[str, None] = {}
        for event in events:
            kind = event["type"]
            if kind in SPOKEN:
                speaking[event["message_id"]] = None
            elif kind == "message_retracted":
                speaking.pop(event["message_id"], None)
                self.scope.retracted.add(event["message_id"])
            elif kind == "step_finished":
                speaking.clear()
            elif kind in CALL_EVENTS:
                self._announced.add((kind, event["tool_call_id"]))
            self._next_event = event["seq"] + 1
        for message in speaking:
            self.scope.retracted.add(message)
            self.emit({"type": "message_retracted", "message_id": message})

    # the ledger

    def open_calls(self) -> Sequence[Call]:
        return sorted(self._calls.values(), key=lambda call: call.index)

    async def move(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self._calls[call.call_id] = self._rows[call.call_id] = call
        await _whole(self._write())

    async def finish(self, call: Call) -> None:
        self._calls[call.call_id] = self._rows[call.call_id] = call
        if all(one.state in FINISHED or one.client for one in self._calls.values()):
            return
        await _whole(self._write(only_if_rows=True))

    # the journal

    def on_start(self, index: int, node: str) -> None:
        """A top-level visit begins."""
        self._started = self.clock.monotonic()
        self.emit({"type": "step_started", "node": node, "step": index})

    def on_emit(self, event: Emitted) -> None:
        """A node has something to tell."""
        self.emit(event.data)

    async def progress(self, item: Finished) -> None:
        row = records.Progress(run=self.run.id, step=item.step, path=list(item.path), index=item.index, port=item.port, writes=item.writes)
        await self._write(progress=(row,))

    # waits

    async def waiting(self, step: int, seconds: float) -> None:
        until = {"until": self.clock.now() + seconds, "seconds": seconds}
        await self._write(progress=(records.Progress(run=self.run.id, step=step, path=[], index=0, port=WAIT, writes=until),))

    async def wait_out(self) -> None:
        wait, self.wait = self.wait, None
        if wait is not None:
            rest = wait["until"] - self.clock.now()
            await self.clock.sleep(max(0.0, min(rest, wait["seconds"])))

    async def step(self, step: Step) -> None:
        """Commit one top-level visit. Its rows and events are made while nothing else can be written, so that no flush of
        events takes a part of it away."""
        async with self._writing:
            self._may_write()
            await self._take(step)
        if self.after_step is not None:
            self.after_step()

    async def _take(self, step: Step) -> None:
        appends = step.writes.get(LOG) or ()
        for one in appends:
            check_payload(one.kind, one.payload)
        nodes = apply(self._state, appends, iso(self.clock.now()))
        self._keep_calls(step.writes.get(CALLS) or ())
        self._keep_pauses(step)
        checkpoint = self._checkpoint(step, nodes)
        interrupts = interrupts_of(step, checkpoint, self.run, {**self.known, **self.opened})
        if "usage" in checkpoint.facts:
            add_usage(self.usage, checkpoint.facts["usage"])
        self.emit({"type": "step_finished", "node": step.node, "step": step.index, "checkpoint_id": checkpoint.id})
        held = {call for calls in self.pauses.values() for call in calls}
        moved = [replace(one, run=self.run.id, checkpoint=checkpoint.id) for one in self.opened.values() if one.tool_call_id in held]
        self.opened = {one.id: one for one in (*moved, *interrupts)}
        for one in interrupts:
            self.emit(
                {
                    "type": "interrupt_opened",
                    "interrupt_id": one.id,
                    "kind": one.kind,
                    "tool_call_id": one.tool_call_id,
                    "name": one.name,
                    "arguments": one.arguments,
                    "question": one.question,
                }
            )
        await self._commit(checkpoint=checkpoint, nodes=nodes, interrupts=list(self.opened.values()))

    def _keep_pauses(self, step: Step) -> None:
        """Which questions stand open after a step, by the key of the pause: those of other branches stay."""
        if not self.pauses and not step.pauses:
            return
        own = {key for key in self.pauses if key.split("/")[0].split("@")[0] == step.node}
        if len(own) > 1 and any("@" in key.split("/")[0] for key in own):  # several branches stand at this placement
            own &= {*self.entered, *(pause.key for pause in step.pauses)}
        self.pauses = {
            **{key: calls for key, calls in self.pauses.items() if key not in own},
            **{pause.key: [entry["tool_call_id"] or pause.key for entry in entries_of(pause)] for pause in step.pauses},
        }

    def _keep_calls(self, calls: Sequence[Call]) -> None:
        if not calls:
            return
        if any(call.call_id not in self._calls for call in calls):
            self._calls = {}
        for call in calls:
            self._calls[call.call_id] = self._rows[call.call_id] = call

    def _checkpoint(self, step: Step, nodes: Sequence[CausalNode]) -> Checkpoint:
        delta: dict[str, Any] = dict(step.delta)
        if step.index == 0:
            delta["document"] = self.document
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
        facts, self.scope.facts = self.scope.facts, {}
        if self.pauses:
            facts["pauses"] = dict(self.pauses)
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
            created_at=iso(self.clock.now()),
            facts=facts,
        )

    # events

    def emit(self, event: Mapping[str, Any]) -> None:
        """Number and keep an event until it is durable. Deltas of one message that follow each other become one."""
        kind = event["type"]
        if kind in CALL_EVENTS:
            key = (kind, event["tool_call_id"])
            if key in self._announced:
                return
            self._announced.add(key)
        last = self._events[-1] if self._events else None
        if (
            last is not None
            and kind in DELTAS
            and last["type"] == kind
            and last["message_id"] == event["message_id"]
            and last.get("index") == event.get("index")
        ):
            self._pieces.append(event["delta"])
            return
        self._join()
        self._events.append({**event, "ts": iso(self.clock.now())})
        first = kind in DELTAS and self._spoke_not_before(event)
        if first and self._flush is not None:
            self._flush.cancel()  # the first words of a message do not wait for what was told before them
            self._flush = None
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_soon(self._flush_now) if first else loop.call_later(FLUSH_SECONDS, self._flush_now)

    def _join(self) -> None:
        """Give the newest event the pieces that came after it, all at once: adding each one alone copies the text every time."""
        if self._pieces:
            self._events[-1]["delta"] += "".join(self._pieces)
            self._pieces.clear()

    def _spoke_not_before(self, event: Mapping[str, Any]) -> bool:
        key = ("first", event["message_id"])
        if key in self._announced:
            return False
        self._announced.add(key)
        return True

    def _flush_now(self) -> None:
        self._flush = None
        if self._events and self._failure is None:
            self._flushing = asyncio.create_task(self._write_events())

    async def _write_events(self) -> None:
        try:
            await self._write(only_if_events=True)
        except CauselineError:
            return  # kept in _failure, and raised at the next write, where somebody awaits it

    # writing

    async def finish_run(self, patch: RunPatch, event: Mapping[str, Any]) -> None:
        """The last commit of the run in this process: its end, and the event that says so."""
        self.emit(event)
        await self._write(patch=patch)

    async def park(self) -> None:
        """Give the run back, to be claimed by whoever comes first."""
        await self._write(patch=RunPatch(status="queued"))

    async def close(self) -> None:
        """Let a flush under way end; no write comes after."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)

    async def _write(
        self,
        *,
        progress: Sequence[records.Progress] = (),
        patch: RunPatch | None = None,
        only_if_rows: bool = False,
        only_if_events: bool = False,
    ) -> None:
        async with self._writing:
            self._may_write()
            if (only_if_rows and not self._rows) or (only_if_events and not self._events):
                return
            await self._commit(progress=progress, patch=patch)

    def _may_write(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _commit(
        self,
        *,
        checkpoint: Checkpoint | None = None,
        nodes: Sequence[CausalNode] = (),
        interrupts: Sequence[Interrupt] = (),
        progress: Sequence[records.Progress] = (),
        patch: RunPatch | None = None,
    ) -> None:
        """Write what has come together. Only with `_writing` held."""
        self._join()
        rows, self._rows = list(self._rows.values()), {}
        events, self._events = self._events, []
        first = self._next_event
        self._next_event += len(events)
        commit = Commit(
            run=self.run.id,
            session=self.run.session,
            owner=self.run.owner,
            epoch=self.run.epoch,
            at=iso(self.clock.now()),
            expect_head=self.session_head,
            checkpoint=checkpoint,
            nodes=nodes,
            calls=rows,
            interrupts=interrupts,
            progress=progress,
            first_event=first,
            events=events,
            patch=patch,
        )
        try:
            await self.store.commit(commit)
        except Exception as error:
            self._failure = error  # nothing is written after a write that failed: what is durable stays a whole
            raise
        if checkpoint is not None:
            self.head = self.session_head = checkpoint.id
            self.steps = checkpoint.step + 1
        if events:
            self.publish(self.run.key, first, events)


async def _whole(write: Coroutine[Any, Any, None]) -> None:
    """Await a write to its end, also where whoever awaits it is cancelled: half a write would leave this process
    in doubt about what is durable."""
    task = asyncio.create_task(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # kept, and raised at the next write
        raise
