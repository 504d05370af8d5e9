"""Draining: what has begun finishes and counts, nothing new begins, and what is left goes on from there, once."""

import asyncio

import pytest

from causeline.graph import Graph, HandBack, Outcome
from causeline.graph.node import node
from causeline.policy import RetryPolicy
from tests.graph.fanning import fan
from tests.graph.walking import ManualClock, Recording, dispatcher, run


class Stops:
    """What nodes of a test share: who has begun and who has ended, and a door that is opened for them."""

    def __init__(self) -> None:
        self.begun: list = []
        self.ended: list = []
        self.door = asyncio.Event()
        self.told = asyncio.Event()
        self.expected = 1

    async def work(self, name) -> None:
        self.begun.append(name)
        if len(self.begun) >= self.expected:
            self.told.set()
        await self.door.wait()
        self.ended.append(name)


async def drained(execution, stops: Stops):
    """Drain an execution while its nodes work, and let those finish."""
    async with asyncio.TaskGroup() as tasks:
        walk = tasks.create_task(outcome(execution))
        await stops.told.wait()
        execution.drain()
        stops.door.set()
    return walk.result()


async def outcome(execution):
    return await execution


def row(stops: Stops) -> Graph:
    async def step(ctx):
        await stops.work(ctx.placement)
        return Outcome("ok", {ctx.placement: True})

    graph = Graph("urn:t:row")
    for name, target in (("a", "b"), ("b", "c"), ("c", "end")):
        graph.node(name, node(f"urn:t:{name}", ("ok",))(step), {"ok": target})
    return graph.terminal("end").entry("main", "a")


async def test_the_node_under_way_finishes_and_the_next_one_does_not_begin():
    stops = Stops()
    graph = row(stops)
    machine, journal = dispatcher(graph), Recording()
    execution = machine.execute(graph.iri, {}, journal=journal)
    result = await drained(execution, stops)
    assert (result.status, execution.drained, result.error) == ("cancelled", True, None)
    assert ([step.node for step in journal.steps], stops.begun) == (["a"], ["a"])
    again = machine.resume(graph.iri, result.saved())
    result = await again
    assert (result.status, again.drained, stops.begun) == ("completed", False, ["a", "b", "c"])
    assert result.state == {"a": True, "b": True, "c": True}


async def test_what_is_drained_before_it_begins_does_not_begin():
    stops = Stops()
    graph = row(stops)
    execution = dispatcher(graph).execute(graph.iri, {})
    execution.drain()
    assert ((await execution).status, execution.drained, stops.begun) == ("cancelled", True, [])


async def test_a_walk_whose_last_node_was_under_way_is_over():
    stops = Stops()
    graph = single(working(stops))
    execution = dispatcher(graph).execute(graph.iri, {})
    assert ((await drained(execution, stops)).status, execution.drained) == ("completed", False)


def single(work) -> Graph:
    graph = Graph("urn:t:single").node("a", node("urn:t:a", ("ok",))(work), {"ok": "end", "error": "failed"})
    return graph.terminal("end").terminal("failed", "failed").entry("main", "a")


def working(stops: Stops):
    async def work(ctx):
        await stops.work(ctx.placement)
        return "ok"

    return work


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_items_under_way_finish_and_count_and_the_others_come_later_once(concurrency):
    stops = Stops()
    stops.expected = concurrency

    async def work(ctx):
        await stops.work(ctx.index)
        return Outcome("success", {"twice": ctx.item * 2})

    graph = fan(work, field="twice", scatter={"concurrency": concurrency})
    machine, journal = dispatcher(graph), Recording()
    execution = machine.execute(graph.iri, {"items": [1, 2, 3, 4]}, journal=journal)
    result = await drained(execution, stops)
    assert (execution.drained, stops.ended, len(journal.items)) == (True, list(range(concurrency)), concurrency)
    result = await machine.resume(graph.iri, result.saved())
    assert (result.state["out"], stops.begun) == ([2, 4, 6, 8], [0, 1, 2, 3])


async def test_all_branches_finish_what_they_are_at():
    stops = Stops()
    stops.expected = 2
    graph = Graph("urn:t:two")
    for name in ("left", "right"):
        graph.node(name, node(f"urn:t:{name}", ("ok",))(working(stops)), {"ok": f"{name}-2"})
        graph.node(f"{name}-2", node(f"urn:t:{name}-2", ("ok",))(working(stops)), {"ok": "end"})
    graph.terminal("end").entry("one", "left").entry("two", "right")
    machine = dispatcher(graph)
    result = await drained(machine.execute(graph.iri, {}), stops)
    assert (result.status, sorted(stops.ended)) == ("cancelled", ["left", "right"])
    assert (await machine.resume(graph.iri, result.saved())).status == "completed"
    assert sorted(stops.begun) == ["left", "left-2", "right", "right-2"]


async def test_a_failure_is_not_tried_again_and_a_wait_for_another_try_ends():
    tries: list[int] = []
    waiting = asyncio.Event()

    class Clock(ManualClock):
        async def sleep(self, seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

    async def fails(ctx):
        tries.append(ctx.attempt)
        raise ConnectionError("away")

    graph = Graph("urn:t:try").node(
        "a", node("urn:t:a", ("ok",))(fails), {"ok": "end", "error": "end"}, retry=RetryPolicy(max_attempts=5, base_delay=60)
    )
    graph.terminal("end").entry("main", "a")
    execution = dispatcher(graph, clock=Clock()).execute(graph.iri, {})
    async with asyncio.TaskGroup() as tasks:
        walk = tasks.create_task(outcome(execution))
        await waiting.wait()
        execution.drain()
    assert (walk.result().status, execution.drained, tries) == ("cancelled", True, [1])


async def test_a_node_may_leave_its_work_to_whoever_goes_on():
    stops = Stops()

    async def patient(ctx):
        await stops.work(ctx.placement)
        if ctx.draining:
            raise HandBack
        return Outcome("ok", {"done": True})

    graph = single(patient)
    machine, journal = dispatcher(graph), Recording()
    result = await drained(machine.execute(graph.iri, {}, journal=journal), stops)
    assert (result.status, journal.steps) == ("cancelled", [])
    assert (await machine.resume(graph.iri, result.saved())).state == {"done": True}


async def test_a_node_that_hands_back_when_nobody_drains_has_failed():
    async def early(_ctx):
        raise HandBack

    result = await run(single(early))
    assert (result.status, result.state["error"]["code"]) == ("failed", "handed_back")


async def test_a_stop_still_stops_what_drains():
    stops = Stops()
    graph = row(stops)
    execution = dispatcher(graph).execute(graph.iri, {})
    async with asyncio.TaskGroup() as tasks:
        walk = tasks.create_task(outcome(execution))
        await stops.told.wait()
        execution.drain()
        execution.cancel()
    assert (walk.result().status, execution.drained, stops.ended) == ("cancelled", False, [])
