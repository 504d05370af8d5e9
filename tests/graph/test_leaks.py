"""Cancels that leak out of something outside, and readers that get in each other's way: nothing is lost and nothing hangs."""

# Only steps come here, and those have an index.
# pyright: reportAttributeAccessIssue=false

import asyncio
from typing import Any

import pytest

from causeline.errors import Misuse, Unavailable
from causeline.graph import Outcome, StreamChannel
from causeline.graph.documents.document import Reservoir
from tests.graph.fanning import double, fan
from tests.graph.walking import Recording, chain, dispatcher, run


async def leak():
    """Waits for something that was cancelled, though nobody cancelled this."""
    waited_for = asyncio.get_running_loop().create_future()
    waited_for.cancel()
    await waited_for


async def leaking_source(count: int):
    for number in range(count):
        yield {"k": number}
    await leak()


@pytest.mark.parametrize("scatter", [{}, {"concurrency": 3}, {"reservoir": Reservoir("k", 2)}])
async def test_a_source_that_leaks_a_cancel_is_broken_and_not_at_its_end(scatter):
    graph = fan(lambda ctx: "success", scatter=scatter)
    result = await run(graph, sources={"items": leaking_source(5)})
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "source_cancelled"
    assert sum(result.saved()["position"]["branches"][0]["scatter"]["tally"].values()) == 5


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("method", ["step", "progress"])
async def test_a_journal_that_leaks_a_cancel_has_failed(method, concurrency):
    journal = Recording()

    async def broken(_event):
        await leak()

    setattr(journal, method, broken)
    with pytest.raises(Unavailable, match="the journal: something it waited for was cancelled"):
        await run(fan(double, field="twice", scatter={"concurrency": concurrency}), {"items": [1, 2, 3]}, journal=journal)


async def test_an_observer_that_raises_a_cancel_only_warns():
    class Watching:
        def on_step(self, _step):
            raise asyncio.CancelledError

    result = await run(chain(lambda ctx: "done"), observers=[Watching()])
    assert result.status == "completed"
    assert [one.code for one in result.warnings] == ["observer_failed"]


async def test_awaiting_inside_the_iteration_lets_the_walk_go_on():
    execution = dispatcher(chain(*[lambda ctx: "done"] * 5)).execute("urn:t:chain")
    seen = []
    async for step in execution:
        seen.append(step.index)
        assert (await asyncio.wait_for(execution, 30)).status == "completed"
    assert seen == [0, 1, 2, 3, 4]


async def test_a_second_reader_at_the_same_time_is_refused_and_the_first_goes_on():
    async def slow(ctx):
        await asyncio.sleep(0.001)
        return Outcome("done")

    execution = dispatcher(chain(slow, slow, slow)).execute("urn:t:chain")

    async def read():
        return [step.index async for step in execution]

    first, second = await asyncio.gather(read(), read(), return_exceptions=True)
    assert first == [0, 1, 2]
    assert isinstance(second, Misuse)


async def leaking_producer():
    yield 1
    await leak()


def refusing_producer():
    raise ValueError("cannot start")


async def untidy_producer():
    try:
        yield 1
    finally:
        raise OSError("while tidying up")


@pytest.mark.parametrize(
    "producer, error",
    [(leaking_producer, Unavailable), (refusing_producer, ValueError), (lambda: [1], TypeError), (untidy_producer, OSError)],
)
async def test_whatever_a_producer_does_its_reader_hears_of_it(producer, error):
    channel = StreamChannel.driven(producer)
    with pytest.raises(error):
        async with asyncio.timeout(30):
            assert [item async for item in channel] == []
    await channel.aclose()


async def test_a_producer_that_is_untidy_when_its_reader_leaves_disturbs_nobody():
    channel = StreamChannel.driven(untidy_producer, capacity=1)
    async for item in channel:
        assert item == 1
        break
    await channel.aclose()


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "3", None])
def test_only_a_whole_number_is_a_capacity(capacity: Any):
    with pytest.raises(Misuse):
        StreamChannel(capacity)
