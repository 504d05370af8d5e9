"""Stopping a run: prompt wherever it is, with what was finished kept and the next message welcome."""

import asyncio

import pytest

from causeline import ToolResult, tool
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.agent.react.permission import UNKNOWN_OUTCOME
from causeline.models.model import Finish, TextDelta
from causeline.tools.tool import Resource
from tests.agent.stage import Turns, calls, stage
from tests.graph.walking import idle


class Endless:
    """Speaks, then waits for ever; says whether it was closed."""

    name = "endless"

    def __init__(self):
        self.speaking = asyncio.Event()
        self.closed = 0

    async def stream(self, request):
        if len(request.messages) > 1:
            yield TextDelta("fine")
            yield Finish("stop")
            return
        try:
            yield TextDelta("I was about to ")
            self.speaking.set()
            await asyncio.sleep(30)
        finally:
            self.closed += 1

    async def aclose(self):
        pass


async def stopped(run):
    await run.cancel()
    return await run.result()


async def test_in_the_model_call_the_stream_is_closed_and_the_message_taken_back():
    model = Endless()
    async with stage(model) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await model.speaking.wait()
        result = await stopped(run)
        ran = await s.end(run)
        log = await s.log()
        after = await s.run("still there?")
    assert (result.status, result.stop_reason) == ("cancelled", "cancelled")
    assert model.closed == 1
    assert [node.kind for node in log.nodes] == ["goal"]
    assert [event["type"] for event in ran.events if "message_id" in event][-1] == "message_retracted"
    assert (ran.events[-1]["type"], ran.events[-1]["status"]) == ("run_finished", "cancelled")
    assert after.answer == "fine"
    assert [one.text for one in s.model.last.messages] == ["go", "still there?"]


class Bench:
    """Tools that end when they are told."""

    def __init__(self):
        self.started: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("quick", "slow", "idle")}
        self.ran: list[str] = []

    def tools(self):
        @tool
        async def quick() -> ToolResult:
            """Ends at once."""
            self.ran.append("quick")
            return ToolResult("quick done", resources=(Resource("f", "write"),), context_patch={"quick": True})

        @tool
        async def slow() -> str:
            """Does not end by itself."""
            self.ran.append("slow")
            self.started["slow"].set()
            await asyncio.sleep(30)
            return "slow done"

        @tool(effects=False)
        async def idle() -> str:
            """Has no effect and does not end by itself."""
            self.started["idle"].set()
            await asyncio.sleep(30)
            return "idle done"

        return [quick, slow, idle]


ASKED = calls(("quick", {}, "a"), ("slow", {}, "b"), ("idle", {}, "c"))


async def test_in_the_tools_what_finished_is_used_by_the_next_run_and_what_was_started_is_of_unknown_outcome():
    bench = Bench()
    async with stage(Turns([ASKED], [{"text": "fine"}]), bench.tools()) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await bench.started["slow"].wait()
        await bench.started["idle"].wait()
        result = await stopped(run)
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls(run.id)}
        assert (result.status, rows) == ("cancelled", {"a": "succeeded", "b": "started", "c": "pending"})
        after = await s.run("what now?")
        shown = [(one.role, one.tool_call_id, one.text) for one in s.model.last.messages]
        log = await s.log()
        channels = (await s.runtime.branch("s")).channels
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls(after.run_id)}
    assert after.answer == "fine"
    assert bench.ran == ["quick", "slow"]
    assert shown[2:4] == [("tool", "a", "quick done"), ("tool", "b", UNKNOWN_OUTCOME)]
    assert shown[4][:2] == ("tool", "c")
    assert "Not executed" in shown[4][2]
    assert rows == {"a": "succeeded", "b": "unknown", "c": "superseded"}
    assert log.head("resource:file:f") is not None
    assert channels["context"] == {"quick": True}
    goal = [node for node in log.nodes if node.kind == "goal"][1]
    assert log.head("resource:file:f").id in goal.parents


async def test_a_run_without_a_message_goes_on_with_the_calls_that_are_left():
    bench = Bench()
    async with stage([calls(("quick", {}, "a"), ("slow", {}, "b")), {"text": "fine"}], bench.tools()) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await bench.started["slow"].wait()
        await stopped(run)
        after = await s.run()
        results = [(one.payload["call_id"], one.payload["result"]) for one in await s.nodes("tool_result")]
    assert after.answer == "fine"
    assert bench.ran == ["quick", "slow"]
    assert results == [("a", "quick done"), ("b", UNKNOWN_OUTCOME)]
    told = [(event["type"], event["tool_call_id"]) for event in after.events if "tool_call_id" in event]
    kinds = ("tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result")
    assert told == [(kind, "b") for kind in kinds], "what the run before has told of a call that finished is not told again"


async def test_before_the_first_step_what_the_user_said_is_not_lost():
    async with stage(Turns([{"text": "one"}], [{"text": "two"}])) as s:
        run = await s.runtime.start(s.agent, "remember me", session="s")
        result = await stopped(run)
        assert result.status == "cancelled"
        assert await s.said() == [("user", "remember me")]
        ran = await s.run("and me")
    assert ran.answer == "two"
    assert [one.text for one in s.model.last.messages] == ["remember me", "and me"]
    assert len(s.model.requests) == 1


class Stopping(InMemoryStore):
    """Asks the run to stop while a step is being committed."""

    def __init__(self, node):
        super().__init__()
        self.node: str | None = node
        self.stop = lambda run_id: None

    async def commit(self, commit):
        if commit.checkpoint is not None and commit.checkpoint.node == self.node:
            self.node = None
            self.stop(commit.run)
        await super().commit(commit)


TRAIL = ["entrypoint", "call_model", "call_tools", "call_model", "exit"]


@pytest.mark.parametrize("node", TRAIL[:3])
async def test_while_a_step_is_committed_it_is_kept_and_at_most_the_next_one_is_begun(node):
    """The next step may run while this one is written."""
    looked = []

    @tool(effects=False)
    async def look() -> str:
        """Looks."""
        looked.append(1)
        return "saw"

    store = Stopping(node)
    async with stage(Turns([calls(("look", {}, "a")), {"text": "done"}], [{"text": "fine"}]), [look], store=store) as s:
        store.stop = lambda run_id: s.runtime._dispatch.driving.stop(("default", run_id))
        result = await s.run("go")
        steps = [one.node for one in await s.steps()]
        place = TRAIL.index(node)
        assert result.status == "cancelled"
        assert steps in (TRAIL[: place + 1], TRAIL[: place + 2])
        assert len(s.model.requests) <= 1 + (node == "call_tools")
        assert len(looked) <= 1
        assert (await s.run("go on")).answer == "fine"
        assert len(looked) <= 1


async def test_cancelling_twice_or_after_the_end_changes_nothing():
    async with stage([{"text": "one"}]) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        ended = await run.result()
        await run.cancel()
        await run.cancel()
        assert await run.result() == ended


async def test_a_tool_that_swallows_the_cancel_does_not_hold_the_run():
    started = asyncio.Event()
    release = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Does not stop."""
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async with stage([calls(("stubborn", {}, "a"))], [stubborn]) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await started.wait()
        result = await asyncio.wait_for(stopped(run), 30)
        release.set()
        await idle()
        rows = [row.call.state for row in await s.runtime.calls(run.id)]
    assert (result.status, rows) == ("cancelled", ["started"])
