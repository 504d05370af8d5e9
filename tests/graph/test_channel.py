"""Streams between executions: bounded, in order, failures after the items before them, nothing left running."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.errors import Misuse
from causeline.graph import ChannelClosed, Graph, InnerFailed, Outcome, Step, StreamChannel
from tests.graph.walking import ManualClock, dispatcher, idle, others


async def everything(channel):
    """What a channel gives, and what it fails with."""
    reader, seen = aiter(channel), []
    while True:
        try:
            seen.append(await anext(reader))
        except StopAsyncIteration:
            return seen, None
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return seen, error


async def test_items_pass_in_order_and_a_closed_channel_drains():
    channel: StreamChannel[int] = StreamChannel()
    for number in range(5):
        await channel.push(number)
    channel.close()
    channel.close()
    assert [item async for item in channel] == [0, 1, 2, 3, 4]


async def test_a_full_channel_makes_the_producer_wait():
    channel: StreamChannel[int] = StreamChannel(capacity=3)
    pushed = []

    async def produce():
        for number in range(10):
            await channel.push(number)
            pushed.append(number)
        channel.close()

    producing = asyncio.create_task(produce())
    await idle()
    assert pushed == [0, 1, 2]
    seen = []
    async for item in channel:
        seen.append(item)
        assert len(pushed) - len(seen) <= 4
    assert seen == list(range(10))
    await producing


async def test_several_producers_share_the_room_fairly():
    channel: StreamChannel[str] = StreamChannel(capacity=1)

    async def produce(name):
        for _ in range(3):
            await channel.push(name)

    async def both():
        await asyncio.gather(produce("a"), produce("b"))
        channel.close()

    producing = asyncio.create_task(both())
    assert sorted([item async for item in channel]) == ["a"] * 3 + ["b"] * 3
    await producing


async def test_a_failure_comes_after_the_items_before_it():
    channel: StreamChannel[int] = StreamChannel()
    await channel.push(1)
    await channel.push(2)
    channel.fail(ValueError("broken"))
    seen, error = await everything(channel)
    assert (type(error), str(error)) == (ValueError, "broken")
    assert seen == [1, 2]


async def test_pushing_into_a_channel_that_is_over_is_refused():
    closed: StreamChannel[int] = StreamChannel()
    closed.close()
    with pytest.raises(ChannelClosed):
        await closed.push(1)
    full: StreamChannel[int] = StreamChannel(capacity=1)
    await full.push(1)
    waiting = asyncio.create_task(full.push(2))
    await asyncio.sleep(0)
    full.close()
    with pytest.raises(ChannelClosed):
        await waiting
    assert [item async for item in full] == [1]


async def test_a_cancelled_push_takes_no_room():
    channel: StreamChannel[int] = StreamChannel(capacity=1)
    await channel.push(1)
    first, second = asyncio.create_task(channel.push(2)), asyncio.create_task(channel.push(3))
    await asyncio.sleep(0)
    first.cancel()
    reader = aiter(channel)
    assert await anext(reader) == 1
    assert await anext(reader) == 3
    await second
    assert first.cancelled()


async def test_a_reader_that_leaves_early_stops_the_producer():
    log = []

    async def numbers():
        try:
            for number in range(100):
                log.append(number)
                yield number
        finally:
            log.append("closed")

    channel = StreamChannel.driven(numbers, capacity=2)
    assert log == [], "nothing runs before somebody reads"
    async for item in channel:
        if item == 1:
            break
    await idle()
    assert log[-1] == "closed"
    assert len(log) < 10
    assert not others()
    with pytest.raises(ChannelClosed):
        await channel.push(1)


async def test_a_producer_that_waits_is_stopped_too():
    stopped = []

    async def stuck():
        yield 1
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)
        yield 2

    reader = aiter(StreamChannel.driven(stuck))
    assert await anext(reader) == 1
    await asyncio.sleep(0)
    await reader.aclose()
    assert stopped == [True]
    assert not others()


async def test_a_driven_channel_ends_or_fails_with_its_producer():
    async def good():
        yield 1
        yield 2

    async def bad():
        yield 1
        raise OSError("line")

    assert [item async for item in StreamChannel.driven(good)] == [1, 2]
    seen, error = await everything(StreamChannel.driven(bad))
    assert (type(error), str(error)) == (OSError, "line")
    assert seen == [1]
    assert not others()


async def test_one_reader_at_a_time_and_a_capacity_of_at_least_one():
    channel: StreamChannel[int] = StreamChannel()
    aiter(channel)  # dropped at once, which ends the channel
    with pytest.raises(Misuse, match="one reader"):
        aiter(channel)
    for capacity in (0, -1):
        with pytest.raises(Misuse, match="capacity"):
            StreamChannel(capacity)


# -- an execution as a source


def agent(last) -> Graph:
    graph = Graph("urn:t:agent")
    for number in range(4):
        graph.node(f"s{number}", lambda ctx: Outcome("done", {"said": ctx.placement}), {"done": f"s{number + 1}" if number < 3 else "last"})
    return graph.node("last", last, {"done": "end"}).terminal("end")


def said(event):
    return [event.writes["said"]] if isinstance(event, Step) and "said" in event.writes else ()


def collecting(body=lambda ctx: "success") -> Graph:
    return (
        Graph("urn:t:trace")
        .scatter("fan", "source", dict.fromkeys(("all-success", "partial", "all-error", "empty"), "collect"), node=body)
        .gather("collect", ["fan"], "append", dict.fromkeys(("success", "error", "empty"), "end"), target="steps")
        .terminal("end")
    )


async def test_an_outer_document_records_the_steps_of_an_inner_one():
    d = dispatcher(agent(lambda ctx: "done"), collecting())
    channel = StreamChannel.from_execution(d.execute("urn:t:agent"), said)
    result = await d.execute("urn:t:trace", sources={"source": channel})
    assert (result.status, result.state["steps"]) == ("completed", ["s0", "s1", "s2", "s3"])
    assert not others()


@pytest.mark.parametrize(
    "last, status, reason",
    [
        (lambda ctx: 1 / 0, "failed", "ZeroDivisionError"),
        (lambda ctx: Outcome.pause("?"), "interrupted", None),
        (lambda ctx: asyncio.sleep(60), "timed_out", None),
    ],
)
async def test_an_inner_run_that_does_not_complete_is_never_taken_for_the_end(last, status, reason):
    d = dispatcher(agent(last), collecting(), clock=ManualClock())
    channel = StreamChannel.from_execution(d.execute("urn:t:agent", deadline=5), said)
    result = await d.execute("urn:t:trace", sources={"source": channel})
    assert (result.status, result.error.code) == ("failed", "inner_failed")
    assert isinstance(result.error.cause.__cause__, InnerFailed)
    assert result.error.cause.__cause__.facts == {"status": status, "reason": reason}
    assert result.saved()["position"]["branches"][0]["scatter"]["done"] == [[0, 4]], "what came before is recorded"
    assert not others()


async def test_an_outer_run_that_stops_cancels_the_inner_one():
    async def hang(ctx):
        await asyncio.sleep(60)

    inner = dispatcher(agent(lambda ctx: "done")).execute("urn:t:agent")
    execution = dispatcher(collecting(hang)).execute(
        "urn:t:trace", sources={"source": StreamChannel.from_execution(inner, said, capacity=1)}
    )
    asyncio.get_running_loop().call_later(0.02, execution.cancel)
    assert (await execution).status == "cancelled"
    assert (await inner).status == "cancelled"
    assert not others()


async def test_the_inner_run_goes_no_faster_than_it_is_read():
    ran = []
    graph = Graph("urn:t:agent")
    for number in range(20):
        graph.node(
            f"s{number}",
            lambda ctx: ran.append(1) or Outcome("done", {"said": ctx.placement}),
            {"done": f"s{number + 1}" if number < 19 else "end"},
        )
    inner = dispatcher(graph.terminal("end")).execute("urn:t:agent")
    reader = aiter(StreamChannel.from_execution(inner, said, capacity=2))
    for expected in range(5):
        assert await anext(reader) == f"s{expected}"
        await asyncio.sleep(0.002)
        assert len(ran) <= expected + 5
    await reader.aclose()
    assert inner.status == "cancelled"


async def test_a_reader_that_leaves_a_channel_of_an_execution_stops_the_execution():
    async def tick(ctx):
        await asyncio.sleep(0)
        return "done"

    graph = Graph("urn:t:left").node("a", tick, {"done": "b"}).node("b", tick, {"done": "c"}).node("c", tick, {"done": "end"})
    execution = dispatcher(graph.terminal("end")).execute("urn:t:left")
    channel = StreamChannel.from_execution(execution, lambda event: [event.node])
    async for _ in channel:
        break
    await channel.aclose()
    assert execution.status == "cancelled"
    assert not others()
