"""The eight nodes of the seed's document outside an agent: it runs as it is, their hooks can be overridden, and its reasoning is traced."""

from dataclasses import replace
from pathlib import Path

import pytest

import causeline
from causeline import nodes
from causeline.graph import Dispatcher, StreamChannel
from causeline.memory import InnerFailed, TripleStore, hint, record_step, trace
from causeline.models import ScriptedModel
from causeline.nodes import pipeline
from tests.agent.stage import Heard, calls


@causeline.tool(effects=False)
async def lookup(query: str) -> str:
    """Looks up."""
    if query == "nothing":
        raise ValueError("there is nothing")
    return f"found {query}"


DOCUMENTS = Path(__file__).parents[1] / "golden" / "documents"
AGENT = causeline.graph.load(DOCUMENTS / "react-agent.jsonld")
FIRST = calls(("lookup", {"query": "a"}, "c1"), ("lookup", {"query": "b"}, "c2"))
ROUND = [FIRST, calls(("lookup", {"query": "c"}, "c3")), {"text": "Done."}]


def execution(script, **options):
    model = Heard(script) if isinstance(script, list) else script
    documents, tool_nodes = nodes.tool_documents([lookup])
    dispatcher = Dispatcher()
    dispatcher.register_all([AGENT, *documents], [*pipeline.nodes(model, tools=[lookup], **options), *tool_nodes])
    return model, dispatcher.execute(AGENT.id, {"prompt": "Find a, b and c"})


async def test_several_turns_and_several_calls_each_with_its_own_result():
    model, walk = execution(ROUND, system="Be brief.")
    result = await walk
    assert (result.status, result.state["output"]) == ("completed", "Done.")
    assert [(one["role"], one["content"]) for one in result.state["messages"]] == [
        ("user", "Find a, b and c"), ("assistant", ""), ("tool", "found a"), ("tool", "found b"),
        ("assistant", ""), ("tool", "found c"), ("assistant", "Done."),
    ]  # fmt: skip
    assert [request.system for request in model.requests] == ["Be brief."] * 3
    assert model.faults == []


async def test_a_call_of_an_unknown_tool_and_one_that_fails_are_told_to_the_model():
    model, walk = execution([calls(("nope", {}, "c1"), ("lookup", {"query": "nothing"}, "c2")), {"text": "I see."}])
    assert (await walk).state["output"] == "I see."
    results = [message for message in model.last.messages if message.role == "tool"]
    assert [message.is_error for message in results] == [True, True]
    assert "nope" in results[0].text
    assert "there is nothing" in results[1].text


async def test_hooks_are_overridden_by_subclasses():
    class Cool(pipeline.CallModel):
        def get_request(self, ctx):
            return replace(super().get_request(ctx), temperature=0.5)

    class Loud(pipeline.AppendAssistant):
        def append(self, ctx, text):
            return super().append(ctx, text.upper())

    pieces = []
    model, walk = execution([{"text": "Hello."}], call_model=Cool, append_assistant=Loud, sink=pieces.append)
    assert (await walk).state["output"] == "HELLO."
    assert model.last.temperature == 0.5
    assert "".join(pieces) == "Hello."
    with pytest.raises(TypeError, match="no node is called call_modle"):
        pipeline.nodes(ScriptedModel([]), call_modle=Cool)


async def test_a_hook_that_fails_leaves_by_error_and_says_which():
    class Broken(pipeline.BuildRequest):
        def build_request(self, ctx, messages):
            raise ValueError("no request today")

    _, walk = execution([{"text": "x"}], build_request=Broken)
    result = await walk
    assert (result.status, result.state["error"]) == (
        "failed", {"code": "ValueError", "message": "no request today", "node": "build-request"},
    )  # fmt: skip


async def test_calls_written_as_text_are_decoded():
    envelope = '{"tool_calls": [{"name": "lookup", "arguments": {"query": "a"}}]}'
    _, walk = execution([{"text": envelope}, {"text": "Done."}])
    result = await walk
    assert [one["content"] for one in result.state["messages"] if one["role"] == "tool"] == ["found a"]


async def test_its_reasoning_is_traced_recorded_and_told():
    _, walk = execution(ROUND)
    store = TripleStore()
    document = causeline.graph.load(DOCUMENTS / "react-agent-memory-trace.jsonld")
    recorder = Dispatcher()
    recorder.register(document, [record_step(store, "run-1")])
    await recorder.execute(document.id, {}, sources={"source": StreamChannel.driven(trace(walk))})
    assert hint(store, "run-1") == (
        'Prior reasoning (run-1): thought: planning to invoke a tool; action: lookup({"query": "a"}); action: lookup({"query": "b"}); '
        'observation: found a; observation: found b; thought: planning to invoke a tool; action: lookup({"query": "c"}); '
        "observation: found c; thought: Done.; final: Done."
    )


async def test_a_model_that_fails_is_traced_as_a_failure():
    _, walk = execution(ScriptedModel([{"status": 500}]))
    steps = trace(walk)()
    assert (await anext(steps))["step"]["kind"] == "error"
    with pytest.raises(InnerFailed):
        await anext(steps)
