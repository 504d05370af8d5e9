"""What a check looks at: the document, its routing, and what is known around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from causeline.graph.checks.reachability import RouteMap
from causeline.graph.documents.document import Document, Placement
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join
from causeline.graph.node import Node


@dataclass(frozen=True)
class Scope:
    """`nodes_known` and `documents_known` say that an IRI not listed does not exist, rather than is not known here."""

    document: Document
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    documents: Mapping[str, Document] = field(default_factory=dict[str, Document])
    nodes_known: bool = False
    documents_known: bool = False
    strategies: frozenset[str] = frozenset()
    reducers: frozenset[str] = frozenset()
    channels: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def routing(self) -> RouteMap:
        return RouteMap(self.document)

    @cached_property
    def unsure(self) -> frozenset[str]:
        """Placements whose kind is a guess; their fields are not judged."""
        return frozenset(
            one.placement
            for one in self.document.problems
            if one.placement and one.path.endswith(".@type") and "]." in one.path and one.path.count(".") == 1
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for index, one in enumerate(cast("list[Any]", self.document.plain.get("nodes", []))):
            iri = cast("dict[str, Any]", one).get("@id") if isinstance(one, dict) else None
            if isinstance(iri, str):
                found.setdefault(iri, index)
        return found

    def place(self, iri: str) -> str:
        """Path of a placement in the document."""
        return join("nodes", self._places[iri]) if iri in self._places else "nodes"

    def finding(self, code: str, placement: Placement, message: str, *keys: str) -> Finding:
        path = self.place(placement.id)
        for key in keys:
            path = join(path, key)
        return Finding(code, placement.id, message, path)

    @cached_property
    def _faulty(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self.document.problems:
            found.setdefault(one.placement or "", []).append(one.path)
        return found

    def spoiled(self, placement: Placement, *keys: str) -> bool:
        """True if a fault was already seen while reading this part of a placement."""
        return any(f".{key}" in path for path in self._faulty.get(placement.id, ()) for key in keys)


def named(scope: Scope, numbers: list[int]) -> str:
    """Names of placements for a message, at most six."""
    names = [scope.routing.placements[number].name for number in numbers]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
