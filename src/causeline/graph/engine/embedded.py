"""Child documents: which one a placement runs, what its state starts with, and what comes back.

Law: pure. A child has channels of its own; only what the state mappings name crosses the border.
"""

from collections.abc import Mapping
from typing import Any

from causeline.errors import Invalid
from causeline.graph.documents.document import DagReference, Embedded, entrypoint_iri
from causeline.graph.engine.binding import BoundDocument
from causeline.graph.engine.channels import Channels, Placing, lent
from causeline.graph.engine.gather import Arrival, Record, arrival_of
from causeline.graph.engine.position import Child
from causeline.graph.engine.scatter import Feed
from causeline.graph.engine.state_paths import MISSING, read
from causeline.graph.engine.walk import begin

INDEX_KEY = "itemIndex"
"""The channel that holds a scatter item's index, beside the one named by the scatter's `item_key`."""


class NotACandidate(Invalid):
    """A reference read a document IRI that is not one of its candidates."""

    code = "not_a_candidate"


def resolve(dag: str | DagReference, values: Mapping[str, Any], item: Any, place_name: str) -> str:
    """The IRI of the document to run. Raises NotACandidate."""
    if isinstance(dag, str):
        return dag
    base: Mapping[str, Any] = values if dag.source == "state" else {"item": item}
    found = read(base, dag.path if dag.source == "state" else f"item.{dag.path}")
    if found not in dag.candidates:
        shown = "nothing" if found is MISSING else repr(found)
        raise NotACandidate(
            f"{place_name}: {dag.path} in the {dag.source} holds {shown}; it must be one of {', '.join(dag.candidates)}",
            placement=place_name,
        )
    return found


def seeds(mapping: Mapping[str, str], channels: Channels) -> dict[str, Any]:
    """What a child's channels start with: child key <- parent path. Paths that lead nowhere are left out."""
    found = {key: lent(channels, path) for key, path in mapping.items()}
    return {key: value for key, value in found.items() if value is not MISSING}


def placing_of(embedded: Embedded, child: Mapping[str, Any]) -> Placing:
    """What an embedded placement writes: parent path <- child path. Paths the child does not have are left out."""
    found = [(path, read(child, source)) for path, source in embedded.state_output.items()]
    return [(path, "override", value) for path, value in found if value is not MISSING]


def open_child(bound: BoundDocument, values: Mapping[str, Any], only: str | None = None) -> Child:
    """A child document (or the top-level one) before its first visit; `only` names the one entrypoint to take."""
    channels = Channels(values, bound.reducers)

    def arrivals(label: str, gather: int) -> Any:
        source = entrypoint_iri(bound.plan.document.id, label)
        return leave(bound.entry_feeds[label], gather, source, values, "success", channels.values)

    return Child(bound.plan, begin(bound.plan, arrivals, only), channels)


def leave(feeds: tuple[Feed, ...], gather: int, source: str, item: Any, port: str, state: Mapping[str, Any]) -> Arrival | None:
    """What a producer other than a scatter leaves at gather number `gather`; None if that does not count it."""
    for feed in feeds:
        if feed.number == gather:
            result = MISSING if feed.result_field is None else read(state, feed.result_field)
            return arrival_of(feed.gather, feed.strategy, [Record(source, 0, item, port, state, result)])
    return None
