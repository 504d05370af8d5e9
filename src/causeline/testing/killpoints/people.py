"""Scenarios with somebody to ask: approvals, questions, unknown outcomes, the client's own tools, runs below runs, queued runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from causeline.assemble import Agent
from causeline.graph import Graph
from causeline.models.messages import Message
from causeline.models.scripted_model import ScriptedModel
from causeline.nodes import react_agent, tool_exec
from causeline.runtime.interrupts import answer, approve, deny, edit, record
from causeline.runtime.program import GraphProgram, Program
from causeline.runtime.records import Interrupt
from causeline.runtime.runtime import Runtime
from causeline.testing.killpoints.scenarios import SESSION, Scenario, calls, ended, once, tools
from causeline.tools.human import ask_human

PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}
ASKED = {"id": "", "name": "ask_human", "arguments": {"question": "which?"}}


async def asked(runtime: Runtime) -> Sequence[Interrupt]:
    """Every question of the session, answered or not, in the order of asking."""
    return await runtime.store.rows(Interrupt, owner=runtime.owner, session=SESSION)


async def approving(runtime: Runtime, agents: Sequence[Program]) -> None:
    """One approval, then a denial, each in a run of its own."""
    await ended(runtime, agents[0], "go", "r1")
    first, second = (await asked(runtime))[:2]
    await (await runtime.answer("r1", {first.id: approve(by="ada")}, new_run_id="r2")).result()
    await (await runtime.answer("r1", {second.id: deny("no", by="ada")}, new_run_id="r3")).result()


async def editing(runtime: Runtime, agents: Sequence[Program]) -> None:
    """A person changes the arguments of one call, another one approves the second; the name of whoever decides is in the log."""
    await ended(runtime, agents[0], "go", "r1")
    first, second = (await asked(runtime))[:2]
    await (await runtime.answer("r1", {first.id: edit({"n": 7}, by="ada")}, new_run_id="r2")).result()
    await (await runtime.answer("r1", {second.id: approve(by="bob")}, new_run_id="r3")).result()


async def questioning(runtime: Runtime, agents: Sequence[Program]) -> None:
    await ended(runtime, agents[0], "go", "r1")
    (question,) = await asked(runtime)
    await (await runtime.answer("r1", {question.id: answer("the blue one")}, new_run_id="r2")).result()


async def wondering(runtime: Runtime, agents: Sequence[Program]) -> None:
    """Whatever is of unknown outcome is recorded by hand."""
    result = await ended(runtime, agents[0], "go", "r1")
    if result.status == "interrupted":
        decisions = {one.id: record("seen to", by="ada") for one in await asked(runtime) if one.run in ("r1", "r2")}
        await (await runtime.answer("r1", decisions, new_run_id="r2")).result()


async def picking(runtime: Runtime, agents: Sequence[Program]) -> None:
    """The client executes two calls and brings one result at a time."""
    result = await ended(runtime, agents[0], "go", "r1", tools=[PICK])
    for index, call in enumerate(result.pending_tool_call_ids):
        await ended(runtime, agents[0], [Message("tool", f"picked {index}", tool_call_id=call)], f"r{index + 2}", tools=[PICK])


async def queueing(runtime: Runtime, agents: Sequence[Program]) -> None:
    runs = [
        await runtime.start(agents[0], text, session=SESSION, run_id=name, on_busy="enqueue")
        for name, text in (("r1", "one"), ("r2", "two"))
    ]
    for run in runs:
        await run.result()


def delegating(effects: Path) -> Sequence[Program]:
    helper = Agent(ScriptedModel([calls("write", "put"), {"text": "helped"}]), name="helper", tools=tools(effects))
    ask = {"calls": [{"id": "", "name": "helper", "arguments": {"prompt": "help"}}, {"id": "", "name": "write", "arguments": {"n": 9}}]}
    own = [helper.as_tool("helper", "Helps."), *tools(effects)]
    return [Agent(ScriptedModel([ask, calls("look"), {"text": "done"}]), name="outer", tools=own), helper]


def supervised(effects: Path) -> Sequence[Program]:
    """Two agents below another one; what one of them does has to be approved."""
    gated = Agent(
        ScriptedModel([calls("alone", "write"), {"text": "helped"}]), name="gated", tools=tools(effects), tool_approval={"alone": "ask"}
    )
    free = Agent(ScriptedModel([calls("write", start=20), {"text": "helped too"}]), name="free", tools=tools(effects))
    ask = [{"id": "", "name": name, "arguments": {"prompt": "help"}} for name in ("gated", "free")]
    reply = {"calls": [*ask, *calls("write", start=9)["calls"]]}
    own = [gated.as_tool("gated", "Helps."), free.as_tool("free", "Helps."), *tools(effects)]
    return [Agent(ScriptedModel([reply, calls("look"), {"text": "done"}]), name="outer", tools=own), gated, free]


async def supervising(runtime: Runtime, agents: Sequence[Program]) -> None:
    await ended(runtime, agents[0], "go", "r1")
    (question,) = await asked(runtime)
    await (await runtime.answer("r1", {question.id: approve(by="ada")}, new_run_id="r2")).result()


def questioner(effects: Path) -> Sequence[Program]:
    reply = {"calls": [ASKED, *calls("write", "put")["calls"]]}
    return [Agent(ScriptedModel([reply, calls("write", start=5), {"text": "done"}]), tools=[ask_human, *tools(effects)])]


def two_agents(effects: Path) -> Sequence[Program]:
    """Two agents side by side in one document, whose models give their calls the same ids."""
    graph = Graph("urn:sweep:dag:two-agents")
    for side, rounds in (("left", 2), ("right", 1)):
        keys = {"messages_key": f"{side}_messages", "tool_call_key": f"{side}_call"}
        replies: list[dict[str, Any]] = [dict(calls("write", "look", start=place)) for place in range(rounds)]
        for reply in replies:
            reply["calls"] = [{**call, "id": f"c{n}"} for n, call in enumerate(reply["calls"])]
        script = [*replies, {"text": f"{side} is done"}]
        own = tools(effects)
        agent = react_agent(iri=f"urn:sweep:{side}:agent", model=ScriptedModel(script), tools=own, output_key=f"{side}_output", **keys)
        graph.node(f"{side}-agent", agent).node(f"{side}-tools", tool_exec(iri=f"urn:sweep:{side}:tools", tools=own, **keys))
        graph.edge(f"{side}-agent", f"{side}-tools", when=f"{side}_call!=").edge(f"{side}-tools", f"{side}-agent")
        graph.entry(side, f"{side}-agent")
    return [GraphProgram(graph.build(), graph.nodes, name="two-agents")]


def two_nodes(effects: Path) -> Sequence[Program]:
    """The two nodes in a graph of one's own: calls side by side, and one that a person has to approve."""
    own = tools(effects)
    script = [calls("write", "look", "alone", "alone"), calls("write", "look", start=5), {"text": "done"}]
    agent = react_agent(model=ScriptedModel(script), tools=own, tool_approval={"alone": "ask"})
    graph = Graph("urn:sweep:dag:two-nodes").node("agent", agent).node("tools", tool_exec(tools=own))
    graph.edge("agent", "tools", when="_tool_call_name!=").edge("tools", "agent").entry("main", "agent")
    return [GraphProgram(graph.build(), graph.nodes, name="two-nodes")]


GATED: Mapping[str, Any] = {"tool_approval": {"alone": "ask"}}
_SCRIPT = [calls("write", "alone", "alone"), calls("write", start=3), {"text": "done"}]
PEOPLE = (
    Scenario("approval", [_SCRIPT], approving, GATED),
    Scenario("flat-approval", [_SCRIPT], approving, {**GATED, "graph": "react-flat"}),
    Scenario("edited-approval", [_SCRIPT], editing, GATED),
    Scenario("question", (), questioning, programs=questioner),
    Scenario("client-tool", [[calls("pick", "write", "pick"), calls("write", start=5), {"text": "done"}]], picking),
    Scenario(
        "flat-client-tool", [[calls("pick", "write", "pick"), calls("write", start=5), {"text": "done"}]], picking, {"graph": "react-flat"}
    ),
    Scenario("unknown-ask", [[calls("risk", "look"), {"text": "done"}]], wondering),
    Scenario("two-nodes-approval", (), approving, programs=two_nodes),
    Scenario("two-agents", (), once, programs=two_agents, branches=True),
    Scenario("sub-run", (), once, programs=delegating),
    Scenario("sub-run-approval", (), supervising, programs=supervised),
    Scenario("enqueue", [[calls("write", "look"), {"text": "done"}]], queueing),
)
