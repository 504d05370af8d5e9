"""The dispatcher: where nodes and documents are registered, checked and executed.

Law: nothing is registered unless everything it refers to is there and `check` finds no fault; a bundle is taken whole or not at all.
Placement names and IRIs belong to their document: two documents may use the same.
"""

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from causeline.errors import Conflict, Missing, Misuse
from causeline.graph.checks.document_checks import check, check_documents, check_nodes
from causeline.graph.documents.document import Document, Scatter
from causeline.graph.documents.finding import DocumentError, Finding
from causeline.graph.engine.apply import fold, is_whole, replay_step
from causeline.graph.engine.binding import BoundDocument, bind
from causeline.graph.engine.channels import Channels, Combine, Reducer, as_reducer
from causeline.graph.engine.control import Control, SystemClock
from causeline.graph.engine.embedded import open_child
from causeline.graph.engine.execution import Execution
from causeline.graph.engine.gather import GatherStrategy
from causeline.graph.engine.plain_values import plain
from causeline.graph.engine.plan import Plan, build_plan
from causeline.graph.engine.position import Child, Pause, pauses
from causeline.graph.engine.position_json import PositionMismatch, PositionReader, unreadable
from causeline.graph.engine.scatter import OutcomeReducer
from causeline.graph.engine.step_events import Journal, Limits, Progress
from causeline.graph.node import Node
from causeline.policy import Clock

Reducers = Mapping[str, "str | Combine | Reducer"]


@dataclass(frozen=True, slots=True)
class _Terms:
    """How an execution is to run."""

    sources: Mapping[str, Any]
    deadline: float | None
    limits: Limits | None
    journal: Journal | None
    services: Mapping[type, object]
    observers: Iterable[object]
    first_step: int
    deps: Any = None
    rows: int = 0


class Dispatcher:
    """Holds nodes and documents and starts executions of them. `clock` is for deadlines, timeouts and retries; `strategies` are further
    gather strategies and `outcomes` further scatter reducers by name. With `debug`, and wherever asyncio's debug mode is on, a node that
    changes its state in place fails with `state_changed`."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        strategies: Mapping[str, GatherStrategy] | None = None,
        outcomes: Mapping[str, OutcomeReducer] | None = None,
        debug: bool = False,
    ) -> None:
        self._debug = debug
        self.limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._strategies = dict(strategies or {})
        self._outcomes = dict(outcomes or {})
        self._nodes: dict[str, Node] = {}
        self._documents: dict[str, Document] = {}
        self._registered: dict[str, BoundDocument] = {}

    # -- registration

    def register(self, document: Document, nodes: Iterable[Node] = (), *, reducers: Reducers | None = None) -> None:
        """Register a document and the nodes it needs. `reducers` is channel -> `override | append | keep | merge`, a function
        `(old, write) -> new`, or a Reducer. Registering the same again does nothing.

        Raises DocumentError with every finding, Conflict where an IRI is taken by something else.
        """
        self.register_all([document], nodes, reducers=reducers)

    def register_all(self, documents: Iterable[Document], nodes: Iterable[Node] = (), *, reducers: Reducers | None = None) -> None:
        """Register documents that may refer to each other, all or none; `reducers` hold for each of them, before
        those that nodes declare."""
        added, further = list(documents), list(nodes)
        check_documents("documents", added)
        check_nodes(further)
        known_nodes = self._with_nodes(further)
        known_documents = dict(self._documents)
        declared = {channel: one for node in known_nodes.values() for channel, one in node.reducers.items()}
        bound = {channel: as_reducer(channel, one) for channel, one in {**declared, **(reducers or {})}.items()}
        for document in added:
            self._may_add(known_documents, document, bound)
            known_documents[document.id] = document
        findings = [finding for document in added for finding in self._check(document, known_nodes, known_documents, bound)]
        if findings:
            names = ", ".join(document.name for document in added)
            raise DocumentError(f"{names}: {len(findings)} finding{'s' if len(findings) > 1 else ''}; nothing was registered", findings)
        bound_documents = {
            document.id: bind(build_plan(document), known_nodes, bound, self._strategies, self._outcomes) for document in added
        }
        self._nodes, self._documents = known_nodes, known_documents
        self._registered.update(bound_documents)

    def _with_nodes(self, nodes: Iterable[Node]) -> dict[str, Node]:
        known = dict(self._nodes)
        for node in nodes:
            there = known.setdefault(node.iri, node)
            if there is not node and there != node:
                raise Conflict(f"another node is registered as {node.iri}; give this one another IRI", code="node_taken", node=node.iri)
        return known

    def _may_add(self, known: Mapping[str, Document], document: Document, reducers: Mapping[str, Reducer]) -> None:
        there = known.get(document.id)
        if there is None:
            return
        if there.hash != document.hash:
            raise Conflict(
                f"another version of {document.id} is registered; use another dispatcher, or give the document another IRI",
                code="document_taken",
                document=document.id,
            )
        if document.id in self._registered and self._registered[document.id].reducers != reducers:
            raise Conflict(f"{document.id} is registered with other reducers", code="document_taken", document=document.id)

    def _check(
        self, document: Document, nodes: Mapping[str, Node], documents: Mapping[str, Document], reducers: Mapping[str, Reducer]
    ) -> list[Finding]:
        found = check(
            document,
            nodes,
            documents,
            closed=True,
            strategies=self._strategies,
            reducers=self._outcomes,
            channels={channel: one.name for channel, one in reducers.items()},
        )
        return [finding for finding in found if not finding.warning]

    def document(self, iri: str) -> Document:
        """A registered document. Raises Missing."""
        return self._document(iri).plan.document

    # -- execution

    def execute(
        self,
        iri: str,
        state: Mapping[str, Any] | None = None,
        *,
        sources: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        limits: Limits | None = None,
        journal: Journal | None = None,
        services: Mapping[type, object] | None = None,
        observers: Iterable[object] = (),
        first_step: int = 0,
        entry: str | None = None,
        deps: Any = None,
        progress: Iterable[Mapping[str, Any]] = (),
    ) -> Execution:
        """An execution of a document, not yet started. `state` are the first channel values; `sources` is scatter source -> iterable or
        async iterable, for the top-level document (async iterables in `state` count as sources too); `deadline` is in
        seconds from the start; `entry` names the one entrypoint to take; `deps` is what nodes find as `ctx.deps`; `progress`
        are rows an execution journalled that began like this and came to no step. Raises Missing, UnknownSource, PositionMismatch."""
        bound = self._document(iri)
        if entry is not None and entry not in bound.plan.entries:
            raise Missing(
                f"{iri} has no entrypoint {entry!r}; it has {', '.join(bound.plan.entries)}", code="unknown_entrypoint", entry=entry
            )
        values = dict(state or {})
        found = {**_streams(values), **(sources or {})}
        _check_sources(bound.plan, found)
        child = open_child(bound, {channel: value for channel, value in values.items() if channel not in found}, entry)
        rows = self._fold(bound, child, progress)
        terms = _Terms(found, deadline, limits, journal, services or {}, observers, first_step, deps, rows)
        return self._start(child, terms, {}, fresh=True)

    def resume(
        self,
        iri: str,
        saved: Mapping[str, Any],
        *,
        sources: Mapping[str, Any] | None = None,
        answers: Any = None,
        adopt: bool = False,
        state: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        limits: Limits | None = None,
        journal: Journal | None = None,
        services: Mapping[type, object] | None = None,
        observers: Iterable[object] = (),
        first_step: int = 0,
        deps: Any = None,
    ) -> Execution:
        """Go on from `saved` ({position, channels, document} and, if a journal has them, `steps` after that position, as {position, delta},
        and the `progress` rows after the last step).

        `answers` is pause key -> answer; a single value is taken where exactly one question is open. `state` holds values of channels that
        are not stored. Async sources must start from their beginning; finished items are passed over. With `adopt` the document may
        have changed, as long as every place the position needs is still there.
        Raises PositionMismatch, UnknownAnswer, UnknownSource, Missing.
        """
        bound = self._document(iri)
        _check_sources(bound.plan, sources or {})
        reader = PositionReader(self._plan_of, adopt=adopt)
        child = self._restore(bound, reader, saved, state or {})
        given = _answers(answers, list(pauses(child.plan, child.position)))
        rows = self._fold(bound, child, saved.get("progress", ()))
        terms = _Terms(sources or {}, deadline, limits, journal, services or {}, observers, first_step, deps, rows)
        return self._start(child, terms, given)

    def _fold(self, bound: BoundDocument, child: Child, progress: Any) -> int:
        """Take saved progress in; the number of its last row. Raises PositionMismatch."""
        try:
            rows = [Progress.from_plain({"step": 0, **row}) for row in progress]
            fold(self._registered, child, rows)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise unreadable(bound.plan, "progress", error) from error
        return max((row.number for row in rows), default=0)

    def _restore(self, bound: BoundDocument, reader: PositionReader, saved: Mapping[str, Any], state: Mapping[str, Any]) -> Child:
        plan, reducers = bound.plan, bound.reducers
        known = cast("Any", saved if isinstance(cast("object", saved), Mapping) else {})
        missing = [key for key in ("document", "position", "channels") if key not in known]
        wrong = [key for key in ("position", "channels") if key in known and not isinstance(known[key], Mapping)]
        if missing or wrong:
            fault = f"has no {missing[0]!r}" if missing else f"holds no object under {wrong[0]!r}"
            raise PositionMismatch(f"{plan.document.id}: the saved state {fault}; give what saved() returned")
        if not is_whole(saved["position"]):
            raise PositionMismatch(
                f"{plan.document.id}: the saved position is only what one step changed; give the last whole position, "
                'and the steps after it as "steps": [{position, delta}]'
            )
        reader.check_hash(plan, saved["document"])
        unstored = {channel for channel, reducer in reducers.items() if not reducer.stored}
        values = {
            channel: value if channel in unstored else plain(value, channel)
            for channel, value in cast("Mapping[str, Any]", saved["channels"]).items()
        }
        child = Child(plan, reader.position(plan, saved["position"]), Channels({**values, **state}, reducers))
        try:
            self._fold(bound, child, saved["position"].get("rows", ()))
            for step in saved.get("steps", ()):
                replay_step(self._registered, reader, child, plain(step["position"], "position"), plain(step["delta"], "delta"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise unreadable(plan, "steps", error) from error
        return child

    def _start(self, child: Child, terms: _Terms, answers: Mapping[str, Any], *, fresh: bool = False) -> Execution:
        limits = terms.limits or self.limits
        control = Control(
            self._registered,
            self._clock,
            limits,
            journal=terms.journal,
            services=terms.services,
            sources=terms.sources,
            answers=answers,
            observers=tuple(terms.observers),
            first_step=terms.first_step,
            rows=terms.rows,
            deps=terms.deps,
            debug=self._debug,
        )
        control.whole = fresh
        bounds = [seconds for seconds in (terms.deadline, limits.wall) if seconds is not None]
        return Execution(control, child, seconds=min(bounds, default=None))

    def _document(self, iri: str) -> BoundDocument:
        bound = self._registered.get(iri)
        if bound is None:
            known = ", ".join(self._registered) or "none"
            raise Missing(f"no document is registered as {iri}; registered: {known}", code="unknown_document", document=iri)
        return bound

    def _plan_of(self, iri: str) -> tuple[Plan, Mapping[str, Reducer]]:
        bound = self._document(iri)
        return bound.plan, bound.reducers


class UnknownAnswer(Misuse):
    """An answer that fits no open question. `facts["open"]` are the keys that are open."""

    code = "unknown_answer"


class UnknownSource(Misuse):
    """A source that no scatter of the document reads. `facts["known"]` are the names that are read."""

    code = "unknown_source"


def _check_sources(plan: Plan, given: Mapping[str, Any]) -> None:
    known = list(dict.fromkeys(one.source for one in plan.placements if isinstance(one, Scatter)))
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, 1, 0.6)
            told = f"did you mean {near[0]!r}?" if near else f"its scatters read {', '.join(known) or 'none: it has no scatter'}"
            raise UnknownSource(f"{plan.document.id} has no scatter over the source {name!r}; {told}", source=str(name), known=known)


def _answers(given: Any, asked: list[Pause]) -> Mapping[str, Any]:
    keys = [pause.key for pause in asked]
    shown = ", ".join(keys) or "none"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(keys) != 1:
            raise UnknownAnswer(
                f"one answer was given but {len(keys)} questions are open ({shown}); give answers={{key: answer}}", open=keys
            )
        return {keys[0]: given}
    answers = cast("Mapping[str, Any]", given)
    empty = [key for key, answer in answers.items() if answer is None]
    if empty:
        raise UnknownAnswer(
            f"the answer to {empty[0]!r} is null, which is no answer; give a value such as false or an empty text", open=keys
        )
    unknown = [key for key in answers if key not in keys]
    if unknown:
        raise UnknownAnswer(f"no open question has the key {unknown[0]!r}; open are {shown}", open=keys)
    return answers


def _streams(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that can only be read once, which no channel can hold."""
    return {channel: value for channel, value in values.items() if isinstance(value, AsyncIterable | Iterator)}
