"""SPARQL over HTTP, by the protocol."""

import pytest

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
