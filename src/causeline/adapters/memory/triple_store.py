"""A set of RDF statements in this process, with patterns, SPARQL and the usual formats; pyoxigraph does the work.

Law: set semantics. A call that raises has changed nothing, and no query leaves the process.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import pyoxigraph as ox

from causeline.adapters.memory.sparql_results import answer
from causeline.errors import Invalid
from causeline.memory.terms import Literal, Quad, Term

FORMATS: Mapping[str, ox.RdfFormat] = {
    "nquads": ox.RdfFormat.N_QUADS, "trig": ox.RdfFormat.TRIG, "turtle": ox.RdfFormat.TURTLE, "ntriples": ox.RdfFormat.N_TRIPLES,
    "jsonld": ox.RdfFormat.JSON_LD,
}  # fmt: skip
"""The formats, by name. A format without graphs writes the statements of all of them."""
_OTHER_NAMES = {"nq": "nquads", "ttl": "turtle", "nt": "ntriples", "json-ld": "jsonld", "n-quads": "nquads", "n-triples": "ntriples"}
Slot = Term | None


class TripleStore:
    """Statements `(subject, predicate, object, graph)`: IRIs as text, blank nodes as `_:name`, `Literal(value, datatype, lang)`; a
    statement of three is in the default graph.

    In a pattern a slot is a term, `"?name"`, which binds it, or None for anything. The same name in two slots is the same term.
    Terms that RDF does not have, such as an IRI with blanks, raise Invalid.
    """

    def __init__(self) -> None:
        self._store = ox.Store()
        self.version = 0
        """Grows with every change, so that what was worked out of the statements can be kept until then."""

    def __len__(self) -> int:
        return len(self._store)

    def assert_quads(self, quads: Iterable[Sequence[Any]]) -> int:
        """Add statements; returns how many were not there."""
        fresh = {quad: None for row in quads if (quad := _quad(row)) not in self._store}
        self._store.extend(fresh)
        self.version += bool(fresh)
        return len(fresh)

    def select(self, *pattern: Slot) -> list[dict[str, Term | None]]:
        """A binding `{name: term}` for each different match of a pattern of up to four slots. A graph that is None is the default one."""
        slots, names = _slots(pattern)
        found: dict[tuple[Any, ...], dict[str, Term | None]] = {}
        for quad in self._store.quads_for_pattern(*slots):
            bound = _binding(names, quad)
            if bound is not None:
                found.setdefault(tuple(bound.values()), {name: _term(term) for name, term in bound.items()})
        return list(found.values())

    def pairs(self, predicate: str, graph: str | None = None) -> dict[str, str]:
        """The subject and the object of each statement with this predicate in one graph, as text: much quicker than `select` where many are
        read. Of a subject with several objects it has one."""
        place = ox.DefaultGraph() if graph is None else _node(graph)
        quads = cast("Iterable[Any]", self._store.quads_for_pattern(None, _node(predicate), None, place))
        return {quad.subject.value: quad.object.value for quad in quads}

    def query(self, sparql: str) -> Any:
        """SPARQL 1.1 over all graphs; `GRAPH` picks one. SELECT: a list of `{variable: {type, value, datatype?, lang?}}`; ASK: a bool;
        CONSTRUCT and DESCRIBE: N-Triples text. Raises Invalid. There is no time limit here."""
        return answer(self._store, sparql, use_default_graph_as_union=True)[1]

    def ask(self, *pattern: Slot) -> bool:
        """Whether a statement fits the pattern."""
        return next(self._matching(pattern), None) is not None

    def count(self, *pattern: Slot) -> int:
        """How many statements fit the pattern; of all without one."""
        return sum(1 for _ in self._matching(pattern)) if any(slot is not None for slot in pattern) else len(self._store)

    def retract(self, *pattern: Any) -> int:
        """Remove every statement that fits the pattern, or the statements of a list; returns how many were there."""
        if len(pattern) == 1 and not isinstance(pattern[0], str | Literal | None):
            gone = {quad: None for row in cast("Iterable[Sequence[Any]]", pattern[0]) if (quad := _quad(row)) in self._store}
        elif pattern:
            gone = dict.fromkeys(self._matching(pattern))
        else:
            raise Invalid("say what to retract: a pattern or a list of statements")
        for quad in gone:
            self._store.remove(quad)
        self.version += bool(gone)
        return len(gone)

    def clear_graph(self, graph: str | None) -> int:
        """Remove a graph's statements (None: those of the default graph); returns how many there were."""
        name = ox.DefaultGraph() if graph is None else _node(graph)
        gone = sum(1 for _ in self._store.quads_for_pattern(None, None, None, name))
        self._store.clear_graph(name)
        if graph is not None:
            self._store.remove_graph(name)
        self.version += bool(gone)
        return gone

    def triples(self) -> list[Quad]:
        """Every statement, with its graph, in a fixed order."""
        rows = [_row(quad) for quad in self._store]
        return sorted(rows, key=lambda row: [(type(term).__name__, str(term)) for term in row])

    def load(self, data: str | bytes, format: str = "nquads", *, graph: str | None = None) -> int:
        """Add the statements of a text, into `graph` where the format has no graphs; returns how many were not there. Raises Invalid
        for a text that is not well formed. A JSON-LD context must stand in the text: none is fetched."""
        chosen = _format(format)
        try:
            quads = list(ox.parse(data.encode() if isinstance(data, str) else data, format=chosen, rename_blank_nodes=True))
        except (SyntaxError, ValueError) as error:
            raise Invalid(f"this is no {format} that can be read: {error}", code="rdf") from error
        if graph is not None:
            name = _node(graph)
            quads = [ox.Quad(*quad.triple, name) if isinstance(quad[3], ox.DefaultGraph) else quad for quad in quads]
        fresh = {quad: None for quad in quads if quad not in self._store}
        self._store.extend(fresh)
        self.version += bool(fresh)
        return len(fresh)

    def dump(self, format: str = "nquads", *, graph: str | None = None) -> str:
        """Every statement, or those of one graph, as text. The formats are nquads, trig, turtle, ntriples and jsonld."""
        chosen = _format(format)
        name = None if graph is None else _node(graph)
        quads = sorted(self._store.quads_for_pattern(None, None, None, name), key=str)
        rows: Any = quads if chosen.supports_datasets and graph is None else list(dict.fromkeys(quad.triple for quad in quads))
        data: Any = ox.serialize(rows, format=chosen)
        return data.decode()

    def _matching(self, pattern: Sequence[Slot]) -> Iterator[Any]:
        slots, names = _slots(pattern)
        return (quad for quad in self._store.quads_for_pattern(*slots) if _binding(names, quad) is not None)


def _format(name: str) -> ox.RdfFormat:
    found = FORMATS.get(_OTHER_NAMES.get(name.lower(), name.lower()))
    if found is None:
        raise Invalid(f"{name!r} is no format; there are {', '.join(FORMATS)}")
    return found


def _slots(pattern: Sequence[Slot]) -> tuple[list[Any], list[tuple[int, str]]]:
    """What pyoxigraph looks for, and the place of each name."""
    if len(pattern) > 4:
        raise Invalid(f"a pattern has at most four slots (subject, predicate, object, graph), not {len(pattern)}")
    slots: list[Any] = [None] * 4
    names: list[tuple[int, str]] = []
    for place, slot in enumerate(pattern):
        if isinstance(slot, str) and slot.startswith("?"):
            names.append((place, slot[1:]))
        elif slot is not None:
            slots[place] = _object(slot) if place == 2 else _node(slot)
    return slots, names


def _binding(names: Sequence[tuple[int, str]], quad: Any) -> dict[str, Any] | None:
    """What each name stands for; None where one name would stand for two terms."""
    bound: dict[str, Any] = {}
    for place, name in names:
        if bound.setdefault(name, quad[place]) != quad[place]:
            return None
    return bound


def _quad(row: Sequence[Any]) -> Any:
    if isinstance(row, str) or len(row) not in (3, 4):
        raise Invalid(f"a statement is (subject, predicate, object) or (subject, predicate, object, graph), not {row!r}")
    graph = row[3] if len(row) == 4 else None
    predicate = _node(row[1])
    if isinstance(predicate, ox.BlankNode):
        raise Invalid(f"{row[1]!r} cannot be a predicate; a predicate is an IRI")
    return ox.Quad(_node(row[0]), predicate, _object(row[2]), ox.DefaultGraph() if graph is None else _node(graph))


@lru_cache(maxsize=4096)
def _node(term: Any) -> Any:
    if not isinstance(term, str):
        raise Invalid(f"{term!r} is no IRI; an IRI is text")
    try:
        return ox.BlankNode(term[2:]) if term.startswith("_:") else ox.NamedNode(term)
    except ValueError as error:
        raise Invalid(f"{term!r} is no IRI: {error}") from error


def _object(term: Any) -> Any:
    if not isinstance(term, Literal):
        return _node(term)
    try:
        if term.lang is not None:
            return ox.Literal(term.value, language=term.lang)
        return ox.Literal(term.value, datatype=None if term.datatype is None else _node(term.datatype))
    except ValueError as error:
        raise Invalid(f"{term!r} is no literal: {error}") from error


def _term(term: Any) -> Term | None:
    if isinstance(term, ox.NamedNode):
        return term.value
    if isinstance(term, ox.BlankNode):
        return f"_:{term.value}"
    if isinstance(term, ox.Literal):
        return Literal(term.value, None if term.language else term.datatype.value, term.language)
    return None if isinstance(term, ox.DefaultGraph) else str(term)


def _row(quad: Any) -> Quad:
    return cast("Quad", tuple(_term(term) for term in quad))
