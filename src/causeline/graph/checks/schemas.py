"""Findings about schemas: what a node leaves on a port does not fit what the next node reads.

Law: only types that both sides state plainly are compared; whatever else a schema says is taken on trust.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from causeline.graph.checks.subject import Scope
from causeline.graph.documents.document import Single
from causeline.graph.documents.finding import Finding

_JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


def schema_findings(scope: Scope) -> Iterator[Finding]:
    """One finding for each route and channel whose types cannot meet."""
    routes = scope.routing.routes
    for number, placement in enumerate(scope.routing.placements):
        node = scope.nodes.get(placement.node) if isinstance(placement, Single) else None
        if node is None or not node.output_schema:
            continue
        for port, target in routes[number].items():
            following = scope.routing.placements[target]
            reader = scope.nodes.get(following.node) if isinstance(following, Single) else None
            if reader is None or not reader.input_schema or port not in node.output_schema:
                continue
            left, read = _types(node.output_schema[port]), _types(reader.input_schema)
            for channel in sorted(left.keys() & read.keys()):
                if not left[channel] & read[channel]:
                    yield scope.finding(
                        "schema_mismatch",
                        placement,
                        f"leaves {channel!r} as {_named(left[channel])} on the port {port!r}, and {following.name!r} reads it as "
                        f"{_named(read[channel])}; change one of the two schemas",
                        "outputs",
                        port,
                    )


def _types(schema: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The types a schema states for the properties of an object; a number may be an integer."""
    found: dict[str, frozenset[str]] = {}
    properties = schema.get("properties")
    for name, one in cast("dict[str, Any]", properties).items() if isinstance(properties, dict) else ():
        stated: Any = cast("dict[str, Any]", one).get("type") if isinstance(one, dict) else None
        listed = cast("list[Any]", stated) if isinstance(stated, list) else [stated]
        types = {one for one in listed if isinstance(one, str)}
        if types and len(types) == len(listed) and types <= _JSON_TYPES:
            found[name] = frozenset(types | {"integer"} if "number" in types else types)
    return found


def _named(types: frozenset[str]) -> str:
    return " or ".join(sorted(types))
