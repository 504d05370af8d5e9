"""react-flat: the twelve placements of the reference document, run on the same functions as the compact one."""

import json
from pathlib import Path
from typing import Any

import pytest

import causeline
from causeline.agent.react.flat import UNKNOWN, flat_document
from causeline.graph import load
from causeline.models import ScriptedModel

SEED = Path(__file__).parents[1] / "golden" / "documents" / "react-agent.jsonld"
running: list[str] = []
overlaps: list[tuple[str, ...]] = []


@causeline.tool
async def lookup(query: str) -> str:
    """Look something up."""
    return f"found {query}"


@causeline.tool(exclusive=True)
async def write(text: str) -> int:
    """Write something, alone."""
    running.append(text)
    overlaps.append(tuple(running))
    running.remove(text)
    return len(text)


@causeline.tool
async def broken() -> str:
    """Always fails."""
    raise RuntimeError("no luck")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": "", "name": name, "arguments": arguments}


SCRIPT = [
    {"text": "first two", "calls": [call("lookup", query="a"), call("write", text="x"), call("write", text="yy"), call("nowhere")]},
    {"calls": [call("lookup", query="b"), call("broken")]},
    {"text": "all done"},
]
TOOLS = [lookup, write, broken]


async def log_of(graph: Any, script: list[dict[str, Any]], **options: Any) -> tuple[causeline.RunResult, list[Any], list[str]]:
    agent = causeline.Agent(ScriptedModel(script), tools=TOOLS, system="Be brief.", graph=graph, **options)
    async with causeline.open("memory://", agents=[agent]) as runtime:
        result = await (await runtime.start(agent, "go", session="s", run_id="r")).result()
        branch = await runtime.branch("s")
        steps = [one.node for one in await runtime.checkpoints("s")]
    return result, [(node.kind, node.payload) for node in branch.state.nodes], steps


def test_its_document_is_the_reference_document_but_for_the_tools() -> None:
    seed, own = load(SEED).plain, flat_document().plain
    scatter = next(one for one in seed["nodes"] if one["name"] == "dispatch-tools")
    assert scatter["body"]["dag"]["candidates"] == ["urn:noocodec:tool:lookup"]
    changed = json.loads(json.dumps(seed).replace('["urn:noocodec:tool:lookup"]', f'["{UNKNOWN}"]'))
    assert own == changed


@pytest.mark.parametrize("graph", ["react-flat", SEED, load(SEED)], ids=["built in", "a path", "a document"])
async def test_two_tool_turns_write_the_same_log_as_the_compact_document(graph: Any) -> None:
    compact, log, _ = await log_of("react", SCRIPT)
    flat, own, steps = await log_of(graph if not isinstance(graph, Path) else str(graph), SCRIPT)
    assert (flat.status, flat.answer) == (compact.status, compact.answer) == ("succeeded", "all done")
    kinds = [
        "system",
        "goal",
        "inference",
        *["tool_call"] * 4,
        *["tool_result"] * 4,
        "inference",
        *["tool_call"] * 2,
        *["tool_result"] * 2,
        "inference",
        "answer",
    ]
    assert [kind for kind, _ in own] == [kind for kind, _ in log] == kinds
    results = [payload["result"] for kind, payload in own if kind == "tool_result"]
    assert results[:3] == ["found a", 1, 2]
    assert results[4] == "found b"
    assert [payload["ok"] for kind, payload in own if kind == "tool_result"] == [True, True, True, False, True, False]
    assert steps.count("dispatch-tools") == 2


async def test_results_of_a_turn_are_gone_in_the_next() -> None:
    agent = causeline.Agent(ScriptedModel(SCRIPT), tools=TOOLS, graph="react-flat")
    async with causeline.open("memory://", agents=[agent]) as runtime:
        await (await runtime.start(agent, "go", session="s")).result()
        joined = [one.delta["toolOutputs"]["value"] for one in await runtime.checkpoints("s") if one.node == "join-tool-results"]
    assert [len(value) for value in joined] == [4, 2]


async def test_exclusive_tools_run_one_by_one() -> None:
    overlaps.clear()
    await log_of("react-flat", SCRIPT)
    assert overlaps == [("x",), ("yy",)]


async def test_a_model_failure_in_the_second_turn_fails_the_run_and_keeps_the_first() -> None:
    script = [{"calls": [call("lookup", query="a")]}, {"status": 401}]
    result, log, steps = await log_of("react-flat", script)
    assert (result.status, result.stop_reason) == ("failed", "model_error")
    assert [kind for kind, _ in log].count("tool_result") == 1
    assert steps[-1] == "call-model"


@pytest.mark.parametrize("text", ["", "  "])
async def test_an_empty_reply_is_asked_for_once_more_and_then_ends_in_failure(text: str) -> None:
    result, log, steps = await log_of("react-flat", [{"text": text}, {"text": text}, {"text": "too late"}])
    assert (result.status, result.stop_reason) == ("failed", "model_error")
    assert ([kind for kind, _ in log].count("inference"), log[-1][0], steps.count("call-model")) == (2, "protocol_error", 1)


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_replies_that_cannot_be_used_are_asked_for_again_in_both_documents(graph: str) -> None:
    script = [{"text": ""}, {"calls": [call("lookup", query="a")]}, {"text": "no JSON"}, {"text": '{"n": "x"}'}, {"text": '{"n": 1}'}]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = causeline.Agent(ScriptedModel(script), tools=[lookup], graph=graph, response_format=schema)
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, "go", session="s", run_id="r")
        result = await run.result()
        assert (result.status, result.answer) == ("succeeded", {"n": 1})
        log = (await runtime.branch("s")).state.nodes
        assert [node.payload["code"] for node in log if node.kind == "protocol_error"] == [
            "empty_reply",
            "invalid_output",
            "invalid_output",
        ]
        inferences = [node for node in log if node.kind == "inference"]
        faults = [node.id for node in log if node.kind == "protocol_error"]
        assert [fault in inferences[place].parents for fault, place in zip(faults, (1, 3, 4), strict=True)] == [True] * 3
        told = [event["message_id"] for event in await runtime.stored_events("r") if event["type"] == "text_message_start"]
        spoken = [one.id for one in await runtime.messages("s") if one.role == "assistant" and one.text]
        assert told == spoken
        assert (await (await runtime.start(agent, "again", session="s")).result()).status == "succeeded"


async def test_tools_that_ask_pause_inside_the_scatter_and_run_once() -> None:
    paid: list[int] = []

    @causeline.tool(approval="ask")
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    model = ScriptedModel([{"calls": [call("lookup", query="a"), call("pay", amount=1), call("pay", amount=2)]}, {"text": "paid"}])
    agent = causeline.Agent(model, tools=[lookup, pay], graph="react-flat")
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, "go", session="s")
        paused = await run.result()
        assert (paused.status, len(paused.interrupts), paid) == ("interrupted", 2, [])
        first, second = paused.interrupts
        once = await (await runtime.answer(run.id, {second.id: causeline.approve()})).result()
        assert (once.status, [one.id for one in once.interrupts], paid) == ("interrupted", [first.id], [2])
        ended = await (await runtime.answer(run.id, {first.id: causeline.deny("enough")})).result()
        assert (ended.status, ended.answer, paid) == ("succeeded", "paid", [2])
        results = [one.content for one in await runtime.messages("s") if one.role == "tool"]
    assert results == ["found a", "This call was not approved: enough", "paid 2"]


async def test_every_result_is_told_of_as_a_message_of_its_own() -> None:
    agent = causeline.Agent(ScriptedModel(SCRIPT), tools=TOOLS, graph="react-flat")
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, "go")
        told = [event["message_id"] async for event in run.events() if event["type"] == "tool_call_result"]
    assert len(told) == len(set(told)) == 6
