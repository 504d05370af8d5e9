"""Provenance: what the log says, as PROV-O statements, for its owner alone, with limits that hold."""

import json
import random

import pytest
import rdflib
from rdflib.compare import isomorphic

import causeline
from causeline import ToolResult
from causeline.adapters.memory import query_child
from causeline.adapters.memory.query_process import QueryProcess
from causeline.causal import AgentState
from causeline.errors import Exhausted, Invalid, Missing, Misuse
from causeline.memory import TripleStore
from causeline.memory.prov_statements import RunFacts, Session, StepFacts, nquads
from causeline.models import ScriptedModel
from causeline.tools import Resource
from tests.agent.stage import calls

PROV = "http://www.w3.org/ns/prov#"
AT = "2026-01-01T00:00:00.000Z"


@causeline.tool(approval="ask")
async def pay(n: int) -> str:
    """Pays."""
    return f"paid {n}"


@causeline.tool
async def write(path: str, text: str) -> ToolResult:
    """Writes."""
    if text == "nothing":
        raise OSError("the disk is full")
    return ToolResult("written", resources=[Resource(path=path, operation="write", content_hash=f"sha256:{len(text)}")])


def clerk(*script, name="clerk", **options):
    return causeline.Agent(ScriptedModel(list(script)), name=name, tools=[pay, write], **options)


def values(rows, name="x"):
    return sorted(row[name]["value"] for row in rows)


@pytest.fixture(params=["memory://", "sqlite"])
async def told(request, tmp_path):
    """A payment that a person changed, and two versions of a file, the third of which could not be written."""
    url = request.param if "://" in request.param else f"sqlite:///{tmp_path}/s.db"
    payer = clerk(calls(("pay", {"n": 3}, "c1")), {"text": "Paid two."}, name="payer")
    writer = clerk(
        calls(("write", {"path": "a.md", "text": "one"}, "w1")),
        calls(("write", {"path": "a.md", "text": "two two"}, "w2"), ("write", {"path": "a.md", "text": "nothing"}, "w3")),
        {"text": "Written."},
        name="the writer",
    )
    async with causeline.open(url, agents=[payer, writer]) as runtime:
        asked = await (await runtime.start(payer, "Pay three", session="money")).result()
        run = await runtime.answer(asked.run_id, {asked.interrupts[0].id: {**causeline.edit({"n": 2}), "by": "Grace Hopper"}})
        await run.result()
        await (await runtime.start(writer, "Write it", session="files")).result()
        yield runtime


async def test_what_an_answer_depended_on(told):
    query = """SELECT DISTINCT ?x { ?answer ns:kind "answer" ; prov:wasDerivedFrom+ ?cause . ?cause ns:kind ?x }"""
    assert values(await told.query(query, session="money")) == ["goal", "inference", "tool_call", "tool_result", "verification"]


async def test_who_changed_a_call_and_what_came_of_it(told):
    query = """SELECT ?who ?what ?x {
        ?decision ns:method "decision" ; ns:decision ?what ; prov:wasAttributedTo/rdfs:label ?who .
        ?result prov:wasDerivedFrom ?decision ; ns:text ?x }"""
    (row,) = await told.query(query)
    assert {name: term["value"] for name, term in row.items()} == {"who": "Grace Hopper", "what": "edit", "x": "paid 2"}


async def test_versions_failures_agents_models_times_and_tokens(told):
    revised = "SELECT ?x { ?new prov:wasRevisionOf ?old ; ns:resourceKey ?x }"
    assert values(await told.query(revised)) == ["resource:file:a.md"]
    failed = "SELECT ?x { ?call a ns:Call ; ns:ok false ; prov:wasAssociatedWith/rdfs:label ?x }"
    assert values(await told.query(failed)) == ["write"]
    assert values(await told.query("SELECT DISTINCT ?x { ?r a ns:Run ; prov:wasAssociatedWith/rdfs:label ?x }")) == ["payer", "the writer"]
    assert values(await told.query("SELECT DISTINCT ?x { ?s a ns:Step ; prov:wasAssociatedWith/rdfs:label ?x }")) == ["scripted"]
    assert await told.query(
        "ASK { ?run a ns:Run ; prov:startedAtTime ?s ; prov:endedAtTime ?e ; ns:inputTokens ?n FILTER(?e >= ?s && ?n > 0) }"
    )
    later = "ASK { ?step prov:wasInformedBy ?before . ?step prov:endedAtTime ?t . ?before prov:endedAtTime ?u FILTER(?t < ?u) }"
    assert await told.query(later) is False


async def test_everything_why_claims_is_in_the_statements(told):
    (answer,) = await told.query('SELECT ?x { ?x ns:kind "answer" }', session="money")
    name = answer["x"]["value"].removeprefix("urn:causeline:node:").removesuffix("@money")
    nodes = await told.why(name, "money")
    for node in nodes:
        subject = f"<urn:causeline:node:{node.id}@money>"
        ((payload),) = await told.query(f"SELECT ?x {{ {subject} ns:payload ?x }}")
        assert payload["x"]["value"].encode() == node.payload_bytes
        parents = await told.query(f"SELECT ?x {{ {subject} prov:wasDerivedFrom ?x }}")
        assert values(parents) == [f"urn:causeline:node:{parent}@money" for parent in node.parents]


async def test_a_session_is_a_graph_of_its_own(told):
    named = await told.query("SELECT DISTINCT ?x { GRAPH ?x { ?s ?p ?o } }")
    assert values(named) == ["urn:causeline:session:files", "urn:causeline:session:money"]
    assert values(await told.query("SELECT DISTINCT ?x { GRAPH ?x { ?s ?p ?o } }", session="files")) == ["urn:causeline:session:files"]
    assert await told.query("ASK { ?s rdfs:label 'payer' }", session="files") is False
    with pytest.raises(Missing):
        await told.query("ASK {}", session="elsewhere")


async def test_the_view_grows_with_the_log_and_forgets_what_is_deleted(told):
    count = "SELECT (COUNT(?r) AS ?x) { ?r a ns:Run }"
    assert values(await told.query(count)) == ["3"]
    more = clerk({"text": "More."}, name="more")
    await (await told.start(more, "And again", session="files")).result()
    assert values(await told.query(count)) == ["4"]
    assert values(await told.query("SELECT ?x { ?run prov:wasInformedBy ?before ; a ns:Run ; prov:wasAssociatedWith/rdfs:label ?x }")) == [
        "more",
        "payer",
    ]
    await told.delete("money")
    assert values(await told.query(count)) == ["2"]
    assert await told.query("ASK { ?s ?p 'paid 2' }") is False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("format, reader", [("nquads", "nquads"), ("trig", "trig"), ("jsonld", "json-ld"), ("turtle", "turtle")])
async def test_another_library_reads_the_same_statements(told, format, reader):
    theirs = rdflib.Dataset()
    theirs.parse(data=await told.provenance("money", format), format=reader)
    graph = rdflib.Graph()
    for row in theirs.quads():
        graph.add(row[:3])
    ours = rdflib.Graph().parse(data=await told.query("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", session="money"), format="nt")
    assert len(graph) > 100
    assert isomorphic(graph, ours)


async def test_an_owner_asks_about_its_own_sessions_alone():
    dice = random.Random(7)
    agent = clerk({"text": "ok"})
    async with causeline.open("memory://", agents=[agent]) as runtime:
        views = {owner: runtime.of(owner) for owner in ("ada", "bob", "eve' } #")}
        said: dict[str, set[str]] = {owner: set() for owner in views}
        for number in range(12):
            owner = dice.choice(list(views))
            text = f"secret {number} of {owner}"
            said[owner].add(text)
            await (await views[owner].start(agent, text, session=f"s{dice.randrange(3)}")).result()
            for other, view in views.items():
                assert set(values(await view.query('SELECT ?x { ?n ns:kind "goal" ; ns:text ?x }'))) == said[other]
        assert await views["ada"].query("ASK { ?s ?p ?o FILTER(CONTAINS(STR(?o), 'bob')) }") is False


async def test_text_from_outside_stays_text():
    hostile = ['" . <urn:x> <urn:y> "', "'''", "\\u0022", "a\x00b\ud83d", "\r\n<urn:a> <urn:b> <urn:c> .", "a\u2028b", "\\", '"@en', "]]>"]
    agent = clerk(*[{"text": "ok"}])
    async with causeline.open("memory://", agents=[agent]) as runtime:
        for number, text in enumerate(hostile):
            await (await runtime.start(agent, text.replace("\ud83d", ""), session=f"s{number}")).result()
        assert await runtime.query("SELECT ?s { ?s <urn:y> ?o }") == []
        assert await runtime.query("SELECT ?p { <urn:a> ?p ?o }") == []
        found = values(await runtime.query('SELECT ?x { ?n ns:kind "goal" ; ns:text ?x }'))
        assert found == sorted(text.replace("\x00", "").replace("\ud83d", "") for text in hostile)


async def test_a_query_that_takes_too_long_is_stopped_and_the_next_one_is_answered(told):
    endless = "SELECT (COUNT(*) AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o }"
    with pytest.raises(Exhausted, match=r"longer than 0\.2 seconds") as stopped:
        await told.query(endless, timeout=0.2)
    assert stopped.value.code == "query_limit"
    assert values(await told.query("SELECT (COUNT(?r) AS ?x) { ?r a ns:Run }")) == ["3"]


@pytest.mark.parametrize(
    "query", ["SELECT", "INSERT DATA { <urn:a> <urn:b> <urn:c> }", "SELECT * { SERVICE <http://127.0.0.1:9/> {} }", "LOAD <urn:a>"]
)
async def test_what_may_not_be_asked_is_refused(told, query):
    with pytest.raises(Invalid):
        await told.query(query)


async def test_a_long_answer_is_refused_by_its_bound(monkeypatch):
    monkeypatch.setattr(query_child, "ROWS", 10)
    stores = query_child.Stores()
    stores.add("o", "".join(f"<urn:a{n}> <urn:b> <urn:c> .\n" for n in range(11)))
    with pytest.raises(Exhausted, match=r"more than 10 rows"):
        stores.query("o", "SELECT * { ?s ?p ?o }", None)
    assert len(stores.query("o", "SELECT * { ?s ?p ?o } LIMIT 10", None)[1]) == 10


async def test_what_is_held_is_bounded_and_the_owner_who_asked_longest_ago_goes_first(monkeypatch):
    monkeypatch.setattr("causeline.adapters.memory.query_process.HELD", 60)
    engine = QueryProcess()
    try:
        for owner in ("a", "b"):
            await engine.add(owner, f"<urn:{owner}> <urn:b> <urn:c> .\n")
        await engine.query("a", "ASK { ?s ?p ?o }", None, 10)
        await engine.add("c", "<urn:c> <urn:b> <urn:c> .\n")
        assert [engine.holds(owner) for owner in "abc"] == [True, False, True]
        with pytest.raises(Exhausted):
            await engine.add("c", "<urn:x> <urn:y> <urn:z> .\n" * 4)
    finally:
        await engine.close()
    with pytest.raises(Misuse, match="closed"):
        await engine.query("a", "ASK {}", None, 10)


def test_the_same_rows_give_the_same_statements_whatever_order_they_come_in():
    log = AgentState()
    goal = log.append("goal", {"text": "x"}, created_at=AT)
    log.append("answer", "y", [goal.id], created_at=AT)
    speaker = Session("s 1", "o")
    run = RunFacts(id="r", agent='a "b"', status="failed", created_at=AT, error={"code": "c", "message": "m"}, usage={"cost": 0.5})
    step = StepFacts(run="r", step=0, checkpoint="ck_1", node="n", port="p", created_at=AT, facts={"ms": 5}, nodes=log.nodes)
    forward, backward = TripleStore(), TripleStore()
    forward.load(nquads(iter([*speaker.run(run), *speaker.step(step)])))
    backward.load(nquads(iter([*speaker.step(step), *speaker.run(run)])))
    assert forward.triples() == backward.triples()
    assert forward.ask("urn:causeline:run:r", "urn:causeline:ns:code", None)
    started = forward.select("urn:causeline:run:r:step:0", f"{PROV}startedAtTime", "?t")[0]["t"]
    assert json.dumps(started.value) == '"2025-12-31T23:59:59.995Z"'
