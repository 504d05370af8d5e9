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

    `entries`: label -> number, in declared order; `primary` gets the given state, others a copy. `rank[i]` is
    1 + the longest way from an entrypoint, back edges left out. `branches[i]`: labels of the entrypoints that can
    reach i; two placements are concurrent if their branches can be told apart. `slots[g]`: producer -> slot for
    gather g, in declared order of its sources, and `inputs[g]`: result field per slot. `feeds[i]`: gathers that count
    placement i as a source, gather -> slot; `entry_feeds[label]` the same for entrypoints that lead straight into a gather.
    """

    document: Document
    ids: tuple[str, ...]
    placements: tuple[Placement, ...]
    index: Mapping[str, int]
    routes: tuple[Mapping[str, int], ...]
    entries: Mapping[str, int]
    primary: str
    rank: tuple[int, ...]
    branches: tuple[frozenset[str], ...]
    slots: Mapping[int, Mapping[str, int]]
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

    def concurrent(self, one: int, two: int) -> bool:
        """True if the two can run at the same time: different entrypoints lead to them."""
        return len(self.branches[one] | self.branches[two]) > 1 and bool(self.branches[one]) and bool(self.branches[two])


def build_plan(document: Document) -> Plan:
    """Index a document. Expects one that `check` passed; routes to placements that do not exist are left out."""
    ids = tuple(document.placements)
    placements = tuple(document.placements.values())
    index = {iri: number for number, iri in enumerate(ids)}
    routes = tuple({port: index[target] for port, target in outputs_of(placement).items() if target in index} for placement in placements)
    entries = {label: index[target] for label, target in document.entrypoints.items() if target in index}
    slots = {
        number: {producer: slot for slot, producer in enumerate(placement.sources)}
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
        primary=document.primary or "",
        rank=_ranks(routes, entries),
        branches=_branches(routes, entries),
        slots=slots,
        inputs={number: tuple(one.sources.values()) for number, one in enumerate(placements) if isinstance(one, Gather)},
        feeds=tuple({gather: producers[iri] for gather, producers in slots.items() if iri in producers} for iri in ids),
        entry_feeds={
            label: {
                gather: producers[source]
                for gather, producers in slots.items()
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


def _ranks(routes: tuple[Mapping[str, int], ...], entries: Mapping[str, int]) -> tuple[int, ...]:
    """Depth-first from the entrypoints; edges to a placement that is still open are back edges and do not count."""
    order: list[int] = []
    state = [0] * len(routes)
    forward: list[list[int]] = [[] for _ in routes]
    for start in entries.values():
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(tuple(routes[start].values())))]
        while stack:
            number, targets = stack[-1]
            for target in targets:
                if state[target] != 1:
                    forward[number].append(target)
                if state[target] == 0:
                    state[target] = 1
                    stack.append((target, iter(tuple(routes[target].values()))))
                    break
            else:
                state[number] = 2
                order.append(number)
                stack.pop()
    rank = [0] * len(routes)
    for start in entries.values():
        rank[start] = 1
    for number in reversed(order):
        for target in forward[number]:
            rank[target] = max(rank[target], rank[number] + 1)
    return tuple(rank)
