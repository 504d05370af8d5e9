"""A sound document with every kind of placement, for tests that break it."""

import copy
from typing import Any

DOCUMENT = "urn:example:dag:orders"


def place(name: str) -> str:
    return f"{DOCUMENT}/node/{name}"


def placement(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    if "outputs" in fields:
        fields["outputs"] = {port: place(target) for port, target in fields["outputs"].items()}
    return {"@id": place(name), "@type": kind, "name": name, **fields}


ORDERS: dict[str, Any] = {
    "@context": {},
    "@id": DOCUMENT,
    "@type": "DAG",
    "name": "orders",
    "version": "1",
    "entrypoints": {"main": place("prepare"), "audit": place("inspect")},
    "nodes": [
        placement("PhaseNode", "open", node="urn:example:node:open", phase="pre"),
        placement(
            "SingleNode",
            "prepare",
            node="urn:example:node:prepare",
            retry={"maxAttempts": 2},
            outputs={"ready": "price", "error": "failed"},
        ),
        placement(
            "ScatterNode",
            "price",
            body={"node": "urn:example:node:price"},
            source="rows",
            execution={"mode": "item", "concurrency": 4},
            outputs={"all-success": "collect", "partial": "collect", "all-error": "collect", "empty": "collect"},
        ),
        placement(
            "GatherNode",
            "collect",
            sources={place("price"): {}},
            gather={"strategy": "append", "target": "prices"},
            outputs={"success": "meet", "error": "failed", "empty": "meet"},
        ),
        placement("SingleNode", "inspect", node="urn:example:node:inspect", outputs={"clean": "meet", "error": "failed"}),
        placement(
            "GatherNode",
            "meet",
            sources={place("collect"): {}, place("inspect"): {"resultField": "note"}},
            gather={"strategy": "map", "mapping": {"note": "notes"}},
            policy={"mode": "all"},
            outputs={"success": "ship", "error": "failed"},
        ),
        placement(
            "EmbeddedDAGNode",
            "ship",
            dag="urn:example:dag:shipping",
            stateMapping={"input": {"rows": "prices"}, "output": {"parcels": "parcels"}},
            outputs={"success": "confirm", "error": "failed"},
        ),
        placement("SingleNode", "confirm", node="urn:example:node:confirm", outputs={"again": "ship", "done": "thanks", "error": "failed"}),
        placement(
            "ScatterNode",
            "thanks",
            body={"dag": {"@type": "DagReference", "from": "item", "path": "channel", "candidates": ["urn:example:dag:mail"]}},
            source="people",
            reducer="any-success",
            execution={"mode": "reservoir", "reservoir": {"keyField": "town", "capacity": 5}},
            outputs={"success": "shipped", "error": "failed", "empty": "shipped"},
        ),
        placement("TerminalNode", "shipped", outcome="completed"),
        placement("TerminalNode", "failed", outcome="failed"),
    ],
}


def orders() -> dict[str, Any]:
    return copy.deepcopy(ORDERS)


def find(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in document["nodes"] if one.get("name") == name)
