"""Every mistake that can be planted in a document gives one finding, at its place."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.graph.sample_documents import DOCUMENT, find, orders, place, placement

from causeline.graph import check, load, node
from causeline.graph.builder import Graph

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


def test_a_sound_document_has_no_findings() -> None:
    assert check(load(orders())) == []


@pytest.mark.parametrize("mistake", PLANTED)
def test_one_mistake_is_one_finding_at_its_place(mistake: str) -> None:
    change, code, path = PLANTED[mistake]
    document = orders()
    change(document)
    found = check(load(document))
    assert [(one.code, one.path) for one in found] == [(code, path)], "\n".join(map(str, found))


def test_twelve_mistakes_in_one_document_are_twelve_findings() -> None:
    found = check(load("tests/golden/documents/twelve-mistakes.jsonld"))
    assert [(one.code, one.path) for one in found] == [
        ("entrypoint_missing", "entrypoints.late"),
        ("missing_field", "version"),
        ("bad_value", "nodes[1].retry.maxAttempts"),
        ("unknown_key", "nodes[2].colour"),
        ("missing_route", "nodes[2].outputs"),
        ("unknown_strategy", "nodes[3].gather.strategy"),
        ("dangling_route", "nodes[4].outputs.error"),
        ("bad_quorum", "nodes[5].policy.quorum"),
        ("bad_reference", "nodes[6].dag.from"),
        ("endless_loop", "nodes[8].outputs"),
        ("duplicate_name", "nodes[10].name"),
        ("unreachable", "nodes[12]"),
    ]


@pytest.mark.parametrize("name", ["react-agent", "react-agent-memory-trace"])
def test_the_seed_documents_are_sound(name: str) -> None:
    assert check(load(f"tests/golden/documents/{name}.jsonld")) == []


# What needs to know the nodes and the other documents.


def declared(iri: str, *ports: str, **more: Any):
    return node(f"urn:example:node:{iri}", ports, **more)(lambda ctx: ports[0])


NODES = [
    declared("open", "done"),
    declared("prepare", "ready", "error", "parked"),
    declared("price", "success", "error"),
    declared("inspect", "clean", "error"),
    declared("confirm", "again", "done", "error"),
]


def leaf(iri: str, **node_fields: Any):
    return Graph(f"urn:example:dag:{iri}").node("only", f"urn:example:node:{iri}", {"done": "end"}).terminal("end").build()


DOCUMENTS = [leaf("shipping"), leaf("mail")]


def codes(found: list[Any]) -> list[tuple[str, str]]:
    return [(one.code, one.path) for one in found]


def test_everything_known_and_sound_has_no_findings() -> None:
    assert check(load(orders()), NODES, DOCUMENTS, closed=True) == []
    assert check(load(orders()), {one.iri: one for one in NODES}, {one.id: one for one in DOCUMENTS}) == []


def test_unknown_iris_are_findings_only_at_registration() -> None:
    document = orders()
    find(document, "inspect")["node"] = "urn:example:node:unheard"
    find(document, "thanks")["body"]["dag"]["candidates"].append("urn:example:dag:pigeon")
    find(document, "collect")["gather"] = {"strategy": "custom", "customNode": "urn:example:node:fold"}
    assert check(load(document)) == []
    assert codes(check(load(document), NODES, DOCUMENTS)) == [
        ("unknown_node", "nodes[3].gather.customNode"),
        ("unknown_node", "nodes[4].node"),
        ("unknown_document", "nodes[8].body.dag"),
    ]
    assert len(check(load(orders()), closed=True)) == 5 + 2


def test_ports_of_a_node_and_routes_of_its_placement_must_agree() -> None:
    document = orders()
    find(document, "inspect")["outputs"]["late"] = place("failed")  # never left by
    find(document, "confirm")["outputs"].pop("again")  # declared, but without a route
    assert codes(check(load(document), NODES, DOCUMENTS)) == [
        ("unknown_port", "nodes[4].outputs.late"),
        ("missing_route", "nodes[7].outputs"),
    ]


def test_a_misspelt_port_is_one_finding_that_names_both() -> None:
    document = orders()
    find(document, "confirm")["outputs"]["agian"] = find(document, "confirm")["outputs"].pop("again")
    (finding,) = check(load(document), NODES, DOCUMENTS)
    assert finding.code == "missing_route"
    assert "'again'" in finding.message
    assert "'agian'" in finding.message


def test_the_port_parked_needs_no_route_and_the_port_error_may_always_have_one() -> None:
    graph = Graph("urn:x:dag:d").node("ask", declared("ask", "done", "parked"), {"done": "end", "error": "end"}).terminal("end")
    assert check(graph.build(), graph.nodes) == []


def test_otherwise_covers_every_port_but_error() -> None:
    graph = Graph("urn:x:dag:d").node("ask", declared("ask", "one", "two", "error"), {"one": "end", "otherwise": "end"}).terminal("end")
    (finding,) = check(graph.build(), graph.nodes)
    assert (finding.code, "'error'" in finding.message, "'two'" in finding.message) == ("missing_route", True, False)


def test_the_terminal_reducer_leaves_by_the_ports_of_its_body() -> None:
    document = orders()
    find(document, "price")["reducer"] = "terminal"
    assert codes(check(load(document), NODES, DOCUMENTS)) == [("missing_route", "nodes[2].outputs")]
    find(document, "price")["outputs"] = dict.fromkeys(("success", "error", "empty"), place("collect"))
    assert check(load(document), NODES, DOCUMENTS) == []


def test_custom_strategies_and_reducers_are_known_when_named() -> None:
    document = orders()
    find(document, "collect")["gather"]["strategy"] = "median"
    find(document, "price")["reducer"] = "majority"
    assert [one.code for one in check(load(document))] == ["unknown_reducer", "unknown_strategy"]
    assert check(load(document), strategies=["median"], reducers=["majority"]) == []


def test_inputs_a_child_needs_must_be_handed_over() -> None:
    child = Graph("urn:example:dag:shipping")
    child.node("pack", declared("pack", "done", input_schema={"required": ["rows", "address"]}), {"done": "end"}).terminal("end")
    (finding,) = check(load(orders()), [*NODES, *child.nodes.values()], [child.build(), DOCUMENTS[1]])
    assert (finding.code, finding.path) == ("unseeded_input", "nodes[6].stateMapping")
    assert "'address'" in finding.message
    assert "'rows'" not in finding.message


def recursive(iri: str, child: str, *, exit_by: str | None = None):
    graph = Graph(iri).node("think", "urn:n:think", {"deeper": "child"} | ({exit_by: "end"} if exit_by else {}))
    return graph.embed("child", child, {"success": "end", "error": "end"}).terminal("end").build()


def test_a_document_that_can_only_run_itself_is_refused_and_one_with_a_way_out_is_not() -> None:
    assert codes(check(recursive("urn:x:d:a", "urn:x:d:a"))) == [("endless_recursion", "nodes[1]")]
    assert check(recursive("urn:x:d:a", "urn:x:d:a", exit_by="enough")) == []


def test_recursion_through_others_needs_one_way_out_of_the_circle() -> None:
    one, two = recursive("urn:x:d:a", "urn:x:d:b"), recursive("urn:x:d:b", "urn:x:d:a")
    assert [item.code for item in check(one, documents=[one, two])] == ["endless_recursion"]
    assert [item.code for item in check(two, documents=[one, two])] == ["endless_recursion"]
    relieved = recursive("urn:x:d:b", "urn:x:d:a", exit_by="enough")
    assert check(one, documents=[one, relieved]) == []
    assert check(relieved, documents=[one, relieved]) == []


def test_branches_that_overwrite_each_other_are_a_warning() -> None:
    graph = Graph("urn:x:dag:d").entry("main", "left").entry("other", "right")
    graph.node("left", declared("left", "done", writes=("total", "left")), {"done": "meet"})
    graph.node("right", declared("right", "done", writes=("total",)), {"done": "meet"})
    graph.gather("meet", ["left", "right"], "discard", {"success": "end", "error": "end"}).terminal("end")
    document = graph.build()
    (finding,) = check(document, graph.nodes)
    assert (finding.code, finding.placement, finding.warning) == ("concurrent_write", "urn:x:dag:d/node/right", True)
    assert check(document, graph.nodes, channels={"total": "append"}) == []


# Barriers.


def branches(policy: str, *, quorum: int | None = None, bypass: str | None = None):
    graph = Graph("urn:x:dag:d").entry("one", "a").entry("two", "b").entry("three", "c")
    for name in "abc":
        graph.node(name, "urn:n:x", {"done": "meet"} | ({"skip": bypass} if bypass and name == "a" else {}))
    graph.gather("meet", ["a", "b", "c"], "discard", {"success": "end", "error": "lost"}, policy=policy, quorum=quorum)
    return graph.terminal("end").terminal("lost", "failed").build()


@pytest.mark.parametrize(
    "document, expected",
    [
        (branches("all"), []),
        (branches("any"), []),
        (branches("quorum", quorum=2), []),
        (branches("all", bypass="end"), ["barrier_bypass"]),
        (branches("any", bypass="end"), []),
        (branches("quorum", quorum=2, bypass="end"), []),
        (branches("quorum", quorum=3, bypass="end"), ["barrier_bypass"]),
        (branches("all", bypass="lost"), []),
    ],
    ids=lambda value: value if isinstance(value, list) else "",
)
def test_a_barrier_must_be_satisfied_whatever_branch_is_taken(document: Any, expected: list[str]) -> None:
    assert [one.code for one in check(document)] == expected


def test_two_sources_on_one_branch_never_both_arrive() -> None:
    graph = Graph("urn:x:dag:d").node("choose", "urn:n:x", {"left": "a", "right": "b"})
    graph.node("a", "urn:n:x", {"done": "meet"}).node("b", "urn:n:x", {"done": "meet"})
    graph.gather("meet", ["a", "b"], "discard", {"success": "end", "error": "end"}).terminal("end")
    assert [one.code for one in check(graph.build())] == ["unsatisfiable_barrier"]


def test_branches_that_share_sources_are_told_apart_by_matching() -> None:
    """`one` can come by a or b, `two` only by a: both barriers are met if `one` takes b."""
    graph = Graph("urn:x:dag:d").entry("one", "choose").entry("two", "a").node("choose", "urn:n:x", {"left": "a", "right": "b"})
    graph.node("a", "urn:n:x", {"done": "meet"}).node("b", "urn:n:x", {"done": "meet"})
    graph.gather("meet", ["a", "b"], "discard", {"success": "end", "error": "end"}).terminal("end")
    assert check(graph.build()) == []


def test_entrypoints_can_be_sources() -> None:
    graph = Graph("urn:x:dag:d").entry("main", "meet").entry("the other", "meet")
    graph.gather("meet", [graph.entrypoint("main"), graph.entrypoint("the other")], "discard", {"success": "end", "error": "end"})
    document = graph.terminal("end").build()
    assert list(document.placements["urn:x:dag:d/node/meet"].sources) == [  # type: ignore[union-attr]
        "urn:x:dag:d/entrypoint/main",
        "urn:x:dag:d/entrypoint/the%20other",
    ]
    assert check(document) == []


# Whole documents.


def test_a_document_without_a_terminal_is_one_finding_that_names_the_loop() -> None:
    document = Graph("urn:x:dag:d").node("a", "urn:n:x", {"on": "b"}).node("b", "urn:n:x", {"on": "a"}).build()
    (finding,) = check(document)
    assert (finding.code, finding.path) == ("no_terminal", "nodes")
    assert "a, b" in finding.message


def test_a_loop_that_cuts_off_the_only_terminal_is_one_finding() -> None:
    document = Graph("urn:x:dag:d").node("a", "urn:n:x", {"on": "b"}).node("b", "urn:n:x", {"on": "a"}).terminal("end").build()
    assert [one.code for one in check(document)] == ["endless_loop"]


def test_a_loop_counts_once_however_long_it_is() -> None:
    graph = Graph("urn:x:dag:d").node("start", "urn:n:x", {"go": "n0", "stop": "end"})
    for number in range(3000):
        graph.node(f"n{number}", "urn:n:x", {"go": f"n{(number + 1) % 3000}", "jump": f"n{number // 2}"})
    (finding,) = check(graph.terminal("end").build())
    assert (finding.code, finding.path) == ("endless_loop", "nodes[1].outputs")
    assert "and 2994 more" in finding.message
