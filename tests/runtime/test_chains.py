"""What a caller reads of several runs: the end of a chain of answers, results in call order, what was said in vain, contexts."""

from typing import Any

import pytest

import causeline
from causeline import approve
from causeline.models.messages import Message
from tests.runtime.scenes import URLS, Scene, asks, by_call, runtime, said, store_at


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return store_at(request.param, tmp_path)


async def test_the_end_of_a_chain_is_that_of_the_last_answer_and_counts_the_tokens_of_all(store: Any) -> None:
    scene = Scene([asks(("pay", {"n": 1}, "a"), ("pay", {"n": 2}, "b")), {"text": "done"}])
    async with runtime(store, scene.agent()) as rt:
        first = await (await rt.start("agent", "go", session="s")).result()
        assert (await rt.final(first.run_id)).run_id == first.run_id
        open_ones = by_call(first)
        second = await (await rt.answer(first.run_id, {open_ones["a"].id: approve()})).result()
        third = await (await rt.answer(first.run_id, {open_ones["b"].id: approve()})).result()
        ends = [await rt.final(run.run_id) for run in (first, second, third)]
        assert [(end.run_id, end.answer) for end in ends] == [(third.run_id, "done")] * 3
        used = [run.usage["input_tokens"] for run in (first, second, third)]
        assert ends[0].usage_total["input_tokens"] == sum(used) > used[-1]


PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}


async def test_results_of_the_client_stand_in_the_order_of_their_calls(store: Any) -> None:
    script = [asks(("pick", {}, "a"), ("write", {"n": 1}, "b"), ("pick", {}, "c")), {"text": "done"}]
    async with runtime(store, Scene(script).agent()) as rt:
        ran = await (await rt.start("agent", "go", session="s", tools=[PICK])).result()
        for call in reversed(ran.pending_tool_call_ids):
            await (await rt.start("agent", [Message("tool", f"of {call}", tool_call_id=call)], session="s", tools=[PICK])).result()
        assert await said(rt) == [
            ("user", "go"), ("assistant", ""), ("tool", "of a"), ("tool", "wrote 1"), ("tool", "of c"), ("assistant", "done"),
        ]  # fmt: skip


async def test_what_was_said_in_a_run_that_was_cancelled_while_it_waited_is_in_the_history(store: Any) -> None:
    agent = Scene([{"text": "first", "delay": 0.3}]).agent()
    async with runtime(store, agent) as rt:
        first = await rt.start("agent", "one", session="s")
        waiting = await rt.start("agent", "two", session="s", on_busy="enqueue")
        await waiting.cancel()
        assert (await waiting.result()).status == "cancelled"
        await first.result()
        assert await said(rt) == [("user", "one"), ("assistant", "first"), ("user", "two")]
        await (await rt.start("agent", "three", session="s")).result()
        assert [text for role, text in await said(rt) if role == "user"] == ["one", "two", "three"]


async def test_a_run_that_is_cancelled_before_anybody_drove_it_leaves_what_was_said(store: Any) -> None:
    async with runtime(store, Scene([{"text": "never"}]).agent()) as rt:
        run = await rt.start("agent", "one", session="s", drive=False)
        await run.cancel()
        await run.cancel()
        assert (await run.result()).status == "cancelled"
        assert [node.kind for node in (await rt.branch("s")).state.nodes] == ["goal"]
        assert await said(rt) == [("user", "one")]


async def test_cancelling_an_ended_run_changes_nothing(store: Any) -> None:
    async with runtime(store, Scene([{"text": "hello"}]).agent()) as rt:
        run = await rt.start("agent", "go", session="s")
        before = await run.result()
        await run.cancel()
        assert await run.result() == before


async def test_the_next_run_takes_the_context_that_was_put_and_sees_the_metadata(store: Any) -> None:
    heard: list[str | None] = []

    class Hears(causeline.models.ScriptedModel):
        async def stream(self, request: Any) -> Any:
            heard.append(request.system)
            async for delta in super().stream(request):
                yield delta

    agent = causeline.Agent(Hears([{"text": "hello"}]), system="{{ metadata.who }} in {{ context.city }}")
    async with runtime(store, agent) as rt:
        await rt.create_session("s", metadata={"who": "Ada"})
        await (await rt.start(agent, "go", session="s", context={"city": "Rome", "k": 1})).result()
        await rt.put_session("s", context={"city": "Oslo"})
        await (await rt.start(agent, "go", session="s")).result()
        assert heard == ["Ada in Rome", "Ada in Oslo"]
        assert await rt.context("s") == {"city": "Oslo"}
        assert (await rt.session("s")).next_context is None
        await (await rt.start(agent, "go", session="s")).result()
        assert heard[-1] == "Ada in Oslo"
