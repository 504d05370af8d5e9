"""Followers: every event once, in order, from any number on, live or later, here or elsewhere; and none holds up the run."""

import asyncio
import json
import random
import resource
from typing import Any

import pytest

import causeline
from causeline.errors import Missing
from causeline.graph import Graph, Outcome, node
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime import GraphProgram
from causeline.runtime.feed import TAIL, Feed
from causeline.runtime.records import Commit, Run, RunPatch
from tests.runtime.processes import ended, spawn
from tests.runtime.scenes import URLS, asks, beside, runtime, store_at

AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


def emitter(count, every=50, pause=0.0):
    """A graph whose one node tells `count` things."""

    @node("urn:test:emit", ("done",))
    async def emit(ctx):
        for number in range(count):
            ctx.emit({"n": number})
            if number % every == 0:
                await asyncio.sleep(pause)
        return Outcome("done")

    return GraphProgram(Graph("urn:test:dag:emit").node("e", emit.iri, {"done": "end"}).terminal("end").entry("main", "e").build(), (emit,))


def told(events):
    return [event["data"]["n"] for event in events if event["type"] == "node_event"]


def check(events, after=0):
    assert [event["seq"] for event in events] == list(range(after + 1, after + 1 + len(events)))
    assert events[-1]["type"] == "run_finished"


async def test_live_or_later_from_any_number_the_events_are_the_same(store):
    graph = emitter(300, every=10, pause=0.001)
    async with runtime(store, graph) as rt:
        run = await rt.start(graph, session="s")
        live = [event async for event in run.events()]
        check(live)
        assert told(live) == list(range(300))
        for after in (0, 1, len(live) // 2, len(live) - 1):
            later = [event async for event in run.events(after=after)]
            check(later, after)
            assert later == live[after:]
        assert [event async for event in run.events(after=len(live))] == []
        assert [event async for event in run.events(after=10_000)] == []
    if store.__class__.__name__ == "SqliteStore":
        async with runtime(store) as rt:
            assert [event async for event in rt.events(run.id)] == live


def test_another_process_follows_live(tmp_path):
    graph = emitter(200, every=10, pause=0.01)
    go = tmp_path / "go"

    async def follow():
        async with runtime(store_at("sqlite", tmp_path)) as rt:
            while not await rt.runs():  # noqa: ASYNC110 - another process starts it
                await asyncio.sleep(0.01)
            go.write_text("")
            return [event["seq"] async for event in rt.events("r1")]

    async def drive():
        async with runtime(store_at("sqlite", tmp_path), graph) as rt:
            run = await rt.start(graph, session="s", run_id="r1")
            await run.result()
            return [event["seq"] async for event in run.events()]

    asyncio.run(_made(tmp_path))
    follower = spawn(follow, tmp_path / "told")
    driven = asyncio.run(drive())
    assert ended(follower) == 0
    assert json.loads((tmp_path / "told").read_text()) == driven == list(range(1, len(driven) + 1))


async def _made(folder):
    async with runtime(store_at("sqlite", folder)):
        pass


async def test_a_hundred_followers_get_everything_and_a_slow_one_holds_up_nobody(store):
    graph = emitter(400, every=5, pause=0.001)
    async with runtime(store, graph) as rt:
        run = await rt.start(graph, session="s")
        slow_seen = []

        async def slow():
            async for event in run.events():
                slow_seen.append(event["seq"])
                if len(slow_seen) == 20:
                    await asyncio.Event().wait()

        async def quick(after):
            await asyncio.sleep(random.random() * 0.2)
            return [event async for event in run.events(after=after)]

        lazy = asyncio.create_task(slow())
        followers = [asyncio.create_task(quick(number % 7)) for number in range(100)]
        result = await run.result()
        assert result.status == "succeeded"
        for number, follower in enumerate(followers):
            check(await follower, number % 7)
        lazy.cancel()
        await asyncio.gather(lazy, return_exceptions=True)
        assert slow_seen == list(range(1, 21))


class Between:
    """A store that lets something happen right after a follower has read."""

    def __init__(self, inner):
        self.inner: Any = inner
        self.then: Any = None

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def events(self, *args, **more):
        found = await self.inner.events(*args, **more)
        if self.then is not None:
            then, self.then = self.then, None
            await then()
        return found

    async def rows(self, *args, **more):
        found = await self.inner.rows(*args, **more)
        if self.then is not None and random.random() < 0.5:
            then, self.then = self.then, None
            await then()
        return found


@pytest.mark.parametrize("here", [True, False], ids=["driven here", "driven elsewhere"])
async def test_a_run_that_ends_between_catching_up_and_waiting_is_heard_to_the_end(here):
    """A thousand times."""
    inner = store_at("memory", None)
    store: Any = Between(inner)
    feed = Feed(store)
    for number in range(1000):
        name = f"r{number}"
        await inner.start(Run(id=name, session=name, owner="o", status="running", agent="a", created_at=AT, holder="h"), "reject")
        if here:
            feed.begin(("o", name))

        async def write(first, *events, name=name, **more):
            await inner.commit(Commit(run=name, session=name, owner="o", epoch=1, at=AT, first_event=first, events=events, **more))
            if here:
                feed.publish(("o", name), first, events)

        async def finish(write=write, name=name):
            await write(2, {"type": "b"}, {"type": "run_finished"}, patch=RunPatch(status="succeeded"))
            if here:
                feed.end(("o", name))

        await write(1, {"type": "a"})
        if here and number % 2:
            feed._live["o", name].tail.clear()
        store.then = finish
        ending = None
        if here and not number % 2:
            ending = asyncio.create_task(finish())
            store.then = None
        found = await asyncio.wait_for(_joined(feed.follow("o", name)), 30)
        if ending is not None:
            await ending
        assert [event["seq"] for event in found] == [1, 2, 3]


async def _all(events):
    return [event async for event in events]


async def _joined(batches):
    return [event async for batch in batches for event in batch]


async def test_a_number_of_one_run_shows_nothing_of_another(store):
    graph = emitter(30)
    async with runtime(store, graph) as rt:
        one = await rt.start(graph, session="a")
        other = await rt.start(graph, session="b")
        await asyncio.gather(one.result(), other.result())
        last = [event async for event in one.events()][-1]["seq"]
        assert {event["run_id"] for event in [event async for event in other.events(after=last - 5)]} <= {other.id}
        with pytest.raises(Missing):
            await _all(rt.events("run_unknown", 3))
        async with beside(store, graph, owner="mallory") as stranger:
            with pytest.raises(Missing):
                await _all(stranger.events(one.id))


async def test_two_hundred_thousand_events_are_followed_in_flat_memory(tmp_path):
    count = 200_000
    graph = emitter(count, every=200, pause=0.004)  # 50,000 a second at most: what nobody could write down yet has to be held
    async with runtime(store_at("sqlite", tmp_path), graph) as rt:
        run = await rt.start(graph, session="s")
        seen = last = 0
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async for event in run.events():
            last += 1
            assert event["seq"] == last
            seen += event["type"] == "node_event"
        await run.result()
        assert seen == count
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB; all of them would take twice that
        assert not rt.feed._live


@pytest.mark.parametrize(
    "said", [{"type": "run_finished", "status": "succeeded"}, {"type": "step_finished"}, {}, {"type": 5}, None, "text"]
)
async def test_what_a_node_of_ones_own_emits_is_told_in_an_envelope_whatever_it_looks_like(store, said):
    @node("urn:test:say", ("done",))
    def say(ctx):
        ctx.emit(said)
        return Outcome("done", {"result": {"answer": "fine"}})

    graph = GraphProgram(Graph("urn:test:dag:say").node("n", say.iri, {"done": "end"}).terminal("end").build(), (say,))
    async with runtime(store, graph) as rt, asyncio.timeout(30):
        run = await rt.start(graph, session="s")
        events = [event async for event in run.events()]
        assert (await run.result()).answer == "fine"
    check(events)
    assert [(one["node"], one["data"]) for one in events if one["type"] == "node_event"] == [("n", said)]


async def test_what_cannot_be_stored_is_refused_where_it_is_emitted(store):
    @node("urn:test:say", ("done",))
    def say(ctx):
        ctx.emit({"x": object()})
        return "done"

    graph = GraphProgram(Graph("urn:test:dag:say").node("n", say.iri, {"done": "end"}).terminal("end").build(), (say,))
    async with runtime(store, graph) as rt, asyncio.timeout(30):
        result = await (await rt.start(graph, session="s")).result()
        assert result.status == "failed"
        assert "n: what is emitted must be JSON" in result.error["message"]


async def test_a_long_reply_comes_in_few_events_and_whole(store):
    words = [f"word{number} " for number in range(20_000)]
    agent = causeline.Agent(ScriptedModel([{"text": "".join(words)}]))
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        events = [event async for event in run.events()]
        deltas = [event["delta"] for event in events if event["type"] == "text_message_content"]
        assert "".join(deltas) == "".join(words)
        assert len(deltas) < 2000
        assert len(events) <= TAIL


async def test_words_come_at_once_and_then_at_least_every_so_often(store):
    agent = causeline.Agent(ScriptedModel([{"text": "one two three four five six", "pace": 0.04}]))
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        deltas = [event["delta"] async for event in run.events() if event["type"] == "text_message_content"]
        assert deltas[0] == "one "
        assert "".join(deltas) == "one two three four five six"
        assert 3 <= len(deltas) <= 6


async def test_the_history_is_stored_once_and_shown_with_the_event_that_refers_to_it(store):
    agent = causeline.Agent(ScriptedModel([asks(("nope", {}, "a")), {"text": "done"}]))
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "a long question " * 50, session="s")
        await run.result()
        kept = [event for event in await store.events("default", run.id, 0) if event["type"] == "messages_snapshot"]
        shown = [event async for event in run.events() if event["type"] == "messages_snapshot"]
        assert [sorted(event) for event in kept] == [["seq", "ts", "type"]] or all("messages" not in event for event in kept)
        assert [message["role"] for message in shown[0]["messages"]] == ["user", "assistant", "tool", "assistant"]
        await (await rt.start(agent, "more", session="s")).result()
        again = [event async for event in run.events() if event["type"] == "messages_snapshot"]
        assert again == shown


async def test_runs_of_one_name_of_two_owners_are_told_apart(store):
    """One process drives both, and each owner hears, cancels and waits for its own."""
    graph = emitter(50, every=5, pause=0.01)
    async with runtime(store, graph) as rt, asyncio.timeout(20):
        await (await rt.start(graph, session="s", run_id="first")).result()
        theirs = Run(id="r1", session="t", owner="they", status="queued", agent=graph.name, created_at=AT, context={"whose": "theirs"})
        await store.start(theirs, "enqueue")
        ours = await rt.start(graph, session="s", run_id="r1", context={"whose": "ours"})
        await rt._dispatch.take(10)
        async with beside(store, owner="they") as they:
            both = await asyncio.gather(_all(ours.events()), _all(they.events("r1")))
        assert [event["session_id"] for event in both[0]] == ["s"] * len(both[0])
        assert [event["session_id"] for event in both[1]] == ["t"] * len(both[1])
        assert (len(told(both[0])), len(told(both[1]))) == (50, 50)
        rows = await store.rows(Run, owner=None, id="r1")
        assert {(one.owner, one.status) for one in rows} == {("default", "succeeded"), ("they", "succeeded")}


async def test_a_follower_from_now_on_hears_what_comes_and_nothing_of_a_run_that_has_ended(store):
    graph = emitter(40, every=1, pause=0.001)
    async with runtime(store, graph) as rt:
        run = await rt.start(graph, session="s")
        first = await anext(run.events())
        late = [event["seq"] async for event in run.events(after="now")]
        assert first["seq"] == 1
        assert late == list(range(late[0], late[-1] + 1))
        whole = [event["seq"] async for event in run.events()]
        assert late[-1] == whole[-1]
        assert [event async for event in run.events(after="now")] == []
        batches = [batch async for batch in rt.event_batches(run.id)]
        assert [event["seq"] for batch in batches for event in batch] == whole
        assert [event["seq"] for event in await rt.stored_events(run.id, 3)] == whole[3:]
