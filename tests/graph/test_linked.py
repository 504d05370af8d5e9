"""Documents as linked data: nothing is lost on the way through RDF and back, by two independent implementations."""

import json
from collections.abc import Callable
from typing import Any

import pyoxigraph
import pytest
from hypothesis import given, settings
from pyld import jsonld

from causeline.graph import Document, check, load, mermaid
from causeline.graph.documents.builder import Graph
from causeline.graph.documents.codec import dump_linked
from causeline.graph.documents.vocabulary import CONTEXT
from tests.graph.random_documents import documents
from tests.graph.sample_documents import orders

FRAME = {"@context": CONTEXT, "@type": "DAG"}
NATIVE: Any = {"useNativeTypes": True}


def quads(document: Any) -> str:
    return str(jsonld.to_rdf(document, {"format": "application/n-quads"}))


def oxigraph_quads(document: Any) -> list[Any]:
    return list(pyoxigraph.parse(json.dumps(document).encode(), format=pyoxigraph.RdfFormat.JSON_LD))


def oxigraph_text(document: Any, into: pyoxigraph.RdfFormat) -> str:
    written = pyoxigraph.serialize(oxigraph_quads(document), format=into)
    assert written is not None
    return written.decode()


WAYS: dict[str, Callable[[Any], Any]] = {
    "expanded": jsonld.expand,
    "flattened": lambda document: jsonld.flatten(document, CONTEXT),
    "rdf": lambda document: jsonld.from_rdf(quads(document)),
    "rdf, compacted": lambda document: jsonld.compact(jsonld.from_rdf(quads(document)), CONTEXT),
    "rdf, native numbers": lambda document: jsonld.compact(jsonld.from_rdf(quads(document), NATIVE), CONTEXT),
    "rdf, framed": lambda document: jsonld.frame(jsonld.from_rdf(quads(document)), FRAME),
    "pyoxigraph N-Quads": lambda document: jsonld.from_rdf(oxigraph_text(document, pyoxigraph.RdfFormat.N_QUADS)),
    "pyoxigraph JSON-LD": lambda document: json.loads(oxigraph_text(document, pyoxigraph.RdfFormat.JSON_LD)),
}


def rich() -> Document:
    """The sample with every optional field set, odd ports, conditions, and maps in an order that is not the alphabet's."""
    document = orders()
    by_name = {one["name"]: one for one in document["nodes"]}
    document["entrypoints"] = {"zeta": document["entrypoints"]["main"], "alpha": document["entrypoints"]["audit"]}
    by_name["prepare"]["retry"] = {
        "maxAttempts": 3,
        "strategy": "linear",
        "multiplier": 2.5,
        "jitterFactor": 0.25,
        "on": ["B", "A"],
        "abortOn": [],
    }
    by_name["prepare"]["timeoutMs"] = 1500
    by_name["confirm"]["when"] = ["score >= 0.5", 'name="a, b"']
    by_name["confirm"]["outputs"] |= dict.fromkeys(["score >= 0.5", 'name="a, b"', "otherwise", 'odd <>"\\é\n'], by_name["ship"]["@id"])
    by_name["price"]["execution"]["throttle"] = {
        "concurrencyLimit": 2,
        "adaptive": {"enabled": False, "targetLatencyMs": 0.5, "stepSize": 1},
    }
    by_name["price"]["stateMapping"] = {"input": {"z": "a.b", "a": "z"}}
    by_name["price"]["retry"] = {}
    by_name["meet"]["policy"] = {"mode": "quorum", "quorum": 2, "includeErrors": False}
    by_name["meet"]["gather"] |= {"partitions": {}, "resultField": "r", "field": "f"}
    by_name["ship"]["gatherResult"] = {"resultField": "x.y"}
    return load(document)


SAMPLES = {
    "agent": load("tests/golden/documents/react-agent.jsonld"),
    "trace": load("tests/golden/documents/react-agent-memory-trace.jsonld"),
    "rich": rich(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_document_in_rdf_shape_survives(sample: str, way: str) -> None:
    document = SAMPLES[sample]
    back = load(WAYS[way](dump_linked(document)))
    assert back.problems == ()
    assert back.to_json() == {"@context": back.to_json()["@context"], **document.plain}
    assert (back.hash, mermaid(back)) == (document.hash, mermaid(document))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sample", ["agent", "trace"])
def test_a_seed_document_survives_as_written_when_only_its_context_is_exchanged(sample: str, way: str) -> None:
    document = SAMPLES[sample]
    back = load(json.dumps(WAYS[way]({**document.to_json(), "@context": CONTEXT})))
    assert (back.plain, back.hash) == (document.plain, document.hash)


def test_maps_written_as_objects_take_the_order_of_the_placements_after_rdf() -> None:
    document = {**orders(), "@context": CONTEXT}
    document["entrypoints"] = dict(reversed(document["entrypoints"].items()))
    back = load(json.dumps(jsonld.from_rdf(quads(document))))
    assert list(back.plain["entrypoints"]) == ["main", "audit"]
    assert back.hash == load(orders()).hash


def test_two_pairs_of_one_key_are_a_finding() -> None:
    linked = dump_linked(load(orders()))
    linked["nodes"][4]["outputs"].append({"port": "clean", "to": "urn:x:other"})
    assert [one.code for one in load(linked).problems] == ["repeated_key"]


def test_a_frame_that_repeats_every_placement_where_it_is_mentioned_is_read_too() -> None:
    document = SAMPLES["trace"]
    back = load(json.dumps(jsonld.frame(jsonld.from_rdf(quads(dump_linked(document))), FRAME, {"embed": "@always"})))
    assert back.plain == document.plain


def test_the_context_of_the_reference_loses_the_routes_which_is_why_there_is_another() -> None:
    document = SAMPLES["agent"]
    back = load(json.dumps(jsonld.frame(jsonld.from_rdf(quads(document.to_json())), {**FRAME, "@context": dict(document.context)})))
    assert all("outputs" not in one or not one["outputs"] for one in back.plain["nodes"])


def test_routes_are_nodes_that_can_be_queried() -> None:
    store = pyoxigraph.Store()
    store.extend(oxigraph_quads(dump_linked(SAMPLES["agent"])))
    found = store.query(
        """PREFIX dag: <https://noocodec.dev/ontology/dag/> PREFIX cl: <urn:causeline:graph:>
        PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
        SELECT ?from ?port WHERE {
            ?place dag:name ?from ; dag:outputs/rdf:rest*/rdf:first [ cl:port ?port ; cl:to/dag:name "collect-results" ]
        } ORDER BY ?port"""
    )
    assert [(row["from"].value, row["port"].value) for row in found] == [("join-tool-results", "empty"), ("join-tool-results", "success")]  # type: ignore[union-attr]
    routes = store.query("SELECT (COUNT(*) AS ?n) WHERE { ?route <urn:causeline:graph:port> ?port ; <urn:causeline:graph:to> ?target }")
    assert [row["n"].value for row in routes] == ["32"]  # type: ignore[union-attr]


def test_the_gather_keeps_its_strategy_and_mapping_as_statements() -> None:
    store = pyoxigraph.Store()
    store.extend(oxigraph_quads(dump_linked(SAMPLES["agent"])))
    found = store.query(
        """PREFIX dag: <https://noocodec.dev/ontology/dag/> PREFIX cl: <urn:causeline:graph:>
        PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
        SELECT ?strategy ?key ?value WHERE {
            ?gather dag:strategy ?strategy ; dag:mapping/rdf:rest*/rdf:first [ cl:key ?key ; cl:value ?value ]
        }"""
    )
    assert [(row["strategy"].value, row["key"].value, row["value"].value) for row in found] == [("map", "output", "toolOutputs")]  # type: ignore[union-attr]


def test_a_long_chain_does_not_nest_too_deep_when_framed() -> None:
    """A frame embeds each placement where it is first mentioned, so a chain becomes a tower."""
    graph = Graph("urn:example:dag:chain")
    for number in range(40):
        graph.node(f"n{number}", "urn:n:x", {"on": f"n{number + 1}" if number < 39 else "end"})
    document = graph.terminal("end").build()
    back = load(json.dumps(jsonld.frame(dump_linked(document), FRAME)))
    assert (back.hash, check(back)) == (document.hash, [])


@settings(max_examples=12, deadline=None)
@given(documents())
def test_random_documents_survive_rdf(plain: dict[str, Any]) -> None:
    document = load(plain)
    back = load(oxigraph_text(dump_linked(document), pyoxigraph.RdfFormat.JSON_LD))  # pyld mistakes a backslash in N-Quads
    assert (back.plain, back.placements) == (document.plain, document.placements)


@pytest.mark.parametrize("value", [None, "x", 1, [], {}])
@pytest.mark.parametrize("field", ["outputs", "sources", "gather", "policy", "body", "entrypoints", "stateMapping"])
def test_a_faulty_document_has_an_rdf_shape_too(field: str, value: Any) -> None:
    plain = orders()
    for place in (plain, *plain["nodes"]):
        if field in place:
            place[field] = {"k": value} if field in ("outputs", "sources", "entrypoints") else value
    assert load(dump_linked(load(plain))).id == plain["@id"]
