"""Deadlines, cancelling, timeouts and trying again."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.graph import Graph, Limits, Outcome
from causeline.policy import RetryPolicy
from tests.graph.walking import ManualClock, Recording, chain, counting, dispatcher, idle, others, run


async def test_a_loop_that_never_waits_meets_its_deadline():
    result = await run(counting(10**9), limits=Limits(visits=10**9), deadline=0.3)
    assert result.status == "timed_out"
    assert result.saved()["position"]["branches"] == [{"at": "count"}]


async def test_a_loop_that_never_waits_can_be_cancelled():
    execution = dispatcher(counting(10**9), limits=Limits(visits=10**9)).execute("urn:t:count")
    asyncio.get_running_loop().call_later(0.05, execution.cancel)
    result = await execution
    assert result.status == "cancelled"
    assert result.state["n"] > 10
    assert not others()


async def test_wall_is_a_deadline_of_the_limits():
    result = await run(chain(lambda ctx: asyncio.sleep(60)), limits=Limits(wall=5), clock=ManualClock())
    assert result.status == "timed_out"


async def test_a_deadline_interrupts_a_waiting_node_and_what_finished_is_kept():
    cleaned = []

    async def slow(ctx):
        assert ctx.deadline == 1030.0 + 30 * len(cleaned)
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    d = dispatcher(chain(lambda ctx: Outcome("done", {"x": 1}), slow), clock=ManualClock())
    result = await d.execute("urn:t:chain", deadline=30)
    assert (result.status, result.state, cleaned) == ("timed_out", {"x": 1}, [True])
    assert not others(), "an interrupted node does not run on"
    assert (await d.resume("urn:t:chain", result.saved(), deadline=30)).status == "timed_out"


async def test_cancelling_whoever_awaits_cancels_the_execution():
    execution = dispatcher(chain(lambda ctx: asyncio.sleep(60))).execute("urn:t:chain")

    async def wait():
        return await execution

    waiting = asyncio.create_task(wait())
    await idle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert execution.status == "cancelled"
    assert not others()


async def test_a_node_runs_again_as_its_policy_says_and_waits_on_the_clock():
    tries = []

    class Weak(RuntimeError):
        pass

    def flaky(ctx):
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise Weak("not yet")
        return "done"

    clock, journal = ManualClock(), Recording()
    policy = RetryPolicy(max_attempts=4, strategy="linear", base_delay=2.0, jitter_factor=0.0)
    graph = Graph("urn:t:r").node("flaky", flaky, {"done": "end"}, retry=policy).terminal("end")
    result = await run(graph, clock=clock, journal=journal)
    assert (result.status, tries, clock.slept, journal.steps[0].attempt) == ("completed", [1, 2, 3], [2.0, 4.0], 3)


@pytest.mark.parametrize(
    "filters, expected",
    [
        ({"retry_on": ("ValueError",)}, 1),
        ({"retry_on": ("OSError",)}, 3),
        ({"abort_on": ("ConnectionError",)}, 1),
        ({"retry_on": ("OSError",), "abort_on": ("ConnectionResetError",)}, 1),
        ({}, 3),
    ],
)
async def test_retry_filters_by_class_name_and_abort_wins(filters, expected):
    tries = []

    def broken(ctx):
        tries.append(1)
        raise ConnectionResetError("gone")

    policy = RetryPolicy(max_attempts=3, base_delay=0.0, **filters)
    result = await run(Graph("urn:t:f").node("broken", broken, {"done": "end"}, retry=policy).terminal("end"))
    assert (result.status, result.error.code, len(tries)) == ("failed", "ConnectionResetError", expected)


async def test_waiting_to_try_again_is_given_up_at_once_on_cancel():
    def broken(ctx):
        raise OSError("down")

    policy = RetryPolicy(max_attempts=9, base_delay=3600.0, max_delay=3600.0)
    execution = dispatcher(Graph("urn:t:w").node("broken", broken, {"done": "end"}, retry=policy).terminal("end")).execute("urn:t:w")
    asyncio.get_running_loop().call_later(0.02, execution.cancel)
    assert (await asyncio.wait_for(execution._outcome(), 30)).status == "cancelled"


async def test_a_node_that_takes_too_long_leaves_by_error_and_its_timeout_is_per_try():
    async def slow(ctx):
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return Outcome("done", {"attempt": ctx.attempt})

    graph = Graph("urn:t:slow").node("slow", slow, {"done": "end", "error": "bad"}, timeout=2.0).terminal("end").terminal("bad", "failed")
    result = await run(graph, clock=ManualClock())
    assert (result.status, result.state["error"]["code"]) == ("failed", "node_timeout")
    again = Graph("urn:t:slow").node("slow", slow, {"done": "end"}, timeout=2.0, retry=RetryPolicy(base_delay=0.0)).terminal("end")
    assert (await run(again, clock=ManualClock())).state == {"attempt": 2}
    assert not others()


async def test_an_execution_cancelled_before_it_began_runs_nothing():
    ran = []
    graph = chain(lambda ctx: ran.append(1) or "done").phase("open", lambda ctx: ran.append(2) or "done", "pre")
    d = dispatcher(graph)
    execution = d.execute("urn:t:chain")
    execution.cancel()
    assert ((await execution).status, ran) == ("cancelled", [])
    assert ((await d.execute("urn:t:chain", deadline=0)).status, ran) == ("timed_out", [])


async def test_a_cancel_that_leaks_out_of_a_node_is_that_nodes_failure():
    async def leaky(ctx):
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner

    result = await run(chain(leaky))
    assert (result.status, result.error.code, result.error.placement) == ("failed", "node_cancelled", "n0")


async def test_a_node_may_cancel_its_own_execution_and_its_visit_still_counts():
    def give_up(ctx):
        ctx.use(list)[0].cancel()
        return Outcome("done", {"x": 1})

    execution = dispatcher(chain(give_up, lambda ctx: Outcome("done", {"y": 1}))).execute("urn:t:chain", services={list: (held := [])})
    held.append(execution)
    result = await execution
    assert (result.status, result.state) == ("cancelled", {"x": 1})


def test_an_iteration_left_when_the_loop_is_gone_harms_nobody():
    async def begin():
        reader = aiter(dispatcher(chain(lambda ctx: "done", lambda ctx: "done")).execute("urn:t:chain"))
        await anext(reader)
        return reader

    reader = asyncio.run(begin())
    del reader
