"""Whatever a model sends, however it is cut up: no call is lost, merged or run on arguments that were not read."""

import asyncio
import json

import pytest

import causeline
from causeline import tool
from causeline.models.model import CallDelta, Finish, TextDelta, Usage
from tests.agent.stage import Heard, Turns, calls
from tests.scenarios.world import World, end, until


def optional(effects):
    @tool
    async def act(n: int = 0, text: str = "") -> str:
        """Everything is optional."""
        effects.leave(f"act {n} {text}")
        return f"act {n} {text}"

    return [act]


class Raw:
    """A model that streams these deltas first, and then says that it is done."""

    name = "raw"

    def __init__(self, *deltas) -> None:
        self.deltas = deltas

    async def stream(self, request):
        if request.round:
            yield TextDelta("done")
            yield Finish("stop")
            return
        for delta in self.deltas:
            yield delta
        yield Finish("tool_calls")

    async def aclose(self) -> None:
        """Nothing is held open."""


BROKEN = [
    '{"{"a":1',
    '{"n": 1',
    "[1, 2]",
    '"text"',
    "null",
    "n=1",
    '{"n": NaN}',
    '{"n": 1e999}',
    "{" * 5000,
    '{"text": "\\ud83d"}',
    '{"m": 1}',
    '{"n": "x"}',
]


@pytest.mark.parametrize("arguments", BROKEN, ids=range(len(BROKEN)))
async def test_arguments_that_cannot_be_read_are_told_to_the_model_and_never_replaced_by_none(world: World, arguments):
    """One error result, no execution where the arguments stay unread, and the raw text stays in the history."""
    async with world.stage(
        [{"calls": [{"id": "a", "name": "act", "arguments": arguments}]}, {"text": "done"}], optional(world.effects)
    ) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
        (call,) = await s.nodes("tool_call")
    assert ran.answer == "done"
    assert world.effects.lines in ([], ["act 1 "]), "either refused, or mended to what was meant"
    assert result.payload["ok"] == bool(world.effects.lines)
    assert world.effects.lines != ["act 0 "]
    assert call.payload["args"] == (arguments if "raw" in call.payload else json.loads(arguments))


async def test_the_echo_of_broken_arguments_is_bounded(world: World):
    """A long piece of nonsense does not come back as a long error."""
    async with world.stage(
        [{"calls": [{"id": "a", "name": "act", "arguments": "x" * 200_000}]}, {"text": "done"}], optional(world.effects)
    ) as s:
        assert (await s.run("go")).answer == "done"
        assert len(s.model.last.messages[-1].text) < 3_000
    assert world.effects.lines == []


@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), ("", "x"), (" ", " ")])
async def test_calls_without_ids_of_their_own_get_them(world: World, ids):
    """Empty counts as missing, repeated counts as missing: two calls, two ids, two results."""
    script = [calls(("act", {"n": 1}, ids[0]), ("act", {"n": 2}, ids[1])), {"text": "done"}]
    async with world.stage(script, optional(world.effects)) as s:
        ran = await s.run("go")
        results = [(one.payload["call_id"], one.payload["result"]) for one in await s.nodes("tool_result")]
    assert (ran.answer, [text for _, text in results]) == ("done", ["act 1 ", "act 2 "])
    assert len({call_id for call_id, _ in results if call_id}) == 2
    assert sorted(world.effects.lines) == ["act 1 ", "act 2 "]


INTERLEAVED = [
    CallDelta(0, "", "act"),
    CallDelta(1, "", "act"),
    CallDelta(0, arguments='{"n"'),
    CallDelta(1, arguments='{"n": '),
    CallDelta(1, arguments="2}"),
    CallDelta(0, arguments=": 1}"),
]
ONE_AFTER_THE_OTHER = [
    CallDelta(0, "a", "act", '{"n": '),
    CallDelta(0, "a", "", "1}"),
    CallDelta(0, "b", "act", '{"n"'),
    CallDelta(0, "b", "", ": 2}"),
]
SAME_PLACE_NO_IDS = [CallDelta(0, "", "act", '{"n": 1}'), CallDelta(0, "", "act", '{"n": 2}')]
WHOLE = [CallDelta(0, "a", "act", '{"n": 1}'), CallDelta(1, "b", "act", '{"n": 2}')]


@pytest.mark.parametrize(
    "deltas", [INTERLEAVED, ONE_AFTER_THE_OTHER, SAME_PLACE_NO_IDS, WHOLE], ids=["interleaved", "in turn", "no ids", "whole"]
)
async def test_streamed_calls_are_put_together_whole(world: World, deltas):
    """By index and by id: neither merged into one, nor cut, nor lost; each is told with its arguments."""
    async with world.stage(Raw(*deltas), optional(world.effects)) as s:
        ran = await s.run("go")
    assert ran.answer == "done"
    assert sorted(world.effects.lines) == ["act 1 ", "act 2 "]
    started = [event["tool_call_id"] for event in ran.told("tool_call_start")]
    assert len(set(started)) == 2
    for call_id, arguments in zip(started, ({"n": 1}, {"n": 2}), strict=True):
        told = [event for event in ran.events if event.get("tool_call_id") == call_id]
        assert [event["type"] for event in told] == ["tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result"]
        assert json.loads(told[1]["delta"]) == arguments


async def test_a_stream_that_dies_is_answered_by_the_fallback_alone(world: World):
    """What was half said is retracted, the fallback gets the original messages, and both tries are on record with the first cause."""
    first = Heard([{"text": "I am about to say", "cut_after": 3}], name="first")
    second = Heard([{"text": "it is so"}], name="second")
    agent = causeline.Agent(first, fallbacks=[second], max_retries=0)
    async with world.process(agent) as runtime:
        ran = await end(await runtime.start(agent, "go", session="s"))
        facts = next(one.facts for one in await runtime.checkpoints("s") if one.node == "call_model")
        messages = await runtime.messages("s")
    retracted = {event["message_id"] for event in ran.told("message_retracted")}
    kept = [event["delta"] for event in ran.told("text_message_content") if event["message_id"] not in retracted]
    assert (ran.answer, "".join(kept), len(retracted)) == ("it is so", "it is so", 1)
    assert [(one.role, one.text) for one in second.requests[0].messages] == [("user", "go")]
    assert [one.text for one in messages] == ["go", "it is so"]
    assert facts["attempts"][0]["model"] == "first"
    assert (facts["attempts"][0]["code"], facts["model"]) == ("stream_cut", "second")


class Counting:
    """Streams words until it is closed, with what they cost so far."""

    name = "counting"

    def __init__(self) -> None:
        self.given = self.closed = 0

    async def stream(self, request):
        if len(request.messages) > 1:
            yield TextDelta("fine")
            yield Finish("stop")
            return
        try:
            while True:
                self.given += 1
                yield TextDelta(f"word{self.given} ")
                yield Usage(input_tokens=5, output_tokens=self.given)
                if self.given == 2:
                    await asyncio.Event().wait()
        finally:
            self.closed += 1

    async def aclose(self) -> None:
        """Nothing is held open."""


async def test_stopping_closes_the_provider_stream_at_once(world: World):
    """No token is asked for after a cancel; what was heard is in the events, taken back, and is no part of the history."""
    model = Counting()
    async with world.stage(model) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await until(lambda: model.given == 2)
        await run.cancel()
        ran = await end(run)
        again = await s.run("and?")
    assert (ran.status, model.given, model.closed) == ("cancelled", 2, 1)
    spoken = "".join(event["delta"] for event in ran.told("text_message_content"))
    assert (spoken, len(ran.told("message_retracted"))) == ("word1 word2 ", 1)
    assert again.answer == "fine"
    assert [one.text for one in s.model.last.messages] == ["go", "and?"]


async def test_rate_limits_and_overloads_are_told_apart_from_refusals(world: World):
    """A busy provider is asked again; a request that was refused is not."""
    busy = Heard([{"text": "here", "status": 503, "times": 1, "headers": {"retry-after": "0"}}])
    refused = Heard([{"status": 400, "body": {"error": {"message": "no such field"}}}])
    async with world.process() as runtime:
        ran = await end(await runtime.start(causeline.Agent(busy, name="busy"), "go"))
        failed = await end(await runtime.start(causeline.Agent(refused, name="refused"), "go"))
    assert (ran.answer, len(busy.requests)) == ("here", 2)
    assert (failed.status, failed.error["code"], len(refused.requests)) == ("failed", "bad_request", 1)
    assert "no such field" in failed.error["message"]


async def test_a_turn_after_a_failed_one_is_asked_in_good_order(world: World):
    """A run that fails half way leaves a conversation that can go on."""
    script = Turns([calls(("act", {"n": 1}, "a")), {"status": 400}], [{"text": "fine"}])
    async with world.stage(script, optional(world.effects)) as s:
        assert (await s.run("go")).status == "failed"
        assert (await s.run("again")).answer == "fine"
        assert [one.role for one in s.model.last.messages] == ["user", "assistant", "tool", "user"]
