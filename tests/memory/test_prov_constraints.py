"""What W3C's PROV-CONSTRAINTS ask of a document, of those that can be broken by statements such as ours."""

import pytest

import causeline
from causeline.memory.terms import PROV
from tests.agent.stage import Turns, calls
from tests.memory.test_provenance import pay, write

BROKEN = {
    "no activity is an entity": "?x a prov:Activity, prov:Entity",
    "an activity starts before it ends": "?x prov:startedAtTime ?s ; prov:endedAtTime ?e FILTER(?e < ?s)",
    "an activity starts once": "?x prov:startedAtTime ?s, ?t FILTER(?s != ?t)",
    "an activity ends once": "?x prov:endedAtTime ?s, ?t FILTER(?s != ?t)",
    "an entity is generated once": "?x prov:generatedAtTime ?s, ?t FILTER(?s != ?t)",
    "what is used is there before its user ends": "?x prov:used/prov:generatedAtTime ?g ; prov:endedAtTime ?e FILTER(?g > ?e)",
    "what is generated is there when its maker ends": "?y prov:wasGeneratedBy ?x ; prov:generatedAtTime ?g . ?x prov:endedAtTime ?e "
    "FILTER(?g > ?e)",
    "who informs starts before who is informed ends": "?x prov:wasInformedBy/prov:startedAtTime ?s ; prov:endedAtTime ?e FILTER(?s > ?e)",
    "nothing is derived from itself": "?x prov:wasDerivedFrom+ ?x",
    "nothing revises itself": "?x prov:wasRevisionOf+ ?x",
    "nothing informs itself": "?x prov:wasInformedBy+ ?x",
    "nothing specialises itself": "?x prov:specializationOf+ ?x",
    "what is derived is no older": "?x prov:wasDerivedFrom/prov:generatedAtTime ?g . ?x prov:generatedAtTime ?h FILTER(?h < ?g)",
    "a revision is of the same thing": "?x prov:wasRevisionOf ?y ; prov:specializationOf ?a . ?y prov:specializationOf ?b FILTER(?a != ?b)",
    "only activities use": "?x prov:used ?y FILTER NOT EXISTS { ?x a prov:Activity }",
    "only entities are used": "?y prov:used ?x FILTER NOT EXISTS { ?x a prov:Entity }",
    "only entities are generated": "?x prov:wasGeneratedBy ?y FILTER NOT EXISTS { ?x a prov:Entity }",
    "only by activities": "?y prov:wasGeneratedBy ?x FILTER NOT EXISTS { ?x a prov:Activity }",
    "only entities are derived": "?x prov:wasDerivedFrom ?y FILTER NOT EXISTS { ?x a prov:Entity }",
    "only activities are informed": "?x prov:wasInformedBy ?y FILTER NOT EXISTS { ?x a prov:Activity }",
    "only with agents": "?y prov:wasAssociatedWith|prov:wasAttributedTo|prov:actedOnBehalfOf ?x "
    "FILTER NOT EXISTS { ?x a ?c FILTER(?c IN (prov:Agent, prov:Person, prov:SoftwareAgent)) }",
}


@pytest.fixture
async def told(tmp_path):
    """Calls that a person changed and that failed, versions of a file, notes, memories, recalls, a fork, a run that failed."""
    script = Turns(
        [calls(("write", {"path": "a", "text": "one"}, "w1"), ("write", {"path": "a", "text": "nothing"}, "w2")), {"text": "written"}],
        [
            calls(("write", {"path": "a", "text": "two"}, "w3"), ("pay", {"n": 3}, "p1")),
            {**calls(("remember", {"type": "memory", "key": "k", "content": "the file a is paid"}, "r1")), "text": "paid"},
        ],
        [{"status": 500}],
    )
    agent = causeline.Agent(script, tools=[pay, write], memory={}, recall={"runs": "owner"}, max_retries=0)
    async with causeline.open(f"sqlite:///{tmp_path}/s.db", agents=[agent]) as runtime:
        first = await (await runtime.start(agent, "Write the file a", session="s")).result()
        asked = await (await runtime.start(agent, "Write the file a and pay", session="s")).result()
        decision = {asked.interrupts[0].id: {**causeline.edit({"n": 2}), "by": "Grace"}}
        await (await runtime.answer(asked.run_id, decision)).result()
        await (await runtime.start(agent, "What of the file a that is paid?", session="s")).result()
        await (await runtime.start(agent, "Another way for the file a", session="s", at=first.head)).result()
        yield runtime


async def test_nothing_breaks_a_constraint(told):
    broken = {what: rows for what, pattern in BROKEN.items() if (rows := await told.query(f"SELECT ?x {{ {pattern} }} LIMIT 3"))}
    assert broken == {}
    kinds = {row["k"]["value"] for row in await told.query("SELECT DISTINCT ?k { ?n ns:kind ?k }")}
    assert {"goal", "inference", "tool_call", "tool_result", "resource", "verification", "semantic", "answer"} <= kinds
    used = {row["p"]["value"] for row in await told.query(f"SELECT DISTINCT ?p {{ ?s ?p ?o FILTER(STRSTARTS(STR(?p), '{PROV}')) }}")}
    assert len(used) >= 10
    assert await told.query('ASK { ?run a ns:Run ; ns:status "failed" ; ns:code ?code }')
    assert await told.query("ASK { ?memory ns:cites ?step . ?step a ns:Step }")
