"""Following a run from anywhere: no event lost, none twice, none of another run; and starting one twice starts it once."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from causeline import tool
from causeline.errors import Conflict, Missing
from causeline.runtime.runtime import Runtime
from tests.agent.stage import calls
from tests.scenarios.world import World, end, playing, until


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


SCRIPT = [calls(("look", {"n": 1}, "a"), ("look", {"n": 2}, "b"), text="Let me see."), {"text": "I saw both of them."}]


def merged(events):
    """What a screen shows after these events: messages that were not retracted, calls with their results, and the end."""
    messages, tools, last = {}, {}, None
    for event in events:
        match event["type"]:
            case "text_message_start":
                messages[event["message_id"]] = ""
            case "text_message_content":
                messages[event["message_id"]] += event["delta"]
            case "message_retracted":
                messages.pop(event["message_id"], None)
            case "tool_call_start":
                tools[event["tool_call_id"]] = [event["name"], "", None]
            case "tool_call_args":
                tools[event["tool_call_id"]][1] += event["delta"]
            case "tool_call_result":
                tools[event["tool_call_id"]][2] = event["content"]
            case "run_finished" | "run_error":
                last = event["status"]
    return messages, tools, last


async def test_a_follower_may_leave_and_come_back_after_any_event(world: World):
    """What came before and what comes after a cursor make the whole, at every cursor, in another process too."""
    agent, _ = playing(SCRIPT, [look])
    async with world.process(agent) as runtime, world.process() as other:
        run = await runtime.start(agent, "go", session="s")
        live = (await end(run)).events
        assert [event["seq"] for event in live] == list(range(1, len(live) + 1))
        for cursor in range(len(live) + 1):
            rest = [event async for event in (runtime, other)[cursor % 2].events(run.id, cursor)]
            assert live[:cursor] + rest == live
        assert [event async for event in run.events(after=len(live) + 5)] == []
    messages, tools, last = merged(live)
    assert sorted(messages.values()) == ["I saw both of them.", "Let me see."]
    assert tools == {"a": ["look", '{"n":1}', "saw 1"], "b": ["look", '{"n":2}', "saw 2"]}
    assert last == "succeeded"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_run_that_ends_between_the_catching_up_and_the_waiting_is_heard_to_the_end(world: World, elsewhere):
    """The end can fall into any gap of a follower's reading; it is never missed and never waited for in vain."""
    going = asyncio.Event()

    @tool(effects=False)
    async def wait() -> str:
        """Ends when it is told."""
        await going.wait()
        return "waited"

    agent, _ = playing([calls(("wait", {})), {"text": "done"}], [wait])
    async with world.process(agent) as runtime, world.process() as other:
        watcher: Runtime = other if elsewhere else runtime
        run = await runtime.start(agent, "go", session="s")
        read = watcher.store.events

        async def late(owner, run_id, after, limit=1000):
            batch = await read(owner, run_id, after, limit)
            going.set()
            await runtime.result(run_id)  # all that is left of the run falls between this reading and what comes next
            return batch

        store: Any = SimpleNamespace(events=late, rows=watcher.store.rows, changed=watcher.store.changed)
        watcher.feed._store = store
        async with asyncio.timeout(20):
            seen = [event async for event in watcher.events(run.id)]
        assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
        assert seen[-1]["type"] == "run_finished"


async def test_followers_who_come_at_any_moment_of_a_run_see_all_of_it(world: World):
    """Fifty of them, joining while events are told, and from any number on."""
    script = [*[calls(("look", {"n": n})) for n in range(30)], {"text": "done"}]
    agent, _ = playing(script, [look])
    async with world.process(agent) as runtime:
        run = await runtime.start(agent, "go", session="s")
        followers = []
        while len(followers) < 50:
            followers.append((len(followers) % 7, asyncio.create_task(_collect(runtime, run.id, len(followers) % 7))))
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            seen = [(after, await task) for after, task in followers]
        whole = [event["seq"] for event in await _collect(runtime, run.id, 0)]
    assert all(numbers == whole[after:] for after, numbers in [(after, [event["seq"] for event in events]) for after, events in seen])


async def _collect(runtime, run_id, after):
    return [event async for event in runtime.events(run_id, after)]


async def test_a_cursor_of_one_run_shows_nothing_of_another(world: World):
    """Numbers count within a run; another run's events are never served, and another owner's run is not there."""
    agent, _ = playing([{"text": "secret of a"}])
    async with world.process(agent) as runtime, world.process(agent, owner="mallory") as stranger:
        a = await end(await runtime.start(agent, "go", session="a", run_id="run-a"))
        await end(await stranger.start(agent, "go", session="b", run_id="run-b"))
        seen = [event async for event in stranger.events("run-b", 2)]
        assert {event["run_id"] for event in seen} == {"run-b"}
        for attempt in (
            lambda: _collect(stranger, "run-a", 0),
            lambda: stranger.result("run-a"),
            lambda: stranger.cancel("run-a"),
            lambda: stranger.resume("run-a"),
            lambda: stranger.calls("run-a"),
            lambda: stranger.run("run-a"),
            lambda: stranger.messages("a"),
            lambda: stranger.export("a"),
            lambda: stranger.checkpoints("a"),
            lambda: stranger.delete("a"),
            lambda: stranger.recall("a"),
            lambda: stranger.why(a.head),
            lambda: stranger.start(agent, "go", session="b", at=a.head),
        ):
            with pytest.raises(Missing):
                await attempt()
        assert [one.id for one in await stranger.sessions()] == ["b"]
        assert "secret" not in (await stranger.recall(query="secret")).text.replace("secret of a", "", 1)
        assert (await runtime.run("run-a")).status == "succeeded"


async def test_the_same_start_sent_twice_is_one_run(world: World):
    """A client that does not know whether its start arrived sends it again and gets the same run, from the first event."""
    agent, model = playing([{"text": "done"}])
    async with world.process(agent) as one, world.process(agent) as other:
        runs = await asyncio.gather(*[runtime.start(agent, "go", session="s", run_id="r") for runtime in (one, other) * 4])
        ended = [await run.result() for run in runs]
        again = await end(await other.start(agent, "go", session="s", run_id="r"))
        assert {run.head for run in ended} == {again.head}
        assert again.events[0]["type"] == "run_started"
        assert len(await one.runs()) == 1
        with pytest.raises(Conflict) as caught:
            await one.start(agent, "go on", session="s", run_id="r")
        assert caught.value.code == "run_conflict"
    assert len(model.requests) == 1


async def test_leaving_the_runtime_hands_its_runs_back(world: World):
    """Runs in flight are parked where they stand, none is left `running`, and another process ends them without repeating anything."""
    started = asyncio.Semaphore(0)
    going = asyncio.Event()

    @tool(idempotent=True)
    async def wait(n: int) -> str:
        """Ends when it is told."""
        started.release()
        await going.wait()
        world.effects.leave(n)
        return "waited"

    agent, _ = playing([calls(("wait", {"n": 1})), {"text": "done"}], [wait])
    async with world.process(agent) as runtime:
        for n in range(5):
            await runtime.start(agent, "go", session=f"s{n}", run_id=f"r{n}")
        for _ in range(5):
            await started.acquire()
    going.set()
    async with world.process(agent) as runtime:
        assert {one.status for one in await runtime.runs()} == {"queued"}
        working = asyncio.create_task(runtime.work())
        assert {(await runtime.result(f"r{n}")).answer for n in range(5)} == {"done"}
        working.cancel()
    assert len(world.effects.lines) == 5


async def known(runtime, run_id: str) -> bool:
    return any(one.id == run_id for one in await runtime.runs())


async def test_a_run_whose_process_left_before_it_began_waits_for_the_next_one(world: World):
    """Accepted means durable and somebody's: also where the runtime closes, or the caller gives up, right after the start."""
    agent, _ = playing([{"text": "done"}])
    async with world.process(agent) as runtime:
        await runtime.start(agent, "go", session="a", run_id="a")
        starting = asyncio.create_task(runtime.start(agent, "go", session="b", run_id="b"))
        await until(partial(known, runtime, "b"))
        starting.cancel()
    async with world.process(agent) as runtime:
        assert {(one.status, one.holder) for one in await runtime.runs() if one.finished_at is None} <= {("queued", None)}
        working = asyncio.create_task(runtime.work())
        assert {(await runtime.result(one)).answer for one in ("a", "b")} == {"done"}
        working.cancel()


@pytest.mark.parametrize("known", [True, False], ids=["by one who knows its agent", "by a stranger"])
async def test_a_run_that_was_handed_back_and_then_cancelled_says_so_to_its_followers(world: World, known):
    """A stream of events that began has an end that is told, whoever ends the run."""
    started = asyncio.Event()

    @tool(idempotent=True)
    async def hang() -> str:
        """Does not end by itself."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent, _ = playing([calls(("hang", {})), {"text": "done"}], [hang])
    async with world.process(agent) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")
        await started.wait()
    async with world.process(*([agent] if known else [])) as runtime:
        async with asyncio.timeout(20):
            await runtime.cancel("r")
            seen = await _collect(runtime, "r", 0)
        assert (seen[-1]["type"], seen[-1]["status"]) == ("run_finished", "cancelled")
        assert (await runtime.result("r")).status == "cancelled"
        assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
