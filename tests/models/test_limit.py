import asyncio
from contextlib import aclosing

import pytest

from causeline.errors import Misuse
from causeline.models.failures import ModelUnavailable
from causeline.models.limit_model import LimitModel
from causeline.models.messages import Message
from causeline.models.model import Request
from causeline.models.scripted_model import ScriptedModel
from causeline.models.stream import collect
from tests.models.clocks import StillClock

ASKED = Request([Message("user", "hi")])


class Counting(ScriptedModel):
    """Knows how many of its streams are open."""

    open = most = 0

    async def stream(self, request):
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            async for delta in super().stream(request):
                await asyncio.sleep(0)
                yield delta
        finally:
            self.open -= 1


async def test_no_more_calls_than_the_limit_run_at_once():
    inner = Counting([{"text": "a b c"}])
    model = LimitModel(inner, 3, clock=StillClock())
    replies = await asyncio.gather(*(collect(model.stream(ASKED)) for _ in range(10)))
    assert [reply.text for reply in replies] == ["a b c"] * 10
    assert (inner.most, inner.open) == (3, 0)


async def test_a_place_is_given_back_however_a_call_ends():
    model = LimitModel(Counting([{"text": "a b c"}, {"status": 503}]), 1, clock=StillClock())
    async with aclosing(model.stream(ASKED)) as stream:
        await anext(stream)
    with pytest.raises(ModelUnavailable):
        await collect(model.stream(Request(ASKED.messages, round=1)))
    hanging = LimitModel(Counting([{"text": "x", "delay": 60}]), 1, clock=StillClock())
    waiting = asyncio.create_task(collect(hanging.stream(ASKED)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert hanging._gates[asyncio.get_running_loop()].locked() is False
    assert (await collect(model.stream(ASKED))).text == "a b c"


async def test_starts_keep_their_distance():
    clock = StillClock(100.0)
    model = LimitModel(ScriptedModel([{"text": "x"}]), 5, clock=clock, min_interval=2.0)
    for _ in range(3):
        await collect(model.stream(ASKED))
    assert clock.slept == [0.0, 2.0, 2.0]


def test_it_works_in_one_event_loop_after_another():
    model = LimitModel(Counting([{"text": "x"}]), 1, clock=StillClock())

    async def contended():
        return await asyncio.gather(*(collect(model.stream(ASKED)) for _ in range(3)))

    for _ in range(2):
        assert [reply.text for reply in asyncio.run(contended())] == ["x"] * 3


def test_a_limit_below_one_is_a_misuse():
    with pytest.raises(Misuse):
        LimitModel(ScriptedModel([]), 0, clock=StillClock())
