"""Which nodes of a log belong into a bounded view.

Order of selection: what must be there (latest system text, latest goal with what was recalled for
it, every head of the frontier); the
last nodes that are not superseded; what those rest on; the nodes that match the question best; then the
rest by score until the view is full.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log2, sqrt

from causeline.causal.causal_node import CausalNode
from causeline.causal.payload import recalled_text
from causeline.causal.state import AgentState
from causeline.causal.view.catalog import MEMORY, RECALL, SEMANTIC, Catalog
from causeline.causal.view.words import query_terms, text_of
from causeline.errors import Misuse

NODES = 40
"""Nodes of a view, unless more than that must be there."""
RECENT = 10
PROTECTED = 8
DEPTH = 2
_MATCHES = 2_000
_TERMS = 64
_AUTHORITY = {"goal": 0.3, "resource": 0.25, "verification": 0.25, "tool_result": 0.25, "semantic": 0.15}
_OPERATIONAL = frozenset({"tool_result", "resource", "verification", "protocol_error"})
_CANDIDATES = ("goal", "answer", "tool_result", "resource", "verification", "protocol_error")

Rank = Callable[[str, Sequence[CausalNode]], Sequence[float]]
"""(query, nodes) -> how relevant each node is, 0 (not at all) to 1. Must be a pure function for the view to be one."""


@dataclass(slots=True)
class Selection:
    """Places of a log. `required` cannot be given up; `protected` match the question, best first."""

    required: set[int] = field(default_factory=set[int])
    chosen: set[int] = field(default_factory=set[int])
    protected: list[int] = field(default_factory=list[int])


def select(state: AgentState, catalog: Catalog, query: str, rank: Rank | None) -> Selection:
    """The nodes for a view of `state`, before any budget of tokens."""
    found = Selection()
    heads = [state.sequence(name) - 1 for name in state.frontier]
    found.required.update(heads)
    for kind in ("system", "goal"):
        found.required.update(_newest(catalog.alive_of.get(kind, {}), 1))
    found.required.update(_recalled(state, catalog))
    found.required.update(*(_with_causes(state, catalog, place) for place in heads))
    found.chosen.update(found.required)
    for place in _newest(catalog.alive, RECENT):
        _add(found, _with_causes(state, catalog, place))
    scores = _scores(state, catalog, query, rank)
    best = sorted((place for place in scores if scores[place][0] > 0), key=lambda place: (*scores[place], place), reverse=True)
    for place in best[:PROTECTED]:
        if _add(found, _with_causes(state, catalog, place)):
            found.protected.append(place)
    for place in sorted(scores, key=lambda place: (scores[place][1], place), reverse=True):
        if not _add(found, _with_causes(state, catalog, place)):
            break
    return found


def _recalled(state: AgentState, catalog: Catalog) -> Iterator[int]:
    """What was recalled for the latest goal, from long-term memory and from earlier runs."""
    for goal in _newest(catalog.alive_of.get("goal", {}), 1):
        for key in (MEMORY, RECALL):
            node = state.head(key + state.nodes[goal].id)
            if node is not None and recalled_text(node.payload):
                yield state.sequence(node.id) - 1


def _add(found: Selection, group: set[int]) -> bool:
    """Take a node with what it rests on, if there is room for all of them."""
    if len(found.chosen | group) > NODES:
        return False
    found.chosen |= group
    return True


def _newest(places: dict[int, None], count: int) -> Iterator[int]:
    return islice(reversed(places), count)


def _with_causes(state: AgentState, catalog: Catalog, place: int) -> set[int]:
    """A node with the nodes that must be shown for it to make sense.

    Results, resources, verifications and protocol errors bring their parents, two levels deep, but not the
    version before them; what a model had read is never followed. A call and its result come together, with
    the inference that asked for them, and a goal with the answer it came to.
    """
    found = {place}
    todo = [(place, DEPTH)]
    while todo:
        at, left = todo.pop()
        node = state.nodes[at]
        if left and node.kind in _OPERATIONAL:
            for parent in node.parents:
                cause = state.node(parent)
                if node.resource_key is None or cause.resource_key != node.resource_key:
                    todo.append((state.sequence(parent) - 1, left - 1))
        found.add(at)
        for partner in _partners(catalog, at):
            found.add(partner)
    return found


def _partners(catalog: Catalog, place: int) -> Iterator[int]:
    if place in catalog.turn:
        yield catalog.turn[place]
    call = catalog.call_of.get(place, place)
    yield call
    if call in catalog.result_of:
        yield catalog.result_of[call]
        if call in catalog.carrier:
            yield catalog.carrier[call]


def _scores(state: AgentState, catalog: Catalog, query: str, rank: Rank | None) -> dict[int, tuple[float, float]]:
    """Candidates with (relevance, score).

    score = 0.55 relevance + 0.2 sequence / total + authority of the kind + 0.35 where the question names the
    type of a memory. Nodes the question does not touch are tried newest first, as many as a view could hold.
    """
    goal = next(_newest(catalog.alive_of.get("goal", {}), 1), None)
    asked = query_terms(query, text_of(state.nodes[goal].payload) if goal is not None else "")
    groups = [group for group in catalog.alive_of if _is_candidate(group)]
    relevance = _lexical(catalog, asked) if rank is None else _ranked(state, catalog, groups, query, rank)
    places = dict.fromkeys(relevance)
    for group in groups:
        places.update(dict.fromkeys(_newest(catalog.alive_of[group], NODES)))
    return {place: (relevance.get(place, 0.0), _score(catalog, place, relevance.get(place, 0.0), asked)) for place in places}


def _is_candidate(group: str) -> bool:
    return group in _CANDIDATES or group.startswith(SEMANTIC)


def _score(catalog: Catalog, place: int, relevance: float, asked: frozenset[str]) -> float:
    group = catalog.group_of[place]
    memory = group.removeprefix(SEMANTIC) if group.startswith(SEMANTIC) else None
    named = 0.35 if memory is not None and (memory in asked or memory + "s" in asked) else 0.0
    authority = _AUTHORITY.get("semantic" if memory is not None else group, 0.0)
    return 0.55 * relevance + 0.2 * (place + 1) / len(catalog.sizes) + authority + named


def _lexical(catalog: Catalog, asked: frozenset[str]) -> dict[int, float]:
    """Overlap of terms divided by sqrt(|question| |payload|). What matches a call counts for its result.

    A shared term counts by how rare it is in the log: 1 if one payload has it, less the more payloads do.
    """
    overlap: dict[int, float] = {}
    total = log2(1 + len(catalog.sizes))
    known = sorted((catalog.frequency(term), term) for term in asked if catalog.frequency(term))[:_TERMS]
    for frequency, term in known:
        weight = log2(1 + len(catalog.sizes) / frequency) / total
        for place in catalog.places_of(term, _MATCHES):
            overlap[place] = overlap.get(place, 0.0) + weight
    relevance: dict[int, float] = {}
    for place, shared in overlap.items():
        shown = catalog.result_of.get(place, place)
        if _is_candidate(catalog.group_of.get(shown, "")):
            relevance[shown] = max(relevance.get(shown, 0.0), shared / sqrt(len(asked) * max(1, catalog.sizes[place])))
    return relevance


def _ranked(state: AgentState, catalog: Catalog, groups: Sequence[str], query: str, rank: Rank) -> dict[int, float]:
    places = sorted(place for group in groups for place in catalog.alive_of[group])
    found = rank(query, [state.nodes[place] for place in places])
    if len(found) != len(places):
        raise Misuse(f"rank gave {len(found)} numbers for {len(places)} nodes; give one for each")
    return {place: float(value) for place, value in zip(places, found, strict=True)}
