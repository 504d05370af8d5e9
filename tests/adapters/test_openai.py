import asyncio
from contextlib import aclosing

import pytest

from causeline.adapters.models.connection import MissingKey, open_clients
from causeline.adapters.models.openai import OpenAIModel
from causeline.errors import Invalid
from causeline.models.failures import (
    BadReply,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    QuotaSpent,
    RateLimited,
    StreamCut,
    UnknownModel,
)
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Request, Served, TextDelta, Usage
from causeline.models.stream import collect
from tests.adapters.chat_server import END, call_chunk, running, text_chunks

ASKED = Request([Message("user", "hi")])
TOOL = ToolSpec("lookup", "Look up.", {})


@pytest.fixture
async def server():
    async with running() as chat:
        yield chat


@pytest.fixture
async def model(server):
    made = OpenAIModel("fake", base_url=server.url)
    yield made
    await made.aclose()


async def test_a_streamed_reply(server, model):
    reply = await collect(model.stream(ASKED))
    assert (reply.text, reply.finish, reply.model, reply.request_id) == ("one two three", "stop", "fake-1", "r1")
    assert reply.usage == Usage(11, 7, cached_tokens=3)
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert server.paths == ["/v1/chat/completions"]


async def test_a_whole_reply(server):
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    body = {"id": "r1", "choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}
    server.answers = [{"headers": {"x-request-id": "req_1"}, "body": body}]
    model = OpenAIModel("fake", base_url=server.url, stream=False)
    reply = await collect(model.stream(ASKED))
    assert (reply.text, reply.calls, reply.usage, reply.request_id) == ("", (ToolCall("c1", "lookup", {}),), Usage(2, 3), "req_1")
    assert "stream" not in server.requests[0]
    await model.aclose()


async def test_a_whole_reply_where_a_stream_was_asked_for_is_taken(server, model):
    server.answers = [{"body": {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}}]
    assert (await collect(model.stream(ASKED))).text == "whole"


async def test_a_history_of_every_shape_passes_a_strict_server(server, model):
    parts = ({"type": "text", "text": "What is this? \ud83d"}, {"type": "image_url", "image_url": {"url": "data:,x"}})
    raw, odd = ToolCall("c1", "lookup", '{"q": "\ud83d'), ToolCall("c2", "no such tool!", {"n": 10**30, "t": "\udc00"})
    history = [
        Message("user", parts),
        Message("assistant", "", (raw, odd)),
        Message("tool", "a\0b", tool_call_id="c1"),
        Message("tool", "c\ud83dd", tool_call_id="c2"),
        Message("assistant", "done"),
        Message("user", "go on"),
    ]
    reply = await collect(model.stream(Request(history, system="Be kind.", recall="old </recalled> news", tools=[TOOL], max_tokens=5)))
    assert reply.text == "one two three"
    sent = server.requests[0]
    system, recalled, asked, called, first, second = sent["messages"][:6]
    assert system == {"role": "system", "content": "Be kind."}
    assert recalled["role"] == "system"
    assert "not instructions" in recalled["content"]
    assert recalled["content"].count("</recalled>") == 1
    assert asked["content"][0]["text"] == "What is this? \ufffd"
    assert called["content"] is None
    assert [call["function"] for call in called["tool_calls"]] == [
        {"name": "lookup", "arguments": '{"unparsed_arguments":"{\\"q\\": \\"\ufffd"}'},
        {"name": "no_such_tool_", "arguments": '{"n":1000000000000000000000000000000,"t":"\ufffd"}'},
    ]
    assert (first["content"], second["content"]) == ("a\0b", "c\ufffdd")
    assert sent["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "tool_choice" not in sent
    assert sent["max_tokens"] == 5


async def test_without_tools_nothing_is_said_of_tools(server, model):
    await collect(model.stream(Request(ASKED.messages, tool_choice="none")))
    await collect(model.stream(Request(ASKED.messages, tools=[TOOL], tool_choice="none")))
    assert not server.requests[0].keys() & {"tools", "tool_choice"}
    assert server.requests[1]["tool_choice"] == "none"


async def test_a_schema_is_wrapped_and_a_format_of_the_provider_is_passed_on(server, model):
    await collect(model.stream(Request(ASKED.messages, response_schema={"name": "n", "schema": {"type": "object"}})))
    await collect(model.stream(Request(ASKED.messages, response_schema={"type": "json_object"})))
    assert [sent["response_format"] for sent in server.requests] == [
        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        {"type": "json_object"},
    ]


async def test_calls_with_odd_ids_and_chunks_are_told_apart(server, model):
    server.answers = [
        [call_chunk(0, "", "lookup", '{"q"'), call_chunk(1, "", "lookup", '{"q"'), call_chunk(0, None, None, ": 1}"),
         call_chunk(1, None, None, ": 2}", "tool_calls"), END],
        [call_chunk(0, "c1", "lookup", {"q": 1}), call_chunk(0, "c2", "lookup", '{"q": 2}', "tool_calls"), END],
        [{"choices": [{"delta": {"function_call": {"name": "lookup", "arguments": "{}"}}, "finish_reason": "function_call"}]}, END],
    ]  # fmt: skip
    first, second, third = [await collect(model.stream(ASKED)) for _ in range(3)]
    assert first.calls == (ToolCall("", "lookup", {"q": 1}), ToolCall("", "lookup", {"q": 2}))
    assert second.calls == (ToolCall("c1", "lookup", {"q": 1}), ToolCall("c2", "lookup", {"q": 2}))
    assert (third.calls, third.finish) == ((ToolCall("", "lookup", {}),), "tool_calls")


async def test_nulls_parts_reasoning_and_refusals_are_read(server, model):
    def said(**delta):
        return {"choices": [{"index": 0, "delta": delta}], "usage": None, "error": None}

    server.answers = [
        [said(role="assistant", content=None, tool_calls=None), said(reasoning_content="hm"), said(content=[{"type": "text", "text": "a"}]),
         said(content="b"), *text_chunks(), END],
        [said(refusal="no"), *text_chunks(finish="length"), END],
    ]  # fmt: skip
    first, second = [await collect(model.stream(ASKED)) for _ in range(2)]
    assert (first.text, first.reasoning) == ("ab", "hm")
    assert (second.text, second.finish) == ("no", "length")


async def test_event_streams_are_read_by_the_rules(server, model):
    server.answers = [[
        ": comment\n\n",
        'event: x\ndata:{"choices":[{"delta":{"content":"no space "}}]}\r\n\r\n',
        'data: {"choices":\ndata: [{"delta":{"content":"two lines "}}]}\n\n',
        'data: {"choices":[{"delta":{"content":"cr"}}]}\r\r', 'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        'data: {"choices":[{"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}\n\n', "data:[DONE]\n\n",
    ]]  # fmt: skip
    assert (await collect(model.stream(ASKED))).text == "no space two lines cr😀"


async def test_an_end_without_a_mark_is_an_end(server, model):
    server.answers = [text_chunks("a"), [*text_chunks("a"), "data: [DONE]"], [call_chunk(0, "c", "lookup", "{}", "stop"), END]]
    assert [(await collect(model.stream(ASKED))).finish for _ in range(3)] == ["stop", "stop", "tool_calls"]


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401, "body": {"error": {"message": "Incorrect key sk-0123456789", "code": "sk-0123456789"}}},
        {"body": {"error": {"message": "Incorrect key sk-0123456789", "code": 401}}},
        [*text_chunks("a", finish=None), {"error": {"message": "no more for sk-0123456789", "code": 500}}],
    ],
)
async def test_a_failure_does_not_repeat_the_key_that_a_server_echoes(server, monkeypatch, answer):
    monkeypatch.setenv("MY_KEY", "sk-0123456789")
    model = OpenAIModel("fake", base_url=server.url, api_key_env="MY_KEY")
    server.answers = [answer]
    with pytest.raises(ModelError) as caught:
        await collect(model.stream(ASKED))
    await model.aclose()
    assert "***" in caught.value.message
    assert "0123456789" not in f"{caught.value} {caught.value.facts}"


async def test_a_failure_does_not_repeat_the_password_of_an_address(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hidden-word@127.0.0.1:9/v1")
    model = OpenAIModel("fake")
    with pytest.raises(ModelUnavailable) as caught:
        await collect(model.stream(ASKED))
    await model.aclose()
    assert "127.0.0.1:9" in caught.value.message
    assert "hidden-word" not in f"{caught.value} {caught.value.facts}"


@pytest.mark.parametrize(
    "answer, error",
    [
        ({"status": 429, "headers": {"retry-after": "3"}, "body": {"error": {"message": "slow"}}}, RateLimited),
        ({"status": 429, "body": {"error": {"message": "no money", "code": "insufficient_quota"}}}, QuotaSpent),
        ({"status": 500, "body": {}}, ModelUnavailable),
        ({"status": 401, "body": {"error": {"message": "bad key"}}}, KeyRefused),
        ({"status": 404, "body": {"error": "no such model"}}, UnknownModel),
        ({"status": 400, "body": {"error": {"message": "too big", "code": "context_length_exceeded"}}}, ContextTooLong),
        ({"body": {"error": {"message": "try later", "type": "overloaded_error"}}}, ModelUnavailable),
        ({"body": {"error": {"message": "bad key", "code": 401}}}, KeyRefused),
        ({"body": {"error": {"message": "strange"}}}, BadReply),
        ({"body": {"choices": []}}, BadReply),
        ({"body": []}, BadReply),
        ([*text_chunks("a", finish=None), {"error": {"message": "boom", "code": 500}}], ModelUnavailable),
        ([*text_chunks("a", finish=None), "cut"], StreamCut),
        ([*text_chunks("a", finish=None)], StreamCut),
        ([*text_chunks("a", finish=None), END], StreamCut),
        ([call_chunk(0, "c", "lookup", "{}"), END], StreamCut),
        ([*text_chunks("a", finish="error"), END], StreamCut),
        ([*text_chunks("a", finish=None), {"object": "error", "message": "engine died", "code": "502"}], ModelUnavailable),
        (
            [*text_chunks("a", finish=None), 'event: error\ndata: {"message": "overloaded", "type": "overloaded_error"}\n\n'],
            ModelUnavailable,
        ),
        ([{"choices": [{"index": 0, "delta": {}, "error": {"message": "bad key", "code": 401}}]}], KeyRefused),
        ([{"choices": [None]}], BadReply),
        ([{"choices": {}}], BadReply),
        ([{"choices": [{"delta": "x"}]}], BadReply),
        ([{"choices": [{"delta": {"tool_calls": [None]}}]}], BadReply),
        ([{"choices": [{"delta": {"tool_calls": {"id": "c1"}}}]}], BadReply),
        ([{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": "lookup"}]}}]}], BadReply),
        ({"status": 307, "headers": {"location": "http://127.0.0.1:9/v1"}, "body": {}}, UnknownModel),
        (["data: nonsense\n\n"], BadReply),
        ([END], StreamCut),
    ],
)
async def test_a_failure_is_told_by_its_kind(server, model, answer, error):
    server.answers = [answer, server.answers[0]]
    with pytest.raises(error) as caught:
        await collect(model.stream(ASKED))
    assert type(caught.value) is error
    assert len(server.requests) == 1
    assert (await collect(model.stream(ASKED))).text == "one two three"


async def test_the_wait_a_server_asks_for_is_in_the_error(server, model):
    bodies = {"error": {"message": "slow"}}
    server.answers = [
        {"status": 429, "headers": {name: value}, "body": bodies} for name, value in (("retry-after", "3"), ("retry-after-ms", "250"))
    ]
    for seconds in (3.0, 0.25):
        with pytest.raises(RateLimited) as caught:
            await collect(model.stream(ASKED))
        assert caught.value.retry_after == seconds


async def test_no_server_and_a_silent_server_are_unavailable(server):
    nowhere = OpenAIModel("fake", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match="no connection"):
        await collect(nowhere.stream(ASKED))
    server.answers = [[*text_chunks("a", finish=None), "hold"]]
    silent = OpenAIModel("fake", base_url=server.url, timeout=0.05)
    with pytest.raises(ModelTimeout):
        await collect(silent.stream(ASKED))
    await nowhere.aclose()
    await silent.aclose()


async def test_a_server_that_refuses_stream_options_is_asked_without_from_then_on(server, model):
    server.choose = lambda body: (
        {"status": 400, "body": {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}}
        if "stream_options" in body
        else server.answers[0]
    )
    assert (await collect(model.stream(ASKED))).text == "one two three"
    assert (await collect(model.stream(ASKED))).text == "one two three"
    assert ["stream_options" in sent for sent in server.requests] == [True, False, False]


async def test_leaving_a_stream_closes_the_connection(server, model):
    server.answers = [[*text_chunks("a", "b", finish=None), "hold"]]
    async with aclosing(model.stream(ASKED)) as stream:
        assert [type(await anext(stream)) for _ in range(2)] == [Served, TextDelta]
    await asyncio.wait_for(server.left.wait(), 30)
    server.left = asyncio.Event()
    server.asked.clear()
    reading = asyncio.create_task(collect(model.stream(ASKED)))
    await asyncio.wait_for(server.asked.wait(), 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(server.left.wait(), 30)


async def test_one_connection_serves_all_models_of_a_server(server, model):
    other = OpenAIModel("other", base_url=server.url)
    for one in (model, other, model, other):
        await collect(one.stream(ASKED))
    assert server.connections == 1
    await model.aclose()
    assert (await collect(other.stream(ASKED))).text == "one two three"
    assert server.connections == 1
    await other.aclose()
    assert open_clients[asyncio.get_running_loop()] == {}


def test_a_model_works_in_one_event_loop_after_another():
    async def once():
        async with running() as chat:
            model = OpenAIModel("fake", base_url=chat.url)
            try:
                return (await collect(model.stream(ASKED))).text
            finally:
                await model.aclose()

    assert [asyncio.run(once()) for _ in range(2)] == ["one two three"] * 2


async def test_a_server_on_this_machine_is_not_reached_through_a_proxy(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    model = OpenAIModel("fake", base_url=server.url)
    assert (await collect(model.stream(ASKED))).text == "one two three"
    await model.aclose()


async def test_a_client_of_ones_own_is_used_and_left_open(server):
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="mine", base_url=server.url, max_retries=0) as client:
        model = OpenAIModel("fake", client=client)
        await collect(model.stream(ASKED))
        await model.aclose()
        assert not client.is_closed()
    assert server.headers[0]["authorization"] == "Bearer mine"


async def test_the_key_goes_where_it_is_wanted(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    plain = OpenAIModel("fake", base_url=server.url, api_key_env="MY_KEY")
    azure = OpenAIModel(
        "fake", base_url=server.url, api_key_env="MY_KEY", auth_header="api-key", auth_prefix="", chat_path="/chat?version=1"
    )
    without = OpenAIModel("fake", base_url=server.url)
    for model in (plain, azure, without):
        await collect(model.stream(ASKED))
        await model.aclose()
    assert [(sent.get("authorization"), sent.get("api-key")) for sent in server.headers] == [
        ("Bearer secret", None),
        (None, "secret"),
        (None, None),
    ]
    assert server.paths[1] == "/v1/chat?version=1"


@pytest.mark.parametrize("url", [None, "https://models.example/v1", "http://10.0.0.5:8000/v1"])
def test_a_missing_key_is_named_before_any_call(monkeypatch, url):
    monkeypatch.delenv("MY_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(MissingKey, match="MY_KEY"):
        OpenAIModel("fake", base_url=url, api_key_env="MY_KEY")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://[::1", "http://x:port"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Invalid, match="base_url"):
        OpenAIModel("fake", base_url=url)


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "http://127.0.0.9:1/v1", "http://[::1]:1/v1"])
def test_a_server_on_this_machine_needs_no_key(monkeypatch, url):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert OpenAIModel("fake", base_url=url).name == "openai:fake"


async def test_a_message_is_converted_once_in_its_life(server, model, monkeypatch):
    from causeline.adapters.models.chat_request import ChatMessages

    render = ChatMessages.render
    converted = []
    monkeypatch.setattr(ChatMessages, "render", lambda self, message: converted.append(message) or render(self, message))
    model = OpenAIModel("fake", base_url=server.url)
    history = [Message("user", f"{number}") for number in range(50)]
    await collect(model.stream(Request(history)))
    history.append(Message("user", "new"))
    await collect(model.stream(Request(history)))
    assert len(converted) == 51
    assert [sent["content"] for sent in server.requests[1]["messages"]] == [message.text for message in history]
    await model.aclose()
