"""The vocabulary of graph documents: namespaces, fields of each kind, closed word lists, and causeline's JSON-LD context.

Law: data only. The reference's names (`https://noocodec.dev/ontology/dag/`, Dagonizer 2.0) keep their IRIs; what it
lacks lives under `urn:causeline:graph:`.
"""

from typing import Any

DAG = "https://noocodec.dev/ontology/dag/"
GRAPH = "urn:causeline:graph:"
KEY = "urn:causeline:key:"
"""Namespace of keys of maps written as JSON objects (ports, labels, paths) when a document becomes RDF."""
XSD = "http://www.w3.org/2001/XMLSchema#"

KINDS = ("SingleNode", "ScatterNode", "GatherNode", "EmbeddedDAGNode", "TerminalNode", "PhaseNode")
COMMON = ("@id", "@type", "name")
REQUIRED: dict[str, tuple[str, ...]] = {
    "SingleNode": ("node", "outputs"),
    "ScatterNode": ("body", "source", "outputs"),
    "GatherNode": ("sources", "gather", "outputs"),
    "EmbeddedDAGNode": ("dag", "outputs"),
    "TerminalNode": ("outcome",),
    "PhaseNode": ("node", "phase"),
}
OPTIONAL: dict[str, tuple[str, ...]] = {
    "SingleNode": ("retry", "timeoutMs", "when", "role"),
    "ScatterNode": ("itemKey", "stateMapping", "reducer", "container", "execution", "retry", "role"),
    "GatherNode": ("policy", "role"),
    "EmbeddedDAGNode": ("stateMapping", "gatherResult", "container", "when", "role"),
    "TerminalNode": (),
    "PhaseNode": ("role",),
}
TOP = ("@context", "@id", "@type", "name", "version", "entrypoints", "nodes")
RETRY = ("maxAttempts", "strategy", "baseDelay", "maxDelay", "multiplier", "jitterFactor", "on", "retryOn", "abortOn")
RETRY_STRATEGIES = ("constant", "linear", "exponential", "decorrelated-jitter")
GATHER = ("strategy", "mapping", "field", "resultField", "target", "partitions", "customNode")
ADAPTIVE = (
    "enabled",
    "targetLatencyMs",
    "minConcurrency",
    "maxConcurrency",
    "sampleWindow",
    "adjustmentInterval",
    "scaleUpThreshold",
    "scaleDownThreshold",
    "stepSize",
)
NESTED = (
    "mode",
    "concurrency",
    "throttle",
    "reservoir",
    "concurrencyLimit",
    "adaptive",
    "keyField",
    "capacity",
    "idleMs",
    "quorum",
    "includeErrors",
    "from",
    "path",
    "candidates",
    "input",
    "output",
)

GATHER_NEEDS = {
    "append": "target",
    "collect": "target",
    "partition": "partitions",
    "map": "mapping",
    "custom": "customNode",
    "discard": None,
}
"""Built-in gather strategy -> the field it cannot do without."""
EMPTY = "empty"
REDUCER_PORTS: dict[str, tuple[str, ...] | None] = {
    "aggregate": ("all-success", "partial", "all-error", EMPTY),
    "all-success": ("success", "error", EMPTY),
    "any-success": ("success", "error", EMPTY),
    "terminal": None,
}
"""Built-in scatter reducer -> the ports it can leave by; None where that depends on the body."""
GATHER_PORTS = ("success", "error", EMPTY)
CHILD_PORTS = ("success", "error")

MAPS = {
    "entrypoints": ("label", "to"),
    "outputs": ("port", "to"),
    "sources": ("producer", "resultField"),
    "mapping": ("key", "value"),
    "partitions": ("key", "value"),
    "input": ("key", "value"),
    "output": ("key", "value"),
}
"""Fields that are maps in JSON and ordered lists of pairs in RDF: field -> the two fields of a pair."""
LISTS = ("nodes", "candidates", "when", "on", "retryOn", "abortOn")
IRI_FIELDS = frozenset({"@id", "node", "dag", "candidates", "customNode", "entrypoints", "outputs", "to", "producer"})
_LINKS = ("node", "dag", "customNode", "to", "producer")
_OWN = frozenset({"timeoutMs", "when", "role", "label", "to", "port", "producer", "key", "value"})
WELL_KNOWN_PORTS = ("success", "error", EMPTY, "all-success", "partial", "all-error", "otherwise", "done", "ready")


def _term_iri(term: str) -> str:
    return (GRAPH if term in _OWN else DAG) + term


def _map_term(field: str) -> dict[str, Any]:
    """A list of pairs; a plain JSON object in its place keeps its keys as predicates under KEY."""
    inner: dict[str, Any] = {"@version": 1.1, "@vocab": KEY} | {name: _plain_term(name) for name in MAPS[field]}
    if field in ("outputs", "entrypoints"):
        inner |= {port: {"@id": KEY + port, "@type": "@id"} for port in (*WELL_KNOWN_PORTS, "main")}
    return {"@id": DAG + field, "@container": "@list", "@context": [None, inner]}


def _plain_term(name: str) -> Any:
    return {"@id": _term_iri(name), "@type": "@id"} if name in _LINKS else _term_iri(name)


def _build_context() -> dict[str, Any]:
    context: dict[str, Any] = {"@version": 1.1}
    classes = ("DAG", "Placement", *KINDS, "DagReference")
    plain = dict.fromkeys(
        (
            *TOP[3:],
            *(name for kind in KINDS for name in (*REQUIRED[kind], *OPTIONAL[kind])),
            *RETRY,
            *GATHER,
            *ADAPTIVE,
            *NESTED,
            *(name for pair in MAPS.values() for name in pair),
        )
    )
    context |= {name: DAG + name for name in classes}
    context |= {name: _plain_term(name) for name in plain}
    context |= {name: {"@id": _term_iri(name), "@container": "@list"} for name in LISTS}
    context["candidates"]["@type"] = "@id"
    return context | {field: _map_term(field) for field in MAPS}


CONTEXT: dict[str, Any] = _build_context()
"""causeline's own JSON-LD context. Unlike the reference's it loses nothing: routes, labels, strategies and mappings
stay when a document is expanded, turned into RDF and framed again."""
