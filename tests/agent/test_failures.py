"""Models that fail: tried again, replaced, and what was said meanwhile taken back."""

import asyncio

import pytest

from causeline.models.messages import Message
from causeline.models.model import CallDelta, Finish, Retracted, TextDelta, Usage
from causeline.models.scripted_model import ScriptedModel
from tests.agent.stage import Heard, enduring, stage
from tests.models.clocks import StillClock


def spoken(ran):
    """Message id -> its text, without what was retracted."""
    texts: dict[str, str] = {}
    for event in ran.events:
        if event["type"] == "text_message_content":
            texts[event["message_id"]] = texts.get(event["message_id"], "") + event["delta"]
        elif event["type"] == "message_retracted":
            texts.pop(event["message_id"], None)
    return texts


def open_messages(ran):
    """Messages that were begun and neither ended nor retracted."""
    started: set[str] = set()
    for event in ran.events:
        if event["type"] == "text_message_start":
            assert event["message_id"] not in started
            started.add(event["message_id"])
        elif event["type"] in ("text_message_end", "message_retracted"):
            started.discard(event["message_id"])
    return started


async def facts_of(s):
    return next(one.facts for one in await s.steps() if one.node == "call_model")


async def test_a_rate_limit_is_waited_out_as_the_provider_asks():
    clock = StillClock()
    model = ScriptedModel([{"text": "here", "status": 429, "headers": {"Retry-After": "7"}, "times": 1}])
    async with stage(enduring([model], clock)) as s:
        ran = await s.run("go")
        facts = await facts_of(s)
        assert [node.kind for node in (await s.log()).nodes] == ["goal", "inference", "answer"]
    assert (ran.status, ran.answer, clock.slept) == ("succeeded", "here", [7.0])
    assert [(one["code"], one["wait"]) for one in facts["attempts"]] == [("rate_limited", 7.0)]
    assert "message_retracted" not in ran.kinds


async def test_overloads_are_tried_again_and_then_the_run_fails_with_every_try_on_record():
    clock = StillClock()
    async with stage(enduring([ScriptedModel([{"text": "x", "status": 503}])], clock)) as s:
        ran = await s.run("go")
        facts = await facts_of(s)
        log = await s.log()
        again = await s.run("still there?")
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "model_unavailable")
    assert [one["code"] for one in facts["attempts"]] == ["model_unavailable"] * 3
    assert clock.slept[:2] == [0.5, 1.0]
    assert [node.kind for node in log.nodes] == ["goal"]
    assert again.status == "failed"
    assert [one.text for one in s.model.last.messages] == ["go", "still there?"]


async def test_a_stream_that_breaks_off_is_retracted_and_spoken_anew_under_another_id():
    model = ScriptedModel([{"text": "one two three", "cut_after": 3, "times": 1}])
    async with stage(enduring([model], StillClock())) as s:
        ran = await s.run("go")
        messages = await s.runtime.messages("s")
        facts = await facts_of(s)
    retracted = [event["message_id"] for event in ran.told("message_retracted")]
    assert len(retracted) == 1
    assert spoken(ran) == {messages[-1].id: "one two three"}
    assert messages[-1].id not in retracted
    assert open_messages(ran) == set()
    assert [one["code"] for one in facts["attempts"]] == ["stream_cut"]


async def test_a_fallback_in_mid_stream_answers_alone_and_gets_the_original_request():
    first = Heard([{"text": "I think that", "cut_after": 3}], name="first")
    second = Heard([{"text": "it is so"}], name="second")
    async with stage(enduring([first, second], StillClock(), retries=1)) as s:
        ran = await s.run("go")
        facts = await facts_of(s)
    assert ran.answer == "it is so"
    assert list(spoken(ran).values()) == ["it is so"]
    assert len(ran.told("message_retracted")) == len({event["message_id"] for event in ran.told("message_retracted")}) == 2
    assert [(one["model"], one["code"]) for one in facts["attempts"]][:2] == [("first", "stream_cut"), ("first", "stream_cut")]
    assert facts["model"] == "second"
    assert len(first.requests) == 2
    assert second.requests[0].messages == (Message("user", "go"),)


async def test_a_refused_request_is_not_sent_again_nor_elsewhere():
    clock = StillClock()
    second = Heard([{"text": "never"}], name="second")
    first = Heard([{"status": 400, "body": {"error": {"message": "no such parameter"}}}], name="first")
    async with stage(enduring([first, second], clock)) as s:
        ran = await s.run("go")
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "bad_request")
    assert "no such parameter" in ran.error["message"]
    assert (len(first.requests), second.requests, clock.slept) == (1, [], [])


async def test_when_nobody_answers_the_first_cause_is_told_and_nothing_stays_half_said():
    first = ScriptedModel([{"text": "I think", "cut_after": 2}], name="first")
    second = ScriptedModel([{"text": "well now", "cut_after": 3}], name="second")
    async with stage(enduring([first, second], StillClock(), retries=0)) as s:
        ran = await s.run("go")
        facts = await facts_of(s)
    assert (ran.status, ran.error["code"]) == ("failed", "stream_cut")
    assert "first" in ran.error["message"]
    assert [one["model"] for one in facts["attempts"]] == ["first", "second"]
    assert spoken(ran) == {}
    assert open_messages(ran) == set()


class Broken:
    """A model that does not keep its promises."""

    name = "broken"

    def __init__(self, error):
        self.error = error

    async def stream(self, request):
        yield TextDelta("half a ")
        raise self.error

    async def aclose(self):
        pass


@pytest.mark.parametrize("error", [ValueError("what"), KeyError("x"), TimeoutError()])
async def test_whatever_a_model_raises_ends_the_run_in_good_order(error):
    async with stage(Broken(error)) as s:
        ran = await s.run("go")
        assert [one.node for one in await s.steps()] == ["entrypoint", "call_model", "exit"]
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", type(error).__name__)
    assert open_messages(ran) == set()
    assert ran.events[-1]["type"] == "run_error"


class Wavering:
    """Takes back a reply once in the middle of a call."""

    name = "wavering"

    async def stream(self, request):
        if not request.round:
            yield CallDelta(0, "a", "nowhere", '{"x": ')
            yield Usage(5, 3)
            yield Retracted("stream_cut")
        yield TextDelta("fine")
        yield Usage(5, 1)
        yield Finish("stop")

    async def aclose(self):
        pass


async def test_a_half_written_call_is_retracted_and_its_tokens_still_count():
    async with stage(Wavering()) as s:
        ran = await s.run("go")
        assert await s.nodes("tool_call") == []
    kinds = [event["type"] for event in ran.events if "message_id" in event]
    assert kinds == ["tool_call_delta", "message_retracted", "text_message_start", "text_message_content", "text_message_end"]
    assert (ran.usage["input_tokens"], ran.usage["output_tokens"]) == (10, 4)


# whoever listens


async def test_on_token_hears_the_text_and_nothing_else():
    heard = []
    async with stage(
        [{"text": "one two", "reasoning": "hmm", "calls": [{"id": "a", "name": "x", "arguments": {}}]}, {"text": "three four"}],
        on_token=heard.append,
    ) as s:
        await s.run("go")
    assert "".join(heard) == "one twothree four"
    assert len(heard) == 4


async def test_on_token_may_be_async():
    heard = []

    async def listen(text):
        await asyncio.sleep(0)
        heard.append(text)

    async with stage([{"text": "one two"}], on_token=listen) as s:
        await s.run("go")
    assert heard == ["one ", "two"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_on_token_that_raises_breaks_nothing(kind):
    def sync(text):
        raise ValueError("deaf")

    async def later(text):
        raise ValueError("deaf")

    async with stage([{"text": "one two"}], on_token=sync if kind == "sync" else later) as s:
        ran = await s.run("go")
        facts = await facts_of(s)
    assert (ran.status, ran.answer) == ("succeeded", "one two")
    assert facts["on_token_error"] == "ValueError: deaf"
