"""Registration: everything is checked, a bundle is taken whole or not at all. And the seed's memory document, run as it is written."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

from pathlib import Path

import pytest

from causeline.errors import Conflict, Invalid, Missing
from causeline.graph import Dispatcher, DocumentError, Graph, Outcome, Step, StreamChannel, load, node
from tests.graph.walking import Recording, counting, dispatcher, run, through_json

DOCUMENTS = Path(__file__).parents[1] / "golden" / "documents"


def single(iri, runs=lambda ctx: "done", **options) -> Graph:
    return Graph(iri, **options).node("work", runs, {"done": "end"}).terminal("end")


def test_a_faulty_document_is_refused_with_every_finding_and_nothing_is_registered():
    graph = (
        Graph("urn:t:bad").node("a", "urn:t:n:unknown", {"done": "nowhere"}).node("lost", "urn:t:n:other", {"done": "end"}).terminal("end")
    )
    made = Dispatcher()
    with pytest.raises(DocumentError) as caught:
        made.register(graph.build())
    codes = {finding.code for finding in caught.value.findings}
    assert {"unknown_node", "dangling_route"} <= codes
    with pytest.raises(Missing):
        made.execute("urn:t:bad")


async def test_a_bundle_may_refer_to_itself_and_is_taken_whole_or_not_at_all():
    parent = (
        Graph("urn:t:parent").embed("inner", "urn:t:child", {"success": "end", "error": "bad"}).terminal("end").terminal("bad", "failed")
    )
    child = single("urn:t:child")
    made = Dispatcher()
    with pytest.raises(DocumentError, match="urn:t:child"):
        made.register(parent.build(), parent.nodes)
    broken = Graph("urn:t:child").node("work", lambda ctx: "done", {"done": "nowhere"}).terminal("end")
    with pytest.raises(DocumentError):
        made.register_all([parent.build(), broken.build()], [*parent.nodes, *broken.nodes])
    with pytest.raises(Missing):
        made.document("urn:t:parent")
    made.register_all([parent.build(), child.build()], child.nodes)
    assert (await made.execute("urn:t:parent")).status == "completed"


def test_the_same_again_changes_nothing_and_something_else_under_a_taken_name_is_refused():
    graph = single("urn:t:one")
    made = dispatcher(graph)
    made.register(graph.build(), graph.nodes)
    with pytest.raises(Conflict, match="version"):
        made.register(single("urn:t:one", version="2").build())
    with pytest.raises(Conflict, match="reducers"):
        made.register(graph.build(), graph.nodes, reducers={"x": "append"})
    other = node("urn:t:one/code/work", ports=("done",))(lambda ctx: "done")
    with pytest.raises(Conflict, match="urn:t:one/code/work"):
        made.register(single("urn:t:two").build(), [other])


@pytest.mark.parametrize("given", ["appnd", max])
def test_an_unknown_reducer_is_refused_with_those_that_are_known(given):
    def append(old, new):
        return new

    with pytest.raises(Invalid, match="override, append, keep, merge" if isinstance(given, str) else "another name"):
        dispatcher(counting(1), reducers={"x": given if isinstance(given, str) else append})


async def test_an_embedded_placement_leaves_its_result_field_at_the_gather():
    child = single("urn:t:child", lambda ctx: Outcome("done", {"deep": {"value": 7}}))
    graph = (
        Graph("urn:t:parent")
        .embed("inner", "urn:t:child", {"success": "join", "error": "join"}, result_field="deep.value")
        .gather("join", ["inner"], "append", {"success": "end", "error": "end", "empty": "end"}, target="got")
        .terminal("end")
    )
    assert (await run(graph, {}, child)).state["got"] == [7]


# -- the seed's pipeline


def agent(fail: bool = False) -> Graph:
    def think(ctx):
        if fail and ctx.state["turns"]:
            raise ConnectionError("no model")
        turns = ctx.state["turns"] + 1
        return Outcome("tools" if turns < 3 else "text", {"turns": turns, "said": f"thought {turns}"})

    return (
        Graph("urn:t:agent")
        .node("call-model", think, {"tools": "collect-results", "text": "end"})
        .node("collect-results", lambda ctx: Outcome("done", {"said": f"observation {ctx.state['turns']}"}), {"done": "call-model"})
        .terminal("end")
    )


async def remember(inner: Graph):
    """The seed's document over an agent's steps, recording into a list that stands for a store."""
    recorded = []

    @node("urn:noocodec:node:record-step", ports=("success", "error"))
    def record(ctx):
        recorded.append((ctx.index, ctx.state["reasoning-step-item"]["text"]))
        return Outcome("success")

    d = dispatcher(inner)
    d.register(load((DOCUMENTS / "react-agent-memory-trace.jsonld").read_bytes()), [record])

    def steps(event):
        return [{"text": event.writes["said"]}] if isinstance(event, Step) and "said" in event.writes else []

    channel = StreamChannel.from_execution(d.execute("urn:t:agent", {"turns": 0}), steps)
    journal = Recording()
    result = await d.execute("urn:noocodec:dag:react-agent-memory-trace", sources={"source": channel}, journal=journal)
    return result, recorded, journal


async def test_the_seeds_memory_document_records_every_turn_of_an_agent():
    result, recorded, journal = await remember(agent())
    said = ["thought 1", "observation 1", "thought 2", "observation 2", "thought 3"]
    assert result.status == "completed"
    assert recorded == list(enumerate(said))
    assert [step["text"] for step in result.state["steps"]] == said
    assert [(step.node, step.port) for step in journal.steps] == [("scatter-steps", "all-success"), ("collect-steps", "success")]
    assert through_json(result.saved())["channels"]["steps"][0] == {"text": "thought 1"}


async def test_an_agent_that_fails_leaves_its_steps_and_is_never_taken_for_finished():
    result, recorded, _ = await remember(agent(fail=True))
    assert (result.status, result.error.code) == ("failed", "inner_failed")
    assert "no model" in result.error.message
    assert [text for _, text in recorded] == ["thought 1", "observation 1"]
