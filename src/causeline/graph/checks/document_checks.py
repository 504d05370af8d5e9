"""Everything that can be said against a document before it runs, all at once.

Law: pure; one mistake is one finding at its place, and what only follows from it is not reported again.
Without nodes and documents only what the document shows is judged; names it cannot know are findings at registration.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from causeline.errors import Invalid
from causeline.graph.checks.barriers import barrier_findings
from causeline.graph.checks.ports import port_findings
from causeline.graph.checks.references import bundle_findings
from causeline.graph.checks.routes import route_findings
from causeline.graph.checks.schemas import schema_findings
from causeline.graph.checks.subject import Scope
from causeline.graph.documents.document import Document
from causeline.graph.documents.finding import Finding
from causeline.graph.node import Node, is_absolute

T = TypeVar("T")


def check(
    document: Document,
    nodes: Iterable[Node] | Mapping[str, Node] = (),
    documents: Iterable[Document] | Mapping[str, Document] = (),
    *,
    closed: bool = False,
    strategies: Iterable[str] = (),
    reducers: Iterable[str] = (),
    channels: Mapping[str, str] | None = None,
) -> list[Finding]:
    """All findings, in document order.

    With `nodes` (or `documents`) given, an IRI that names none of them is a finding; `closed` says that these are all
    there are, even if there are none. `strategies` and `reducers` are names of further gather strategies and scatter
    reducers; `channels` is channel -> name of its reducer, `override` where there is none.
    """
    check_documents("document", [document])
    check_nodes(_values(nodes))
    check_documents("documents", _values(documents))
    known = {node.iri: node for node in _values(nodes)}
    others = {one.id: one for one in _values(documents)}
    scope = Scope(
        document, known, others, bool(known) or closed, bool(others) or closed, frozenset(strategies), frozenset(reducers), channels or {}
    )
    ports = list(port_findings(scope))
    scope.routing.open_ended.update(scope.routing.index[one.placement] for one in ports if one.code == "missing_route" and one.placement)
    routes = route_findings(scope)
    found = [
        *document.problems,
        *_identity(document),
        *ports,
        *routes,
        *barrier_findings(scope),
        *bundle_findings(scope),
        *schema_findings(scope),
    ]
    return sorted(dict.fromkeys(found), key=_by_place)


def _values(given: Iterable[T] | Mapping[str, T]) -> Iterable[T]:
    return cast("Mapping[str, T]", given).values() if isinstance(given, Mapping) else given


def _identity(document: Document) -> Iterable[Finding]:
    if not is_absolute(document.id):
        yield Finding(
            "relative_id",
            None,
            f"{document.id!r} is not absolute (urn:... or scheme://...) and its prefix is not declared in @context",
            "@id",
        )


def _by_place(finding: Finding) -> tuple[int, str]:
    """Of the document first, then by placement."""
    place = re.match(r"nodes\[(\d+)\]", finding.path)
    return (int(place[1]) if place else -1, finding.path)


def check_documents(place: str, given: Iterable[object]) -> None:
    """Raises Invalid for what is no Document."""
    for thing in given:
        if not isinstance(thing, Document):
            raise Invalid(f"{place}: {thing!r:.80} is no Document; Graph(...).build() and load(...) give one", findings=[place])


def check_nodes(given: Iterable[object]) -> None:
    """Raises Invalid for what is no Node."""
    for thing in given:
        if not isinstance(thing, Node):
            raise Invalid(f"nodes: {thing!r:.80} is no Node; causeline.graph.node makes one of a function", findings=["nodes"])
