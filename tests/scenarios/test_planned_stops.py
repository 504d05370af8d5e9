"""A process that stops in good order: calls that have begun finish, no further one begins, and nothing ends as unknown."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from causeline import Agent, GraphProgram, tool
from causeline.graph import Graph, Outcome, node
from causeline.runtime.runtime import Runtime
from tests.agent.stage import Heard, calls
from tests.scenarios.world import World, playing, states, until

THREE = [calls(*[("write", {"n": n}, f"c{n}") for n in range(3)]), {"text": "done"}]


def writing(world: World, going: asyncio.Event, **options):
    """Two of three calls run side by side; each ends when it is told."""

    @tool
    async def write(n: int) -> str:
        """Has an effect."""
        world.effects.leave(f"begin {n}")
        await going.wait()
        world.effects.leave(f"end {n}")
        return f"wrote {n}"

    return playing(THREE, [write], tool_concurrency=2, **options)[0]


async def begun(world: World, runtime: Runtime, agent) -> None:
    """Start a run, and wait until all of its calls that may begin have begun."""
    await runtime.start(agent, "go", session="s", run_id="r")
    width = 2 if agent.options.graph == "react" else 1
    await until(lambda: len(world.effects.lines) == width)


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_leaving_lets_begun_calls_finish_and_begins_none(world: World, graph):
    going = asyncio.Event()
    agent = writing(world, going, graph=graph)
    async with world.process(agent, grace=30) as runtime:
        await begun(world, runtime, agent)
        asyncio.get_running_loop().call_later(0.05, going.set)
    effects = world.effects.lines
    calls_begun = {line.split()[1] for line in effects if line.startswith("begin")}
    assert {line.split()[1] for line in effects if line.startswith("end")} == calls_begun
    async with world.process(agent, grace=30) as runtime:
        row = await runtime.run("r")
        assert (row.status, row.holder) == ("queued", None)
        assert await states(runtime, "r") == {f"c{n}": "succeeded" if str(n) in calls_begun else "pending" for n in range(3)}
        done = await (await runtime.resume("r")).result()
        assert [row.call.attempts for row in await runtime.calls("r")] == [1, 1, 1]
    assert (done.answer, len(world.effects.lines)) == ("done", 6)


async def test_a_call_that_outlasts_the_grace_is_cut_and_of_unknown_outcome(world: World):
    going = asyncio.Event()
    agent = writing(world, going)
    async with world.process(agent, grace=0.05) as runtime:
        await begun(world, runtime, agent)
    going.set()
    async with world.process(agent, grace=30) as runtime:
        done = await (await runtime.resume("r")).result()
        assert await states(runtime, "r") == {"c0": "unknown", "c1": "unknown", "c2": "succeeded"}
    assert (done.answer, world.effects.lines[:2]) == ("done", ["begin 0", "begin 1"])


async def test_a_second_word_to_stop_leaves_out_the_rest_of_the_grace(world: World):
    going = asyncio.Event()
    agent = writing(world, going)
    async with asyncio.timeout(20), world.process(agent, grace=30) as runtime:
        await begun(world, runtime, agent)
        leaving = asyncio.create_task(runtime.room.close())
        await asyncio.sleep(0)
        await until(lambda: runtime._dispatch.driving.leaves(("default", "r")))
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    assert world.effects.lines == ["begin 0", "begin 1"]
    async with world.process(agent, grace=30) as runtime:
        assert (await runtime.run("r")).status == "queued"


class Speaking:
    """A model whose first reply is heard to its end only when that is allowed; it keeps what it was asked."""

    name = "speaking"

    def __init__(self, *replies: Any) -> None:
        self.begun, self.going = asyncio.Event(), asyncio.Event()
        self.inner = Heard(list(replies))

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        self.begun.set()
        async for delta in self.inner.stream(request):
            await self.going.wait()
            yield delta

    async def aclose(self) -> None:
        """Nothing is held."""


async def leave(runtime: Runtime, going: asyncio.Event) -> None:
    """Close a runtime, and let what has begun finish once nothing new begins."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runtime.room.close())
        await until(lambda: runtime._dispatch.driving.leaves(("default", "r")))
        going.set()


async def test_a_model_that_speaks_is_heard_to_its_end_and_what_it_asks_for_begins_later(world: World):
    @tool
    def write() -> str:
        """Has an effect."""
        world.effects.leave("written")
        return "wrote"

    model = Speaking(calls(("write", {})), {"text": "done"})
    agent = Agent(model, tools=[write])
    async with world.process(agent, grace=30) as runtime:
        run = await runtime.start(agent, "go", session="s", run_id="r")
        await model.begun.wait()
        await leave(runtime, model.going)
    assert world.effects.lines == []
    async with world.process(agent, grace=30) as runtime:
        assert [row.state for row in await runtime.calls("r")] == ["pending"]
        assert (await (await runtime.resume("r")).result()).answer == "done"
        retracted = [event async for event in runtime.events(run.id) if event["type"] == "message_retracted"]
    assert (len(model.inner.requests), retracted, world.effects.lines) == (2, [], ["written"])


async def test_a_model_that_does_not_end_in_time_is_asked_again(world: World):
    model = Speaking({"text": "slow"})
    agent = Agent(model)
    async with world.process(agent, grace=0.05) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")
        await model.begun.wait()
    agent, _ = playing([{"text": "quick"}])
    async with world.process(agent, grace=30) as runtime:
        assert (await (await runtime.resume("r")).result()).answer == "quick"


async def test_effect_free_calls_that_have_begun_finish_and_are_not_made_again(world: World):
    going, looked = asyncio.Event(), []

    @tool(effects=False)
    async def look(n: int) -> str:
        """Changes nothing."""
        looked.append(n)
        await going.wait()
        return f"saw {n}"

    agent, _ = playing([calls(*[("look", {"n": n}, f"c{n}") for n in range(3)]), {"text": "done"}], [look], tool_concurrency=2)
    async with world.process(agent, grace=30) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")
        await until(lambda: len(looked) == 2)
        await leave(runtime, going)
    assert looked == [0, 1]
    async with world.process(agent, grace=30) as runtime:
        assert await states(runtime, "r") == {"c0": "succeeded", "c1": "succeeded", "c2": "pending"}
        assert (await (await runtime.resume("r")).result()).answer == "done"
    assert looked == [0, 1, 2]


async def test_a_node_of_a_graph_of_ones_own_finishes_and_the_next_begins_later(world: World):
    begun, going, visits = asyncio.Event(), asyncio.Event(), []

    async def visit(ctx: Any) -> Outcome:
        visits.append(ctx.placement)
        begun.set()
        await going.wait()
        return Outcome("ok", {"answer": len(visits)})

    graph = Graph("urn:t:pair")
    nodes = [node(f"urn:t:{name}", ("ok",))(visit) for name in ("a", "b")]
    graph.node("a", nodes[0], {"ok": "b"}).node("b", nodes[1], {"ok": "end"}).terminal("end").entry("main", "a")
    program = GraphProgram(graph.build(), nodes, name="pair")
    async with world.process(program, grace=30) as runtime:
        await runtime.start(program, "go", session="s", run_id="r")
        await begun.wait()
        await leave(runtime, going)
    assert visits == ["a"]
    async with world.process(program, grace=30) as runtime:
        row = await runtime.run("r")
        assert (row.status, [one.node for one in await runtime.checkpoints("s")]) == ("queued", ["a"])
        assert (await (await runtime.resume("r")).result()).status == "succeeded"
    assert visits == ["a", "b"]


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_a_run_below_is_handed_back_with_the_run_that_waits_for_it(world: World, graph):
    going = asyncio.Event()

    @tool
    async def write() -> str:
        """Has an effect."""
        world.effects.leave("begin")
        await going.wait()
        return "wrote"

    helper, _ = playing([calls(("write", {})), {"text": "helped"}], [write], name="helper", graph=graph)
    outer, _ = playing(
        [calls(("helper", {"prompt": "do"})), {"text": "done"}], [helper.as_tool("helper", "Helps.")], name="outer", graph=graph
    )
    async with world.process(outer, helper, grace=30) as runtime:
        await runtime.start(outer, "go", session="s", run_id="r")
        await until(lambda: world.effects.lines)
        await leave(runtime, going)
    async with world.process(outer, helper, grace=30) as runtime:
        rows = await runtime.runs()
        assert [(row.status, row.holder) for row in rows] == [("queued", None), ("queued", None)]
        assert [row.state for row in await runtime.calls("r")] == ["pending"]
        assert (await (await runtime.resume("r")).result()).answer == "done"
        assert [row.status for row in await runtime.runs()] == ["succeeded", "succeeded"]
    assert world.effects.lines == ["begin"]


def test_a_tool_that_will_not_stop_does_not_keep_the_process_from_ending(tmp_path):
    world = World("memory://", tmp_path)

    @tool(timeout=0.05)
    async def stubborn() -> str:
        """Goes on when it is cancelled."""
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                world.effects.leave("no")

    agent, _ = playing([calls(("stubborn", {})), {"text": "done"}], [stubborn])
    assert agent.run_sync("go").answer == "done"
    assert world.effects.lines


async def test_a_cancelled_run_names_the_calls_that_had_begun(world: World):
    agent = writing(world, asyncio.Event())
    async with world.process(agent, grace=30) as runtime:
        await begun(world, runtime, agent)
        await runtime.cancel("r")
        result = await runtime.result("r")
        assert (result.status, [row.call_id for row in result.left_started]) == ("cancelled", ["c0", "c1"])
