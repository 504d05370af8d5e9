"""Findings about gathers: sources that cannot arrive, barriers that can never or not always be satisfied.

A run has one branch for each entrypoint, and a branch waits at the barrier it comes to. So a gather that needs n
sources needs n branches that come to it by different sources.
"""

from collections.abc import Iterator, Mapping

from causeline.graph.checks.subject import Scope
from causeline.graph.documents.document import Gather, Terminal, entrypoint_iri
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join


def barrier_findings(scope: Scope) -> Iterator[Finding]:
    """Faults of the sources first; the barrier itself is judged only where the sources are right."""
    routing = scope.routing
    reached = {routing.ids[number] for number in routing.reach(routing.entries.values())}
    doubled = {placement.id for placement in scope.document.shadowed}
    for number, placement in enumerate(routing.placements):
        if not isinstance(placement, Gather) or placement.id in scope.unsure | doubled or scope.spoiled(placement, "sources"):
            continue
        faults = list(_source_findings(scope, number, placement, reached))
        yield from faults
        cut_off = {source for source in (placement.id, *placement.sources) if source in routing.index} - reached
        if not faults and not cut_off and not scope.spoiled(placement, "policy"):
            yield from _barrier(scope, number, placement)


def _arrivals(scope: Scope, number: int) -> dict[str, None]:
    """IRIs that lead straight to this gather, in declared order."""
    routing = scope.routing
    gather = routing.ids[number]
    found = dict.fromkeys(routing.ids[one] for one in routing.inbound.get(number, ()))
    return found | {entrypoint_iri(scope.document.id, label): None for label, iri in scope.document.entrypoints.items() if iri == gather}


def _source_findings(scope: Scope, number: int, gather: Gather, reached: set[str]) -> Iterator[Finding]:
    arrivals = _arrivals(scope, number)
    wrong = [source for source in gather.sources if source not in arrivals]
    for source in wrong:
        known = source in scope.routing.index
        blind = known and scope.routing.index[source] in scope.routing.open_ended
        gone = not known and (source in scope.routing.dangling or scope.routing.number(source) is not None)
        if blind or gone:  # already reported: its lost route, or that it is not there
            continue
        path = join(join(scope.place(gather.id), "sources"), source)
        if known:
            yield Finding("source_not_routed", gather.id, f"waits for {source}, but no route leads from there to this gather", path)
        else:
            yield Finding("unknown_source", gather.id, f"waits for {source}, which is neither a placement nor an entrypoint here", path)
    unnamed = [source for source in arrivals if source not in gather.sources and (source in reached or source not in scope.routing.index)]
    for source in unnamed[len(wrong) :]:  # a misspelt source shows twice; it is one mistake
        yield scope.finding("undeclared_source", gather, f"{source} leads here but is not among the sources; name it there", "sources")


def _barrier(scope: Scope, number: int, gather: Gather) -> Iterator[Finding]:
    if gather.needed < 2:
        return
    routing = scope.routing
    seen = {label: routing.reach([start], without=number) for label, start in routing.entries.items()}
    coming = {label: _sources_met(scope, number, gather, label, passed) for label, passed in seen.items()}
    coming = {label: sources for label, sources in coming.items() if sources}
    if _matching(coming) < gather.needed:
        yield scope.finding(
            "unsatisfiable_barrier",
            gather,
            f"waits for {gather.needed} of its {len(gather.sources)} sources, but only {_matching(coming)} can come in one run: "
            f'each entrypoint brings one; use policy "any", fewer sources or more entrypoints',
            "policy",
        )
        return
    leaks = [(label, end) for label in coming if (end := _completed_end(scope, seen[label]))]
    if len(coming) - len(leaks) < gather.needed:
        label, end = leaks[0]
        yield scope.finding(
            "barrier_bypass",
            gather,
            f"waits for {gather.needed} sources, but the branch of entrypoint {label!r} can end at {end!r} without coming here, "
            'and the others then wait for ever; route that way here too, or use policy "any"',
            "policy",
        )


def _sources_met(scope: Scope, number: int, gather: Gather, label: str, passed: set[int]) -> set[str]:
    """Sources by which the branch of one entrypoint can come to the gather."""
    routing = scope.routing
    found = {
        source
        for source in gather.sources
        if source in routing.index
        and routing.index[source] in passed
        and routing.index[source] != number
        and number in routing.routes[routing.index[source]].values()
    }
    start = entrypoint_iri(scope.document.id, label)
    return found | ({start} if routing.entries[label] == number and start in gather.sources else set())


def _completed_end(scope: Scope, passed: set[int]) -> str | None:
    """A terminal with outcome `completed` on the way. Ending `failed` is allowed: the run is lost anyway."""
    for one in sorted(passed):
        placement = scope.routing.placements[one]
        if isinstance(placement, Terminal) and placement.outcome == "completed" and not scope.spoiled(placement, "outcome"):
            return placement.name
    return None


def _matching(coming: Mapping[str, set[str]]) -> int:
    """How many branches can come by different sources (maximum bipartite matching by augmenting paths)."""
    taken: dict[str, str] = {}
    return sum(_augment(label, coming, taken) for label in coming)


def _augment(label: str, coming: Mapping[str, set[str]], taken: dict[str, str]) -> bool:
    """Find a free source for `label`, moving others to sources they can take instead."""
    reached_by: dict[str, str] = {}
    todo = [label]
    for one in todo:
        for source in sorted(coming[one] - reached_by.keys()):
            reached_by[source] = one
            if source not in taken:
                _move(source, reached_by, taken)
                return True
            todo.append(taken[source])
    return False


def _move(free: str | None, reached_by: Mapping[str, str], taken: dict[str, str]) -> None:
    """Give the free source to whom it was found for, the source that one held to the one before, and so on."""
    while free is not None:
        owner = reached_by[free]
        held = next((source for source, by in taken.items() if by == owner), None)
        taken[free] = owner
        free = held
