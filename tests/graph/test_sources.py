"""Where items come from: pulled no faster than they are taken, let go when nobody takes them, in batches."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio
import gc
import weakref

import pytest

from causeline.graph import Outcome, StreamChannel
from causeline.graph.dispatcher import UnknownSource
from causeline.graph.documents.document import Reservoir
from tests.graph.fanning import double, fan, item_document
from tests.graph.walking import ManualClock, dispatcher, others, run, through_json


async def test_a_generator_and_an_async_generator_are_read_item_by_item():
    async def letters():
        for letter in "abc":
            await asyncio.sleep(0)
            yield letter

    echo = fan(lambda ctx: "success", scatter={"concurrency": 2})
    assert (await run(echo, sources={"items": letters()})).state["out"] == ["a", "b", "c"]
    assert (await run(echo, sources={"items": iter("abc")})).state["out"] == ["a", "b", "c"]
    result = await run(echo, {"items": letters()})
    assert (result.state, result.status) == ({"out": ["a", "b", "c"]}, "completed"), "a stream in the state is a source, not a channel"


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_source_is_pulled_no_further_than_items_are_taken(concurrency):
    pulled, finished = 0, 0

    async def numbers():
        nonlocal pulled
        for number in range(100):
            assert pulled - finished < concurrency
            pulled += 1
            yield number

    async def work(ctx):
        nonlocal finished
        await asyncio.sleep(0)
        finished += 1
        return "success"

    result = await run(fan(work, strategy="discard", scatter={"concurrency": concurrency}), sources={"items": numbers()})
    assert (result.status, finished) == ("completed", 100)


async def test_memory_of_an_endless_looking_source_follows_the_concurrency():
    class Item:
        pass

    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0

    async def items():
        nonlocal most
        for _ in range(2000):
            item = Item()
            alive.add(item)
            most = max(most, len(alive))
            yield item
            del item

    async def work(ctx):
        await asyncio.sleep(0)
        return "success"

    gc.collect()
    result = await run(fan(work, strategy="discard", scatter={"concurrency": 8}), sources={"items": items()})
    assert result.status == "completed"
    assert most <= 8 * 2 + 2
    assert result.saved()["position"] == {"visits": 2, "reached": ["end"]}


async def test_when_a_source_breaks_pulled_items_finish_and_then_the_run_fails():
    finished = []

    async def numbers():
        yield 1
        yield 2
        raise ConnectionError("line cut")

    async def work(ctx):
        await asyncio.sleep(0.01)
        finished.append(ctx.item)
        return "success"

    graph = fan(work, scatter={"concurrency": 4})
    d = dispatcher(graph)
    result = await d.execute("urn:t:fan", sources={"items": numbers()})
    assert (result.status, result.error.code, sorted(finished)) == ("failed", "ConnectionError", [1, 2])
    assert "line cut" in result.error.message

    async def whole():
        for number in (1, 2, 3):
            yield number

    again = await d.resume("urn:t:fan", through_json(result.saved()), sources={"items": whole()})
    assert (again.status, again.state["out"], sorted(finished)) == ("completed", [1, 2, 3], [1, 2, 3])


async def test_stopping_early_closes_an_async_source():
    closed = []

    async def endless():
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.append(True)

    async def work(ctx):
        await asyncio.sleep(60 if ctx.item == 5 else 0)
        return "success"

    execution = dispatcher(fan(work, scatter={"concurrency": 1})).execute("urn:t:fan", sources={"items": endless()})
    asyncio.get_running_loop().call_later(0.03, execution.cancel)
    result = await execution
    assert (result.status, closed) == ("cancelled", [True])
    assert result.saved()["position"]["branches"][0]["scatter"]["done"] == [[0, 5]]
    assert not others()


async def test_a_channel_feeds_a_scatter_and_its_failure_reaches_the_result():
    channel: StreamChannel[int] = StreamChannel(capacity=2)

    async def feed():
        for number in range(5):
            await channel.push(number)
        channel.fail(RuntimeError("upstream"))

    feeding = asyncio.create_task(feed())
    result = await run(fan(double, field="twice"), sources={"items": channel})
    await feeding
    assert (result.status, result.error.code) == ("failed", "RuntimeError")
    assert result.saved()["position"]["branches"][0]["scatter"]["done"] == [[0, 5]]


def batches(capacity, idle_ms=None, concurrency=1, **scatter):
    return {"reservoir": Reservoir("key", capacity, idle_ms), "concurrency": concurrency, **scatter}


async def test_batches_hold_items_of_one_key_and_the_rest_comes_at_the_end():
    def work(ctx):
        return Outcome("success", {"sum": [ctx.index, [item["n"] for item in ctx.item]]})

    items = [{"key": "ab"[number % 2], "n": number} for number in range(7)]
    result = await run(fan(work, field="sum", scatter=batches(2)), {"items": items})
    assert result.state["out"] == [[0, [0, 2]], [1, [1, 3]], [4, [4, 6]], [5, [5]]]


async def test_an_idle_source_releases_what_is_held():
    clock = ManualClock()
    seen = []

    async def slow():
        yield {"key": 1, "n": 0}
        await clock.sleep(10)
        yield {"key": 1, "n": 1}

    def work(ctx):
        seen.append((clock.time - 1000, [item["n"] for item in ctx.item]))
        return "success"

    result = await run(fan(work, strategy="discard", scatter=batches(5, idle_ms=2000)), sources={"items": slow()}, clock=clock)
    assert (result.status, seen) == ("completed", [(2.0, [0]), (10.0, [1])])
    assert not others()


async def test_a_document_may_take_a_batch():
    def work(ctx):
        return Outcome("success", {"sum": sum(item["n"] for item in ctx.state["currentItem"])})

    items = [{"key": 0, "n": number} for number in range(5)]
    result = await run(fan("urn:t:item", field="sum", scatter=batches(2, concurrency=2)), {"items": items}, item_document(work))
    assert result.state["out"] == [1, 5, 4]


async def test_a_source_that_no_scatter_reads_is_refused_with_the_name_that_was_meant():
    echo = fan(lambda ctx: "success")
    with pytest.raises(UnknownSource, match="no scatter over the source 'itms'; did you mean 'items'") as caught:
        await run(echo, sources={"itms": [1]})
    assert caught.value.facts["known"] == ["items"]
    with pytest.raises(UnknownSource, match="its scatters read items"):
        await run(echo, {"letters": iter("abc")})
    assert (await run(echo, {"items": None})).status == "completed", "nothing to read from counts as no items"
