"""An agent's graph with what happened in it: visits, and where a run stands. Of a graph nobody has the document of, what was visited.

Law: pure and linear.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from causeline.graph import Document
from causeline.graph.documents.document import outputs_of
from causeline.plain_text import one_line
from causeline.runtime.records import Checkpoint


@dataclass(frozen=True, slots=True)
class Place:
    """A placement in the picture. `layer` counts from the entry, `column` within the layer; `kind` is its class, `stands` whether the run
    is about to enter it."""

    name: str
    kind: str
    layer: int
    column: int
    visits: int
    stands: bool


@dataclass(frozen=True, slots=True)
class Route:
    """A way from one place to another by a port; how often it was taken."""

    source: str
    port: str
    target: str
    taken: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Places and routes; several routes may join the same two places."""

    places: list[Place]
    routes: list[Route]


def graph_picture(document: Document | None, checkpoints: Iterable[Checkpoint]) -> Picture:
    """The picture at the last of these checkpoints, which are one branch in order."""
    visits: dict[str, int] = {}
    taken: dict[tuple[str, str, str], int] = {}
    kinds: dict[str, str] = {}
    stands: str | None = None
    if document is not None:
        for placement in document.placements.values():
            kinds[_short(placement.id)] = type(placement).__name__.lower()
            for port, target in outputs_of(placement).items():
                taken[_short(placement.id), one_line(port), _short(target)] = 0
    for checkpoint in checkpoints:
        node = _short(checkpoint.node)
        visits[node] = visits.get(node, 0) + 1
        kinds.setdefault(node, "single")
        stands = _short(checkpoint.next) if checkpoint.next is not None else None
        if checkpoint.next is not None and checkpoint.port != "parked":
            kinds.setdefault(_short(checkpoint.next), "single")
            route = (node, one_line(checkpoint.port), _short(checkpoint.next))
            taken[route] = taken.get(route, 0) + 1
    layers = _layers(kinds, taken, [_short(target) for target in document.entrypoints.values()] if document is not None else [])
    columns: dict[int, int] = {}
    places: list[Place] = []
    for name, kind in kinds.items():
        column = columns.get(layers[name], 0)
        columns[layers[name]] = column + 1
        places.append(Place(name, kind, layers[name], column, visits.get(name, 0), name == stands))
    return Picture(places, [Route(*route, count) for route, count in taken.items() if route[2] in kinds])


def _layers(names: Mapping[str, str], routes: Iterable[tuple[str, str, str]], entries: list[str]) -> dict[str, int]:
    """How far each place is from an entry."""
    ways: dict[str, list[str]] = {}
    for source, _, target in routes:
        ways.setdefault(source, []).append(target)
    begin = [name for name in entries if name in names] or list(names)[:1]
    layers = dict.fromkeys(begin, 0)
    todo = list(begin)
    for name in todo:
        for target in ways.get(name, []):
            if target in names and target not in layers:
                layers[target] = layers[name] + 1
                todo.append(target)
    last = max(layers.values(), default=-1) + 1
    return {name: layers.get(name, last) for name in names}


def _short(name: str) -> str:
    """The last word of a placement's IRI."""
    return one_line(name).rpartition(":")[2] or one_line(name)
