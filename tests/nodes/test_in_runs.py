"""The two nodes in runs of a runtime: ledger, log, events, answers and facts, as an Agent has them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import causeline
from causeline import nodes
from causeline.adapters.stores.in_memory_items import InMemoryItems
from causeline.causal import verify_export
from causeline.errors import Invalid
from causeline.graph import Dispatcher, Graph
from causeline.memory import MemoryStore
from causeline.memory.long_term import LongTermMemory
from causeline.tools import ask_human
from tests.agent.stage import Heard, Ran, Stage, calls

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


def program(model: Any, agent: dict[str, Any] | None = None, tools: dict[str, Any] | None = None, **more: Any) -> causeline.GraphProgram:
    given = [lookup, pay, ask_human]
    speaker = nodes.react_agent(model=model, tools=given, **{"system": "Be brief.", **(agent or {})})
    graph = Graph("urn:example:loop").node("agent", speaker).node("tools", nodes.tool_exec(tools=given, **(tools or {})))
    graph.edge("agent", "tools", when="_tool_call_name!=").edge("tools", "agent").entry("main", "agent")
    return causeline.GraphProgram(graph.build(), graph.nodes, name="loop", **more)


@asynccontextmanager
async def staged(script: Any, **options: Any) -> AsyncIterator[Stage]:
    model = Heard(script)
    loop = program(model, **options)
    async with causeline.open("memory://", agents=[loop]) as runtime:
        yield Stage(runtime, loop, model)  # type: ignore[arg-type]
    assert model.faults == []


async def test_a_turn_is_in_log_history_events_and_facts() -> None:
    async with staged([calls(("lookup", {"q": "a"}, "c1"), text="Let me see."), {"text": "found it"}]) as s:
        done: Ran = await s.run("find a")
        log = await s.log()
        messages = await s.runtime.messages("s")
        rows = await s.runtime.calls(done.run_id)
        verify_export(await s.runtime.export("s"))
    assert (done.status, done.stop_reason, done.answer) == ("succeeded", "answered", "found it")
    assert [node.kind for node in log.nodes] == ["system", "goal", "inference", "tool_call", "tool_result", "inference", "answer"]
    assert log.nodes[2].parents == (log.nodes[1].id,)
    assert log.nodes[5].parents == (log.nodes[4].id,)
    assert [(one.role, one.text) for one in messages] == [
        ("user", "find a"),
        ("assistant", "Let me see."),
        ("tool", "found a"),
        ("assistant", "found it"),
    ]
    told = done.told("text_message_start", "tool_call_result")
    assert [event["message_id"] for event in told] == [one.id for one in messages[1:]]
    assert [(row.call.call_id, row.call.state) for row in rows] == [("c1", "succeeded")]
    assert done.usage["output_tokens"] > 0
    assert done.state["messages"][-1]["content"] == "found it"
    assert [request.system for request in s.model.requests] == ["Be brief."] * 2


async def test_a_second_turn_goes_on_with_the_whole_history() -> None:
    async with staged([{"text": "one"}]) as s:
        await s.run("first")
        await s.run("second")
    assert [(one.role, one.text) for one in s.model.last.messages] == [("user", "first"), ("assistant", "one"), ("user", "second")]


async def test_approvals_questions_and_edits_are_answered_by_runs_of_their_own() -> None:
    script = [
        calls(("pay", {"n": 1}, "p1"), ("lookup", {"q": "x"}, "l"), ("pay", {"n": 9}, "p2"), ("ask_human", {"question": "who?"}, "q")),
        {"text": "done"},
    ]
    async with staged(script) as s:
        asked = await s.run("go")
        kinds = {one.tool_call_id: (one.kind, one.name, one.arguments) for one in asked.interrupts}
        first = await s.answer(asked, {"p1": causeline.approve(), "q": causeline.answer("Ann")})
        with pytest.raises(Invalid, match="n"):
            await s.answer(first, {"p2": causeline.edit({"n": "much"})})
        done = await s.answer(first, {"p2": causeline.edit({"n": 2})})
        said = [(one.tool_call_id, one.text) for one in s.model.last.messages if one.role == "tool"]
    assert kinds == {
        "p1": ("approval", "pay", {"n": 1}),
        "p2": ("approval", "pay", {"n": 9}),
        "q": ("question", "ask_human", {"question": "who?"}),
    }
    assert (asked.status, first.status, done.status, done.answer) == ("interrupted", "interrupted", "succeeded", "done")
    assert ran == ["lookup x", "pay 1", "pay 2"]
    assert [name for name, _ in said] == ["p1", "l", "p2", "q"]
    assert dict(said)["q"] == "Ann"
    assert "changed" in dict(said)["p2"]


@pytest.mark.parametrize(
    "agent, tools",
    [
        ({"tool_approval": "deny"}, {}),
        ({}, {"tool_approval": "deny"}),
        ({"tool_approval": {"pay": "deny"}}, {"tool_approval": "ask"}),
        ({"tool_approval": lambda _name, args: args["n"] < 1}, {}),
    ],
)
async def test_the_stricter_policy_of_both_nodes_holds(agent: Any, tools: Any) -> None:
    async with staged([calls(("pay", {"n": 3}, "p")), {"text": "done"}], agent=agent, tools=tools) as s:
        done = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert (done.status, ran, result.payload["ok"]) == ("succeeded", [], False)


async def test_the_agent_node_s_other_tool_options_reach_the_tools_node() -> None:
    @causeline.tool
    async def slow() -> str:
        """Slow."""
        raise AssertionError("never")

    agent = nodes.react_agent(model=Heard([calls(("slow", {}, "a"))]), tools=[slow], tool_error_mode="raise", tool_retries=1)
    graph = (
        Graph("urn:example:raise")
        .node("agent", agent)
        .node("tools", nodes.tool_exec(tools=[slow], tool_error_mode="raise"), {"done": "agent", "error": "bad"})
    )
    graph.edge("agent", "tools", when="_tool_call_name!=").terminal("bad", "failed").entry("main", "agent")
    loop = causeline.GraphProgram(graph.build(), graph.nodes, name="raise")
    async with causeline.open("memory://", agents=[loop]) as runtime:
        ended = await (await runtime.start(loop, "go")).result()
    assert (ended.status, ended.stop_reason) == ("failed", "tool_error")


async def test_a_model_that_fails_ends_the_run_with_its_reason() -> None:
    async with staged([{"status": 401}], agent={"max_retries": 0}) as s:
        done = await s.run("go")
    assert (done.status, done.stop_reason, done.error["code"]) == ("failed", "model_error", "auth")


async def test_an_answer_of_the_wrong_shape_is_asked_for_again_within_the_visit() -> None:
    script = [{"text": "warm"}, {"text": '{"high": 21}'}]
    schema = {"type": "object", "properties": {"high": {"type": "integer"}}, "required": ["high"]}
    async with staged(script, agent={"response_format": schema}) as s:
        done = await s.run("go")
        log = await s.log()
        ids = [one.id for one in await s.runtime.messages("s") if one.role == "assistant"]
    assert (done.answer, done.state["output"]) == ({"high": 21}, {"high": 21})
    assert [node.kind for node in log.nodes if node.kind != "system"] == ["goal", "inference", "protocol_error", "inference", "answer"]
    assert [event["message_id"] for event in done.told("text_message_start")] == ids


async def test_a_graph_takes_no_tools_of_the_client() -> None:
    async with staged([{"text": "x"}]) as s:
        with pytest.raises(Invalid, match="no tools of the client"):
            await s.run("go", tools=[{"name": "pick", "parameters": {"type": "object"}}])


async def test_every_turn_reaches_an_agent_that_keeps_its_history_elsewhere() -> None:
    keys = {"messages_key": "talk", "input_key": "question"}
    async with staged([{"text": "one"}], agent=keys, tools={"messages_key": "talk"}, input_key="question") as s:
        await s.run("first")
        second = await s.run("second")
    assert [one.text for one in s.model.last.messages] == ["first", "one", "second"]
    assert second.state["question"] == "second"


async def test_the_answer_is_this_run_s_own() -> None:
    silent = causeline.graph.node("urn:example:silent", ("done",))(lambda _: "done")
    graph = Graph("urn:example:silence").node("silent", silent, {"done": "end"}).terminal("end").entry("main", "silent")
    quiet = causeline.GraphProgram(graph.build(), graph.nodes, name="quiet")
    async with staged([{"text": "one"}]) as s:
        await s.run("first")
        assert (await s.run("second", agent=quiet)).answer is None  # type: ignore[arg-type]


async def test_what_memory_has_is_before_the_model_in_every_round_and_a_cause_of_the_replies() -> None:
    async with staged(
        [calls(("lookup", {"q": "a"}, "c1")), {"text": "Green."}], agent={"memory": {"namespace": ["users", "{{ owner }}"]}}
    ) as s:
        kept = s.runtime.room.store.memory()
        await LongTermMemory(kept).put(("users", "default"), "tea", "Ada likes green tea")
        done: Ran = await s.run("Which tea?")
        log, state = await s.log(), done.state
        again: Ran = await s.run("And the weather in Paris?")
        nodes_then = (await s.log()).nodes
    assert [request.memory for request in s.model.requests] == ["Relevant memories:\n- Ada likes green tea"] * 2 + [None] * 2
    (goal,), (memory,) = ([node for node in log.nodes if node.kind == kind] for kind in ("goal", "resource"))
    assert memory.resource_key == f"memory:{goal.id}"
    assert memory.parents == (goal.id,)
    replies = [node for node in log.nodes if node.kind == "inference"]
    assert [memory.id in reply.parents for reply in replies] == [True, True]
    assert memory in log.why(log.nodes[-1].id)
    assert memory.id not in log.frontier
    assert all("green" not in message["content"] for message in state["messages"] if message["role"] != "assistant")
    assert len(done.told("memory_recalled")) == len(again.told("memory_recalled")) == 1
    assert [node.payload["value"]["text"] for node in nodes_then if node.kind == "resource"][1] == ""


async def test_a_memory_that_fails_fails_no_run_of_a_graph() -> None:
    class Broken(LongTermMemory):
        async def search(self, *_: Any, **__: Any) -> Any:
            raise OSError("gone")

    async with staged([{"text": "fine"}], agent={"memory": {"store": Broken(InMemoryItems())}}) as s:
        done: Ran = await s.run("tea")
    assert (done.status, done.told("memory_recalled")[0]["error"]) == ("succeeded", {"code": "OSError", "message": "gone"})


async def test_a_dispatcher_alone_asks_a_memory_of_its_own(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    async with MemoryStore.open(url, owner="ada") as memory:
        await memory.put(("memories",), "tea", "Ada likes green tea")
        model = Heard([{"text": "Green."}])
        speaker = nodes.react_agent(model=model, memory={"store": memory})
        graph = Graph("urn:example:one").node("agent", speaker).entry("main", "agent")
        dispatcher = Dispatcher()
        dispatcher.register(graph.build(), graph.nodes)
        result = await dispatcher.execute("urn:example:one", {"input": "Which tea?"})
    assert (result.status, result.state["output"]) == ("completed", "Green.")
    assert model.last.memory == "Relevant memories:\n- Ada likes green tea"
    with pytest.raises(Invalid, match="memory"):
        nodes.tool_exec(tools=[], memory={"store": memory})


async def test_two_agents_side_by_side_have_calls_messages_and_policies_of_their_own() -> None:
    """Their models give their calls the same ids."""
    graph = Graph("urn:example:pair")
    for side, n in (("left", 1), ("right", 2)):
        keys = {"messages_key": f"{side}_messages", "tool_call_key": f"{side}_call"}
        model = Heard([calls(("lookup", {"q": side}, "c1"), ("pay", {"n": n}, "c2")), {"text": f"{side} done"}])
        mode = {"pay": "auto"} if side == "left" else {"pay": "deny"}
        speaker = nodes.react_agent(
            iri=f"urn:t:{side}", model=model, tools=[lookup, transfer], output_key=f"{side}_said", tool_approval=mode, **keys
        )
        graph.node(f"{side}-agent", speaker)
        graph.node(f"{side}-tools", nodes.tool_exec(iri=f"urn:t:{side}:tools", tools=[lookup, transfer], **keys))
        graph.edge(f"{side}-agent", f"{side}-tools", when=f"{side}_call!=").edge(f"{side}-tools", f"{side}-agent")
        graph.entry(side, f"{side}-agent")
    pair = causeline.GraphProgram(graph.build(), graph.nodes, name="pair")
    async with causeline.open("memory://", agents=[pair]) as runtime:
        run = await runtime.start(pair, "go", session="s", run_id="r")
        result = await run.result()
        assert (result.status, result.state["left_said"], result.state["right_said"]) == ("succeeded", "left done", "right done")
        rows = await runtime.calls("r")
        assert sorted((row.name, row.state) for row in rows) == [
            ("lookup", "succeeded"), ("lookup", "succeeded"), ("pay", "denied"), ("pay", "succeeded"),
        ]  # fmt: skip
        assert len({row.call_id for row in rows}) == len({row.call.idempotency_key for row in rows}) == 4
        assert sorted(ran) == ["lookup left", "lookup right", "pay 1"]
        events = await runtime.stored_events("r")
        begun = [event["message_id"] for event in events if event["type"] == "text_message_start"]
        history = await runtime.messages("s")
        assert sorted(begun) == sorted(message.id for message in history if message.role == "assistant" and message.text)
        asks = {call.id: message.id for message in history for call in message.tool_calls}
        assert {event["tool_call_id"]: event["message_id"] for event in events if event["type"] == "tool_call_start"} == asks
        results = {message.tool_call_id: message.id for message in history if message.role == "tool"}
        assert {event["tool_call_id"]: event["message_id"] for event in events if event["type"] == "tool_call_result"} == results
        tokens = [row.facts.get("usage") for row in await runtime.checkpoints("s") if row.node.endswith("agent")]
        assert all(tokens), "what a step used stands with that step"


@causeline.tool(name="pay")
async def transfer(n: int) -> str:
    """Pays."""
    ran.append(f"pay {n}")
    return f"paid {n}"
