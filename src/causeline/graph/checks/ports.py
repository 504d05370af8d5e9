"""Findings about ports: outcomes without a route, routes for outcomes that never come, edge conditions."""

from collections.abc import Iterator
from difflib import get_close_matches

from causeline.graph.checks.subject import Scope
from causeline.graph.documents.document import OTHERWISE, DagBody, Embedded, Gather, Routed, Scatter, Single
from causeline.graph.documents.edges import ERROR_EDGE, EdgeError, compile_test
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join
from causeline.graph.documents.vocabulary import CHILD_PORTS, EMPTY, GATHER_NEEDS, GATHER_PORTS, REDUCER_PORTS
from causeline.graph.node import PARKED

ALWAYS_ALLOWED = frozenset({"error", PARKED, OTHERWISE})


def port_findings(scope: Scope) -> Iterator[Finding]:
    """All findings of this file: at most one about routes for each placement."""
    for placement in scope.routing.placements:
        if placement.id in scope.unsure or not isinstance(placement, Single | Scatter | Gather | Embedded):
            continue
        yield from _words(scope, placement)
        if isinstance(placement, Single | Embedded):
            yield from _conditions(scope, placement)
        if not scope.spoiled(placement, "outputs") and (placement.outputs or not isinstance(placement, Single)):
            yield from _routes(scope, placement)


def _words(scope: Scope, placement: Routed) -> Iterator[Finding]:
    """Names of gather strategies and scatter reducers."""
    if isinstance(placement, Gather) and placement.strategy:
        yield from _word(scope, placement, "strategy", placement.strategy, {*GATHER_NEEDS, *scope.strategies}, "gather", "strategy")
    if isinstance(placement, Scatter):
        yield from _word(scope, placement, "reducer", placement.reducer, {*REDUCER_PORTS, *scope.reducers}, "reducer")


def _word(scope: Scope, placement: Routed, what: str, word: str, known: set[str], *keys: str) -> Iterator[Finding]:
    if word not in known:
        near = get_close_matches(word, sorted(known), 1, 0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
        yield scope.finding(f"unknown_{what}", placement, f"there is no {what} {word!r}; {hint}", *keys)


def _conditions(scope: Scope, placement: Single | Embedded) -> Iterator[Finding]:
    path = join(scope.place(placement.id), "when")
    for index, text in enumerate(placement.when):
        try:
            compile_test(text)
        except EdgeError as error:
            yield Finding("bad_condition", placement.id, error.message, join(path, index))
            continue
        if text not in placement.outputs and not scope.spoiled(placement, "outputs"):
            yield Finding("missing_route", placement.id, f"the condition {text!r} has no route; name it in outputs", join(path, index))


def _routes(scope: Scope, placement: Routed) -> Iterator[Finding]:
    """At most one finding a placement: what is missing and what is too much are mostly one slip."""
    needed, possible = _expected(scope, placement)
    if isinstance(placement, Single | Embedded) and (placement.when or OTHERWISE in placement.outputs):
        needed = {OTHERWISE} | (needed & {"error"})
        possible = None if possible is None else possible | set(placement.when)
    missing = sorted(needed - set(placement.outputs) - {PARKED})
    extra = [] if possible is None else [port for port in placement.outputs if port not in possible | ALWAYS_ALLOWED | {ERROR_EDGE}]
    too_much = f"; {', '.join(map(repr, extra))} {'is' if len(extra) == 1 else 'are'} routed but never left by" if extra else ""
    if missing:
        yield scope.finding("missing_route", placement, f"no route for the outcome {', '.join(map(repr, missing))}{too_much}", "outputs")
    elif extra:
        yield scope.finding(
            "unknown_port",
            placement,
            f"never leaves by {', '.join(map(repr, extra))}, yet has a route for it; remove it"
            + (f" (it leaves by {', '.join(sorted(possible))})" if possible else ""),
            "outputs",
            extra[0],
        )


def _expected(scope: Scope, placement: Routed) -> tuple[set[str], set[str] | None]:
    """Ports that must have a route, and all ports that can come (None: not known)."""
    if isinstance(placement, Embedded):
        return {"success"}, set(CHILD_PORTS)
    if isinstance(placement, Gather):
        return _gather_needs(scope, placement), set(GATHER_PORTS)
    if isinstance(placement, Scatter):
        ports = _scatter_ports(scope, placement) or set()
        may_skip_empty = placement.reducer != "aggregate" and "success" in ports  # no items then count as success
        return (ports - {EMPTY} if may_skip_empty else ports), ports or None
    ports = _node_ports(scope, placement.node)
    return (ports or set()), ports


def _gather_needs(scope: Scope, gather: Gather) -> set[str]:
    """`empty` can only come where a source may have nothing to give."""
    may_be_empty = not gather.include_errors or any(isinstance(scope.document.placements.get(source), Scatter) for source in gather.sources)
    return {"success", "error"} | ({EMPTY} if may_be_empty else set())


def _scatter_ports(scope: Scope, scatter: Scatter) -> set[str] | None:
    if scatter.reducer not in REDUCER_PORTS:
        return None
    fixed = REDUCER_PORTS[scatter.reducer]
    if fixed is not None:
        return set(fixed)
    if isinstance(scatter.body, DagBody):
        return {*CHILD_PORTS, EMPTY}
    body = _node_ports(scope, scatter.body.node)
    return None if body is None else body | {EMPTY}


def _node_ports(scope: Scope, iri: str) -> set[str] | None:
    node = scope.nodes.get(iri)
    return None if node is None else set(node.ports)
