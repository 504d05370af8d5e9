"""What a model is shown is always a whole conversation, whatever happened to the runs before; what is stored stays as it was."""

import asyncio
import os
import signal

import pytest

import causeline
from causeline import tool
from causeline.causal import verify_export
from causeline.testing.faults import FaultyStore, Kill
from tests.agent.stage import Turns, calls
from tests.scenarios.world import Effects, Process, World, end, playing, states, until


def stuck(effects, *, die: bool = False):
    @tool
    async def slow(n: int) -> str:
        """Does not end by itself."""
        effects.leave(f"slow {n}")
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.Event().wait()
        return ""

    return [slow]


HANGS = Turns([calls(("slow", {"n": 1}, "x"))], [{"text": "fine"}], [{"text": "still fine"}])


async def die_in_the_tool(url: str, effects: str) -> None:
    agent, _ = playing(HANGS, stuck(Effects(effects), die=True))
    async with causeline.open(url, agents=[agent]) as runtime:
        await (await runtime.start(agent, "go", session="s", run_id="r")).result()


async def test_after_a_kill_in_a_tool_the_next_message_just_works(disk: World):
    """The call gets a result that says what is known; the record still shows that it was interrupted."""
    assert Process(die_in_the_tool, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    async with disk.stage(HANGS, stuck(disk.effects)) as s:
        assert (await s.run("still there?", on_busy="enqueue")).answer == "fine"
        assert (await s.run("sure?")).answer == "still fine"
        assert await states(s.runtime, "r") == {"x": "unknown"}
        shown = [one.text for one in s.model.last.messages if one.role == "tool"]
    assert (len(shown), "unknown" in shown[0], disk.effects.lines) == (1, True, ["slow 1"])


@pytest.mark.parametrize("on_busy", ["reject", "cancel"])
async def test_a_dead_run_does_not_keep_its_session_busy_for_ever(disk: World, on_busy):
    """Whoever comes next takes the dead run over, so that the session is free again once that has ended."""
    assert Process(die_in_the_tool, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    async with disk.stage(HANGS, stuck(disk.effects)) as s:
        try:
            ran = await s.run("still there?", on_busy=on_busy)
        except causeline.Conflict:
            assert on_busy == "reject"
            assert (await s.runtime.result("r")).status != "running"
            ran = await s.run("still there?")
        assert ran.status == "succeeded"
        assert (await s.runtime.run("r")).status in ("succeeded", "cancelled")


async def test_a_dead_run_whose_agent_nobody_knows_can_be_cancelled(disk: World):
    """Stopping needs no code of the run: its end is recorded and told, and the session takes the next message."""
    assert Process(die_in_the_tool, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    async with disk.process() as stranger:
        await stranger.cancel("r")
        async with asyncio.timeout(20):
            result = await stranger.result("r")
        last = [event async for event in stranger.events("r")][-1]
    assert (result.status, result.stop_reason, last["type"], last["status"]) == ("cancelled", "cancelled", "run_finished", "cancelled")
    async with disk.stage(HANGS, stuck(disk.effects)) as s:
        assert (await s.run("still there?")).answer == "fine"
        assert [one.role for one in s.model.last.messages] == ["user", "assistant", "tool", "user"]
        assert "unknown" in s.model.last.messages[2].text
    assert disk.effects.lines == ["slow 1"]


async def die_at_once(url: str, effects: str) -> None:
    """The start is durable, and nothing of the run is."""
    world = World(url, Effects(effects).path.parent)
    agent, _ = playing(HANGS, stuck(Effects(effects)))
    async with world.process(agent, store=FaultyStore(world.store(), Kill(1, "after"))) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")


async def test_what_was_said_to_a_run_that_died_at_once_is_heard_by_the_next_one(disk: World):
    """An accepted message is in the history, also where its run was given up by somebody who could not go on with it."""
    assert Process(die_at_once, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    async with disk.process() as stranger:
        await stranger.cancel("r")
    async with disk.stage([{"text": "fine"}]) as s:
        assert (await s.run("still there?")).answer == "fine"
        assert [one.text for one in s.model.last.messages] == ["go", "still there?"]


async def test_after_a_cancel_in_a_tool_the_next_message_just_works(world: World):
    """A stand-in result is made for the request alone; the call's own row still says that it was started and has no result."""
    async with world.stage(HANGS, stuck(world.effects)) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await until(lambda: world.effects.lines)
        await run.cancel()
        assert (await run.result()).status == "cancelled"
        before = (await s.runtime.branch("s")).state.to_json()
        assert (await s.run("and?")).answer == "fine"
        after = (await s.runtime.branch("s")).state.to_json()
        assert await states(s.runtime, run.id) == {"x": "started"}
    assert after["nodes"][: len(before["nodes"])] == before["nodes"]
    assert [one.role for one in s.model.last.messages] == ["user", "assistant", "tool", "user"]


async def test_what_was_said_is_durable_before_the_end_is_told(world: World):
    """A consumer that leaves at the last event, and a process that ends then, lose nothing of the turn."""
    agent, _ = playing([{"text": "the whole answer"}])
    async with world.process(agent) as runtime, world.process() as reader:
        run = await runtime.start(agent, "go", session="s")
        async for event in run.events():
            if event["type"] == "run_finished":
                assert [one.text for one in await reader.messages("s")] == ["go", "the whole answer"]
                assert (await reader.run(run.id)).status == "succeeded"
                break
        assert verify_export(await reader.export("s")).session == "s"


async def test_a_consumer_that_leaves_early_stops_nothing(world: World):
    """Following a run is reading: the run goes on, and the full turn is there later."""
    agent, model = playing([{"text": "one two three four"}])
    async with world.process(agent) as runtime:
        run = await runtime.start(agent, "go", session="s")
        async for _ in run.events():
            break
        following = asyncio.create_task(end(run))
        await asyncio.sleep(0)
        following.cancel()
        assert (await run.result()).answer == "one two three four"
        assert (await end(run)).events[0]["seq"] == 1
    assert len(model.requests) == 1


async def test_an_id_that_a_model_uses_again_in_a_later_turn_is_another_call(world: World):
    """Results belong to the calls of their own reply, so a second, interrupted call of that id is repaired by itself."""
    once = calls(("look", {"n": 1}, "x"))

    @tool(effects=False)
    async def look(n: int) -> str:
        """Looks."""
        return f"saw {n}"

    script = Turns([once, {"text": "one"}], [calls(("slow", {"n": 2}, "x"))], [{"text": "three"}])
    async with world.stage(script, [look, *stuck(world.effects)]) as s:
        await s.run("first")
        run = await s.runtime.start(s.agent, "second", session="s")
        await until(lambda: world.effects.lines)
        await run.cancel()
        await run.result()
        assert (await s.run("third")).answer == "three"
        asked = [call.id for one in s.model.last.messages for call in one.tool_calls]
        told = [(one.tool_call_id, one.text) for one in s.model.last.messages if one.role == "tool"]
    assert (asked[0], len(set(asked))) == ("x", 2)
    assert [call_id for call_id, _ in told] == asked
    assert told[0][1] == "saw 1"
    assert "saw" not in told[1][1]


async def test_a_message_sent_while_a_run_is_stopped_is_a_message(world: World):
    """Stopped and paused are two things: what is said after a cancel is neither swallowed nor taken for an answer."""

    @tool(approval="ask")
    async def gated() -> str:
        """Asks first."""
        world.effects.leave("gated")
        return ""

    script = Turns([calls(("slow", {"n": 1}, "x"), ("gated", {}, "g"))], [{"text": "fine"}])
    async with world.stage(script, [gated, *stuck(world.effects)]) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await until(lambda: world.effects.lines)
        await run.cancel()
        ended = await run.result()
        assert (ended.status, ended.stop_reason, list(ended.interrupts)) == ("cancelled", "cancelled", [])
        assert (await s.run("approve")).answer == "fine"
        assert [one.text for one in await s.runtime.messages("s") if one.role == "user"] == ["go", "approve"]
    assert world.effects.lines == ["slow 1"]


async def test_a_run_stopped_before_its_first_step_keeps_what_was_said(world: World):
    """Input that was accepted is in the history, however early the run is cancelled, and while it is still queued too."""
    async with world.stage(HANGS, stuck(world.effects)) as s:
        first = await s.runtime.start(s.agent, "first", session="s")
        queued = await s.runtime.start(s.agent, "second", session="s", on_busy="enqueue")
        await queued.cancel()
        await first.cancel()
        assert {(await queued.result()).status, (await first.result()).status} == {"cancelled"}
        await s.run("third")
        said = [one.text for one in s.model.last.messages if one.role == "user"]
    assert sorted(said) == ["first", "second", "third"]
