"""Limits stop a run in good order: what was done stays done, the reason is told, and the process stays responsive."""

import asyncio
import threading
import time

import pytest

from causeline import tool
from causeline.models.model import Finish, TextDelta
from tests.agent.stage import calls
from tests.scenarios.world import World, end, playing, states, until


async def test_a_step_limit_pauses_a_task_that_a_higher_limit_finishes(world: World):
    """The run says which limit it met; going on with a higher one repeats nothing of what was done."""

    @tool
    async def write(n: int) -> str:
        """Has an effect."""
        world.effects.leave(n)
        return f"wrote {n}"

    script = [*[calls(("write", {"n": n}, f"c{n}")) for n in range(5)], {"text": "done"}]
    async with world.stage(script, [write], max_steps=5) as s:
        ran = await s.run("go")
        assert (ran.status, ran.stop_reason) == ("failed", "max_steps")
        assert "5" in ran.error["message"]
    assert world.effects.lines == ["0", "1"]
    async with world.stage(script, [write], max_steps=20) as s:
        done = await s.run()
    assert (done.answer, world.effects.lines) == ("done", ["0", "1", "2", "3", "4"])


async def test_a_tool_budget_ends_in_an_answer_that_says_so(world: World):
    """The last request goes out without tools, so that there is an answer instead of an exception."""

    @tool(effects=False)
    async def look(n: int) -> str:
        """Looks."""
        return f"saw {n}"

    async with world.stage([calls(("look", {"n": 1})), calls(("look", {"n": 2})), {"text": "enough"}], [look], max_tool_rounds=2) as s:
        ran = await s.run("go")
        assert (ran.status, ran.answer, ran.stop_reason) == ("succeeded", "enough", "tool_rounds")
        assert (s.model.last.tools, len(s.model.requests)) == ((), 3)


async def test_a_plain_function_that_is_too_slow_holds_up_nobody_and_comes_too_late(world: World):
    """The model is told that it may still have effects; when its result comes at last it is not applied; others run meanwhile."""
    going = threading.Event()
    ended = threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        """Blocks its thread."""
        going.wait(20)
        world.effects.leave("late")
        ended.set()
        return "too late"

    agent, model = playing([calls(("slow", {}, "a")), {"text": "done"}], [slow])
    quick, _ = playing([{"text": "at once"}], name="quick")
    async with world.process(agent, quick) as runtime:
        run = await runtime.start(agent, "go", session="s")
        assert (await (await runtime.start(quick, "hi", session="t")).result()).answer == "at once"
        assert (await run.result()).answer == "done"
        assert world.effects.lines == []
        going.set()
        await until(ended.is_set)
        told = [one.text for one in await runtime.messages("s") if one.role == "tool"]
        assert await states(runtime, run.id) == {"a": "failed"}
    assert world.effects.lines == ["late"]
    assert [("timed out" in text, "may still have effects" in text) for text in told] == [(True, True)]
    assert "too late" not in str(model.last.messages)


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_tool_that_never_returns_is_cut_off_or_can_be_cancelled(world: World, blocking):
    """With a time limit the model gets an error; without one a person can stop the run; neither hangs the process."""
    released = threading.Event()

    @tool(name="hang")
    def blocks() -> str:
        """Does not return."""
        released.wait(20)
        return ""

    @tool(name="hang")
    async def waits() -> str:
        """Does not return."""
        await asyncio.Event().wait()
        return ""

    script = [calls(("hang", {}, "a")), {"text": "done"}]
    hang = blocks if blocking else waits
    async with world.stage(script, [hang], tool_timeout=0.05) as s:
        assert (await s.run("go", session="limited")).answer == "done"
        assert "timed out after 0.05 s" in s.model.last.messages[-1].text
    agent, _ = playing(script, [hang])
    async with world.process(agent) as runtime:
        run = await runtime.start(agent, "go", session="free")
        async for event in run.events():
            if event["type"] == "tool_call_end":
                await run.cancel()
        assert (await run.result()).status == "cancelled"
    released.set()


async def test_a_tool_that_fills_the_screen_is_cut_for_the_model_and_kept_for_the_record(world: World):
    """The request stays small and says what is missing; the log has all of it."""

    @tool(effects=False)
    async def read() -> str:
        """Reads much."""
        return "x" * 300_000

    async with world.stage([calls(("read", {})), {"text": "done"}], [read]) as s:
        await s.run("go")
        (result,) = await s.nodes("tool_result")
        shown = s.model.last.messages[-1].text
    assert len(result.payload["result"]) == 300_000
    assert len(shown) < 51_000
    assert result.id in shown


async def test_the_same_call_over_and_over_is_warned_about_and_then_stopped(world: World):
    """A model that goes round in circles costs a bounded number of calls."""

    @tool(effects=False)
    async def look(n: int) -> str:
        """Looks."""
        return "nothing new"

    async with world.stage([calls(("look", {"n": 1}))] * 50, [look]) as s:
        ran = await s.run("go")
        assert (ran.status, ran.stop_reason, len(s.model.requests)) == ("failed", "loop", 6)
        assert any("same result 5 times" in one.text for one in s.model.last.messages)


class Chatty:
    """Speaks in very many small pieces, and lets others run now and then."""

    name = "chatty"

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    async def stream(self, request):
        for number in range(self.pieces):
            yield TextDelta(f"{number % 10}")
            if number % 50 == 0:
                await asyncio.sleep(0)
        yield Finish("stop")

    async def aclose(self) -> None:
        """Nothing is held open."""


async def test_very_many_tokens_become_few_events(world: World):
    """What is stored and held grows with time, not with tokens; whoever follows still reads every one of them."""
    agent, _ = playing(Chatty(60_000))
    async with world.process(agent) as runtime:
        run = await runtime.start(agent, "go", session="s")
        ran = await end(run)
    spoken = [event["delta"] for event in ran.told("text_message_content")]
    assert "".join(spoken) == ran.answer
    assert len(ran.answer) == 60_000
    assert len(spoken) < 600


async def test_pieces_of_a_message_cost_the_same_early_and_late(tmp_path):
    """A reply twice as long takes about twice as long, also where nothing is written in between."""
    spent = []
    for pieces in (50_000, 200_000):
        world = World("memory://", tmp_path)
        agent, _ = playing([{"text": "word " * pieces}])
        async with world.process(agent) as runtime:
            start = time.process_time()
            assert (await (await runtime.start(agent, "go")).result()).status == "succeeded"
            spent.append(time.process_time() - start)
    assert spent[1] < 9 * spent[0]
