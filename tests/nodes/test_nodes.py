"""The two nodes of a ReAct loop in a graph of one's own."""

from typing import Any

import pytest

import causeline
from causeline import nodes
from causeline.errors import Invalid
from causeline.graph import Dispatcher, Graph, Result
from causeline.models import ScriptedModel

LOOP = "urn:example:loop"
ran: list[str] = []


@causeline.tool
async def lookup(q: str) -> str:
    """Look something up."""
    ran.append(f"lookup {q}")
    return f"found {q}"


@causeline.tool(approval="ask")
async def pay(n: int) -> str:
    """Pay."""
    ran.append(f"pay {n}")
    return f"paid {n}"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def call(name: str, call_id: str = "", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def loop(script: list[dict[str, Any]], **options: Any) -> Dispatcher:
    agent = nodes.react_agent(model=ScriptedModel(script), tools=[lookup, pay], system="Be brief.", **options)
    tools = nodes.tool_exec(tools=[lookup, pay])
    graph = Graph(LOOP).node("agent", agent).node("tools", tools)
    graph.edge("agent", "tools", when="_tool_call_name!=").edge("tools", "agent").entry("main", "agent")
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    return dispatcher


def said(result: Result) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in result.state["messages"]]


async def test_two_tool_turns_leave_a_well_paired_history_and_an_output() -> None:
    script = [{"calls": [call("lookup", q="a"), call("lookup", q="b")]}, {"calls": [call("lookup", q="c")]}, {"text": "all found"}]
    result = await loop(script).execute(LOOP, {"input": "find"})
    assert (result.status, result.state["output"]) == ("completed", "all found")
    assert said(result) == [
        ("user", "find"),
        ("assistant", ""),
        ("tool", "found a"),
        ("tool", "found b"),
        ("assistant", ""),
        ("tool", "found c"),
        ("assistant", "all found"),
    ]
    ids = [entry["id"] for one in result.state["messages"] for entry in one["tool_calls"]]
    assert len(set(ids)) == 3
    assert [one["tool_call_id"] for one in result.state["messages"] if one["role"] == "tool"] == ids


async def test_an_approval_pauses_with_the_finished_sibling_kept_and_runs_once() -> None:
    dispatcher = loop([{"calls": [call("lookup", q="a"), call("pay", n=3)]}, {"text": "done"}])
    paused = await dispatcher.execute(LOOP, {"input": "go"})
    assert (paused.status, ran) == ("interrupted", ["lookup a"])
    assert [one.question["name"] for one in paused.pauses] == ["pay"]
    ended = await dispatcher.resume(LOOP, paused.saved(), answers={paused.pauses[0].key: causeline.approve()})
    assert (ended.status, ended.state["output"], ran) == ("completed", "done", ["lookup a", "pay 3"])


async def test_a_denied_call_gets_its_reason_as_result() -> None:
    dispatcher = loop([{"calls": [call("pay", n=3)]}, {"text": "done"}])
    paused = await dispatcher.execute(LOOP, {"input": "go"})
    ended = await dispatcher.resume(LOOP, paused.saved(), answers={paused.pauses[0].key: causeline.deny("too much")})
    assert said(ended)[2] == ("tool", "This call was not approved: too much")
    assert ran == []


@pytest.mark.parametrize(
    "answer, told",
    [
        ("approve", "decision such as"),
        (True, "decision such as"),
        (1, "decision such as"),
        ({"decision": "yes"}, "decision such as"),
        (causeline.answer("yes"), "approve, deny, edit"),
        (causeline.retry(), "approve, deny, edit"),
        ({"decision": "edit"}, "needs a value"),
        ({"decision": "approve", "value": {"n": 1}}, "takes no value"),
        (causeline.edit({"m": 1}), "Invalid arguments for pay"),
        ({"decision": "approve", "who": "me"}, "unknown fields"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(answer: Any, told: str) -> None:
    dispatcher = loop([{"calls": [call("lookup", q="a"), call("pay", n=3)]}, {"text": "done"}])
    paused = await dispatcher.execute(LOOP, {"input": "go"})
    again = await dispatcher.resume(LOOP, paused.saved(), answers={paused.pauses[0].key: answer})
    assert (again.status, ran, said(again)[2:]) == ("interrupted", ["lookup a"], [])
    assert told in again.pauses[0].question["refused"]
    ended = await dispatcher.resume(LOOP, again.saved(), answers={again.pauses[0].key: causeline.edit({"n": 5})})
    assert (ended.state["output"], ran) == ("done", ["lookup a", "pay 5"])


@pytest.mark.parametrize("answer", [causeline.approve(), causeline.edit({"question": "x"}), causeline.retry()])
async def test_a_question_takes_an_answer_or_a_denial_and_nothing_else_counts_as_one(answer: Any) -> None:
    dispatcher = loop([{"calls": [call("ask_human", question="which?")]}, {"text": "done"}])
    paused = await dispatcher.execute(LOOP, {"input": "go"})
    again = await dispatcher.resume(LOOP, paused.saved(), answers={paused.pauses[0].key: answer})
    assert (again.status, again.pauses[0].question["question"]) == ("interrupted", "which?")
    assert "it takes answer, deny" in again.pauses[0].question["refused"]
    ended = await dispatcher.resume(LOOP, again.saved(), answers={again.pauses[0].key: "this one"})
    assert said(ended)[2] == ("tool", "this one")


async def test_of_several_answers_those_that_fit_count_and_the_others_are_asked_for_again() -> None:
    dispatcher = loop([{"calls": [call("pay", "a", n=1), call("pay", "b", n=2)]}, {"text": "done"}])
    paused = await dispatcher.execute(LOOP, {"input": "go"})
    again = await dispatcher.resume(LOOP, paused.saved(), answers={paused.pauses[0].key: causeline.approve()})
    assert (again.status, ran) == ("interrupted", [])
    assert [question["refused"].split(";")[0] for question in again.pauses[0].question["interrupts"]] == ["2 calls wait for answers"] * 2
    mixed = {"a": causeline.approve(), "b": causeline.answer("yes")}
    again = await dispatcher.resume(LOOP, again.saved(), answers={again.pauses[0].key: mixed})
    assert (ran, [question["tool_call_id"] for question in again.pauses[0].question["interrupts"]]) == (["pay 1"], ["b"])
    ended = await dispatcher.resume(LOOP, again.saved(), answers={again.pauses[0].key: causeline.deny()})
    assert (ended.status, ran) == ("completed", ["pay 1"])


async def test_the_tool_budget_counts_per_turn_and_the_last_call_has_no_tools() -> None:
    dispatcher = loop([{"calls": [call("lookup", q="a")]}, {"text": "enough"}], max_tool_rounds=1)
    result = await dispatcher.execute(LOOP, {"input": "go"})
    assert (result.status, result.state["output"], ran) == ("completed", "enough", ["lookup a"])


def test_wrong_options_are_refused_when_the_node_is_made() -> None:
    with pytest.raises(Invalid, match="tool_approval"):
        nodes.tool_exec(tool_approval="denyy")
    with pytest.raises(Invalid, match="tool_approvall"):
        nodes.react_agent(model="scripted:echo", tool_approvall="deny")


async def test_a_failing_model_fails_the_execution_with_its_error() -> None:
    agent = nodes.react_agent(model=ScriptedModel([{"status": 401}]), max_retries=0)
    graph = Graph(LOOP).node("agent", agent, {"done": "end"}).terminal("end").entry("main", "agent")
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    result = await dispatcher.execute(LOOP, {"input": "go"})
    assert (result.status, result.error and result.error.code) == ("failed", "auth")
