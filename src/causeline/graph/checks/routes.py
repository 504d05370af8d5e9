"""Findings about routes and entrypoints that lead nowhere, what cannot be reached, what can never end."""

from collections.abc import Iterator

from causeline.graph.checks.subject import Scope, named
from causeline.graph.documents.document import Phase, Single, Terminal
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join


def route_findings(scope: Scope) -> Iterator[Finding]:
    """All findings of this file, those that only follow from another left out."""
    yield from _entrypoints(scope)
    yield from _dangling(scope)
    yield from _into_phases(scope)
    explained = _explained(scope)
    for number, follower in explained:
        scope.routing.routes[number][f"? {follower}"] = follower
    yield from _unreachable(scope)
    yield from _endings(scope)


def _hint(scope: Scope, iri: str) -> str:
    guess = scope.routing.meant(iri)
    return f"did you mean {guess}?" if guess else "add the placement or change the target"


def _entrypoints(scope: Scope) -> Iterator[Finding]:
    for label, iri in scope.document.entrypoints.items() if scope.routing.index else ():
        path = join("entrypoints", label)
        if scope.routing.number(iri) is None:
            yield Finding(
                "entrypoint_missing", None, f"entrypoint {label!r} leads to {iri}, which is not a placement here; {_hint(scope, iri)}", path
            )
        elif isinstance(scope.document.placements.get(iri), Phase):
            yield Finding(
                "route_to_phase", iri, f"entrypoint {label!r} leads to a phase, which runs by itself; lead it to a placement", path
            )


def _dangling(scope: Scope) -> Iterator[Finding]:
    """One finding for a target that is missing, however many routes lead to it; none if an entrypoint leads there too."""
    told = set(scope.document.entrypoints.values()) if scope.routing.index else set[str]()
    for iri, routes in scope.routing.dangling.items():
        if iri in told:
            continue
        number, port = routes[0]
        also = "" if len(routes) == 1 else f" (and {len(routes) - 1} more routes lead there)"
        yield scope.finding(
            "dangling_route",
            scope.routing.placements[number],
            f"port {port!r} leads to {iri}, which is not a placement here{also}; {_hint(scope, iri)}",
            "outputs",
            port,
        )


def _into_phases(scope: Scope) -> Iterator[Finding]:
    for number, routes in enumerate(scope.routing.routes):
        for port, target in routes.items():
            if isinstance(scope.routing.placements[target], Phase):
                yield scope.finding(
                    "route_to_phase",
                    scope.routing.placements[number],
                    f"port {port!r} leads to the phase {scope.routing.placements[target].name!r}, which runs by itself",
                    "outputs",
                    port,
                )


def _explained(scope: Scope) -> list[tuple[int, int]]:
    """Lost routes, each with what then has none leading to it: one mistake, not two.

    Which placement a lost route led to is a guess: the only way to end `completed`, or, where all routes of a placement or a placement
    itself are lost, a part of the document that does not only lead to known terminals. The order placements are written in says nothing.
    """
    routing = scope.routing
    lost = sorted(
        number
        for number, one in enumerate(routing.placements)
        if number in routing.open_ended or (isinstance(one, Single) and not one.outputs)
    )
    if not lost:
        return []
    reached = routing.reach(routing.entries.values())
    ended = any(_completes(scope, number) for number in reached)
    bare = any(not scope.routing.routes[number] for number in lost) or any(routing.meant(iri) is None for iri in routing.dangling)
    found: list[tuple[int, int]] = []
    for component in routing.unreachable_roots():
        onward = {
            number for number in routing.reach(component) if number not in reached or not isinstance(routing.placements[number], Terminal)
        }
        if (bare and len(onward) > 1) or (not ended and _completes(scope, component[0])):
            found.append((lost[0], component[0]))
    return found


def _completes(scope: Scope, number: int) -> bool:
    placement = scope.routing.placements[number]
    return isinstance(placement, Terminal) and placement.outcome == "completed"


def _unreachable(scope: Scope) -> Iterator[Finding]:
    routing = scope.routing
    if not routing.entries:
        return
    reached = routing.reach(routing.entries.values())
    ends_lost = not (routing.terminals() & reached) and bool(_endless(scope))
    for component in routing.unreachable_roots():
        first = routing.placements[component[0]]
        if scope.place(first.id) == "nodes" or (ends_lost and isinstance(first, Terminal)):
            continue
        others = routing.reach(component) - reached - {component[0]}
        follow = f" (with it {named(scope, sorted(others))})" if others else ""
        yield scope.finding("unreachable", first, f"no entrypoint or route leads here{follow}; route to it or remove it")


def _endings(scope: Scope) -> Iterator[Finding]:
    routing = scope.routing
    loops = _endless(scope)
    if not routing.terminals():
        if not routing.open_ended and scope.document.placements:
            tail = f"; {named(scope, loops[0])} can never leave their loop" if loops else ""
            yield Finding("no_terminal", None, f"no TerminalNode, so no run can end{tail}; add one and route to it", "nodes")
        return
    for number in sorted(_seen(scope)):
        placement = routing.placements[number]
        if (
            isinstance(placement, Single)
            and not placement.outputs
            and number not in routing.open_ended
            and placement.id not in scope.unsure
        ):
            yield scope.finding(
                "dead_end", placement, "has no route out and is not a TerminalNode, so a run that comes here stalls", "outputs"
            )
    for component in loops:
        yield scope.finding(
            "endless_loop",
            routing.placements[component[0]],
            f"{named(scope, component)} only lead to each other: a run that comes here never ends; add a route out",
            "outputs",
        )


def _seen(scope: Scope) -> set[int]:
    """What the entrypoints lead to; everything, if no entrypoint leads anywhere."""
    return scope.routing.reach(scope.routing.entries.values() if scope.routing.entries else range(len(scope.routing.ids)))


def _endless(scope: Scope) -> list[list[int]]:
    """Loops with no route out of them."""
    routing = scope.routing
    return [
        component
        for component in routing.components(_seen(scope))
        if routing.is_loop(component)
        and not any(number in routing.open_ended for number in component)
        and all(target in component for number in component for target in routing.routes[number].values())
    ]
