"""The pipeline of the reference: an execution, its reasoning as a stream, statements, and the hint for a later run."""

import json
from pathlib import Path

import pytest

import causeline
from causeline.graph import Dispatcher, Graph, InnerFailed, Outcome, StreamChannel, load, node
from causeline.memory import REASONING_ITEM_KEY, Literal, TripleStore, hint, record_step, trace
from causeline.models import ScriptedModel
from tests.agent.stage import Heard, calls

TRACE = load(Path(__file__).parents[1] / "golden/documents/react-agent-memory-trace.jsonld")
RUN = "urn:noocodec:react-agent-memory:run:r1"
PROV = "urn:noocodec:react-agent-memory:prov#"


@causeline.tool(effects=False)
async def lookup(query: str) -> dict[str, str]:
    """Looks a word up."""
    if query == "broken":
        raise OSError("no such shelf")
    return {"result": f"about {query}"}


ASKS = calls(("lookup", {"query": "tea"}, "a"), ("lookup", {"query": "milk"}, "b"))
STEPS = [
    {"kind": "thought", "text": "planning to invoke a tool"},
    {"kind": "action", "tool": "lookup", "args": {"query": "tea"}},
    {"kind": "action", "tool": "lookup", "args": {"query": "milk"}},
    {"kind": "observation", "output": '{"result":"about tea"}'},
    {"kind": "observation", "output": '{"result":"about milk"}'},
    {"kind": "thought", "text": "Both are drinks."},
    {"kind": "final", "text": "Both are drinks."},
]


def agent_of(script, **options):
    return causeline.Agent(script if isinstance(script, Heard) else ScriptedModel(script), tools=[lookup], **options)


async def taken(producer):
    return [item async for item in StreamChannel.driven(producer)]


async def record(store, source, run="r1", concurrency=None):
    document = TRACE
    if concurrency is not None:
        plain = TRACE.to_json()
        plain["nodes"][0]["execution"] = {"mode": "item", "concurrency": concurrency}
        document = load(plain)
    dispatcher = Dispatcher()
    dispatcher.register(document, [record_step(store, run)])
    return await dispatcher.execute(document.id, {}, sources={"source": source})


def test_the_item_key_is_that_of_the_document():
    (scatter,) = [placement for placement in TRACE.to_json()["nodes"] if placement["@type"] == "ScatterNode"]
    assert scatter["itemKey"] == REASONING_ITEM_KEY


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_every_call_of_a_turn_is_a_step_in_either_document(graph):
    execution = agent_of([ASKS, {"text": "Both are drinks."}], graph=graph).execution("What are they?")
    items = await taken(trace(execution))
    assert [item["step"] for item in items] == STEPS
    assert [item["ordinal"] for item in items] == list(range(7))


async def test_a_run_of_a_runtime_tells_the_same():
    agent = agent_of([ASKS, {"text": "Both are drinks."}])
    async with causeline.open("memory://", agents=[agent]) as runtime:
        items = await taken(trace(await runtime.start(agent, "What are they?")))
    assert [item["step"] for item in items] == STEPS


@pytest.mark.parametrize("concurrency", [None, 1, 8])
async def test_steps_are_recorded_with_the_chain_from_their_ordinals(concurrency):
    store = TripleStore()
    execution = agent_of([ASKS, {"text": "Both are drinks."}], graph="react-flat").execution("What are they?")
    result = await record(store, StreamChannel.driven(trace(execution)), concurrency=concurrency)
    assert result.status == "completed"
    assert [item["step"] for item in result.state["steps"]] == STEPS
    assert store.count() == 3 * 7 + 6
    assert store.select(f"{RUN}:step:2", "?p", "?o", RUN) is not None
    assert {(row["p"].removeprefix(PROV), row["o"]) for row in store.select(f"{RUN}:step:2", "?p", "?o", RUN)} == {
        ("kind", Literal("action")),
        ("value", Literal('lookup({"query": "milk"})')),
        ("wasGeneratedBy", RUN),
        ("wasInformedBy", f"{RUN}:step:1"),
    }
    assert hint(store, "r1") == (
        'Prior reasoning (r1): thought: planning to invoke a tool; action: lookup({"query": "tea"}); action: lookup({"query": "milk"}); '
        'observation: {"result":"about tea"}; observation: {"result":"about milk"}; thought: Both are drinks.; final: Both are drinks.'
    )
    assert hint(store, "r2") == ""


async def test_the_hint_is_put_before_the_next_run_as_data():
    model = Heard([{"text": "ok"}])
    agent = causeline.Agent(model)
    result = await agent.execution("again", recall_hint="Prior reasoning (r1): final: tea")
    assert model.last.recall == "Prior reasoning (r1): final: tea"
    assert result.state["result"]["answer"] == "ok"
    log = result.state["log"]
    going_on = await agent.execution("and again", state=log)
    assert model.last.recall is None
    assert [one.text for one in model.last.messages] == ["again", "ok", "and again"]
    assert going_on.state["log"].nodes[: len(log)] == log.nodes[:]


async def test_a_failure_is_the_last_step_and_fails_the_recording():
    store = TripleStore()
    script = [calls(("lookup", {"query": "broken"}, "a")), {"status": 400, "text": "no more credit"}]
    execution = agent_of(script, max_retries=0).execution("x")
    result = await record(store, StreamChannel.driven(trace(execution)))
    assert result.status == "failed"
    assert result.error.code == "inner_failed"
    told = hint(store, "r1")
    assert told.startswith("Prior reasoning (r1): thought: planning to invoke a tool; action: lookup(")
    assert "observation: " in told
    assert "no such shelf" in told
    assert "; error: " in told
    with pytest.raises(InnerFailed):
        await taken(trace(agent_of([{"status": 400}], max_retries=0).execution("x")))


async def test_nodes_of_ones_own_say_by_their_role_what_they_do():
    @node("urn:t:think", ports=("done",), roles=("thought",))
    def think(ctx):
        return Outcome("done", {"idea": "look at the map"})

    @node("urn:t:act", ports=("done",), roles=("action",))
    def act(ctx):
        return Outcome("done", {"call": {"name": "map", "arguments": {"x": 1}}})

    graph = Graph("urn:t:doc").node("first", think, {"done": "second"}).node("second", act, {"done": "end"}).terminal("end")
    dispatcher = Dispatcher()
    dispatcher.register(graph.entry("main", "first").build(), graph.nodes)
    items = await taken(trace(dispatcher.execute("urn:t:doc", {})))
    assert [item["step"] for item in items] == [
        {"kind": "thought", "text": "look at the map"},
        {"kind": "action", "tool": "map", "args": {"x": 1}},
    ]


@pytest.mark.parametrize(
    "item", [None, {}, {"ordinal": -1, "step": {"kind": "final", "text": "x"}}, {"ordinal": 0, "step": {"kind": "final"}}]
)
async def test_what_is_no_step_is_not_recorded(item):
    store = TripleStore()
    result = await record(store, [json.loads(json.dumps(item)), {"ordinal": 0, "step": {"kind": "final", "text": "x"}}])
    assert result.state.get("steps", [])[-1] == {"ordinal": 0, "step": {"kind": "final", "text": "x"}}
    assert hint(store, "r1") == "Prior reasoning (r1): final: x"


def test_a_chain_that_leads_into_itself_ends():
    store = TripleStore()
    first, second = f"{RUN}:step:0", f"{RUN}:step:1"
    for subject, other in ((first, second), (second, first)):
        store.assert_quads([(subject, PROV + "kind", Literal("final"), RUN), (subject, PROV + "value", Literal("x"), RUN)])
        store.assert_quads([(subject, PROV + "wasInformedBy", other, RUN)])
    assert hint(store, "r1") == "Prior reasoning (r1): final: x; final: x"
