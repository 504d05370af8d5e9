import asyncio

import pytest

from causeline.models.failures import RateLimited, StreamCut
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import CallDelta, Finish, Request, Served, TextDelta, Usage
from causeline.models.scripted_model import InvalidScript, ScriptedModel
from causeline.models.stream import collect

TOOLS = [ToolSpec("lookup", "", {"type": "object"}), ToolSpec("other", "", {"type": "object"})]
USER = Message("user", "hi")


def test_it_answers_without_ever_waiting():
    """Driven by hand: a coroutine that suspends would not raise StopIteration."""

    async def whole():
        return await collect(ScriptedModel([{"text": "a b"}]).stream(Request([USER])))

    with pytest.raises(StopIteration) as ended:
        whole().send(None)
    assert ended.value.value.text == "a b"


async def test_the_item_is_chosen_by_the_round_and_by_nothing_else():
    model = ScriptedModel([{"text": "first"}, {"text": "second"}])
    said = [(await collect(model.stream(Request([USER], round=number)))).text for number in (1, 0, 1, 2, 0)]
    assert said == ["second", "first", "second", "done", "first"]


async def test_without_a_round_the_replies_after_the_last_user_message_are_counted():
    history = [
        USER,
        Message("assistant", "x"),
        USER,
        Message("assistant", "", (ToolCall("c", "lookup", {}),)),
        Message("tool", "r", (), "c"),
    ]
    model = ScriptedModel([{"text": "first"}, {"text": "second"}])
    assert (await collect(model.stream(Request(history)))).text == "second"
    assert (await collect(model.stream(Request([*history, USER])))).text == "first"


async def test_text_comes_in_words_and_arguments_in_pieces():
    model = ScriptedModel([{"text": "one  two", "calls": [{"id": "c1", "name": "lookup", "arguments": {"q": "abcdef"}}]}], name="s")
    assert [delta async for delta in model.stream(Request([USER]))] == [
        Served("s"), TextDelta("one  "), TextDelta("two"), CallDelta(0, "c1", "lookup"),
        CallDelta(0, arguments='{"q": "'), CallDelta(0, arguments='abcdef"'), CallDelta(0, arguments="}"),
        Usage(8, 8), Finish("tool_calls"),
    ]  # fmt: skip


async def test_what_an_item_says_is_in_the_reply():
    item = {
        "reasoning": "let me see", "calls": [{"name": "lookup", "arguments": '{"q"'}], "finish_reason": "length",
        "usage": {"input_tokens": 1, "output_tokens": 2, "cost": 0.5},
    }  # fmt: skip
    reply = await collect(ScriptedModel([item]).stream(Request([USER])))
    assert reply.reasoning == "let me see"
    assert reply.calls == (ToolCall("", "lookup", '{"q"'),)
    assert (reply.finish, reply.usage) == ("length", Usage(1, 2, cost=0.5))


async def test_a_status_fails_like_a_server_for_so_many_tries():
    model = ScriptedModel([{"text": "ok", "status": 429, "headers": {"Retry-After": "3"}, "times": 2}])
    for attempt in (0, 1):
        with pytest.raises(RateLimited) as caught:
            await collect(model.stream(Request([USER], attempt=attempt)))
        assert caught.value.retry_after == 3.0
    assert (await collect(model.stream(Request([USER], attempt=2)))).text == "ok"
    always = ScriptedModel([{"status": 429}])
    with pytest.raises(RateLimited):
        await collect(always.stream(Request([USER], attempt=99)))


async def test_a_cut_breaks_off_after_so_many_deltas():
    stream = ScriptedModel([{"text": "a b c", "cut_after": 2}]).stream(Request([USER]))
    assert [await anext(stream), await anext(stream)] == [Served("scripted"), TextDelta("a ")]
    with pytest.raises(StreamCut):
        await anext(stream)


async def test_a_delayed_item_can_be_cancelled():
    reading = asyncio.create_task(collect(ScriptedModel([{"text": "x", "delay": 60}]).stream(Request([USER]))))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_loop_calls_the_first_tool_so_often_with_ids_never_used_twice():
    model, history, ids = ScriptedModel.named("loop-3"), [USER], []
    for _ in range(2):
        while True:
            reply = await collect(model.stream(Request(history, tools=TOOLS)))
            if not reply.calls:
                break
            ids.append(reply.calls[0].id)
            assert reply.calls[0].name == "lookup"
            history += [Message("assistant", "", reply.calls), Message("tool", "ok", tool_call_id=reply.calls[0].id)]
        assert reply.text == "done 3"
        history += [Message("assistant", reply.text), USER]
    assert len(set(ids)) == 6
    assert [message.tool_calls[0].arguments for message in history if message.tool_calls] == [{"i": k} for k in (0, 1, 2)] * 2


async def test_parallel_calls_all_at_once_and_then_is_done():
    model = ScriptedModel.named("parallel-4")
    reply = await collect(model.stream(Request([USER], tools=TOOLS)))
    assert [call.arguments for call in reply.calls] == [{"i": k} for k in range(4)]
    assert len({call.id for call in reply.calls}) == 4
    assert (await collect(model.stream(Request([USER], tools=TOOLS, round=1)))).text == "done 4"


@pytest.mark.parametrize("spec", ["loop-3", "parallel-3"])
@pytest.mark.parametrize("request_fields", [{"tools": ()}, {"tools": TOOLS, "tool_choice": "none"}])
async def test_without_tools_to_call_there_is_no_call(spec, request_fields):
    reply = await collect(ScriptedModel.named(spec).stream(Request([USER], **request_fields)))
    assert (reply.calls, reply.text) == ((), "done 0")


async def test_echo_repeats_the_last_user_message():
    history = [Message("user", "old"), Message("assistant", "x"), Message("user", ({"type": "text", "text": "new  one"},))]
    assert (await collect(ScriptedModel.named("echo").stream(Request(history)))).text == "new  one"


@pytest.mark.parametrize("spec", ["loop", "loop-", "loop-x", "parallel--1", "chorus-3", ""])
def test_an_unknown_name_is_refused(spec):
    with pytest.raises(InvalidScript, match="loop-N"):
        ScriptedModel.named(spec)


def test_every_fault_of_a_script_is_named_at_once():
    script: list = [{"txt": "x"}, 5, {"delay": "long"}, {"calls": [{"name": "a"}]}, {"usage": {"tokens": 1}}, {"raw_sse": []}]
    with pytest.raises(InvalidScript) as caught:
        ScriptedModel(script)
    assert [finding.partition(":")[0] for finding in caught.value.findings] == [
        "items[0].txt", "items[1]", "items[2].delay", "items[3].calls[0]", "items[4].usage.tokens", "items[5].raw_sse",
    ]  # fmt: skip
