"""Provenance as a view of the log: statements about sessions, made when somebody asks, and kept up as the log grows.

Law: what a session has told is not told again, and what is not asked for costs nothing. An owner's statements are of that owner's
sessions alone.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.errors import Missing, Misuse
from causeline.memory import prov_statements
from causeline.memory.prov_statements import RunFacts, StepFacts, named, nquads
from causeline.memory.provenance import Answer, Dataset, QueryEngine
from causeline.memory.terms import Quad
from causeline.run.ledger import FINISHED
from causeline.runtime.records import ACTIVE, CallRow, Link, Run, Session
from causeline.runtime.store import Store

TIMEOUT = 10.0
"""Seconds that a query may take."""
BATCH = 20_000
"""Statements that go to the engine at once."""


@dataclass(slots=True)
class _Told:
    """What of a session has been told. `row` is the session as it was then, `open` whether a run of it may still change."""

    row: Session | None = None
    open: bool = True
    runs: dict[str, tuple[str, str | None]] = field(default_factory=dict[str, tuple[str, str | None]])
    steps: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    calls: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class Provenance:
    """Answers questions about the sessions of a store."""

    def __init__(self, store: Store, engine: QueryEngine | None) -> None:
        self._store = store
        self._engine = engine
        self._told: dict[str, dict[str, _Told]] = {}
        self._generation = 0
        self._lock = asyncio.Lock()

    async def query(self, owner: str, sparql: str, sessions: Sequence[str] | None, named: Sequence[str], timeout: float) -> Answer:
        """See `Runtime.sparql`."""
        engine = self._asked()
        async with self._lock:
            if sessions is None:
                await self._brought_up(engine, owner, None)
                return await engine.query(owner, sparql, None, timeout)
            graphs = {session: await self._brought_up(engine, owner, session) for session in dict.fromkeys((*sessions, *named))}
            dataset = Dataset([graphs[session] or "" for session in sessions], [graphs[session] or "" for session in named])
            return await engine.query(owner, sparql, dataset, timeout)

    async def dump(self, owner: str, session: str | None, format: str, timeout: float) -> str:
        """See `Runtime.provenance`."""
        engine = self._asked()
        async with self._lock:
            graph = await self._brought_up(engine, owner, session)
            return await engine.dump(owner, graph, format, timeout)

    async def close(self) -> None:
        """Let go of the engine."""
        if self._engine is not None:
            await self._engine.close()

    def _asked(self) -> QueryEngine:
        if self._engine is None:
            raise Misuse("this runtime was made without a query engine; open it with causeline.open(...)")
        return self._engine

    async def _brought_up(self, engine: QueryEngine, owner: str, session: str | None) -> str | None:
        """As `_bring_up`. Where that fails half-way everything is told again the next time, which adds nothing twice."""
        try:
            return await self._bring_up(engine, owner, session)
        except BaseException:
            self._told.pop(owner, None)
            raise

    async def _bring_up(self, engine: QueryEngine, owner: str, session: str | None) -> str | None:
        """Tell the engine what it does not know. Returns the graph to ask. Raises Missing for a session that is not there."""
        if engine.generation != self._generation:
            self._told.clear()
            self._generation = engine.generation
        if not engine.holds(owner):
            self._told.pop(owner, None)
        told = self._told.setdefault(owner, {})
        filters: dict[str, Any] = {} if session is None else {"id": session}
        rows = await self._store.rows(Session, owner=owner, **filters)
        if session is not None and not rows:
            raise Missing(f"no session {session!r}; `causeline sessions` lists them", session=session)
        if session is None:
            for gone in told.keys() - {row.id for row in rows}:
                await engine.remove(owner, named("session", gone))
                del told[gone]
        waiting: list[Quad] = []
        for row in rows:
            known = told.setdefault(row.id, _Told())
            if known.open or known.row != row:
                waiting.extend(await self._fresh(owner, row, known))
                if len(waiting) >= BATCH:
                    await engine.add(owner, nquads(iter(waiting)))
                    waiting.clear()
        if waiting or not engine.holds(owner):
            await engine.add(owner, nquads(iter(waiting)))
        return None if session is None else named("session", session)

    async def _fresh(self, owner: str, row: Session, told: _Told) -> list[Quad]:
        """What a session has to tell since it was asked last."""
        speaker = prov_statements.Session(row.id, owner)
        runs = await self._store.rows(Run, owner=owner, session=row.id)
        quads: list[Quad] = []
        for run in runs:
            if told.runs.get(run.id) == (run.status, run.head) and run.status not in ACTIVE:
                continue
            links = await self._store.branch(owner, row.id, run.head) if run.head is not None else ()
            quads.extend(_steps(speaker, links, told))
            before = told.steps.get(run.base or "", (None, 0))[0]
            quads.extend(speaker.run(_run(run, before)))
            asked = {node.payload["call_id"]: node.id for link in links for node in link.nodes if node.kind == "tool_call"}
            for call in await self._store.rows(CallRow, owner=owner, run=run.id):
                settled = call.call.state in FINISHED or run.status not in ACTIVE
                if settled and (run.id, call.call.call_id) not in told.calls:
                    told.calls.add((run.id, call.call.call_id))
                    quads.extend(speaker.call(run.id, call.call, asked.get(call.call.call_id)))
            told.runs[run.id] = (run.status, run.head)
        told.row, told.open = row, any(run.status in ACTIVE for run in runs)
        return quads


class ProvenanceVerbs:
    """One owner's questions. Whoever inherits has an `owner`, and says in `_provenance` what answers; that raises Misuse where it is
    not open."""

    owner: str

    @property
    def _provenance(self) -> Provenance:
        raise NotImplementedError

    async def query(self, sparql: str, *, session: str | None = None, timeout: float = TIMEOUT) -> Any:
        """SPARQL over what led to what in this owner's sessions, or in one of them. SELECT: a list of `{variable: {type, value,
        datatype?, lang?}}`; ASK: a bool; CONSTRUCT and DESCRIBE: N-Triples text. The prefixes prov, ns, rdfs, rdf and xsd are known.

        Raises Invalid for a query that is not well formed or would ask another machine, Missing for an unknown session, and Exhausted
        (`query_limit`) for one that takes longer than `timeout` seconds or has too long an answer.
        """
        sessions = None if session is None else [session]
        return (await self.sparql(sparql, sessions=sessions, named=sessions or (), timeout=timeout)).value

    async def sparql(
        self, sparql: str, *, sessions: Sequence[str] | None = None, named: Sequence[str] = (), timeout: float = TIMEOUT
    ) -> Answer:
        """As `query`, with the variables of a SELECT in their order. The graphs of `sessions` are the default graph together, and those of
        `named` can be named by GRAPH; without sessions a query sees all."""
        return await self._provenance.query(self.owner, sparql, sessions, named, timeout)

    async def provenance(self, session: str | None = None, format: str = "turtle", *, timeout: float = TIMEOUT) -> str:
        """The statements themselves, as `turtle`, `nquads`, `trig` or `jsonld`."""
        return await self._provenance.dump(self.owner, session, format, timeout)


def _run(run: Run, before: str | None) -> RunFacts:
    return RunFacts(
        id=run.id,
        agent=run.agent,
        status=run.status,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        stop_reason=run.stop_reason,
        error=run.error,
        usage=run.usage,
        before=run.parent_run or (before if before != run.id else None),
        parent_call=run.parent_call,
        answers=run.answers,
    )


def _steps(speaker: prov_statements.Session, links: Sequence[Link], told: _Told) -> Iterator[Quad]:
    """Statements about the checkpoints of a branch that have not been told."""
    heads: dict[str, str] = {}
    for link in links:
        checkpoint = link.checkpoint
        versions: dict[str, str] = {}
        for node in link.nodes:
            if node.resource_key is not None:
                if node.resource_key in heads:
                    versions[node.id] = heads[node.resource_key]
                heads[node.resource_key] = node.id
        if checkpoint.id in told.steps:
            continue
        told.steps[checkpoint.id] = (checkpoint.run, checkpoint.step)
        facts = StepFacts(
            run=checkpoint.run,
            step=checkpoint.step,
            checkpoint=checkpoint.id,
            node=checkpoint.node,
            port=checkpoint.port,
            created_at=checkpoint.created_at,
            facts=checkpoint.facts,
            nodes=link.nodes,
            before=told.steps.get(checkpoint.parent or ""),
            versions=versions,
        )
        yield from speaker.step(facts)
