"""Findings that need more than one document: names that mean nothing here, recursion without an exit, unseeded inputs,
branches that overwrite each other."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from causeline.graph.checks.reachability import RouteMap
from causeline.graph.checks.subject import Scope, named
from causeline.graph.documents.document import (
    DagBody,
    DagReference,
    Document,
    Embedded,
    Gather,
    NodeBody,
    Phase,
    Placement,
    Scatter,
    Single,
)
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.vocabulary import EMPTY
from causeline.graph.node import is_absolute


def bundle_findings(scope: Scope) -> Iterator[Finding]:
    """All findings of this file."""
    for placement in scope.routing.placements:
        if placement.id not in scope.unsure:
            yield from _relative(scope, placement)
            yield from _unknown_nodes(scope, placement)
            yield from _unknown_documents(scope, placement)
            yield from _unseeded(scope, placement)
            yield from _contained(scope, placement)
    yield from _recursion(scope)
    yield from _overwrites(scope)


def child_documents(placement: Placement) -> tuple[str, ...]:
    """IRIs of the documents a placement may run; empty for most."""
    dag = (
        placement.dag
        if isinstance(placement, Embedded)
        else placement.body.dag
        if isinstance(placement, Scatter) and isinstance(placement.body, DagBody)
        else ""
    )
    return dag.candidates if isinstance(dag, DagReference) else (dag,) if dag else ()


def node_iris(placement: Placement) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """IRIs of the nodes a placement runs, each with the path to its field."""
    if isinstance(placement, Single | Phase):
        found = ((placement.node, ("node",)),)
    elif isinstance(placement, Scatter) and isinstance(placement.body, NodeBody):
        found = ((placement.body.node, ("body", "node")),)
    elif isinstance(placement, Gather) and placement.custom_node:
        found = ((placement.custom_node, ("gather", "customNode")),)
    else:
        found = ()
    return tuple((iri, keys) for iri, keys in found if iri)


def _relative(scope: Scope, placement: Placement) -> Iterator[Finding]:
    """Nodes and documents are registered under absolute IRIs, so no other can ever be found."""
    children = ("dag",) if isinstance(placement, Embedded) else ("body", "dag")
    for iri, keys in (*node_iris(placement), *((iri, children) for iri in child_documents(placement))):
        if not is_absolute(iri):
            yield scope.finding("relative_iri", placement, f"{iri!r} is not absolute and its prefix is not declared in @context", *keys)


def _unknown_nodes(scope: Scope, placement: Placement) -> Iterator[Finding]:
    for iri, keys in node_iris(placement) if scope.nodes_known else ():
        if iri not in scope.nodes and is_absolute(iri):
            yield scope.finding("unknown_node", placement, f"no node is registered as {iri}; register it or correct the IRI", *keys)


def _unknown_documents(scope: Scope, placement: Placement) -> Iterator[Finding]:
    for iri in child_documents(placement) if scope.documents_known else ():
        if iri not in scope.documents and iri != scope.document.id and is_absolute(iri):
            keys = ("dag",) if isinstance(placement, Embedded) else ("body", "dag")
            yield scope.finding(
                "unknown_document", placement, f"no document is registered as {iri}; register it with this one or correct the IRI", *keys
            )


def _unseeded(scope: Scope, placement: Placement) -> Iterator[Finding]:
    """The node a child document starts with says what it reads; the parent must hand that over."""
    if not isinstance(placement, Embedded | Scatter):
        return
    given = set(placement.state_input)
    if isinstance(placement, Scatter):
        given |= {placement.item_key, "itemIndex"}
    for iri in child_documents(placement):
        child = scope.documents.get(iri)
        missing = sorted(_required(scope, child) - given) if child is not None else []
        if missing:
            yield scope.finding(
                "unseeded_input",
                placement,
                f"{iri} starts with a node that needs {', '.join(map(repr, missing))}; hand it over in stateMapping.input",
                "stateMapping",
            )


def _required(scope: Scope, child: Document) -> set[str]:
    needed: set[str] = set()
    for iri in child.entrypoints.values():
        start = child.placements.get(iri)
        node = scope.nodes.get(start.node) if isinstance(start, Single) else None
        required = (node.input_schema or {}).get("required") if node is not None else None
        if isinstance(required, list):
            needed.update(one for one in cast("list[Any]", required) if isinstance(one, str))
    return needed


def _contained(scope: Scope, placement: Placement) -> Iterator[Finding]:
    """Warn of a container: nothing here runs one."""
    if isinstance(placement, Embedded | Scatter) and placement.container and not scope.spoiled(placement, "container"):
        yield scope.finding(
            "container_ignored",
            placement,
            f"the container {placement.container!r} is ignored: the document runs in this process; remove it, or run it elsewhere yourself",
            "container",
        )


def _recursion(scope: Scope) -> Iterator[Finding]:
    """A document may run itself, directly or through others, if in the end there is a way to a terminal that does not."""
    library = {**scope.documents, scope.document.id: scope.document}
    circle = _circle(scope.document.id, library)
    routing = scope.routing
    if not circle or not routing.terminals() & routing.reach(routing.entries.values()):
        return
    maps = {iri: routing if iri == scope.document.id else RouteMap(library[iri]) for iri in circle}
    endless = set(circle)
    while ending := {iri for iri in endless if maps[iri].terminals() & _reach_past(maps[iri], _blocked(maps[iri], endless))}:
        endless -= ending
    if scope.document.id in endless:
        blocked = _blocked(routing, endless)
        first = routing.placements[min(blocked)]
        yield scope.finding(
            "endless_recursion",
            first,
            f"every way to a terminal runs {', '.join(child_documents(first))}, which comes back to "
            f"this document (by {named(scope, sorted(blocked))}); add a way that does not",
        )


def _blocked(routing: RouteMap, endless: set[str]) -> set[int]:
    """Placements that only run documents which never end."""
    return {
        number
        for number, placement in enumerate(routing.placements)
        if (children := child_documents(placement)) and all(child in endless for child in children)
    }


def _circle(iri: str, library: Mapping[str, Document]) -> set[str]:
    """The documents that iri runs and that run iri (itself included); empty if it is not recursive."""
    calls: dict[str, set[str]] = {}
    below = _closure(iri, library, calls)
    if iri not in below:
        return set()
    return {name for name in below if name == iri or iri in _closure(name, library, calls)} & library.keys()


def _closure(start: str, library: Mapping[str, Document], calls: dict[str, set[str]]) -> set[str]:
    """All documents that one runs, directly or through others. `calls` remembers who runs whom."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in calls:
            placements = library[name].placements.values() if name in library else ()
            calls[name] = {child for placement in placements for child in child_documents(placement)}
        todo.extend(calls[name] - seen)
        seen |= calls[name]
    return seen


def _reach_past(routing: RouteMap, blocked: set[int]) -> set[int]:
    """What can be reached if a blocked placement lets nothing through but, for a scatter, an empty source."""
    seen = set(routing.entries.values())
    todo = list(seen)
    while todo:
        number = todo.pop()
        for port, target in routing.routes[number].items():
            if target not in seen and (number not in blocked or port == EMPTY):
                seen.add(target)
                todo.append(target)
    return seen


def _overwrites(scope: Scope) -> Iterator[Finding]:
    """Warn of one channel written by two branches that run at the same time; the later placement in the document wins."""
    routing = scope.routing
    branches: dict[int, set[str]] = {}
    for label, start in routing.entries.items():
        for number in routing.reach([start]):
            branches.setdefault(number, set()).add(label)
    writers: dict[str, list[tuple[int, str]]] = {}
    for number, labels in sorted(branches.items()):
        if len(labels) == 1 and len(routing.entries) > 1:
            for channel in _written(scope, routing.placements[number]):
                if scope.channels.get(channel, "override") == "override":
                    writers.setdefault(channel, []).append((number, next(iter(labels))))
    for channel, found in writers.items():
        if len({label for _, label in found}) > 1:
            last = routing.placements[found[-1][0]]
            yield scope.finding(
                "concurrent_write",
                last,
                f"writes {channel!r} while another branch may write it too "
                f"({named(scope, [number for number, _ in found[:-1]])}); this one wins; give the channel a reducer or two names",
            )


def _written(scope: Scope, placement: Placement) -> set[str]:
    """Channels a placement is known to write."""
    if isinstance(placement, Single):
        node = scope.nodes.get(placement.node)
        return set(node.writes) if node else set()
    paths: list[str | None] = []
    if isinstance(placement, Embedded):
        paths = [*placement.state_output, placement.result_field]
    elif isinstance(placement, Gather):
        paths = [placement.target, placement.result_field, *placement.mapping.values(), *placement.partitions.values()]
    return {path.partition(".")[0] for path in paths if path}
