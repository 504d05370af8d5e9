"""What was tried again is told, counted in the call's row, and among the facts of its step; a takeover leaves a trace."""

import asyncio

import pytest

import causeline
from causeline.graph import Graph, Outcome, RetryPolicy, node
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime import GraphProgram
from tests.runtime.processes import append, die, ended, lines, spawn
from tests.runtime.scenes import GRAPHS, asks, runtime, store_at, told


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("effects", [True, False])
async def test_attempts_of_a_tool_are_told_counted_and_recorded(tmp_path, graph, effects):
    tries = []

    @causeline.tool(retries=1, effects=effects)
    async def flaky(n: int, context: causeline.ToolContext) -> str:
        """Fails once."""
        tries.append(context.attempt)
        if len(tries) < 2:
            raise ValueError
        return "ok"

    agent = causeline.Agent(ScriptedModel([asks(("flaky", {"n": 1}, "a")), {"text": "done"}]), tools=[flaky], graph=graph)
    async with runtime(store_at("memory", tmp_path), agent) as rt:
        run = await rt.start(agent, "go", session="s")
        events = [event for event in await told(run) if event["type"] == "tool_retry"]
        assert [(one["tool_call_id"], one["attempt"], one["wait"], one["code"]) for one in events] == [("a", 1, 0.25, "ValueError")]
        (row,) = await rt.calls(run.id)
        assert (row.attempts, tries) == (2, [1, 2])
        facts = [one for point in await rt.checkpoints("s") for one in point.facts.get("attempts", ())]
        assert facts == [{"call_id": "a", "n": 1, "code": "ValueError", "wait": 0.25}]


async def test_attempts_of_a_model_are_told_and_recorded(tmp_path):
    script = [{"text": "done", "status": 429, "headers": {"retry-after": "0.01"}, "times": 1}]
    agent = causeline.Agent(ScriptedModel(script), max_retries=2)
    async with runtime(store_at("memory", tmp_path), agent) as rt:
        run = await rt.start(agent, "go", session="s")
        (event,) = [event for event in await told(run) if event["type"] == "model_retry"]
        assert event["attempt"] == 1
        assert event["wait"] > 0
        (fact,) = [one for point in await rt.checkpoints("s") for one in point.facts.get("attempts", ())]
        assert (fact["n"], fact["code"], fact["wait"]) == (1, event["code"], event["wait"])


async def test_attempts_of_a_node_are_told_and_recorded(tmp_path):
    tries = []

    @node("urn:test:flaky", ("done",))
    def flaky(ctx):
        tries.append(ctx.attempt)
        if len(tries) < 3:
            raise ValueError
        return Outcome("done", {"result": {"answer": "ok"}})

    retry = RetryPolicy(max_attempts=3, base_delay=0.001)
    document = Graph("urn:test:dag:flaky").node("n", flaky.iri, {"done": "end"}, retry=retry).terminal("end").build()
    graph = GraphProgram(document, (flaky,))
    async with runtime(store_at("memory", tmp_path), graph) as rt:
        run = await rt.start(graph, session="s")
        assert (await run.result()).answer == "ok"
        events = [event for event in await told(run) if event["type"] == "node_retry"]
        assert [(one["node"], one["attempt"], one["code"]) for one in events] == [("n", 1, "ValueError"), ("n", 2, "ValueError")]
        (point,) = await rt.checkpoints("s")
        assert [(one["n"], one["code"]) for one in point.facts["attempts"]] == [(1, "ValueError"), (2, "ValueError")]


def test_a_takeover_is_told_and_stands_with_the_step_it_went_on_with(tmp_path):
    def agent(*, dies):
        @causeline.tool(idempotent=True)
        async def work(n: int) -> str:
            """Works."""
            append(tmp_path / "effects", "began")
            if dies:
                die()
            return "worked"

        return causeline.Agent(ScriptedModel([asks(("work", {"n": 1}, "a")), {"text": "done"}]), tools=[work])

    async def first():
        program = agent(dies=True)
        rt = await runtime(store_at("sqlite", tmp_path), program).__aenter__()
        await (await rt.start(program, "go", session="s", run_id="r1")).result()

    async def second():
        program = agent(dies=False)
        async with runtime(store_at("sqlite", tmp_path), program) as rt:
            run = await rt.resume("r1")
            await run.result()
            events = [event for event in await told(run) if event["type"] == "run_taken_over"]
            return events, [point.facts.get("epoch") for point in await rt.checkpoints("s")]

    assert ended(spawn(first)) == -9
    events, epochs = asyncio.run(second())
    assert [event["epoch"] for event in events] == [2]
    assert events[0]["holder"]
    assert [epoch for epoch in epochs if epoch] == [2]
    assert lines(tmp_path / "effects") == ["began", "began"]
