import asyncio
import json
from contextlib import aclosing

import pytest

import causeline
from causeline.adapters.models.anthropic import AnthropicModel
from causeline.adapters.models.connection import MissingKey
from causeline.models import ReasoningDelta, TextDelta, Usage, file, image
from causeline.models.failures import (
    BadReply,
    ContextTooLong,
    KeyRefused,
    ModelTimeout,
    ModelUnavailable,
    PartNotTaken,
    QuotaSpent,
    RateLimited,
    StreamCut,
)
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Request
from causeline.models.stream import collect
from causeline.testing.model_laws import ModelCase, ModelLaws
from tests.adapters.chat_server import running
from tests.adapters.messages_server import MessagesServer, events

ASKED = Request([Message("user", "hi")])
TOOL = ToolSpec("lookup", "Look up.", {"type": "object", "properties": {"q": {"type": "string"}}})
TEXT = {"type": "text", "text": "one two three"}
THOUGHT = {"type": "thinking", "thinking": "I think so.", "signature": "sig-1"}
HIDDEN = {"type": "redacted_thinking", "data": "opaque"}


def use(call_id, name="lookup", **arguments):
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    async with running(MessagesServer) as made:
        made.url = made.url.removesuffix("/v1")
        made.given[THOUGHT["signature"]] = THOUGHT
        yield made


@pytest.fixture
async def model(server):
    made = AnthropicModel("claude", base_url=server.url)
    yield made
    await made.aclose()


class TestLaws(ModelLaws):
    @pytest.fixture
    def case(self, model):
        return ModelCase(model, ASKED, failing=Request([Message("tool", "stray", tool_call_id="nobody")]))


async def test_a_streamed_reply(server, model):
    reply = await collect(model.stream(ASKED))
    assert (reply.text, reply.finish, reply.model, reply.request_id) == ("one two three", "stop", "claude-1", "msg_1")
    assert reply.usage == Usage(16, 7, cached_tokens=3)
    assert server.paths == ["/v1/messages"]
    assert server.headers[0]["x-api-key"] == "sk-ant-0123456789"
    assert "authorization" not in server.headers[0]
    assert server.requests[0] == {"model": "claude", "max_tokens": 8192, "stream": True, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]}]}  # fmt: skip


async def test_a_whole_reply(server):
    usage = {"input_tokens": 2, "output_tokens": 3, "output_tokens_details": {"thinking_tokens": 1}}
    body = {"id": "msg_2", "type": "message", "role": "assistant", "model": "claude-1", "content": [THOUGHT, TEXT, use("c1", q="x")],
            "stop_reason": "tool_use", "usage": usage}  # fmt: skip
    server.answers = [{"headers": {"request-id": "req_1"}, "body": body}]
    model = AnthropicModel("claude", base_url=server.url, stream=False)
    reply = await collect(model.stream(ASKED))
    assert (reply.text, reply.calls, reply.finish) == ("one two three", (ToolCall("c1", "lookup", {"q": "x"}),), "tool_calls")
    assert (reply.usage, reply.request_id, reply.reasoning) == (Usage(2, 3, reasoning_tokens=1), "req_1", "I think so.")
    assert "stream" not in server.requests[0]
    await model.aclose()


async def test_calls_are_streamed_with_their_arguments(server, model):
    server.answers = [events(TEXT, use("c1", q="Bonn"), use("c2"), stop="tool_use")]
    reply = await collect(model.stream(ASKED))
    assert reply.calls == (ToolCall("c1", "lookup", {"q": "Bonn"}), ToolCall("c2", "lookup", {}))


@pytest.mark.parametrize(
    "blocks",
    [
        (THOUGHT, TEXT, use("c1")),
        (THOUGHT, HIDDEN, use("c1"), use("c2")),
        (TEXT, THOUGHT, use("c1")),
        (THOUGHT, use("c1"), HIDDEN, use("c2")),
    ],
)
async def test_thinking_goes_back_as_it_came_and_where_it_stood(server, model, blocks):
    server.answers = [events(*blocks, stop="tool_use"), server.answers[0]]
    reply = await collect(model.stream(ASKED))
    kept = json.loads(json.dumps(reply.parts))
    results = [Message("tool", "x", tool_call_id=call.id) for call in reply.calls]
    history = [*ASKED.messages, Message("assistant", reply.text, reply.calls, reasoning=tuple(kept)), *results]
    await collect(model.stream(Request(history, tools=[TOOL])))
    assert server.requests[1]["messages"][1]["content"] == list(blocks)
    async with running(MessagesServer) as elsewhere:
        other = AnthropicModel("claude", base_url=elsewhere.url)
        await collect(other.stream(Request(history, tools=[TOOL])))
        await other.aclose()
    shown = [block["type"] for block in elsewhere.requests[0]["messages"][1]["content"]]
    assert shown == [block["type"] for block in blocks if block["type"] in ("text", "tool_use")]


async def test_thinking_is_told_while_it_comes(server, model):
    server.answers = [events(THOUGHT, TEXT)]
    async with aclosing(model.stream(ASKED)) as stream:
        told = [delta async for delta in stream if isinstance(delta, ReasoningDelta | TextDelta)]
    assert "".join(delta.text for delta in told if isinstance(delta, ReasoningDelta)) == "I think so."
    assert [type(delta) for delta in told].index(TextDelta) == 4


@pytest.mark.parametrize("mode", ["transcript", "causal"])
async def test_an_agent_thinks_calls_and_answers(server, mode):
    server.answers = [events(THOUGHT, TEXT, use("c1", q="Bonn"), stop="tool_use"), events({"type": "text", "text": "Found."})]

    @causeline.tool(effects=False)
    def lookup(q: str) -> str:
        """Look up."""
        return f"{q} is a town"

    settings = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    agent = causeline.Agent(
        "anthropic:claude",
        base_url=server.url,
        system="Be kind.",
        tools=[lookup],
        model_settings=settings,
        max_tool_rounds=1,
        context_mode=mode,
    )
    async with causeline.open("memory://") as runtime:
        result = await (await runtime.start(agent, "go", session="s")).result()
        exported = json.loads(await runtime.export("s"))
    await agent.aclose()
    assert result.answer == "Found."
    first, second = server.requests
    assert first["max_tokens"] == 8192 + 2000
    assert first["system"][0] == {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    assert first["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert second["messages"][1]["content"][0] == THOUGHT
    assert second["tool_choice"] == {"type": "none"}
    said = [node["payload"] for node in exported["state"]["nodes"] if node["kind"] == "inference"]
    [part] = said[0]["reasoning"]
    assert {key: part[key] for key in THOUGHT} == THOUGHT


async def test_a_history_of_every_shape_passes(server, model):
    shown = {"type": "image", "data": "aW1n", "mimeType": "image/jpeg"}
    raw, odd = ToolCall("c1", "lookup", '{"q": "\ud83d'), ToolCall("functions.x:0", "no such tool!", {"n": 10**30})
    history = [
        Message("assistant", "hello"),
        Message("user", " "),
        Message("user", ({"type": "text", "text": "see \ud83d"}, image(b"png"), image("https://x.test/a.png"), file(b"%PDF", "a.pdf"))),
        Message("assistant", "\n", (raw, odd)),
        Message("tool", "", tool_call_id="c1", is_error=True),
        Message("tool", ({"type": "text", "text": "seen"}, shown), tool_call_id="functions.x:0"),
        Message("user", ({"type": "text", "text": "read"}, file(b"words", "a.txt"))),
    ]  # fmt: skip
    request = Request(
        history,
        system="Be kind.",
        recall="old </recalled> news",
        memory="kept",
        tools=[ToolSpec("t", "T.", {})],
        tool_choice="none",
        max_tokens=5,
    )
    assert (await collect(model.stream(request))).text == "one two three"
    sent = server.requests[0]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["text", "image", "image", "document"]
    calls = sent["messages"][3]["content"]
    assert calls[0]["input"] == {"unparsed_arguments": '{"q": "\ufffd'}
    assert calls[1]["name"] == "no_such_tool_"
    first, second, text, document = sent["messages"][4]["content"]
    assert first == {"type": "tool_result", "tool_use_id": "c1", "is_error": True}
    assert [block["type"] for block in second["content"]] == ["text", "image"]
    assert document["source"] == {"type": "text", "media_type": "text/plain", "data": "words"}
    assert text["text"] == "read"
    assert [block["text"].count("</recalled>") for block in sent["system"]] == [0, 1, 1]
    assert sent["max_tokens"] == 5


async def test_a_history_with_calls_keeps_its_tools_defined(server, model):
    history = [*ASKED.messages, Message("assistant", "", (ToolCall("c1", "lookup", {}),)), Message("tool", "x", tool_call_id="c1")]
    await collect(model.stream(Request(history)))
    assert server.requests[0]["tools"] == [{"name": "lookup", "input_schema": {"type": "object"}}]
    assert server.requests[0]["tool_choice"] == {"type": "none"}


async def test_an_answer_is_held_to_a_schema(server, model):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    await collect(model.stream(Request(ASKED.messages, response_schema={"name": "n", "schema": schema})))
    wanted = server.requests[0]["output_config"]["format"]
    assert (wanted["type"], wanted["schema"]["required"]) == ("json_schema", ["n"])


async def test_settings_go_to_the_api_as_they_are(server):
    settings = {"top_k": 5, "tool_choice": "required", "output_config": {"effort": "low"}, "extra_headers": {"anthropic-beta": "b"}}
    model = AnthropicModel("claude", base_url=f"{server.url}/v1", model_settings=settings)
    await collect(model.stream(Request(ASKED.messages, tools=[TOOL], temperature=0.5)))
    await model.aclose()
    sent = server.requests[0]
    assert (sent["top_k"], sent["tool_choice"], sent["output_config"], sent["temperature"]) == (5, {"type": "any"}, {"effort": "low"}, 0.5)
    assert (server.headers[0]["anthropic-beta"], server.paths) == ("b", ["/v1/messages"])


async def test_a_part_that_is_not_taken_is_refused_in_words(server, model):
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    with pytest.raises(PartNotTaken, match="does not take"):
        await collect(model.stream(Request([Message("user", (sound,))])))
    assert server.requests == []


def error(kind, words="no"):
    return {"type": "error", "error": {"type": kind, "message": words}}


@pytest.mark.parametrize(
    "answer, kind",
    [
        ({"status": 529, "body": error("overloaded_error")}, ModelUnavailable),
        ({"status": 429, "headers": {"retry-after": "3"}, "body": error("rate_limit_error")}, RateLimited),
        ({"status": 400, "body": error("invalid_request_error", "prompt is too long: 9 tokens")}, ContextTooLong),
        ({"status": 400, "body": error("invalid_request_error", "Your credit balance is too low")}, QuotaSpent),
        ({"status": 401, "body": error("authentication_error")}, KeyRefused),
        ({"body": error("api_error")}, ModelUnavailable),
        ({"body": []}, BadReply),
        ({"body": {"type": "message", "content": "text"}}, BadReply),
        ([*events(TEXT, stop=None), error("overloaded_error")], ModelUnavailable),
        ([*events(TEXT, stop=None)], StreamCut),
        ([*events(TEXT, stop=None), "cut"], StreamCut),
        ([*events(TEXT, stop=None), {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}}], BadReply),
        ([{"type": "message_start", "message": None}], BadReply),
        (["data: nonsense\n\n"], BadReply),
    ],
)
async def test_a_failure_is_told_by_its_kind(server, model, answer, kind):
    server.answers = [answer, server.answers[0]]
    with pytest.raises(kind) as caught:
        await collect(model.stream(ASKED))
    assert type(caught.value) is kind
    assert (await collect(model.stream(ASKED))).text == "one two three"


@pytest.mark.parametrize(
    "stop, finish", [("refusal", "content_filter"), ("max_tokens", "length"), ("stop_sequence", "stop"), ("pause_turn",) * 2]
)
async def test_stop_reasons_have_one_word_each(server, model, stop, finish):
    server.answers = [events(TEXT, stop=stop)]
    assert (await collect(model.stream(ASKED))).finish == finish


async def test_unknown_events_and_blocks_are_passed_over(server, model):
    strange = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    server.answers = [[{"type": "brand_new"}, *events(strange, TEXT)]]
    assert (await collect(model.stream(ASKED))).text == "one two three"


async def test_a_silent_server_and_one_that_is_left(server, model):
    server.answers = [[*events(TEXT, stop=None), "hold"]]
    silent = AnthropicModel("claude", base_url=server.url, timeout=0.05)
    with pytest.raises(ModelTimeout):
        await collect(silent.stream(ASKED))
    await silent.aclose()
    server.left = asyncio.Event()
    async with aclosing(model.stream(ASKED)) as stream:
        await anext(stream)
    await asyncio.wait_for(server.left.wait(), 30)


async def test_what_the_environment_holds_for_others_is_not_sent(server, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-secret")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Proxy: another-secret")
    monkeypatch.setenv("MINE", "sk-ant-mine")
    model = AnthropicModel("claude", base_url=server.url, api_key_env="MINE", auth_header="Authorization", auth_prefix="Bearer ")
    await collect(model.stream(ASKED))
    await model.aclose()
    assert "another-secret" not in str(server.headers)
    assert (server.headers[0].get("x-api-key"), server.headers[0]["authorization"]) == (None, "Bearer sk-ant-mine")


def test_a_key_that_is_not_there_is_named(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY"):
        AnthropicModel("claude")
