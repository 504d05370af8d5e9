"""Statements as a set: patterns, SPARQL, formats, and what is refused."""

import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from rdflib.compare import isomorphic

from causeline.errors import Invalid
from causeline.memory import Literal, TripleStore

A, B, C, P, Q, G = "urn:a", "urn:b", "urn:c", "urn:p", "urn:q", "urn:g"
XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = st.sampled_from([A, B, C])
TERMS = NODES | st.builds(Literal, st.text(max_size=3)) | st.builds(Literal, st.just("1"), st.just(XSD + "integer"))
QUADS = st.tuples(NODES, st.sampled_from([P, Q]), TERMS, st.sampled_from([None, G, A]))
SLOTS = st.tuples(*[st.sampled_from([None, "?x", "?y", A, P, G])] * 4)


def store_of(*quads):
    store = TripleStore()
    store.assert_quads(quads)
    return store


@given(st.lists(QUADS, max_size=12), SLOTS)
def test_a_pattern_matches_what_a_walk_over_the_set_finds(quads, pattern):
    store = TripleStore()
    assert store.assert_quads(quads) == len(set(quads)) == len(store)
    assert store.assert_quads(quads) == 0
    expected, fitting = set(), set()
    for quad in set(quads):
        bound = {}
        for slot, term in zip(pattern, quad, strict=True):
            if slot is not None and (bound.setdefault(slot[1:], term) if slot.startswith("?") else slot) != term:
                break
        else:
            expected.add(tuple(sorted(bound.items())))
            fitting.add(quad)
    found = [tuple(sorted(row.items())) for row in store.select(*pattern)]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert store.ask(*pattern) == bool(fitting)
    assert store.count(*pattern) == len(fitting)
    assert store.retract(*pattern) == len(fitting)
    assert set(store.triples()) == set(quads) - fitting


@given(st.lists(QUADS, max_size=8), st.sampled_from(["nquads", "trig", "jsonld"]))
def test_what_is_written_reads_back_as_the_same_statements(quads, format):
    store = store_of(*quads)
    again = TripleStore()
    assert again.load(store.dump(format), format) == len(store)
    assert again.triples() == store.triples()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("format, reader", [("nquads", "nquads"), ("trig", "trig"), ("jsonld", "json-ld")])
def test_another_library_reads_the_same_graph(format, reader):
    store = store_of((A, P, Literal("zwei", lang="de"), G), (A, P, Literal("7", XSD + "integer")), ("_:n", Q, A, G), (A, Q, "_:n", G))
    theirs = rdflib.Dataset()
    theirs.parse(data=store.dump(format), format=reader)
    expected = rdflib.Graph().parse(data=store.dump("turtle"), format="turtle")
    found = rdflib.Graph()
    for row in theirs.quads():
        found.add(row[:3])
    assert isomorphic(found, expected)
    assert len(found) == 4


def test_graphs_are_apart_and_can_be_cleared():
    store = store_of((A, P, B, G), (A, P, C), (A, P, B))
    assert store.select(A, P, "?o", G) == [{"o": B}]
    assert {row["g"] for row in store.select(A, P, "?o", "?g")} == {None, G}
    assert sorted(row["o"] for row in store.select(A, P, "?o")) == [B, C]
    assert store.clear_graph(G) == 1
    assert store.count() == 2
    assert store.clear_graph(None) == 2
    assert store.retract([(A, P, B)]) == 0


def test_sparql_answers_in_plain_values():
    store = store_of((A, P, B, G), (B, P, C, G), (C, Q, Literal("x", lang="en"), G), (C, Q, Literal("3", XSD + "integer")))
    assert store.query(f"ASK {{ <{A}> <{P}> <{B}> }}") is True
    assert store.query(f"SELECT ?o ?none {{ <{A}> <{P}>+ ?o }} ORDER BY ?o") == [
        {"o": {"type": "uri", "value": B}},
        {"o": {"type": "uri", "value": C}},
    ]
    assert store.query(f"SELECT ?o {{ <{C}> <{Q}> ?o }} ORDER BY ?o") == [
        {"o": {"type": "literal", "value": "3", "datatype": XSD + "integer"}},
        {"o": {"type": "literal", "value": "x", "lang": "en"}},
    ]
    assert store.query(f"CONSTRUCT {{ ?a <{Q}> ?b }} {{ GRAPH <{G}> {{ ?a <{P}> ?b }} }}") == f"<{A}> <{Q}> <{B}> .\n<{B}> <{Q}> <{C}> .\n"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
        "select * { service silent ?where { ?s ?p ?o } }",
        "PREFIX a: <urn:a#> SELECT * { a:b\\# a:p ?o SERVICE <urn:x> {} }",
        'SELECT * { ?s ?p "a\\"b" . SERVICE<urn:x>{} }',
        "SELECT * { ?s ?p ?o . #'\n SERVICE <urn:x> {} }",
        "SELECT * { SERV\\u0049CE <urn:x> {} }",
        "PREFIX : <urn:a#> SELECT * {SERVICE:x {}}",
        "SELECT * { ?s ?p ?o FILTER(?s<?p)SERVICE <urn:x> {} FILTER(?s>?p) }",
    ],
)
def test_no_query_asks_another_machine(query):
    with pytest.raises(Invalid, match="SERVICE"):
        TripleStore().query(query)


@pytest.mark.parametrize(
    "query",
    ['SELECT * { ?service <urn:SERVICE> "SERVICE" } # SERVICE', "PREFIX ex: <urn:e#> SELECT * { ex:service ?p '''it's a SERVICE''' }"],
)
def test_the_word_may_stand_where_it_asks_nobody(query):
    assert TripleStore().query(query) == []


@pytest.mark.parametrize("query", ["SELECT", "INSERT DATA { <urn:a> <urn:b> <urn:c> }", "LOAD <urn:a>", "DROP ALL", ""])
def test_what_is_no_query_is_refused(query):
    store = store_of((A, P, B))
    with pytest.raises(Invalid, match="not well formed"):
        store.query(query)
    assert len(store) == 1


@pytest.mark.parametrize(
    "quad", [("no iri", P, B), (A, "_:b", B), (A, P, 3), (A, P), (A, Literal("x"), B), (A, P, Literal("x", "no iri")), "abc", (A, P, "")]
)
def test_terms_that_rdf_does_not_have_are_refused_whole(quad):
    store = TripleStore()
    with pytest.raises(Invalid):
        store.assert_quads([(A, P, B), quad])
    assert len(store) == 0


def test_texts_that_are_not_well_formed_add_nothing():
    store = TripleStore()
    for text, format in [("<urn:a> <urn:p> <urn:b> .\n<urn", "nquads"), ('{"@context": "http://example.org/c", "@id": "urn:a"}', "jsonld")]:
        with pytest.raises(Invalid, match="can be read"):
            store.load(text, format)
    with pytest.raises(Invalid, match="no format"):
        store.dump("xml")
    assert len(store) == 0
    assert store.load("<urn:a> <urn:p> <urn:b> .", "turtle", graph=G) == 1
    assert store.triples() == [(A, P, B, G)]


def test_pairs_are_the_statements_of_one_predicate_in_one_graph():
    store = TripleStore()
    store.assert_quads([("urn:a", "urn:p", Literal("1"), "urn:g"), ("urn:b", "urn:p", "urn:c", "urn:g"), ("urn:a", "urn:p", Literal("2"))])
    assert store.pairs("urn:p", "urn:g") == {"urn:a": "1", "urn:b": "urn:c"}
    assert store.pairs("urn:p") == {"urn:a": "2"}
    assert store.pairs("urn:q", "urn:g") == {}
