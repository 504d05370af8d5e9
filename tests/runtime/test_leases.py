"""Who may write a run: the living are left alone, the dead are followed at once, and whoever was overtaken writes nothing."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace

import pytest

import causeline
from causeline.errors import Conflict, Unavailable
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.lease import LeaseWatch, evidently_gone, new_holder, retire
from causeline.runtime.records import Commit, Run, RunPatch
from causeline.runtime.times import SystemClock
from causeline.testing.faults import Delay, Fail, FaultyStore
from tests.runtime.processes import append, die, ended, spawn
from tests.runtime.scenes import URLS, asks, beside, runtime, said, store_at

LOOP = [asks(("work", {"n": 1}, "a"), ("work", {"n": 2}, "b")), asks(("work", {"n": 3}, "c")), {"text": "done"}]


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


def stranger(nonce="1"):
    """A holder on a machine that cannot be looked up."""
    return json.dumps({"host": "elsewhere", "boot": "other", "pid": 1, "born": "1", "nonce": nonce})


def working(effects, *, seconds=0.0, script=LOOP, **policy):
    @causeline.tool(**policy)
    async def work(n: int) -> str:
        """Works."""
        effects.append(n)
        await asyncio.sleep(seconds)
        return f"worked {n}"

    return causeline.Agent(ScriptedModel(script), tools=[work])


# judging


def test_a_dead_holder_on_this_machine_is_gone_at_once_and_a_silent_one_after_a_lease():
    holder = new_holder()
    run = Run(id="r", session="s", owner="o", status="running", agent="a", created_at="", holder=holder, epoch=1)
    watch = LeaseWatch(15)
    assert not evidently_gone(holder)
    assert [watch.expired(run, now) for now in (0, 14.9, 15)] == [False, False, True]
    retire(holder)
    assert evidently_gone(holder)
    assert LeaseWatch(15).expired(run, 0)


def test_a_holder_whose_process_ids_are_numbered_apart_is_judged_by_its_lease():
    """Containers may share host name and boot: there, no such process here says nothing."""
    holder = json.dumps({**json.loads(new_holder()), "space": "pid:[1]", "pid": 2**22 + 1})
    run = Run(id="r", session="s", owner="o", status="running", agent="a", created_at="", holder=holder, epoch=1)
    watch = LeaseWatch(15)
    assert not evidently_gone(holder)
    assert [watch.expired(run, now) for now in (0, 14.9, 15)] == [False, False, True]


def test_a_holder_elsewhere_is_gone_when_its_counter_stood_still_for_a_lease_on_the_observers_clock():
    run = Run(id="r", session="s", owner="o", status="running", agent="a", created_at="", holder=stranger(), epoch=1)
    watch = LeaseWatch(15)
    assert [watch.expired(run, now) for now in (100, 114.9)] == [False, False]
    moved = replace(run, beat=1)
    assert [watch.expired(moved, now) for now in (115, 129.9, 130)] == [False, False, True]
    taken = replace(moved, epoch=2)
    assert [watch.expired(taken, now) for now in (131, 145.9, 146)] == [False, False, True]


def test_runs_of_two_owners_with_one_id_are_watched_apart():
    one = Run(id="r", session="s", owner="a", status="running", agent="a", created_at="", holder=stranger(), epoch=1)
    other = replace(one, owner="b", beat=7)
    watch = LeaseWatch(15)
    assert [watch.expired(run, now) for now in (0, 10) for run in (one, other)] == [False] * 4
    assert [watch.expired(run, 15) for run in (one, other)] == [True, True]


def test_a_pid_that_was_given_to_another_process_is_not_the_holder():
    holder = json.loads(new_holder())
    assert evidently_gone(json.dumps({**holder, "born": "1"}))
    assert evidently_gone(json.dumps({**holder, "pid": 2**22 + 1}))
    assert not evidently_gone(json.dumps({**holder, "boot": "another", "born": "1"}))


# taking over


def dying_at_the_third_call(tmp_path):
    """What a process does that starts the run r1 and dies in its third call."""

    async def first():
        @causeline.tool(idempotent=True)
        async def work(n: int) -> str:
            """Works."""
            append(tmp_path / "effects", str(n))
            if n == 3:
                die()
            return f"worked {n}"

        agent = causeline.Agent(ScriptedModel(LOOP), tools=[work])
        rt = await runtime(store_at("sqlite", tmp_path), agent).__aenter__()
        await (await rt.start(agent, "go", session="s", run_id="r1")).result()

    return first


@pytest.mark.parametrize("way", ["resume", "start", "work", "answer"])
def test_a_dead_process_is_followed_at_once(tmp_path, way):
    async def second():
        agent = working([], idempotent=True)
        async with runtime(store_at("sqlite", tmp_path), agent, lease_seconds=1e6) as rt:  # who waited for a lease would wait for ever
            if way == "resume":
                await rt.resume("r1")
            if way == "start":
                await rt.start(agent, "more", session="s", on_busy="enqueue")
            if way == "answer":
                await rt.start(agent, "go", session="s", run_id="r1")
            worker = asyncio.create_task(rt.work()) if way == "work" else None
            result = await rt.result("r1")
            if worker is not None:
                worker.cancel()
            return result.answer, (await rt.run("r1")).epoch

    assert ended(spawn(dying_at_the_third_call(tmp_path))) == -9
    assert asyncio.run(second()) == ("done", 2)


async def test_a_holder_elsewhere_that_is_silent_is_overtaken_and_cannot_write_any_more(store):
    effects: list[int] = []
    agent = working(effects, seconds=0.6)
    async with runtime(store, agent, beat_seconds=30) as rt:
        run = await rt.start(agent, "go", session="s", run_id="r1")
        while not effects:  # noqa: ASYNC110 - a list tells no event
            await asyncio.sleep(0.01)
        stale = await rt.run("r1")
        row = await store.claim("default", "r1", stranger(), epoch=1, beat=stale.beat, at="2026-01-01T00:00:00.000Z")
        assert row is not None
        assert row.epoch == 2
        with pytest.raises(Conflict) as caught:
            await store.commit(
                Commit(run="r1", session="s", owner="default", epoch=1, at="2026-01-01T00:00:00.000Z", patch=RunPatch(status="failed"))
            )
        assert caught.value.code == "lost_lease"
        await asyncio.sleep(0.7)  # the overtaken one has had its results by now, and kept silent
        kept = await rt.run("r1")
        assert (kept.status, kept.holder, kept.epoch) == ("running", stranger(), 2)
        assert {row.call.state for row in await rt.calls("r1")} == {"started"}
        async with beside(store, agent, lease_seconds=0.2, beat_seconds=0.05) as again:
            assert (await (await again.resume("r1")).result()).status == "succeeded"
        assert sorted(effects) == [1, 2, 3]
        assert (await run.result()).status == "succeeded"


async def test_a_tool_that_takes_longer_than_the_lease_is_not_overtaken(store):
    """Two observers who cannot look the holder up see its counter move."""
    effects: list[int] = []
    agent = working(effects, seconds=0.7, script=[asks(("work", {"n": 1}, "a")), {"text": "done"}])
    rt = runtime(store, agent, lease_seconds=0.3, beat_seconds=0.05)
    rt._dispatch.holder = rt._dispatch.driving.holder = rt._dispatch._heart._holder = stranger()
    async with rt:
        run = await rt.start(agent, "go", session="s")
        async with beside(store, agent, lease_seconds=0.3, beat_seconds=0.05) as observer:
            worker = asyncio.create_task(observer.work())
            resumed = asyncio.create_task(observer.resume(run.id))
            result = await run.result()
            worker.cancel()
            with suppress(Conflict):
                await resumed
        assert (result.status, effects, (await rt.run(run.id)).epoch) == ("succeeded", [1], 1)


async def test_resuming_a_live_run_says_who_holds_it(store):
    gate = asyncio.Event()

    @causeline.tool
    async def work(n: int) -> str:
        """Works until it may stop."""
        await gate.wait()
        return f"worked {n}"

    agent = causeline.Agent(ScriptedModel([asks(("work", {"n": 1}, "a")), {"text": "done"}]), tools=[work])
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        async with beside(store, agent) as other:
            with pytest.raises(Conflict, match="process") as caught:
                await other.resume(run.id)
            assert caught.value.code == "run_held"
            gate.set()
            assert (await run.result()).status == "succeeded"
            assert (await (await other.resume(run.id)).result()).status == "succeeded"


# clocks


class Odd(SystemClock):
    """A wall clock that stands still, or goes back an hour with every look."""

    def __init__(self, step: float) -> None:
        self.time, self.step = 1_800_000_000.0, step

    def now(self) -> float:
        self.time += self.step
        return self.time


@pytest.mark.parametrize("step", [0.0, -3600.0])
async def test_no_order_comes_from_the_wall_clock(store, step):
    agent = working([])
    async with runtime(store, agent, clock=Odd(step)) as rt:
        for number in range(3):
            assert (await (await rt.start(agent, f"word {number}", session="s")).result()).answer == "done"
        assert [text for role, text in await said(rt) if role == "user"] == ["word 0", "word 1", "word 2"]
        runs = await rt.runs("s")
        assert [one.queue for one in runs] == sorted(one.queue for one in runs)
        for run in runs:
            numbers = [event["seq"] for event in await store.events("default", run.id, 0)]
            assert numbers == list(range(1, len(numbers) + 1))


# a store that fails


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", URLS)
async def test_a_store_that_fails_once_anywhere_loses_and_doubles_nothing(tmp_path, kind, when):
    async def play(number):
        effects: list[int] = []
        agent = working(effects)
        folder = tmp_path / f"{number}{when}"
        folder.mkdir()
        store = FaultyStore(store_at(kind, folder), Fail(number, when) if number else None)
        async with runtime(store, agent) as rt:
            try:
                run = await rt.start(agent, "go", session="s", run_id="r1")
            except Unavailable:
                assert number == 1
                run = await rt.start(agent, "go", session="s", run_id="r1")
            result = await asyncio.wait_for(run.result(), 20)
            unknown = [row for row in await rt.calls("r1") if row.call.state == "unknown"]
            events = [event["seq"] for event in await store.events("default", "r1", 0)]
            assert events == list(range(1, len(events) + 1))
            return result.status, result.answer, sorted(effects), bool(unknown), store.writes

    calm = await play(0)
    assert calm[:4] == ("succeeded", "done", [1, 2, 3], False)
    for number in range(1, calm[4] + 1):
        status, answer, effects, unknown, _ = await play(number)
        assert (status, answer) == ("succeeded", "done"), f"write {number}"
        assert len(effects) == len(set(effects)), f"write {number}"
        assert (effects, unknown) == ([1, 2, 3], False), f"write {number}"


class Down(FaultyStore):
    """A store whose writes fail while `down`."""

    down = False

    async def _strike(self, number, when):
        if self.down and when == "before":
            raise Unavailable("the store is down")


async def test_a_store_that_stays_away_is_told_of_and_the_run_goes_on_when_it_is_back(tmp_path):
    effects: list[int] = []
    gate = asyncio.Event()

    @causeline.tool
    async def work(n: int) -> str:
        """Works."""
        effects.append(n)
        await gate.wait()
        return f"worked {n}"

    agent = causeline.Agent(ScriptedModel([asks(("work", {"n": 1}, "a")), {"text": "done"}]), tools=[work])
    store = Down(store_at("sqlite", tmp_path))
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        while not effects:  # noqa: ASYNC110 - a list tells no event
            await asyncio.sleep(0.01)
        store.down = True
        gate.set()
        with pytest.raises(Unavailable, match="the store is down"):
            await asyncio.wait_for(run.result(), 30)
        assert (await rt.run(run.id)).status == "running"
        store.down = False
        async with asyncio.timeout(20):
            while (await rt.run(run.id)).status == "running":  # noqa: ASYNC110 - nobody is told of healing
                await asyncio.sleep(0.05)
        assert [event async for event in run.events()][-1]["type"] == "run_finished"
        assert (await asyncio.wait_for(run.result(), 30)).answer == "done"
        assert effects == [1]
        assert [(row.call.state, row.call.result) for row in await rt.calls(run.id)] == [("succeeded", "worked 1")]


async def test_a_queued_run_waits_out_a_store_that_stays_away(tmp_path):
    agent = working([], seconds=0.1)
    store = Down(store_at("sqlite", tmp_path))
    async with runtime(store, agent) as rt:
        first = await rt.start(agent, "one", session="s")
        second = await rt.start(agent, "two", session="s", on_busy="enqueue")
        store.down = True
        await asyncio.sleep(0.3)
        store.down = False
        assert (await asyncio.wait_for(second.result(), 20)).status == "succeeded"
        assert (await first.result()).status == "succeeded"
        assert [text for role, text in await said(rt) if role == "user"] == ["one", "two"]


async def test_a_value_that_cannot_be_recorded_ends_the_run_with_a_reason(store):
    from causeline.graph import Graph, Outcome, node
    from causeline.runtime import GraphProgram

    @node("urn:test:bad", ("done",))
    def bad(ctx):
        return Outcome("done", {"value": "\ud800"})

    graph = GraphProgram(Graph("urn:test:dag:bad").node("b", bad.iri, {"done": "end"}).terminal("end").entry("main", "b").build(), (bad,))
    async with runtime(store, graph) as rt:
        result = await asyncio.wait_for((await rt.start(graph, session="s")).result(), 30)
        assert result.status == "failed"
        assert (result.error or {})["message"]
        assert (await (await rt.start(graph, session="s")).result()).status == "failed"


async def test_a_slow_store_slows_a_run_and_changes_nothing(tmp_path):
    effects: list[int] = []
    agent = working(effects)
    store = FaultyStore(store_at("sqlite", tmp_path), *(Delay(number, seconds=0.05) for number in range(1, 8)))
    async with runtime(store, agent) as rt:
        assert (await (await rt.start(agent, "go", session="s")).result()).answer == "done"
        assert sorted(effects) == [1, 2, 3]


def test_a_run_that_is_resumed_right_after_opening_is_not_held_by_the_one_who_opened(tmp_path):
    """Opening brings on what a dead process left; asking for the same run in that moment is no conflict."""

    async def second():
        agent = working([], idempotent=True)
        async with causeline.open(f"sqlite:///{tmp_path}/store.db", agents=[agent]) as rt:
            answers = [(await (await rt.resume("r1")).result()).answer for _ in range(3)]
            return answers, (await rt.run("r1")).epoch

    assert ended(spawn(dying_at_the_third_call(tmp_path))) == -9
    assert asyncio.run(second()) == (["done"] * 3, 2)
