"""Sessions and runs over one store: start, follow, answer, cancel, resume, fork, read back.

Law: whatever was accepted is durable before the caller hears of it, and every run this process holds is either
driven, handed back, or taken over by somebody else after its lease.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Self

from causeline.errors import Conflict, Invalid, Unavailable, check_argument
from causeline.events import Event
from causeline.memory.provenance import QueryEngine
from causeline.policy import Clock
from causeline.run.scope import RunScope
from causeline.runtime.answering import Answering
from causeline.runtime.branch_history import LOG, Branch
from causeline.runtime.chains import Chains, Level, answering_name
from causeline.runtime.client_results import check_results
from causeline.runtime.dispatch import Given
from causeline.runtime.driving import first_given
from causeline.runtime.engine_room import GRACE_SECONDS, EngineRoom
from causeline.runtime.handle import AFTER, After, RunHandle, RunResult, end_of_chain
from causeline.runtime.inputs import Prompt, context_object, decisions_by_interrupt, input_messages, tool_definitions
from causeline.runtime.lease import BEAT_SECONDS, LEASE_SECONDS, evidently_gone
from causeline.runtime.program import GraphProgram, Program
from causeline.runtime.programs import Build
from causeline.runtime.provenance_view import Provenance, ProvenanceVerbs
from causeline.runtime.records import ACTIVE, CallRow, OnBusy, Run
from causeline.runtime.run_names import checked_name, checked_owner, given_name, new_name
from causeline.runtime.session_verbs import Sessions
from causeline.runtime.store import Store
from causeline.runtime.times import SystemClock, iso
from causeline.runtime.whole_events import WholeEvents
from causeline.shapes import whole


class Runtime(Sessions, ProvenanceVerbs):
    """One owner's view of an engine room. Use it as `async with`; all methods but `events` and `of` are coroutines.

    `deps` is an object for tools and nodes of runs that come with none; `adopts` says that runs which other processes left go on
    here when this is opened, where their agent is given. `grace` is how many seconds begun calls may take to finish when it is
    closed. `heart_store` makes a store of its own for a heartbeat in a thread. `lease_seconds` and `beat_seconds` are how long another
    process may be silent before its runs are taken over, and how often this one speaks. `queries` is what answers SPARQL.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: str = "default",
        programs: Sequence[Program] = (),
        build: Build | None = None,
        clock: Clock | None = None,
        deps: Any = None,
        adopts: bool = False,
        heart_store: Callable[[], Store] | None = None,
        grace: float = GRACE_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        beat_seconds: float = BEAT_SECONDS,
        queries: QueryEngine | None = None,
        room: EngineRoom | None = None,
    ) -> None:
        super().__init__(store, owner, clock or (room.clock if room is not None else SystemClock()))
        self.deps = deps
        self._is_view = room is not None
        self.room = room or EngineRoom(
            store,
            programs=programs,
            build=build,
            clock=self.clock,
            deps=deps,
            heart_store=heart_store,
            adopts=adopts,
            grace=grace,
            lease_seconds=lease_seconds,
            beat_seconds=beat_seconds,
            queries=queries,
        )
        self.feed = self.room.feed
        self._dispatch = self.room.dispatch

    def of(self, owner: str, *, deps: Any = None) -> "Runtime":
        """The same verbs for another owner, over the same store, leases and feed. It is open as long as this is; leaving it as
        `async with` closes nothing."""
        checked_owner(owner)
        return Runtime(self.store, owner=owner, deps=deps if deps is not None else self.deps, room=self.room)

    async def __aenter__(self) -> Self:
        if self._is_view:
            self.room.check_open()
        else:
            await self.room.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_view:
            await self.room.close()

    @property
    def applied(self) -> Sequence[str]:
        """The steps of the schema that opening the store has applied, by name."""
        return tuple(getattr(self.store, "applied", ()))

    # running

    async def start(
        self,
        agent: Program | str,
        prompt: Prompt = None,
        *,
        session: str | None = None,
        run_id: str | None = None,
        at: str | None = None,
        context: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        on_busy: OnBusy = "reject",
        drive: bool = True,
        deps: Any = None,
    ) -> RunHandle:
        """Start a run. With a known `run_id` and the same input this is that run again. With `drive` False it is only stored, as
        queued, for whoever drives it: a worker, or `resume`. `deps` is an object for its tools and nodes, which is never stored.

        Raises Invalid for bad ids, messages, tools or a graph that cannot run, Missing for an unknown agent or checkpoint, Conflict
        (`session_busy`, `run_conflict`).
        """
        self.room.check_open()
        program = self.room.programs.named(self.owner, agent)
        if on_busy not in ("reject", "enqueue", "cancel"):
            raise Invalid(f"on_busy is reject, enqueue or cancel, not {on_busy!r}")
        if at is not None:
            checked_name("checkpoint id", at)
        now = self.clock.now()
        messages, given, definitions = input_messages(prompt), context_object(context), tool_definitions(tools)
        if run_id is not None and session is None:
            session = next((one.session for one in await self._opened.rows(Run, owner=self.owner, id=checked_name("run id", run_id))), None)
        run = Run(
            id=checked_name("run id", run_id) if run_id is not None else new_name("run_", now),
            session=checked_name("session id", session) if session is not None else new_name("ses_", now),
            owner=self.owner,
            status="running" if drive else "queued",
            agent=program.name,
            created_at=iso(now),
            started_at=iso(now),
            input=[one.to_json() for one in messages],
            manifest=program.manifest(),
            at=at,
            context=given,
            tools=definitions,
            holder=self._dispatch.holder if drive else None,
        )
        self._dispatch.driving.runner(program)
        program.services(RunScope(run_id=run.id, session_id=run.session, owner=run.owner, started_at=iso(now), client_tools=run.tools))
        await check_results(self._opened, run, messages)
        return await self._admit(run, Given(program, first_given(deps, getattr(program, "deps", None), self.deps)), on_busy, drive=drive)

    async def answer(
        self,
        run_id: str,
        decisions: Mapping[str, Mapping[str, Any]],
        *,
        agent: Program | str | None = None,
        new_run_id: str | None = None,
        on_busy: OnBusy = "reject",
    ) -> RunHandle:
        """Answer interrupts of a run's chain, some or all; a new run enters the paused step. Questions of runs below the run, and of the
        runs above it, are of the same chain: their answers come in at the top and go down to the run that asked, whichever run is named
        here. The handle is that of the run that goes on from the named one. With the `new_run_id` of a run that gave these same answers
        this is that run again.

        Raises Missing for an unknown interrupt, Conflict (`interrupt_closed`) for one answered or superseded, Invalid for a
        decision that does not fit (the interrupt stays open).
        """
        self.room.check_open()
        given = decisions_by_interrupt(decisions)
        known = await self._opened.rows(Run, owner=self.owner, id=checked_name("run id", new_run_id)) if new_run_id is not None else ()
        if known:
            if known[0].answers != given:
                raise Conflict(
                    f"run {new_run_id} is another one; give the answering run an id of its own, or none",
                    code="run_conflict",
                    run=new_run_id,
                )
            await self._dispatch.accept(known[0])
            return await self._goes_on(known[0], await self._chains.levels(await self._row(run_id)))
        levels = await self._chains.levels(await self._row(run_id))
        answering = Answering(self._opened, self._dispatch, self.owner)
        asked, before = await answering.asked(run_id, levels[0].root, list(given))
        program = self.room.programs.named(self.owner, agent) if agent is not None else self.room.programs.of(before)
        await answering.check(before, program, asked, given)
        await self._dispatch.accept(before)
        await self._dispatch.ended(self.owner, before.id)
        now = self.clock.now()
        run = Run(
            id=new_run_id or new_name("run_", now),
            session=before.session,
            owner=self.owner,
            status="running",
            agent=before.agent if agent is None else program.name,
            created_at=iso(now),
            started_at=iso(now),
            manifest=program.manifest() or before.manifest,
            at=asked[0].checkpoint,
            parent_run=before.id,
            answers=given,
            tools=before.tools,
            holder=self._dispatch.holder,
        )
        await self._admit(run, Given(program, first_given(getattr(program, "deps", None), self.deps)), on_busy)
        return await self._goes_on(run, levels)

    async def resume(self, run_id: str, *, agent: Program | str | None = None) -> RunHandle:
        """Go on with a run whose process is gone, or that only waits for somebody. An ended run is returned as it is; one whose holder
        is alive raises Conflict, after at most a lease."""
        run = await self._row(run_id)
        if agent is not None:
            self.room.programs.named(self.owner, agent, name=run.agent)
        if run.status in ACTIVE and not self._dispatch.driving.has(run.key):
            program = self.room.programs.of(run)
            await self._dispatch.accept(run, Given(program, first_given(getattr(program, "deps", None), self.deps)), take_over=True)
        return RunHandle(self, run.id, run.session)

    async def cancel(self, run_id: str) -> None:
        """Ask a run to stop, and what it has started below itself. Waits for its end where this process drives it;
        one whose process is gone is taken over and ended. Raises Missing."""
        self.room.check_open()
        await self._dispatch.cancel(self.owner, given_name(run_id))

    async def work(self, *, concurrency: int = 16, lacks: Callable[[Run], object] | None = None) -> None:
        """Drive runs of this store, of all owners, until cancelled: queued ones and those whose process is gone. `lacks` is told
        the first run of each agent that is not known here."""
        token = 0
        if lacks is not None:
            self._dispatch.on_lacking = lacks
        while True:
            self.room.check_open()
            try:
                await self._dispatch.take(concurrency)
                token = await self.store.changed(token, 1.0)
            except Unavailable:
                await self.clock.sleep(1.0)

    async def events(self, run_id: str, after: After = None, *, sub_runs: bool = True) -> AsyncGenerator[Event, None]:
        """The run's events, each with `type, run_id, session_id, seq, ts`: from the first (None), above the number `after`, or those
        that come after this moment ("now"; none for a run that has ended). With `sub_runs` False without those of the runs below it."""
        async for batch in self.event_batches(run_id, after, sub_runs=sub_runs):
            for event in batch:
                yield event

    async def event_batches(self, run_id: str, after: After = None, *, sub_runs: bool = True) -> AsyncGenerator[Sequence[Event], None]:
        """The same events, those together that became durable together."""
        check_argument("after", AFTER(after))
        run = await self._row(run_id)
        if after == "now" and run.status not in ACTIVE:
            return
        whole = self._whole_events(sub_runs=sub_runs)
        async for batch in self.feed.follow(self.owner, run_id, run.last_event if after == "now" else after or 0):
            told = await whole.batch(run, batch)
            if told:
                yield told

    async def stored_events(self, run_id: str, after: int = 0, *, sub_runs: bool = True) -> Sequence[Event]:
        """The events that are durable at this moment, in order. Raises Missing."""
        check_argument("after", whole(0)(after))
        run = await self._row(run_id)
        events: list[Event] = []
        told = self._whole_events(sub_runs=sub_runs)
        while batch := await self._opened.events(self.owner, run_id, after):
            events += await told.batch(run, batch)
            after = batch[-1]["seq"]
        return events

    async def result(self, run_id: str) -> RunResult:
        """Wait for a run's end and say how it ended. Raises Missing, Misuse when the runtime is closed before that, and what kept
        the run from being recorded."""
        self.room.check_open()
        run = await self._dispatch.ended(self.owner, given_name(run_id))
        asked = await self._chains.questions(run)
        program = self.room.programs.find(self.owner, run.agent)
        typed = getattr(program, "typed_output", None)
        output = typed(run.answer) if typed is not None and run.status == "succeeded" else run.answer
        return RunResult(
            run_id=run.id,
            session=run.session,
            status=run.status,
            stop_reason=run.stop_reason,
            answer=run.answer,
            output=output,
            interrupts=[one for one in asked if one.state == "open"],
            pending_tool_call_ids=run.pending_tool_call_ids,
            usage=run.usage,
            head=run.head,
            error=run.error,
            answered_by=next((one.answered_by for one in asked if one.answered_by), None),
            usage_total=await self._chains.usage(run),
            state=await self._channels(run, program),
            left_started=await self._left_started(run),
        )

    async def _channels(self, run: Run, program: Program | None) -> Mapping[str, Any]:
        """The channels of a graph of one's own as its run left them."""
        if not isinstance(program, GraphProgram) or run.head is None:
            return {}
        links = await self._opened.branch(self.owner, run.session, run.head)
        return {channel: value for channel, value in Branch.read(links, program.reducers).channels.items() if channel != LOG}

    async def _left_started(self, run: Run) -> Sequence[CallRow]:
        """Calls that had begun when a run was stopped, and whose outcome nobody knows."""
        if run.status not in ("cancelled", "failed"):
            return ()
        return await self._opened.rows(CallRow, owner=self.owner, run=run.id, status=("started",))

    async def final(self, run_id: str) -> RunResult:
        """How the chain of a run ended: the result of the run that answered its questions, or of the one that answered those of that
        one, and so on. Waits for each; the last may be interrupted itself. Raises as `result`."""
        return await end_of_chain(self, run_id)

    # inside

    @property
    def _provenance(self) -> Provenance:
        self.room.check_open()
        return self.room.provenance

    def _check_open(self) -> None:
        self.room.check_open()

    @property
    def _chains(self) -> Chains:
        return Chains(self._opened, self.owner)

    async def _goes_on(self, run: Run, levels: Sequence[Level]) -> RunHandle:
        """The run that goes on with the answers of `run` at the lowest of these levels: `run` itself at the top."""
        name, token = run.id, 0
        for level in levels[1:]:
            name = answering_name(name, level.call) if level.call is not None else name
        while name != run.id:
            below = await self._opened.rows(Run, owner=self.owner, id=name)
            if below:
                return RunHandle(self, name, below[0].session)
            if (await self._row(run.id)).status not in ACTIVE:
                break  # it ended before it came to this level
            token = await self._opened.changed(token, 1.0)
        return RunHandle(self, run.id, run.session)

    async def _admit(self, run: Run, given: Given, on_busy: OnBusy, *, drive: bool = True) -> RunHandle:
        """Store a run and see to it that it goes on."""
        try:
            started = await self._opened.start(run, on_busy)
        except Conflict as error:
            left = await self._bring_on(run.session) if error.code == "session_busy" else None
            if left is None:
                raise
            raise Conflict(
                f"session {run.session} is busy: run {left} was left by a process that is gone; follow it to its end with "
                f"`causeline resume {left}` (in Python: runtime.resume), or say on_busy=enqueue",
                code="session_busy",
                session=run.session,
                run=left,
            ) from error
        if drive:
            await self._dispatch.accept(started.run, given)
        if on_busy == "cancel" and not started.known:
            for other in await self._opened.rows(Run, owner=self.owner, session=run.session, status=("running",)):
                if other.cancel_requested:
                    self._dispatch.driving.stop(other.key)
        return RunHandle(self, started.run.id, started.run.session)

    async def _bring_on(self, session: str) -> str | None:
        """See to it that the run which keeps a session busy goes on, should its process be gone; say which one it is where nobody drove
        it."""
        left: str | None = None
        for run in await self._opened.rows(Run, owner=self.owner, session=session, status=tuple(ACTIVE), turn=True):
            handed_back = run.status == "queued" and run.started_at is not None
            if not self._dispatch.driving.has(run.key) and (handed_back or (run.status == "running" and evidently_gone(run.holder))):
                left = run.id
            await self._dispatch.accept(run)
        return left

    def _whole_events(self, *, sub_runs: bool) -> WholeEvents:
        return WholeEvents(self.feed, self.owner, self._row, self.messages, sub_runs=sub_runs)
