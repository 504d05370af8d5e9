"""What a session's log says, as PROV-O statements: activities, entities, agents, and what led to what.

Law: pure; the log is the truth and this a view of it. The same rows give the same statements, and more rows only add some: what may
still change of a run is told once the run has ended. Names are written so that they are IRIs whatever is in them.

    run         urn:causeline:run:ID             prov:Activity    wasAssociatedWith its agent
    step        urn:causeline:run:ID:step:N      prov:Activity    wasInformedBy the step before, used what the model was shown
    causal node urn:causeline:node:cw_...@SESSION prov:Entity     wasGeneratedBy its step, wasDerivedFrom its causes
    call        urn:causeline:call:RUN/CALL      prov:Activity    used the node that asked, generated its result
    agent, model, tool, person, owner, resource: `urn:causeline:<kind>:NAME`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import quote

from causeline.causal import CausalNode
from causeline.causal.payload import as_text, field_text, fields
from causeline.memory.terms import LABEL, NS, PROV, RDF_TYPE, Literal, Quad, Term, boolean, decimal, integer, moment
from causeline.run.ledger import Call

ACTIVITY, ENTITY, AGENT, PERSON, SOFTWARE = (PROV + name for name in ("Activity", "Entity", "Agent", "Person", "SoftwareAgent"))
TEXT = 10_000
"""Characters of `ns:text`; `ns:payload` always has all of a node."""
_ENDED = frozenset({"interrupted", "succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What of a run's row is told. `before` is the run it goes on from."""

    id: str
    agent: str
    status: str
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    stop_reason: str | None = None
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    before: str | None = None
    parent_call: str | None = None
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What of a checkpoint is told, and its nodes in the order of their commit. `before` is (run, step) of its parent, `versions` maps
    each versioned node to the version it revises."""

    run: str
    step: int
    checkpoint: str
    node: str
    port: str
    created_at: str
    facts: Mapping[str, Any]
    nodes: Sequence[CausalNode]
    before: tuple[str, int] | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])


class Session:
    """Statements about one session of one owner, in the graph of that session."""

    def __init__(self, session: str, owner: str) -> None:
        self._place = quote(session, safe="._:-~", errors="replace")
        self.graph = named("session", session)
        self.owner = named("owner", owner)

    def node(self, name: str) -> str:
        """The subject of a causal node."""
        return f"{named('node', name)}@{self._place}"

    def run(self, row: RunFacts) -> Iterator[Quad]:
        """A run."""
        run = named("run", row.id)
        agent = named("agent", row.agent)
        yield from self._activity(run, "Run", row.started_at or row.created_at, row.finished_at)
        yield from self._thing(agent, "Agent", SOFTWARE, row.agent)
        yield self._quad(run, f"{PROV}wasAssociatedWith", agent)
        yield self._quad(agent, f"{PROV}actedOnBehalfOf", self.owner)
        yield self._quad(self.owner, RDF_TYPE, AGENT)
        yield self._quad(run, f"{NS}session", self.graph)
        if row.before is not None:
            yield self._quad(run, f"{PROV}wasInformedBy", named("run", row.before))
        if row.before is not None and row.parent_call is not None:
            yield self._quad(run, f"{PROV}wasStartedBy", call_name(row.before, row.parent_call))
        if row.status in _ENDED:
            yield from self._end(run, row)
        for interrupt, decision in row.answers.items():
            yield from self._answer(run, interrupt, fields(decision), row.started_at or row.created_at)

    def _end(self, run: str, row: RunFacts) -> Iterator[Quad]:
        yield self._quad(run, f"{NS}status", Literal(row.status))
        if row.stop_reason:
            yield self._quad(run, f"{NS}stopReason", Literal(row.stop_reason))
        yield from self._numbers(run, row.usage or {})
        if row.error:
            yield self._quad(run, f"{NS}code", Literal(clean(str(row.error.get("code")))))
            yield self._quad(run, f"{NS}text", Literal(clean(str(row.error.get("message")))))

    def _answer(self, run: str, interrupt: str, decision: Mapping[str, Any], at: str) -> Iterator[Quad]:
        """A person's answer to a question, whether or not it changed anything."""
        answer = named("interrupt", interrupt)
        yield from self._entity(answer, "Decision", at)
        yield self._quad(answer, f"{NS}decision", Literal(clean(str(decision.get("decision")))))
        yield self._quad(run, f"{PROV}used", answer)
        yield from self._by(answer, decision)
        for key in ("reason", "value"):
            if decision.get(key) is not None:
                yield self._quad(answer, f"{NS}{key}", Literal(clean(as_text(decision[key]))))

    def _by(self, subject: str, decision: Mapping[str, Any]) -> Iterator[Quad]:
        by = decision.get("by")
        if isinstance(by, str) and by:
            person = named("person", by)
            yield from self._thing(person, "Person", PERSON, by)
            yield self._quad(subject, f"{PROV}wasAttributedTo", person)
        else:
            yield self._quad(subject, f"{PROV}wasAttributedTo", self.owner)

    def step(self, row: StepFacts) -> Iterator[Quad]:
        """A step with the nodes it brought."""
        step = step_name(row.run, row.step)
        yield from self._activity(step, "Step", _earlier(row.created_at, row.facts.get("ms")), row.created_at)
        yield self._quad(step, f"{NS}run", named("run", row.run))
        yield self._quad(step, f"{NS}placement", Literal(clean(row.node)))
        yield self._quad(step, f"{NS}port", Literal(clean(row.port)))
        yield self._quad(step, f"{NS}checkpoint", Literal(row.checkpoint))
        if row.before is not None:
            yield self._quad(step, f"{PROV}wasInformedBy", step_name(*row.before))
        yield from self._numbers(step, fields(row.facts.get("usage")))
        if row.facts.get("model"):
            model = named("model", str(row.facts["model"]))
            yield from self._thing(model, "Model", SOFTWARE, str(row.facts["model"]))
            yield self._quad(step, f"{PROV}wasAssociatedWith", model)
        attempts: list[Any] = list(row.facts.get("attempts") or ())
        for attempt in attempts:
            yield self._quad(step, f"{NS}failedAttempt", Literal(clean(str(fields(attempt).get("code")))))
        for node in row.nodes:
            yield from self._node(step, row, node)

    def _node(self, step: str, row: StepFacts, node: CausalNode) -> Iterator[Quad]:
        subject, payload = self.node(node.id), node.payload
        yield from self._entity(subject, "Node", node.created_at)
        yield self._quad(subject, f"{NS}kind", Literal(node.kind))
        yield self._quad(subject, f"{PROV}wasGeneratedBy", step)
        yield self._quad(subject, f"{NS}payload", Literal(node.payload_bytes.decode()))
        yield self._quad(subject, f"{NS}text", Literal(clean(said(node.kind, payload))[:TEXT]))
        for parent in node.parents:
            yield self._quad(subject, f"{PROV}wasDerivedFrom", self.node(parent))
            if node.kind == "inference":
                yield self._quad(step, f"{PROV}used", self.node(parent))
        if node.resource_key is not None:
            resource = named("resource", node.resource_key)
            yield self._quad(subject, f"{PROV}specializationOf", resource)
            yield self._quad(subject, f"{NS}resourceKey", Literal(clean(node.resource_key)))
            earlier = row.versions.get(node.id)
            if earlier is not None:
                yield self._quad(subject, f"{PROV}wasRevisionOf", self.node(earlier))
        yield from self._details(subject, row, node, fields(payload))

    def _details(self, subject: str, row: StepFacts, node: CausalNode, payload: Mapping[str, Any]) -> Iterator[Quad]:
        match node.kind:
            case "goal" | "system":
                yield self._quad(subject, f"{PROV}wasAttributedTo", self.owner)
            case "inference":
                if row.facts.get("model"):
                    yield self._quad(subject, f"{PROV}wasAttributedTo", named("model", str(row.facts["model"])))
            case "tool_call" | "tool_result":
                yield from self._of_call(subject, row.run, node.kind, payload)
            case "protocol_error":
                yield self._quad(subject, f"{NS}code", Literal(clean(field_text(payload, "code"))))
            case "verification":
                yield from self._verified(subject, payload)
            case "semantic":
                yield self._quad(subject, f"{NS}memoryType", Literal(clean(field_text(payload, "type"))))
                yield self._quad(subject, f"{NS}memoryKey", Literal(clean(field_text(payload, "key"))))
            case "resource":
                yield from self._of_resource(subject, payload)
            case _:
                pass

    def _of_call(self, subject: str, run: str, kind: str, payload: Mapping[str, Any]) -> Iterator[Quad]:
        name = field_text(payload, "call_id")
        yield self._quad(subject, f"{NS}callId", Literal(clean(name)))
        tool = field_text(payload, "name" if kind == "tool_call" else "tool")
        yield self._quad(subject, f"{NS}tool", named("tool", tool))
        if kind == "tool_result":
            yield self._quad(subject, f"{NS}ok", boolean(payload.get("ok") is True))
            yield self._quad(subject, f"{PROV}wasGeneratedBy", call_name(run, name))

    def _verified(self, subject: str, payload: Mapping[str, Any]) -> Iterator[Quad]:
        yield self._quad(subject, f"{NS}method", Literal(clean(field_text(payload, "method"))))
        if payload.get("method") == "decision":
            yield self._quad(subject, RDF_TYPE, f"{NS}Decision")
            yield self._quad(subject, f"{NS}decision", Literal(clean(field_text(payload, "decision"))))
            yield self._quad(subject, f"{NS}callId", Literal(clean(field_text(payload, "call_id"))))
            yield from self._by(subject, payload)

    def _of_resource(self, subject: str, payload: Mapping[str, Any]) -> Iterator[Quad]:
        for key in ("path", "operation", "contentHash"):
            if payload.get(key) is not None:
                yield self._quad(subject, f"{NS}{key}", Literal(clean(as_text(payload[key]))))
        yield self._quad(subject, f"{NS}succeeded", boolean(payload.get("succeeded") is True))
        citations: Any = fields(payload.get("value")).get("citations")
        for citation in map(fields, cast("list[Any]", citations) if isinstance(citations, list) else ()):
            run, step = citation.get("run"), citation.get("step")
            if isinstance(run, str):
                cited = step_name(run, step) if isinstance(step, int) else named("run", run)
                yield self._quad(subject, f"{NS}cites", cited)
            if isinstance(citation.get("node"), str):
                yield self._quad(subject, f"{NS}citesNode", Literal(clean(citation["node"])))

    def call(self, run: str, call: Call, asked_by: str | None) -> Iterator[Quad]:
        """A call that is settled. `asked_by` is the causal node that asked for it."""
        subject, tool = call_name(run, call.call_id), named("tool", call.name)
        yield self._quad(subject, RDF_TYPE, ACTIVITY)
        yield self._quad(subject, RDF_TYPE, f"{NS}Call")
        yield from self._thing(tool, "Tool", SOFTWARE, call.name)
        yield self._quad(subject, f"{PROV}wasAssociatedWith", tool)
        yield self._quad(subject, f"{NS}tool", tool)
        yield self._quad(subject, f"{NS}run", named("run", run))
        yield self._quad(subject, f"{NS}callId", Literal(clean(call.call_id)))
        yield self._quad(subject, f"{NS}state", Literal(call.state))
        yield self._quad(subject, f"{NS}attempts", integer(call.attempts))
        if call.ok is not None:
            yield self._quad(subject, f"{NS}ok", boolean(call.ok))
        if asked_by is not None:
            yield self._quad(subject, f"{PROV}used", self.node(asked_by))
        if call.reason:
            yield self._quad(subject, f"{NS}reason", Literal(clean(call.reason)))

    def _activity(self, subject: str, kind: str, start: str | None, end: str | None) -> Iterator[Quad]:
        yield self._quad(subject, RDF_TYPE, ACTIVITY)
        yield self._quad(subject, RDF_TYPE, NS + kind)
        if start:
            yield self._quad(subject, f"{PROV}startedAtTime", moment(start))
        if end:
            yield self._quad(subject, f"{PROV}endedAtTime", moment(end))

    def _entity(self, subject: str, kind: str, at: str) -> Iterator[Quad]:
        yield self._quad(subject, RDF_TYPE, ENTITY)
        yield self._quad(subject, RDF_TYPE, NS + kind)
        yield self._quad(subject, f"{PROV}generatedAtTime", moment(at))

    def _thing(self, subject: str, kind: str, sort: str, label: str) -> Iterator[Quad]:
        yield self._quad(subject, RDF_TYPE, sort)
        yield self._quad(subject, RDF_TYPE, NS + kind)
        yield self._quad(subject, LABEL, Literal(clean(label)))

    def _numbers(self, subject: str, usage: Mapping[str, Any]) -> Iterator[Quad]:
        for key, name in (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens")):
            if isinstance(usage.get(key), int):
                yield self._quad(subject, NS + name, integer(usage[key]))
        if isinstance(usage.get("cost"), int | float):
            yield self._quad(subject, f"{NS}cost", decimal(usage["cost"]))

    def _quad(self, subject: str, predicate: str, value: Term) -> Quad:
        return subject, predicate, value, self.graph


def named(kind: str, name: str) -> str:
    """`urn:causeline:<kind>:NAME`."""
    return f"urn:causeline:{kind}:{quote(name, safe='._:-~', errors='replace')}"


def step_name(run: str, step: int) -> str:
    """The subject of a step."""
    return f"{named('run', run)}:step:{step}"


def call_name(run: str, call: str) -> str:
    """The subject of a call."""
    return f"{named('call', run)}/{quote(call, safe='._:-~', errors='replace')}"


def said(kind: str, payload: Any) -> str:
    """What a node says, for people and for searching."""
    if isinstance(payload, str):
        return payload
    keys = {"goal": "text", "inference": "text", "protocol_error": "detail", "tool_result": "result", "semantic": "content"}
    key = keys.get(kind)
    if kind == "tool_call":
        return f"{field_text(payload, 'name')} {as_text(fields(payload).get('args'))}"
    return as_text(fields(payload).get(key, payload)) if key is not None else as_text(payload)


def clean(text: str) -> str:
    """Text without what RDF cannot hold: NUL and halves of characters."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _earlier(at: str, milliseconds: Any) -> str:
    """The time some milliseconds before."""
    if not isinstance(milliseconds, int | float):
        return at
    moment_then = datetime.fromisoformat(at) - timedelta(milliseconds=milliseconds)
    return moment_then.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}


def nquads(quads: Iterator[Quad]) -> str:
    """Statements as N-Quads. Their IRIs are taken as they are."""
    lines = [f"<{s}> <{p}> {_written(o)} <{g}> .\n" if g is not None else f"<{s}> <{p}> {_written(o)} .\n" for s, p, o, g in quads]
    return "".join(lines)


def _written(term: Term) -> str:
    if isinstance(term, str):
        return f"<{term}>"
    text = f'"{term.value.translate(_ESCAPES)}"'
    return f"{text}^^<{term.datatype}>" if term.datatype is not None else text
