import asyncio
from contextlib import aclosing

import pytest

from causeline.models.failures import ContextTooLong, ModelUnavailable, QuotaSpent, RateLimited
from causeline.models.messages import Message
from causeline.models.model import Attempt, Request, Retracted, TextDelta
from causeline.models.retry_model import MAX_WAIT, RetryModel
from causeline.models.scripted_model import ScriptedModel
from causeline.models.stream import collect, fold
from causeline.policy import RetryPolicy
from tests.models.clocks import StillClock

ASKED = Request([Message("user", "hi")])
POLICY = RetryPolicy(max_attempts=3, base_delay=1.0, max_delay=30.0, jitter_factor=0.0)


def retried(item, policy=POLICY):
    clock = StillClock()
    return RetryModel(ScriptedModel([item]), policy, clock=clock, random=lambda: 0.5), clock


async def test_it_tries_again_and_says_how_long_it_waits():
    model, clock = retried({"text": "ok", "status": 503, "times": 2})
    reply = await collect(model.stream(ASKED))
    assert reply.text == "ok"
    assert [(one.code, one.wait) for one in reply.attempts] == [("model_unavailable", 1.0), ("model_unavailable", 2.0)]
    assert clock.slept == [1.0, 2.0]


async def test_the_wait_the_provider_asked_for_is_the_least_and_is_capped():
    for asked, waited in (("7", 7.0), ("0.1", 1.0), ("3600", 30.0)):
        model, clock = retried({"text": "ok", "status": 429, "headers": {"Retry-After": asked}, "times": 1})
        assert (await collect(model.stream(ASKED))).text == "ok"
        assert clock.slept == [waited]


async def test_the_last_error_lists_every_try():
    model, clock = retried({"status": 503})
    with pytest.raises(ModelUnavailable) as caught:
        await collect(model.stream(ASKED))
    assert [one["wait"] for one in caught.value.facts["attempts"]] == [1.0, 2.0, None]
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    "item, error",
    [
        ({"status": 400, "body": {"error": {"message": "maximum context length"}}}, ContextTooLong),
        ({"status": 429, "body": {"error": {"message": "insufficient_quota"}}}, QuotaSpent),
    ],
)
def test_what_cannot_help_is_not_tried(item, error):
    model, clock = retried(item)
    with pytest.raises(error):
        asyncio.run(collect(model.stream(ASKED)))
    assert clock.slept == []


async def test_the_policy_has_the_last_word():
    model, clock = retried({"text": "ok", "status": 429, "times": 1}, RetryPolicy(abort_on=("rate_limited",)))
    with pytest.raises(RateLimited):
        await collect(model.stream(ASKED))
    assert clock.slept == []


async def test_what_was_streamed_is_taken_back_before_the_next_try():
    model, _ = retried({"text": "a b c", "cut_after": 3, "times": 1})
    deltas = [delta async for delta in model.stream(ASKED)]
    kinds = [type(delta) for delta in deltas]
    assert kinds.index(Retracted) < kinds.index(Attempt)
    assert [delta.text for delta in deltas[: kinds.index(Retracted)] if isinstance(delta, TextDelta)] == ["a ", "b "]
    assert fold(deltas).text == "a b c"


async def test_nothing_is_taken_back_when_nothing_was_shown():
    model, _ = retried({"text": "a", "cut_after": 1, "times": 1})
    assert not any(isinstance(delta, Retracted) for delta in [delta async for delta in model.stream(ASKED)])


async def test_a_taker_over_goes_on_counting_tries():
    model, _ = retried({"text": "ok", "status": 503, "times": 3})
    reply = await collect(model.stream(Request(ASKED.messages, attempt=2)))
    assert (reply.text, len(reply.attempts)) == ("ok", 1)


async def test_leaving_while_waiting_makes_no_further_try():
    class Counting(ScriptedModel):
        tries = 0

        def stream(self, request):
            self.tries += 1
            return super().stream(request)

    inner, clock = Counting([{"status": 503}]), StillClock()
    async with aclosing(RetryModel(inner, POLICY, clock=clock).stream(ASKED)) as stream:
        assert isinstance(await anext(stream), Attempt)
    assert (inner.tries, clock.slept) == (1, [])


class Small(ScriptedModel):
    prefers = "schema"


def test_it_goes_by_the_name_and_mode_of_its_model():
    model = RetryModel(Small([], name="inner"), POLICY, clock=StillClock())
    assert (model.name, model.prefers) == ("inner", "schema")


async def test_a_provider_that_asks_for_an_hour_is_waited_for_two_minutes_and_that_is_told():
    clock = StillClock()
    model = ScriptedModel([{"text": "late", "status": 429, "headers": {"Retry-After": "3600"}, "times": 1}])
    policy = RetryPolicy(max_attempts=2, max_wait=MAX_WAIT)
    reply = await collect(RetryModel(model, policy, clock=clock, random=lambda: 0.5).stream(Request([Message("user", "?")])))
    assert (reply.text, reply.attempts[0].wait) == ("late", 120.0)
    assert "asked to wait 3600 s, waits 120 s" in reply.attempts[0].message
