"""Mistakes to plant in the sample document, one at a time: what to change, and the code and path of the one finding it must give."""

import copy
from collections.abc import Callable
from typing import Any

from tests.graph.sample_documents import DOCUMENT, find, place, placement

Change = Callable[[dict[str, Any]], Any]

PLANTED: dict[str, tuple[Change, str, str]] = {
    # routes
    "a route to nowhere": (
        lambda d: find(d, "inspect")["outputs"].update(error=place("nowhere")),
        "dangling_route",
        "nodes[4].outputs.error",
    ),
    "a misspelt target": (
        lambda d: find(d, "price")["outputs"].update(partial=place("colect")),
        "dangling_route",
        "nodes[2].outputs.partial",
    ),
    "a misspelt target that was the only way": (
        lambda d: find(d, "confirm")["outputs"].update(done=place("thank")),
        "dangling_route",
        "nodes[7].outputs.done",
    ),
    "the only way lost": (lambda d: find(d, "confirm")["outputs"].update(done="urn:other:x"), "dangling_route", "nodes[7].outputs.done"),
    "a terminal taken away that many routes lead to": (
        lambda d: d["nodes"].remove(find(d, "failed")),
        "dangling_route",
        "nodes[1].outputs.error",
    ),
    "an entrypoint to nowhere": (lambda d: d["entrypoints"].update(third=place("nowhere")), "entrypoint_missing", "entrypoints.third"),
    "the main entrypoint misspelt": (lambda d: d["entrypoints"].update(main=place("prepair")), "entrypoint_missing", "entrypoints.main"),
    "a route into a phase": (
        lambda d: find(d, "inspect")["outputs"].update(error=place("open")),
        "route_to_phase",
        "nodes[4].outputs.error",
    ),
    "an unreachable placement": (
        lambda d: d["nodes"].append(placement("SingleNode", "island", node="urn:n:x", outputs={"a": "shipped"})),
        "unreachable",
        "nodes[11]",
    ),
    "an unreachable chain": (
        lambda d: d["nodes"].extend(
            [
                placement("SingleNode", "one", node="urn:n:x", outputs={"a": "two"}),
                placement("SingleNode", "two", node="urn:n:x", outputs={"a": "three"}),
                placement("TerminalNode", "three", outcome="failed"),
            ]
        ),
        "unreachable",
        "nodes[11]",
    ),
    "an unreachable loop": (
        lambda d: d["nodes"].extend(
            [
                placement("SingleNode", "one", node="urn:n:x", outputs={"a": "two"}),
                placement("SingleNode", "two", node="urn:n:x", outputs={"a": "one"}),
            ]
        ),
        "unreachable",
        "nodes[11]",
    ),
    "an unused terminal": (
        lambda d: d["nodes"].append(placement("TerminalNode", "spare", outcome="completed")),
        "unreachable",
        "nodes[11]",
    ),
    "a loop without an exit": (
        lambda d: (
            find(d, "inspect")["outputs"].update(odd=place("spin")),
            d["nodes"].extend(
                [
                    placement("SingleNode", "spin", node="urn:n:x", outputs={"a": "spun"}),
                    placement("SingleNode", "spun", node="urn:n:x", outputs={"a": "spin", "b": "spun"}),
                ]
            ),
        ),
        "endless_loop",
        "nodes[11].outputs",
    ),
    "a placement that only leads to itself": (
        lambda d: (
            find(d, "inspect")["outputs"].update(odd=place("spin")),
            d["nodes"].append(placement("SingleNode", "spin", node="urn:n:x", outputs={"a": "spin"})),
        ),
        "endless_loop",
        "nodes[11].outputs",
    ),
    "a dead end": (
        lambda d: (
            find(d, "inspect")["outputs"].update(odd=place("stop")),
            d["nodes"].append(placement("SingleNode", "stop", node="urn:n:x", outputs={})),
        ),
        "dead_end",
        "nodes[11].outputs",
    ),
    # outcomes
    "a scatter without partial": (lambda d: find(d, "price")["outputs"].pop("partial"), "missing_route", "nodes[2].outputs"),
    "a scatter without all-error": (lambda d: find(d, "price")["outputs"].pop("all-error"), "missing_route", "nodes[2].outputs"),
    "a scatter without empty": (lambda d: find(d, "price")["outputs"].pop("empty"), "missing_route", "nodes[2].outputs"),
    "a scatter without any route": (lambda d: find(d, "thanks").update(outputs={}), "missing_route", "nodes[8].outputs"),
    "a scatter with a port of another reducer": (
        lambda d: find(d, "price")["outputs"].update(success=place("collect")),
        "unknown_port",
        "nodes[2].outputs.success",
    ),
    "a scatter with a misspelt port": (
        lambda d: find(d, "price")["outputs"].update({"all-errors": find(d, "price")["outputs"].pop("all-error")}),
        "missing_route",
        "nodes[2].outputs",
    ),
    "a gather without error": (lambda d: find(d, "meet")["outputs"].pop("error"), "missing_route", "nodes[5].outputs"),
    "a gather without empty": (lambda d: find(d, "collect")["outputs"].pop("empty"), "missing_route", "nodes[3].outputs"),
    "a gather with a scatter's port": (
        lambda d: find(d, "meet")["outputs"].update(partial=place("ship")),
        "unknown_port",
        "nodes[5].outputs.partial",
    ),
    "an embedded document without success": (
        lambda d: find(d, "ship").update(outputs={"error": place("confirm")}),
        "missing_route",
        "nodes[6].outputs",
    ),
    "an embedded document with an odd port": (
        lambda d: find(d, "ship")["outputs"].update(late=place("confirm")),
        "unknown_port",
        "nodes[6].outputs.late",
    ),
    # words
    "an unknown strategy": (
        lambda d: find(d, "collect")["gather"].update(strategy="apend"),
        "unknown_strategy",
        "nodes[3].gather.strategy",
    ),
    "an unknown reducer": (lambda d: find(d, "price").update(reducer="agregate"), "unknown_reducer", "nodes[2].reducer"),
    "an unknown retry strategy": (
        lambda d: find(d, "prepare")["retry"].update(strategy="quadratic"),
        "bad_value",
        "nodes[1].retry.strategy",
    ),
    "an unknown policy": (lambda d: find(d, "meet")["policy"].update(mode="most"), "bad_value", "nodes[5].policy.mode"),
    "an unknown outcome": (lambda d: find(d, "failed").update(outcome="broken"), "bad_value", "nodes[10].outcome"),
    "an unknown phase": (lambda d: find(d, "open").update(phase="during"), "bad_value", "nodes[0].phase"),
    "an unknown mode": (lambda d: find(d, "price")["execution"].update(mode="batch"), "bad_value", "nodes[2].execution.mode"),
    "an unknown type": (lambda d: find(d, "collect").update({"@type": "JoinNode"}), "unknown_type", "nodes[3].@type"),
    "a type that is not a text": (lambda d: find(d, "confirm").update({"@type": 7}), "unknown_type", "nodes[7].@type"),
    "the type of another kind": (lambda d: find(d, "shipped").update({"@type": "SingleNode"}), "unknown_type", "nodes[9].@type"),
    "a terminal that claims to be a phase": (lambda d: find(d, "failed").update({"@type": "PhaseNode"}), "unknown_type", "nodes[10].@type"),
    "no type": (lambda d: find(d, "price").pop("@type"), "missing_field", "nodes[2].@type"),
    "another type of document": (lambda d: d.update({"@type": "Graph"}), "bad_value", "@type"),
    # gather
    "append without target": (lambda d: find(d, "collect")["gather"].pop("target"), "missing_field", "nodes[3].gather.target"),
    "collect without target": (
        lambda d: find(d, "collect").update(gather={"strategy": "collect"}),
        "missing_field",
        "nodes[3].gather.target",
    ),
    "partition without partitions": (
        lambda d: find(d, "collect").update(gather={"strategy": "partition"}),
        "missing_field",
        "nodes[3].gather.partitions",
    ),
    "map without mapping": (lambda d: find(d, "meet")["gather"].pop("mapping"), "missing_field", "nodes[5].gather.mapping"),
    "custom without node": (
        lambda d: find(d, "collect").update(gather={"strategy": "custom"}),
        "missing_field",
        "nodes[3].gather.customNode",
    ),
    "no strategy": (lambda d: find(d, "collect")["gather"].pop("strategy"), "missing_field", "nodes[3].gather.strategy"),
    "quorum above the sources": (
        lambda d: find(d, "meet").update(policy={"mode": "quorum", "quorum": 3}),
        "bad_quorum",
        "nodes[5].policy.quorum",
    ),
    "quorum of none": (lambda d: find(d, "meet").update(policy={"mode": "quorum", "quorum": 0}), "bad_value", "nodes[5].policy.quorum"),
    "quorum without a number": (lambda d: find(d, "meet").update(policy={"mode": "quorum"}), "bad_quorum", "nodes[5].policy.quorum"),
    "a number without quorum": (lambda d: find(d, "meet").update(policy={"quorum": 2}), "bad_quorum", "nodes[5].policy.quorum"),
    "a source that is not there": (
        lambda d: find(d, "collect")["sources"].update({place("ghost"): {}}),
        "unknown_source",
        f'nodes[3].sources["{place("ghost")}"]',
    ),
    "a misspelt source": (
        lambda d: find(d, "collect").update(sources={place("prize"): {}}),
        "unknown_source",
        f'nodes[3].sources["{place("prize")}"]',
    ),
    "a source that leads elsewhere": (
        lambda d: find(d, "meet")["sources"].update({place("confirm"): {}}),
        "source_not_routed",
        f'nodes[5].sources["{place("confirm")}"]',
    ),
    "an entrypoint that is not there as source": (
        lambda d: find(d, "meet")["sources"].update({f"{DOCUMENT}/entrypoint/third": {}}),
        "unknown_source",
        f'nodes[5].sources["{DOCUMENT}/entrypoint/third"]',
    ),
    "a producer that is not a source": (
        lambda d: find(d, "meet")["sources"].pop(place("inspect")),
        "undeclared_source",
        "nodes[5].sources",
    ),
    "no sources": (lambda d: find(d, "collect").update(sources={}), "bad_value", "nodes[3].sources"),
    "a branch that can go round a barrier": (
        lambda d: find(d, "collect")["outputs"].update(empty=place("shipped")),
        "barrier_bypass",
        "nodes[5].policy",
    ),
    "a barrier with one branch for two sources": (
        lambda d: (d["entrypoints"].pop("audit"), find(d, "prepare")["outputs"].update(check=place("inspect"))),
        "unsatisfiable_barrier",
        "nodes[5].policy",
    ),
    # fields
    "two placements of one name": (lambda d: find(d, "confirm").update(name="ship"), "duplicate_name", "nodes[7].name"),
    "two placements of one IRI": (lambda d: d["nodes"].append(copy.deepcopy(find(d, "confirm"))), "duplicate_id", "nodes[11].@id"),
    "no node": (lambda d: find(d, "inspect").pop("node"), "missing_field", "nodes[4].node"),
    "no outputs": (lambda d: find(d, "prepare").pop("outputs"), "missing_field", "nodes[1].outputs"),
    "no name": (lambda d: find(d, "inspect").pop("name"), "missing_field", "nodes[4].name"),
    "an empty name": (lambda d: find(d, "inspect").update(name=""), "bad_value", "nodes[4].name"),
    "no id": (lambda d: find(d, "inspect").pop("@id"), "missing_field", "nodes[4].@id"),
    "no source": (lambda d: find(d, "price").pop("source"), "missing_field", "nodes[2].source"),
    "no body": (lambda d: find(d, "price").pop("body"), "missing_field", "nodes[2].body"),
    "no outcome": (lambda d: find(d, "failed").pop("outcome"), "missing_field", "nodes[10].outcome"),
    "no dag": (lambda d: find(d, "ship").pop("dag"), "missing_field", "nodes[6].dag"),
    "no version": (lambda d: d.pop("version"), "missing_field", "version"),
    "no document id": (lambda d: d.pop("@id"), "missing_field", "@id"),
    "no entrypoints": (lambda d: d.pop("entrypoints"), "missing_field", "entrypoints"),
    "no entrypoint": (lambda d: d.update(entrypoints={}), "bad_value", "entrypoints"),
    "a node under an undeclared prefix": (lambda d: find(d, "inspect").update(node="ex:inspect"), "relative_iri", "nodes[4].node"),
    "a child under an undeclared prefix": (lambda d: find(d, "ship").update(dag="shipping"), "relative_iri", "nodes[6].dag"),
    "a relative document id": (lambda d: d.update({"@id": "orders"}), "relative_id", "@id"),
    "an undeclared prefix": (lambda d: d.update({"@id": "ex:orders"}), "relative_id", "@id"),
    "two prefixes for one namespace": (lambda d: d.update({"@context": {"a": "urn:x:", "b": "urn:x:"}}), "context_prefix", "@context.b"),
    "a context by reference": (lambda d: d.update({"@context": "urn:elsewhere"}), "context_remote", "@context"),
    "an unknown key": (lambda d: find(d, "price").update(colour="red"), "unknown_key", "nodes[2].colour"),
    "an unknown key of the document": (lambda d: d.update(colour="red"), "unknown_key", "colour"),
    "a misspelt key": (lambda d: find(d, "prepare").update(retries={"maxAttempts": 2}), "unknown_key", "nodes[1].retries"),
    "a misspelt required key": (
        lambda d: find(d, "confirm").update(ouputs=find(d, "confirm").pop("outputs")),
        "unknown_key",
        "nodes[7].ouputs",
    ),
    "an unknown key in retry": (lambda d: find(d, "prepare")["retry"].update(attempts=2), "unknown_key", "nodes[1].retry.attempts"),
    "outputs that are a list": (lambda d: find(d, "prepare").update(outputs=[place("price")]), "wrong_type", "nodes[1].outputs"),
    "a target that is not a text": (lambda d: find(d, "inspect")["outputs"].update(error=None), "wrong_type", "nodes[4].outputs.error"),
    "a placement that is not an object": (lambda d: d["nodes"].append("shipped"), "wrong_type", "nodes[11]"),
    "negative concurrency": (lambda d: find(d, "price")["execution"].update(concurrency=-1), "bad_value", "nodes[2].execution.concurrency"),
    "concurrency in words": (
        lambda d: find(d, "price")["execution"].update(concurrency="4"),
        "wrong_type",
        "nodes[2].execution.concurrency",
    ),
    "half a concurrency": (lambda d: find(d, "price")["execution"].update(concurrency=1.5), "bad_value", "nodes[2].execution.concurrency"),
    "no attempts at all": (lambda d: find(d, "prepare")["retry"].update(maxAttempts=0), "bad_value", "nodes[1].retry.maxAttempts"),
    "a negative delay": (lambda d: find(d, "prepare")["retry"].update(baseDelay=-5), "bad_value", "nodes[1].retry.baseDelay"),
    "a timeout of nothing": (lambda d: find(d, "prepare").update(timeoutMs=0), "bad_value", "nodes[1].timeoutMs"),
    # references and bodies
    "a scatter that chooses from the state": (
        lambda d: find(d, "thanks")["body"]["dag"].update({"from": "state"}),
        "bad_reference",
        "nodes[8].body.dag.from",
    ),
    "an embedded document chosen from an item": (
        lambda d: find(d, "ship").update(dag={"@type": "DagReference", "from": "item", "path": "p", "candidates": ["urn:x:d"]}),
        "bad_reference",
        "nodes[6].dag.from",
    ),
    "a reference from elsewhere": (
        lambda d: find(d, "thanks")["body"]["dag"].update({"from": "context"}),
        "bad_value",
        "nodes[8].body.dag.from",
    ),
    "no candidates": (lambda d: find(d, "thanks")["body"]["dag"].update(candidates=[]), "bad_value", "nodes[8].body.dag.candidates"),
    "a candidate twice": (
        lambda d: find(d, "thanks")["body"]["dag"]["candidates"].append("urn:example:dag:mail"),
        "bad_value",
        "nodes[8].body.dag.candidates[1]",
    ),
    "a reference without path": (lambda d: find(d, "thanks")["body"]["dag"].pop("path"), "missing_field", "nodes[8].body.dag.path"),
    "two bodies": (lambda d: find(d, "price")["body"].update(dag="urn:x:d"), "bad_value", "nodes[2].body"),
    "a body without anything": (lambda d: find(d, "price").update(body={}), "bad_value", "nodes[2].body"),
    "a container on a node": (lambda d: find(d, "price").update(container="worker"), "container_on_node", "nodes[2].container"),
    "a reservoir in item mode": (
        lambda d: find(d, "thanks")["execution"].update(mode="item"),
        "bad_reservoir",
        "nodes[8].execution.reservoir",
    ),
    "reservoir mode without one": (
        lambda d: find(d, "thanks")["execution"].pop("reservoir"),
        "bad_reservoir",
        "nodes[8].execution.reservoir",
    ),
    "a throttled reservoir": (
        lambda d: find(d, "thanks")["execution"].update(throttle={"concurrencyLimit": 2}),
        "bad_reservoir",
        "nodes[8].execution.throttle",
    ),
    "a reservoir without room": (
        lambda d: find(d, "thanks")["execution"]["reservoir"].update(capacity=0),
        "bad_value",
        "nodes[8].execution.reservoir.capacity",
    ),
    "a reservoir without key": (
        lambda d: find(d, "thanks")["execution"]["reservoir"].pop("keyField"),
        "missing_field",
        "nodes[8].execution.reservoir.keyField",
    ),
    # conditions
    "a condition that does not parse": (
        lambda d: find(d, "confirm").update(
            when=["score >> 2"], outputs={"score >> 2": place("ship"), "otherwise": place("thanks"), "error": place("failed")}
        ),
        "bad_condition",
        "nodes[7].when[0]",
    ),
    "a condition without a route": (
        lambda d: find(d, "confirm").update(when=["a=1"], outputs={"otherwise": place("thanks"), "error": place("failed")}),
        "missing_route",
        "nodes[7].when[0]",
    ),
    "conditions without otherwise": (
        lambda d: find(d, "confirm").update(when=["a=1"], outputs={"a=1": place("thanks"), "error": place("failed")}),
        "missing_route",
        "nodes[7].outputs",
    ),
}
