"""Many callers of one session: every word is kept, or refused with a conflict, and turns come in order."""

import asyncio
import json

import pytest

import causeline
from causeline.errors import Conflict, Invalid, Missing
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Progress, Run, Session
from causeline.runtime.run_names import checked_name, new_name
from tests.runtime.processes import ended, spawn
from tests.runtime.scenes import URLS, Scene, asks, runtime, said, store_at

PROCESSES = 8


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


def echo():
    return causeline.Agent(ScriptedModel.named("echo"), name="echo")


def users(messages):
    return [text for role, text in messages if role == "user"]


@pytest.mark.parametrize("policy", ["reject", "enqueue", "cancel"])
def test_of_eight_processes_on_one_session_none_is_lost_without_a_conflict(tmp_path, policy):
    async def make():
        async with runtime(store_at("sqlite", tmp_path), echo()) as rt:
            await (await rt.start(echo(), "first", session="s")).result()

    asyncio.run(make())

    def starting(number):
        async def start():
            async with runtime(store_at("sqlite", tmp_path), echo()) as rt:
                try:
                    run = await rt.start(echo(), f"word {number}", session="s", on_busy=policy)
                except Conflict as conflict:
                    return conflict.code
                return (await run.result()).status

        return start

    pids = [spawn(starting(number), tmp_path / f"told{number}") for number in range(PROCESSES)]
    assert [ended(pid) for pid in pids] == [0] * PROCESSES
    told = [json.loads((tmp_path / f"told{number}").read_text()) for number in range(PROCESSES)]

    async def look():
        async with runtime(store_at("sqlite", tmp_path), echo()) as rt:
            before = users(await said(rt)), [one.status for one in await rt.runs("s")]
            await (await rt.start(echo(), "last", session="s")).result()
            return *before, users(await said(rt))

    words, statuses, after = asyncio.run(look())
    refused = {f"word {number}" for number in range(PROCESSES) if told[number] == "session_busy"}
    assert set(told) <= ({"succeeded", "session_busy"} if policy == "reject" else {"succeeded", "cancelled"})
    assert not {"running", "queued"} & set(statuses)
    assert len(set(words)) == len(words)
    assert sorted(after) == sorted({"first", "last", *(f"word {number}" for number in range(PROCESSES))} - refused)
    if policy == "enqueue":
        assert told == ["succeeded"] * PROCESSES
        assert len(words) == PROCESSES + 1


async def test_queued_runs_come_in_order_each_on_what_the_one_before_left(store):
    gate = asyncio.Event()

    @causeline.tool
    async def wait(n: int) -> str:
        """Waits."""
        await gate.wait()
        return "waited"

    agent = causeline.Agent(ScriptedModel([asks(("wait", {"n": 1}, "")), {"text": "done"}]), tools=[wait])
    async with runtime(store, agent) as rt:
        first = await rt.start(agent, "one", session="s")
        rest = [await rt.start(agent, text, session="s", on_busy="enqueue") for text in ("two", "three", "four")]
        assert [one.status for one in await rt.runs("s")] == ["running", "queued", "queued", "queued"]
        assert [(await rt.run(one.id)).base for one in rest] == [None, None, None]
        with pytest.raises(Conflict) as caught:
            await rt.start(agent, "five", session="s")
        assert caught.value.code == "session_busy"
        gate.set()
        results = [await run.result() for run in (first, *rest)]
        assert [one.status for one in results] == ["succeeded"] * 4
        assert users(await said(rt)) == ["one", "two", "three", "four"]
        assert [(await rt.run(one.id)).base for one in rest] == [one.head for one in results[:3]]


async def test_what_was_said_in_a_run_that_was_cancelled_while_it_waited_is_said_with_the_next(store):
    gate = asyncio.Event()

    @causeline.tool
    async def wait(n: int) -> str:
        """Waits."""
        await gate.wait()
        return "waited"

    agent = causeline.Agent(ScriptedModel([asks(("wait", {"n": 1}, "")), {"text": "done"}]), tools=[wait])
    async with runtime(store, agent) as rt:
        first = await rt.start(agent, "one", session="s")
        second = await rt.start(agent, "two", session="s", on_busy="enqueue")
        third = await rt.start(agent, "three", session="s", on_busy="enqueue")
        await second.cancel()
        assert (await second.result()).status == "cancelled"
        assert [event["type"] async for event in second.events()] == ["run_finished"]
        gate.set()
        await first.result()
        await third.result()
        fork_at = (await rt.run(first.id)).head
        assert users(await said(rt)) == ["one", "two", "three"]
        await (await rt.start(agent, "four", session="s")).result()
        assert users(await said(rt)) == ["one", "two", "three", "four"]
        await (await rt.start(agent, "elsewhere", session="s", at=fork_at)).result()
        assert users(await said(rt)) == ["one", "elsewhere"]


async def test_a_run_that_was_cancelled_before_its_turn_still_tells_its_end(store):
    gate = asyncio.Event()

    @causeline.tool
    async def hold() -> str:
        """Holds."""
        await gate.wait()
        return "held"

    agent = causeline.Agent(ScriptedModel([asks(("hold", {}, "a")), {"text": "done"}]), tools=[hold])
    async with runtime(store, agent) as rt:
        first = await rt.start(agent, "one", session="s")
        waiting = await rt.start(agent, "two", session="s", on_busy="enqueue")
        await rt.cancel(waiting.id)
        told = [event async for event in waiting.events()]
        (end,) = told
        assert (end["seq"], end["type"], end["status"], end["stop_reason"]) == (1, "run_finished", "cancelled", "cancelled")
        assert [event async for event in waiting.events(after=1)] == []
        gate.set()
        assert (await first.result()).answer == "done"


async def test_a_run_that_is_cancelled_at_once_keeps_what_was_said(store):
    agent = echo()
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "one", session="s")
        await run.cancel()
        assert (await run.result()).status in ("cancelled", "succeeded")
        assert users(await said(rt)) == ["one"]


async def test_on_busy_cancel_stops_the_run_under_way_and_goes_on_after_it(store):
    began = asyncio.Event()

    @causeline.tool
    async def wait(n: int) -> str:
        """Never returns."""
        began.set()
        await asyncio.Event().wait()
        return ""

    agent = causeline.Agent(ScriptedModel([asks(("wait", {"n": 1}, "w")), {"text": "done"}]), tools=[wait])
    after = echo()
    async with runtime(store, agent, after) as rt:
        first = await rt.start(agent, "one", session="s")
        await asyncio.wait_for(began.wait(), 30)
        second = await rt.start(after, "two", session="s", on_busy="cancel")
        assert (await asyncio.wait_for(first.result(), 30)).status == "cancelled"
        assert (await asyncio.wait_for(second.result(), 30)).answer == "two"
        assert users(await said(rt)) == ["one", "two"]


async def test_the_same_start_twice_is_one_run_and_another_one_by_its_id_is_refused(store):
    agent = echo()
    async with runtime(store, agent) as rt:
        runs = await asyncio.gather(*(rt.start(agent, "one", session="s", run_id="r1") for _ in range(5)))
        assert [(await run.result()).answer for run in runs] == ["one"] * 5
        assert (len(await rt.runs("s")), users(await said(rt))) == (1, ["one"])
        with pytest.raises(Conflict) as caught:
            await rt.start(agent, "two", session="s", run_id="r1")
        assert caught.value.code == "run_conflict"


@pytest.mark.parametrize("name", ["", "../x", "a b", "a..b", ".a", "x" * 129, "ä", "a/b", 'x\') OR "1"="1'])
async def test_a_name_that_is_none_is_refused_before_anything_is_written(store, name):
    agent = echo()
    async with runtime(store, agent) as rt:
        with pytest.raises(Invalid):
            await rt.start(agent, "x", session=name)
        with pytest.raises(Invalid):
            await rt.start(agent, "x", run_id=name)
        assert await rt.sessions() == []


async def test_agents_of_one_name_started_at_once_each_run_as_themselves(store):
    agents = [causeline.Agent(ScriptedModel([{"text": f"I am {number}"}])) for number in range(4)]
    async with runtime(store) as rt:
        runs = await asyncio.gather(*(rt.start(agent, "who?", session=f"s{number}") for number, agent in enumerate(agents)))
        assert [(await run.result()).answer for run in runs] == [f"I am {number}" for number in range(4)]


async def test_a_deleted_session_is_gone_from_every_kind_of_row(store):
    scene = Scene([asks(("pay", {"n": 1}, "a"), ("write", {"n": 1}, "b")), {"text": "done"}])
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "secret words", session="s")).result()
        await (await rt.start(agent, "others", session="t")).result()
        node = (await rt.branch("s")).state.nodes[0].id
        await rt.delete("s")
        for kind in (Session, Run, Checkpoint, CallRow, Interrupt, Progress):
            assert await store.rows(kind, owner="default", session="s") == []
        for gone in (rt.messages("s"), rt.run(first.run_id), rt.export("s"), rt.calls(first.run_id), rt.delete("s"), rt.checkpoints("s")):
            with pytest.raises(Missing):
                await gone
        assert await store.node("default", node) == []
        with pytest.raises(Missing):
            await store.events("default", first.run_id, 0)
        assert (await rt.recall(query="secret words")).text.count("secret") == 0
        assert users(await said(rt, "t")) == ["others"]
        again = await (await rt.start(agent, "new", session="s")).result()
        assert (again.status, users(await said(rt))) == ("interrupted", ["new"])


async def test_a_session_with_a_run_under_way_is_not_deleted(store):
    @causeline.tool
    async def wait(n: int) -> str:
        """Never returns."""
        await asyncio.Event().wait()
        return ""

    agent = causeline.Agent(ScriptedModel([asks(("wait", {"n": 1}, "w"))]), tools=[wait])
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "one", session="s")
        with pytest.raises(Conflict):
            await rt.delete("s")
        await run.cancel()
        await rt.delete("s")
        assert await rt.sessions() == []


async def test_the_context_object_is_the_callers_then_the_tools_and_fills_the_prompt(store):
    heard = []

    @causeline.tool
    async def note(key: str, context: causeline.ToolContext) -> causeline.ToolResult:
        """Changes the context."""
        heard.append(dict(context.context))
        return causeline.ToolResult(value="noted", context_patch={key: "noted", "gone": None})

    script = [asks(("note", {"key": "mine"}, "n")), {"text": "done"}]
    agent = causeline.Agent(ScriptedModel(script), tools=[note], system="{{ agent.name }} {{ context }} {{ session.id }} {{ date }}")
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s", context={"who": "Ada", "gone": 1})
        await run.result()
        assert heard == [{"who": "Ada", "gone": 1}]
        branch = await rt.branch("s")
        assert branch.channels["context"] == {"who": "Ada", "mine": "noted"}
        system = next(one.payload for one in branch.state.nodes if one.kind == "system")
        assert "Ada" in system
        assert system.startswith("agent ")
        assert ((await rt.run(run.id)).started_at or "")[:10] in system
        changes = [event["context"] async for event in run.events() if event["type"] in ("state_snapshot", "context_changed")]
        assert changes == [{"who": "Ada", "gone": 1}, {"who": "Ada", "mine": "noted"}]
        await (await rt.start(agent, "again", session="s", context={"who": None, "n": 2})).result()
        assert (await rt.branch("s")).channels["context"] == {"mine": "noted", "n": 2}


def test_names_are_made_whatever_year_the_clock_shows():
    names = [new_name("run_", seconds) for seconds in (-62135596800.0, -1.5, 0.0, 1e9, 1e13)]
    assert {len(checked_name("run id", name)) for name in names} == {28}
    assert names[2][4:13] < names[3][4:13] < names[4][4:13]
