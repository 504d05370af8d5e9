"""A process that stops in good order: calls that have begun finish, no further one begins, and nothing ends as unknown."""

import asyncio

import pytest

from causeline import tool
from causeline.runtime.runtime import Runtime
from tests.agent.stage import calls
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
    async with world.process(agent) as runtime:
        await begun(world, runtime, agent)
        asyncio.get_running_loop().call_later(0.05, going.set)
    effects = world.effects.lines
    calls_begun = {line.split()[1] for line in effects if line.startswith("begin")}
    assert {line.split()[1] for line in effects if line.startswith("end")} == calls_begun
    async with world.process(agent) as runtime:
        row = await runtime.run("r")
        assert (row.status, row.holder) == ("queued", None)
        assert await states(runtime, "r") == {f"c{n}": "succeeded" if str(n) in calls_begun else "pending" for n in range(3)}
        done = await (await runtime.resume("r")).result()
        assert [row.call.attempts for row in await runtime.calls("r")] == [1, 1, 1]
    assert (done.answer, len(world.effects.lines)) == ("done", 6)


async def test_a_call_that_outlasts_the_grace_is_cut_and_of_unknown_outcome(world: World):
    going = asyncio.Event()
    agent = writing(world, going)
    async with world.process(agent) as runtime:
        runtime.room.grace = 0.05
        await begun(world, runtime, agent)
    going.set()
    async with world.process(agent) as runtime:
        done = await (await runtime.resume("r")).result()
        assert await states(runtime, "r") == {"c0": "unknown", "c1": "unknown", "c2": "succeeded"}
    assert (done.answer, world.effects.lines[:2]) == ("done", ["begin 0", "begin 1"])


async def test_a_second_word_to_stop_leaves_out_the_rest_of_the_grace(world: World):
    going = asyncio.Event()
    agent = writing(world, going)
    async with asyncio.timeout(20), world.process(agent) as runtime:
        await begun(world, runtime, agent)
        leaving = asyncio.create_task(runtime.room.close())
        await asyncio.sleep(0)
        await until(lambda: runtime._dispatch.driving.leaves(("default", "r")))
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    assert world.effects.lines == ["begin 0", "begin 1"]
    async with world.process(agent) as runtime:
        assert (await runtime.run("r")).status == "queued"


async def test_a_model_that_speaks_is_cut_at_once_and_asked_again(world: World):
    """A model call has no effect; nobody waits for it."""
    async with asyncio.timeout(20):
        agent, _ = playing([{"text": "slow", "delay": 3600}])
        async with world.process(agent) as runtime:
            run = await runtime.start(agent, "go", session="s", run_id="r")
            async for event in run.events():
                if event["type"] == "step_started" and event["node"] == "call_model":
                    break
        agent, _ = playing([{"text": "quick"}])
        async with world.process(agent) as runtime:
            assert (await (await runtime.resume("r")).result()).answer == "quick"


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
    async with world.process(agent) as runtime:
        await begun(world, runtime, agent)
        await runtime.cancel("r")
        result = await runtime.result("r")
        assert (result.status, [row.call_id for row in result.left_started]) == ("cancelled", ["c0", "c1"])
