"""SPARQL over HTTP, by the protocol."""

import io

import pytest
import rdflib

import causeline
from tests.api.served import playing, serving

QUERY = 'SELECT ?said ?none { ?node ns:kind "answer" ; ns:text ?said }'
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def served():
    agent = playing({"text": "It is tea."})
    async with serving("memory://", agent) as server:
        async with server.client() as client:
            await (await client.start("agent", "what is it", session="s1")).result()
        yield server


async def test_a_query_comes_in_the_address_as_a_form_or_as_the_body(served):
    async with served.http() as http:
        replies = [
            await http.get("/v1/sparql", params={"query": QUERY}),
            await http.post("/v1/sparql", data={"query": QUERY}),
            await http.post("/v1/sparql", content=QUERY, headers={"Content-Type": "application/sparql-query"}),
            await http.get("/v1/sparql", params={"query": QUERY, "default-graph-uri": "urn:causeline:session:s1"}),
        ]
    for reply in replies:
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/sparql-results+json"
        assert reply.json() == {
            "head": {"vars": ["said", "none"]},
            "results": {"bindings": [{"said": {"type": "literal", "value": "It is tea."}}]},
        }


async def test_the_other_forms_have_their_own_answers(served):
    async with served.http() as http:
        asked = await http.get("/v1/sparql", params={"query": "ASK { ?run a ns:Run }"})
        made = await http.get(
            "/v1/sparql", params={"query": "DESCRIBE <urn:causeline:agent:agent>"}, headers={"Accept": "application/n-triples"}
        )
    assert asked.json() == {"head": {}, "boolean": True}
    assert made.headers["content-type"].startswith("application/n-triples")
    assert '<http://www.w3.org/2000/01/rdf-schema#label> "agent" .' in made.text


async def test_the_client_asks_as_a_runtime_does(served):
    async with served.client() as client:
        assert await client.query(QUERY, session="s1") == [{"said": {"type": "literal", "value": "It is tea."}}]
        assert await client.query("ASK { ?x a ns:Call }") is False
        assert "agent" in await client.query("DESCRIBE <urn:causeline:agent:agent>")
        with pytest.raises(causeline.Missing):
            await client.query(QUERY, session="s9")


@pytest.mark.parametrize(
    "method, parts, status",
    [
        ("GET", {}, 400),
        ("GET", {"params": {"query": "SELECT"}}, 400),
        ("GET", {"params": [("query", "ASK {}"), ("query", "ASK {}")]}, 400),
        ("GET", {"params": {"query": "ASK { SERVICE <http://127.0.0.1/> {} }"}}, 400),
        ("GET", {"params": {"query": "ASK {}", "session": "s9"}}, 404),
        ("GET", {"params": {"query": "ASK {}"}, "headers": {"Accept": "text/html"}}, 406),
        ("POST", {"content": "update=DROP+ALL", "headers": FORM}, 400),
        ("POST", {"content": "ASK {}", "headers": {"Content-Type": "text/plain"}}, 415),
        ("POST", {"content": b"\xff", "headers": FORM}, 400),
    ],
)
async def test_what_is_no_query_is_refused(served, method, parts, status):
    async with served.http() as http:
        reply = await http.request(method, "/v1/sparql", **parts)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")


async def test_a_token_asks_about_its_own_sessions_alone():
    agent = playing({"text": "It is tea."})
    tokens = {"ta": "ada", "tb": "bob"}
    async with serving("memory://", agent, tokens=tokens) as server, server.client("ta") as ada, server.client("tb") as bob:
        await (await ada.start("agent", "what is it", session="s1")).result()
        assert len(await ada.query(QUERY)) == 1
        assert await bob.query(QUERY) == []


AWKWARD = 'a "b" <c> &\\ \t, d\n@en'


@pytest.fixture
async def two_sessions():
    agent = playing({"text": AWKWARD})
    async with serving("memory://", agent) as server:
        async with server.client() as client:
            for session in ("s1", "s.2-x"):
                await (await client.start("agent", f"of {session}", session=session)).result()
        yield server


async def test_a_table_comes_in_the_form_the_caller_likes(two_sessions):
    query = {"query": 'SELECT ?said ?none ?node { ?node ns:kind "answer" ; ns:text ?said }', "session": "s1"}
    texts = {}
    async with two_sessions.http() as http:
        for accept in ("application/sparql-results+xml", "text/csv", "text/tab-separated-values", "application/json"):
            reply = await http.get("/v1/sparql", params=query, headers={"Accept": f"text/html, {accept};q=0.5, image/png;q=0.9"})
            assert reply.status_code == 200, reply.text
            texts[accept] = reply.text
            assert reply.headers["content-type"].partition(";")[0] == accept.replace("application/json", "application/sparql-results+json")
    readers = {"application/sparql-results+xml": "xml", "text/csv": "csv", "text/tab-separated-values": "tsv", "application/json": "json"}
    for accept, form in readers.items():
        read = rdflib.query.Result.parse(io.BytesIO(texts[accept].encode()), format=form)
        (row,) = read.bindings
        said = {str(name): str(value) for name, value in row.items() if value is not None and str(value)}
        assert said["said"] == AWKWARD, form
        assert "none" not in said
        assert said["node"].endswith("@s1")


async def test_yes_and_no_and_graphs_have_their_forms_too(two_sessions):
    async with two_sessions.http() as http:
        yes = await http.get("/v1/sparql", params={"query": "ASK {}"}, headers={"Accept": "application/sparql-results+xml"})
        graph = await http.get(
            "/v1/sparql", params={"query": "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"}, headers={"Accept": "application/rdf+xml, text/turtle"}
        )
        none = await http.get("/v1/sparql", params={"query": "ASK {}"}, headers={"Accept": "text/csv"})
    assert "<boolean>true</boolean>" in yes.text
    assert graph.headers["content-type"].startswith("text/turtle")
    assert len(rdflib.Graph().parse(data=graph.text, format="turtle")) > 50
    assert none.status_code == 406


async def test_the_dataset_of_the_protocol(two_sessions):
    goals = {"query": 'SELECT DISTINCT ?x { ?n ns:kind "goal" ; ns:text ?x } ORDER BY ?x'}
    named = {"query": 'SELECT DISTINCT ?x { GRAPH ?g { ?n ns:kind "goal" ; ns:text ?x } } ORDER BY ?x'}
    first, second = "urn:causeline:session:s1", "urn:causeline:session:s.2-x"

    async def asked(http, query, **graphs):
        reply = await http.post("/v1/sparql", data={**query, **{key.replace("_", "-"): value for key, value in graphs.items()}})
        assert reply.status_code == 200, reply.text
        return [row["x"]["value"] for row in reply.json()["results"]["bindings"]]

    async with two_sessions.http() as http:
        assert await asked(http, goals, default_graph_uri=first) == ["of s1"]
        assert await asked(http, goals, default_graph_uri=[first, second]) == ["of s.2-x", "of s1"]
        assert await asked(http, goals, named_graph_uri=first) == []
        assert await asked(http, named, named_graph_uri=[first, second]) == ["of s.2-x", "of s1"]
        assert await asked(http, named, default_graph_uri=first, named_graph_uri=second) == ["of s.2-x"]
        other = {"query": goals["query"].replace("{ ?n", f"FROM <{second}> {{ ?n", 1)}
        assert await asked(http, other, default_graph_uri=first) == ["of s1"], "the protocol's dataset wins over the query's"
        unknown = await http.get("/v1/sparql", params={**goals, "default-graph-uri": "urn:causeline:session:s9"})
        both = await http.get("/v1/sparql", params={**goals, "default-graph-uri": first, "session": "s1"})
    assert (unknown.status_code, both.status_code) == (404, 400)


async def test_the_causal_graph_is_drawn(served):
    drawn = {}
    async with served.http() as http:
        for name in ("mermaid", "dot", "svg", "json", "log", "png"):
            drawn[name] = await http.get("/v1/sessions/s1/graph", params={"format": name})
    assert [drawn[name].text.split()[0] for name in ("mermaid", "dot", "svg")] == ["flowchart", "digraph", "<svg"]
    assert drawn["svg"].headers["content-type"].startswith("image/svg+xml")
    nodes = [node["id"] for node in drawn["json"].json()["nodes"]]
    assert nodes == [node["id"] for node in drawn["log"].json()["nodes"]]
    assert drawn["png"].status_code == 422
