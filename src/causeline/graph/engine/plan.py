"""A plan: a document indexed for walking, so that a visit costs O(1) whatever the size of the document.

Law: pure and immutable. Placements are numbered in declared order; all the machine needs is looked up by number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from causeline.graph.documents.document import OTHERWISE, Document, Embedded, Gather, Phase, Placement, Single, entrypoint_iri, outputs_of
from causeline.graph.documents.edges import Test, compile_test
from causeline.graph.node import PARKED

_OWN_ROUTE_ONLY = frozenset({"error", PARKED})


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbers everything. `routes[i]` is port -> number of the next placement (empty for terminals and phases).

    `entries`: label -> number, in declared order. `branches[i]`: labels of the entrypoints that can
    reach i. `sources[g]`: producer -> its number among the sources of gather g, in declared order, and `inputs[g]`: result field per
    source. `feeds[i]`: gathers that count placement i as a source, gather -> source number; `entry_feeds[label]` the same for entrypoints
    that lead straight into a gather.
    """

    document: Document
    ids: tuple[str, ...]
    placements: tuple[Placement, ...]
    index: Mapping[str, int]
    routes: tuple[Mapping[str, int], ...]
    entries: Mapping[str, int]
    branches: tuple[frozenset[str], ...]
    sources: Mapping[int, Mapping[str, int]]
    inputs: Mapping[int, tuple[str | None, ...]]
    feeds: tuple[Mapping[int, int], ...]
    entry_feeds: Mapping[str, Mapping[int, int]]
    pre: tuple[int, ...]
    post: tuple[int, ...]
    tests: Mapping[int, tuple[tuple[str, Test], ...]] = field(repr=False)

    def decide(self, number: int, port: str, state: Mapping[str, Any]) -> str:
        """The port a visit really leaves by: the returned one if it has a route, else the first edge condition that
        holds in `state` (the state after the visit's writes), else `otherwise`, else the returned port unchanged."""
        routes = self.routes[number]
        if port in routes or port in _OWN_ROUTE_ONLY:
            return port
        for text, test in self.tests.get(number, ()):
            if test(state):
                return text
        return OTHERWISE if OTHERWISE in routes else port


def build_plan(document: Document) -> Plan:
    """Index a document. Expects one that `check` passed; routes to placements that do not exist are left out."""
    ids = tuple(document.placements)
    placements = tuple(document.placements.values())
    index = {iri: number for number, iri in enumerate(ids)}
    routes = tuple({port: index[target] for port, target in outputs_of(placement).items() if target in index} for placement in placements)
    entries = {label: index[target] for label, target in document.entrypoints.items() if target in index}
    sources = {
        number: {producer: index for index, producer in enumerate(placement.sources)}
        for number, placement in enumerate(placements)
        if isinstance(placement, Gather)
    }
    return Plan(
        document=document,
        ids=ids,
        placements=placements,
        index=index,
        routes=routes,
        entries=entries,
        branches=_branches(routes, entries),
        sources=sources,
        inputs={number: tuple(one.sources.values()) for number, one in enumerate(placements) if isinstance(one, Gather)},
        feeds=tuple({gather: producers[iri] for gather, producers in sources.items() if iri in producers} for iri in ids),
        entry_feeds={
            label: {
                gather: producers[source]
                for gather, producers in sources.items()
                if (source := entrypoint_iri(document.id, label)) in producers
            }
            for label in entries
        },
        pre=_phases(placements, "pre"),
        post=_phases(placements, "post"),
        tests={
            number: tuple((text, compile_test(text)) for text in placement.when)
            for number, placement in enumerate(placements)
            if isinstance(placement, Single | Embedded) and placement.when
        },
    )


def _phases(placements: tuple[Placement, ...], phase: str) -> tuple[int, ...]:
    return tuple(number for number, one in enumerate(placements) if isinstance(one, Phase) and one.phase == phase)


def _branches(routes: tuple[Mapping[str, int], ...], entries: Mapping[str, int]) -> tuple[frozenset[str], ...]:
    labels: list[set[str]] = [set() for _ in routes]
    for label, start in entries.items():
        todo = [start]
        while todo:
            number = todo.pop()
            if label not in labels[number]:
                labels[number].add(label)
                todo.extend(routes[number].values())
    return tuple(frozenset(one) for one in labels)
