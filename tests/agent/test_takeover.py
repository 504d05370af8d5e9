"""A process dies in the middle of a step and another one goes on: the same ids, no effect twice, nothing half said."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from causeline import ToolContext, ToolResult, approve, fail, record, retry, tool
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.agent.react.permission import UNKNOWN_OUTCOME
from causeline.errors import Unavailable
from causeline.models.model import Finish, TextDelta
from causeline.run.ledger import FINISHED
from causeline.tools.tool import Resource
from tests.agent.stage import Moving, Stage, Turns, calls, stage

RAN = []
STORED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""What each store has by now: processes that follow each other see the same."""


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


class Power:
    """A store as one process sees it, until that process is gone: then nothing it does reaches the store.

    `told` are the kinds of events that this process has made durable, `stored` the calls that the store has a result of, from any process.
    """

    def __init__(self, inner):
        self.inner = inner
        self.gone = asyncio.Event()
        self.told: set[str] = set()
        self.stored: set[str] = STORED.setdefault(inner, set())
        self._changed = asyncio.Condition()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def commit(self, commit):
        if self.gone.is_set():
            raise Unavailable("this process is gone")
        await self.inner.commit(commit)
        async with self._changed:
            self.stored |= {call.call_id for call in commit.calls if call.state in FINISHED}
            self.told |= {event["type"] for event in commit.events}
            self._changed.notify_all()

    async def has(self, name):
        """Wait until an event of this kind, or the result of this call, is durable."""
        async with self._changed:
            await self._changed.wait_for(lambda: name in self.told or name in self.stored)

    async def claim(self, *rest, **more):
        if self.gone.is_set():
            raise Unavailable("this process is gone")
        return await self.inner.claim(*rest, **more)

    async def die(self):
        self.gone.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def process(store, script, tools, **options):
    """A process of its own on this store; `power.die()` ends it."""
    power = Power(store)
    async with stage(script, tools(power), store=power, clock=Moving(jump=0.0), grace=0.0, **options) as s:  # the dead wait for nobody
        yield s, power


async def crashed(s: Stage, power: Power, start):
    run = await start
    await asyncio.wait_for(power.gone.wait(), 30)
    return run.run_id


async def resumed(s: Stage, run_id):
    return await s.end(await s.runtime.resume(run_id, agent=s.agent))


async def undisturbed(script, tools, run_id="r1", **options):
    async with process(InMemoryStore(), script, tools, **options) as (s, _):
        return (await s.run("go", run_id=run_id)).head


class Dying:
    """Speaks, and dies in mid-sentence the first time in a process that has a `power`."""

    name = "dying"

    def __init__(self, power=None):
        self.power = power

    async def stream(self, request):
        yield TextDelta("I was about ")
        if self.power is not None:
            await self.power.has("text_message_content")
            await self.power.die()
        yield TextDelta("to say it")
        yield Finish("stop")

    async def aclose(self):
        pass


async def test_a_message_left_open_is_retracted_and_spoken_anew_under_another_id_as_often_as_it_takes():
    store = InMemoryStore()
    for _ in range(2):
        model = Dying()
        async with process(store, model, lambda power: ()) as (s, power):
            model.power = power
            runs = await s.runtime.runs("s")
            start = s.runtime.resume("r1", agent=s.agent) if runs else s.runtime.start(s.agent, "go", session="s", run_id="r1")
            await crashed(s, power, start)
    async with process(store, Dying(), lambda power: ()) as (s, _):
        ran = await resumed(s, "r1")
        messages = await s.runtime.messages("s")
    started = [event["message_id"] for event in ran.told("text_message_start")]
    assert len(set(started)) == len(started) == 3
    assert [event["message_id"] for event in ran.told("message_retracted")] == started[:2]
    assert messages[-1].id == started[2]
    assert ran.answer == "I was about to say it"
    assert ran.head == await undisturbed(Dying(), lambda power: ())


def effects(policy: Any = "report", retries_die=1, after: str | None = "b"):
    """Tools for one process: `write` dies after its effect, as often as it may, once the result of the call `after` is durable."""
    deaths = [retries_die]

    def tools(power):
        @tool(effects=False)
        async def look(n: int) -> str:
            """Looks."""
            return f"saw {n}"

        @tool
        async def save(n: int) -> ToolResult:
            """Saves at once."""
            RAN.append(f"save {n}")
            return ToolResult(f"saved {n}", resources=(Resource("f", "save", value=n),), context_patch={"saved": n})

        @tool(on_unknown=policy)
        async def write(n: int, context: ToolContext) -> str:
            """Has its effect, and may not live to tell."""
            RAN.append(f"write {n}")
            if after is not None:
                await power.has(after)
            if deaths[0]:
                deaths[0] -= 1
                await power.die()
            return f"wrote {n}"

        return [look, save, write]

    return tools


SCRIPT = [calls(("look", {"n": 1}, "a"), ("save", {"n": 2}, "b"), ("write", {"n": 3}, "c")), {"text": "done"}]


async def test_a_result_that_came_early_keeps_what_its_tool_reported():
    tools = effects()
    store = InMemoryStore()
    async with process(store, SCRIPT, tools) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1"))
    async with process(store, SCRIPT, tools) as (s, _):
        ran = await resumed(s, "r1")
        results = [one.payload["result"] for one in await s.nodes("tool_result")]
        log = await s.log()
        channels = (await s.runtime.branch("s")).channels
    assert results == ["saw 1", "saved 2", UNKNOWN_OUTCOME]
    assert RAN == ["save 2", "write 3"]
    assert log.head("resource:file:f").payload["value"] == 2
    assert channels["context"] == {"saved": 2}
    assert ran.answer == "done"
    told = [(event["type"], event["tool_call_id"]) for event in ran.events if "tool_call_id" in event]
    assert len(told) == len(set(told)) == 12


async def test_a_message_to_a_session_whose_run_lost_its_process_waits_for_it_and_is_answered():
    tools = effects()
    store = InMemoryStore()
    script = Turns(SCRIPT, [{"text": "and you"}])
    async with process(store, script, tools) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1"))
    async with process(store, script, tools) as (s, _):
        second = await s.run("hello?", on_busy="enqueue", run_id="r2")
        statuses = {one.id: one.status for one in await s.runtime.runs("s")}
        said = await s.said()
    assert statuses == {"r1": "succeeded", "r2": "succeeded"}
    assert second.answer == "and you"
    assert said[4:] == [("tool", UNKNOWN_OUTCOME), ("assistant", "done"), ("user", "hello?"), ("assistant", "and you")]
    assert RAN == ["save 2", "write 3"]


async def test_a_call_that_may_be_run_again_is_and_the_head_is_that_of_an_undisturbed_run():
    tools = effects("retry")
    store = InMemoryStore()
    async with process(store, SCRIPT, tools) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1"))
    async with process(store, SCRIPT, tools) as (s, _):
        ran = await resumed(s, "r1")
    assert RAN == ["save 2", "write 3", "write 3"]
    assert ran.head == await undisturbed(SCRIPT, effects("retry", 0))


@pytest.mark.parametrize(
    "decision, ok, result, ran",
    [
        (retry(), True, "wrote 3", 2),
        (record({"seen": True}), True, {"seen": True}, 1),
        (record(None), True, None, 1),
        (fail("it never arrived"), False, "This call failed: it never arrived", 1),
    ],
)
async def test_a_person_says_what_became_of_a_call(decision, ok, result, ran):
    tools = effects("ask")
    store = InMemoryStore()
    async with process(store, SCRIPT, tools) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1"))
    async with process(store, SCRIPT, tools) as (s, _):
        asked = await resumed(s, "r1")
        assert (asked.status, [(one.kind, one.tool_call_id) for one in asked.interrupts]) == ("interrupted", [("unknown_outcome", "c")])
        done = await s.answer(asked, {"c": decision})
        last = (await s.nodes("tool_result"))[-1].payload
    assert done.answer == "done"
    assert (last["ok"], last["result"]) == (ok, result)
    assert RAN.count("write 3") == ran


async def test_a_decision_is_good_for_one_start_even_if_that_start_crashes():
    tools = effects("ask", retries_die=2)
    store = InMemoryStore()
    async with process(store, SCRIPT, tools) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1"))
    async with process(store, SCRIPT, tools) as (s, power):
        asked = await resumed(s, "r1")
        second = await crashed(s, power, s.runtime.answer("r1", {asked.interrupts[0].id: retry()}))
    assert RAN.count("write 3") == 2
    async with process(store, SCRIPT, tools) as (s, _):
        again = await resumed(s, second)
        assert (again.status, [one.kind for one in again.interrupts]) == ("interrupted", ["unknown_outcome"])
        assert RAN.count("write 3") == 2
        assert (await s.answer(again, {"c": record("it was written")})).answer == "done"
    assert RAN == ["save 2", "write 3", "write 3"]


async def test_an_approved_call_that_crashed_is_of_unknown_outcome_and_not_run_again():
    tools = effects(after=None)
    script = [calls(("write", {"n": 3}, "c")), {"text": "done"}]
    store = InMemoryStore()
    async with process(store, script, tools, tool_approval="ask") as (s, power):
        asked = await s.run("go", run_id="r1")
        second = await crashed(s, power, s.runtime.answer("r1", {asked.interrupts[0].id: approve()}))
    async with process(store, script, tools, tool_approval="ask") as (s, _):
        ran = await resumed(s, second)
        (result,) = await s.nodes("tool_result")
    assert (ran.status, ran.answer) == ("succeeded", "done")
    assert result.payload["result"] == UNKNOWN_OUTCOME
    assert RAN == ["write 3"]


async def test_the_prompt_of_a_run_that_is_taken_over_is_the_one_it_began_with():
    tools = effects("retry", after="a")
    system = "It is {{ now }} and {{ context.saved }} was saved."
    script = [calls(("save", {"n": 2}, "a")), calls(("write", {"n": 3}, "b")), {"text": "done"}]
    store = InMemoryStore()
    async with process(store, script, tools, system=system) as (s, power):
        await crashed(s, power, s.runtime.start(s.agent, "go", session="s", run_id="r1", context={"saved": "nothing"}))
        first = s.model.requests[0].system
    async with process(store, script, tools, system=system) as (s, _):
        ran = await resumed(s, "r1")
    assert "nothing was saved" in first
    assert [request.system for request in s.model.requests] == [first]
    assert ran.answer == "done"
