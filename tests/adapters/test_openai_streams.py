"""Replies of servers that are a little odd, and what goes back to them."""

import json

import pytest

import causeline
import causeline.adapters.models.exchange as adapter
from causeline.adapters.models.chat_servers import SERVERS
from causeline.adapters.models.openai import OpenAIModel
from causeline.errors import Invalid
from causeline.models.failures import PartNotTaken
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Request, Usage
from causeline.models.parts import file, image
from causeline.models.price_table import prices
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


def said(**delta):
    return {"choices": [{"index": 0, "delta": delta}]}


def closing(**message):
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


CALL = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"q": 1}'}}


@pytest.mark.parametrize(
    "answer, text, calls",
    [
        (["data: \n\n", *text_chunks("a"), "data:\n\n", "id: 7\n\n", "event: ping\n\n", END], "a", 0),
        (["\ufeff" + f"data: {json.dumps(said(content='a'))}\n\n", *text_chunks("b"), END], "ab", 0),
        ([*text_chunks("Hel", "lo", finish=None), closing(content="Hello"), END], "Hello", 0),
        ([*text_chunks("Hel", finish=None), closing(content="Hello"), END], "Hello", 0),
        ([*text_chunks("Hel", finish=None), closing(content="Other"), END], "Hel", 0),
        ([closing(content="Hello", tool_calls=[CALL]), END], "Hello", 1),
        ([call_chunk(0, "c1", "lookup", '{"q": 1}'), closing(content=None, tool_calls=[CALL]), END], "", 1),
        ([*text_chunks("a", finish=None), closing(content="a", tool_calls=[CALL]), END], "a", 1),
    ],
)
async def test_a_reply_says_everything_once(server, model, answer, text, calls):
    server.answers = [answer]
    reply = await collect(model.stream(ASKED))
    assert (reply.text, [call.arguments for call in reply.calls]) == (text, [{"q": 1}] * calls)


async def test_a_finished_reply_is_not_waited_for(server, model, monkeypatch):
    monkeypatch.setattr(adapter, "AFTER_FINISH_SECONDS", 0.05)
    server.answers = [[*text_chunks("all said"), "hold"], [*text_chunks("all said"), "cut"]]
    assert [(await collect(model.stream(ASKED))).text for _ in range(2)] == ["all said"] * 2


async def test_an_event_stream_under_another_name_is_read(server, model):
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in text_chunks("a")]
    server.answers = [{"raw": "".join(events), "kind": "text/plain"}]
    assert (await collect(model.stream(ASKED))).text == "a"


SIGNED = {"google": {"thought_signature": "c2ln"}}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "I ", "format": "f"},
    {"type": "reasoning.text", "index": 0, "text": "think", "signature": "sig"},
    {"type": "reasoning.encrypted", "index": 1, "data": "e1"},
    {"type": "reasoning.encrypted", "index": 2, "data": "e2"},
]


def call_with(**more):
    return said(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": "{}"}, **more}])


@pytest.mark.parametrize(
    "chunks, reasoning, back",
    [
        ([said(reasoning_content="I "), said(reasoning_content="think"), call_with()], "I think", {"reasoning_content": "I think"}),
        ([said(reasoning="I think"), call_with()], "I think", {"reasoning": "I think"}),
        ([said(reasoning="I think", reasoning_details=[one]) for one in DETAILS[:1]] + [said(reasoning_details=DETAILS[1:]), call_with()],
         "I think", {"reasoning": "I think", "reasoning_details": [{**DETAILS[0], **DETAILS[1], "text": "I think"}, *DETAILS[2:]]}),
        ([said(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "I think"}]}]), call_with()],
         "I think", {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I think"}]}]}),
        ([call_with(extra_content=SIGNED)], "", {"call": {"extra_content": SIGNED}}),
        ([said(extra_content=SIGNED), call_with()], "", {"extra_content": SIGNED}),
    ],
)  # fmt: skip
async def test_what_a_server_gave_goes_back_to_it_and_to_nobody_else(server, model, chunks, reasoning, back):
    server.answers = [[*chunks, *text_chunks(), END], server.answers[0]]
    reply = await collect(model.stream(ASKED))
    assert reply.reasoning == reasoning
    asked = Message("assistant", reply.text, reply.calls, reasoning=json.loads(json.dumps(reply.parts)))
    history = Request([*ASKED.messages, asked, Message("tool", "x", tool_call_id="c1"), Message("user", "go on")])
    await collect(model.stream(history))
    sent = server.requests[-1]["messages"][1]
    in_call = back.pop("call", {})
    plain = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {"name": "lookup", "arguments": "{}"}, **in_call}]}
    assert sent == {**plain, **back}
    async with running() as elsewhere:
        other = OpenAIModel("fake", base_url=elsewhere.url)
        await collect(other.stream(history))
        await other.aclose()
        strange = elsewhere.requests[0]["messages"][1]
    assert strange == {**plain, "tool_calls": [{**CALL, "function": {"name": "lookup", "arguments": "{}"}}]}


async def test_words_of_reasoning_without_calls_stay_here(server, model):
    server.answers = [[said(reasoning_content="hm"), *text_chunks("a"), END]] * 2
    reply = await collect(model.stream(ASKED))
    await collect(model.stream(Request([*ASKED.messages, Message("assistant", "a", reasoning=reply.parts), *ASKED.messages])))
    assert server.requests[1]["messages"][1] == {"role": "assistant", "content": "a"}


async def test_long_arguments_that_did_not_parse_do_not_go_back_whole(server, model):
    call = ToolCall("c1", "lookup", "x" * 5_000_000)
    history = [*ASKED.messages, Message("assistant", "", (call,)), Message("tool", "no", tool_call_id="c1")]
    await collect(model.stream(Request(history)))
    arguments = server.requests[0]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert len(arguments) < 2_100
    assert json.loads(arguments)["unparsed_arguments"].endswith("... [4998000 more characters]")


async def test_pictures_and_files_are_sent_and_those_of_results_follow_their_group(server, model):
    picture, paper = image(b"png"), file(b"%PDF", "a/paper.pdf")
    calls = (ToolCall("c1", "lookup", {}), ToolCall("c2", "lookup", {}))
    mcp = {"type": "image", "data": "aW1n", "mimeType": "image/jpeg"}
    history = [
        Message("user", ({"type": "text", "text": "look"}, picture, paper)),
        Message("assistant", "", calls),
        Message("tool", ({"type": "text", "text": "seen"}, mcp), tool_call_id="c1"),
        Message("tool", "plain", tool_call_id="c2"),
    ]
    await collect(model.stream(Request(history)))
    user, _, first, second, shown = server.requests[0]["messages"]
    assert user["content"][1:] == [picture, paper]
    assert paper["file"] == {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    assert (first["content"], second["content"]) == ("seen\n[1 attached: see the next message]", "plain")
    assert shown["role"] == "user"
    assert shown["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aW1n"}}


async def test_a_picture_for_a_model_that_takes_none_is_refused_in_words(server):
    model = OpenAIModel("fake", kind="deepseek", base_url=server.url)
    with pytest.raises(PartNotTaken, match="deepseek:fake does not take image_url"):
        await collect(model.stream(Request([Message("user", (image(b"x"),))])))
    assert server.requests == []
    call = Message("assistant", "", (ToolCall("c1", "lookup", {}),))
    await collect(model.stream(Request([Message("user", "go"), call, Message("tool", (image(b"x"),), tool_call_id="c1")])))
    assert server.requests[0]["messages"][-1]["content"] == "[image_url: not shown, this model does not take it]"
    await model.aclose()


async def test_settings_go_to_the_server_as_they_are(server):
    settings = {
        "top_p": 0.5,
        "seed": 7,
        "tool_choice": "required",
        "extra_body": {"mirostat": 2},
        "extra_headers": {"X-Team": "a"},
        "timeout": 9,
    }
    model = OpenAIModel("fake", base_url=server.url, model_settings=settings)
    await collect(model.stream(ASKED))
    await collect(model.stream(Request(ASKED.messages, tools=[TOOL])))
    await collect(model.stream(Request(ASKED.messages, tools=[TOOL], tool_choice="none")))
    await model.aclose()
    first, second, third = server.requests
    assert (first["top_p"], first["seed"], first["mirostat"]) == (0.5, 7, 2)
    assert ["tool_choice" in first, second["tool_choice"], third["tool_choice"]] == [False, "required", "none"]
    assert server.headers[0]["x-team"] == "a"


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"top_q": 1}, "did you mean top_p"),
        ({"temperature": 1}, "option temperature"),
        ({"timeout": 0}, "above 0"),
        ({"seed": "x"}, "a number"),
    ],
)
def test_settings_that_are_none_are_refused(settings, words):
    with pytest.raises(Invalid, match=words):
        OpenAIModel("fake", base_url="http://127.0.0.1:1/v1", model_settings=settings)


@pytest.mark.parametrize("row", ["groq", "mistral", "deepseek"])
async def test_a_server_gets_what_its_row_says(server, row):
    model = OpenAIModel("fake", kind=row, base_url=server.url)
    schema = {"name": "n", "schema": {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {}}}}}
    calls = (ToolCall("call_long_id", "lookup", {}),)
    history = [*ASKED.messages, Message("assistant", "", calls), Message("tool", "x", tool_call_id="call_long_id")]
    await collect(model.stream(Request(history, max_tokens=5, response_schema=schema)))
    await model.aclose()
    sent, spec = server.requests[0], SERVERS[row]
    assert sent[spec.max_tokens] == 5
    assert ("stream_options" in sent) == spec.asks_usage
    asked, answered = sent["messages"][-2:]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    if row == "mistral":
        assert len(answered["tool_call_id"]) == 9
    if row == "deepseek":
        assert sent["response_format"] == {"type": "json_object"}
        assert '"type":"object"' in sent["messages"][0]["content"]
    else:
        assert sent["response_format"]["json_schema"]["schema"]["type"] == "object"


@pytest.mark.parametrize("refused", ["max_tokens", "stream_options"])
async def test_a_field_that_is_refused_by_name_is_not_sent_again(server, model, refused):
    answer = server.answers[0]
    error = {"message": f"Unsupported parameter: '{refused}'", "param": refused}
    server.choose = lambda body: {"status": 400, "body": {"error": error}} if refused in body else answer
    for _ in range(2):
        assert (await collect(model.stream(Request(ASKED.messages, max_tokens=5)))).text == "one two three"
    assert [refused in sent for sent in server.requests] == [True, False, False]
    assert server.requests[1].get("max_completion_tokens", server.requests[1].get("max_tokens")) == 5


async def test_nothing_the_environment_holds_goes_to_a_server_it_is_not_for(server, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "of-another-server")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OpenAIModel("fake", base_url=server.url)
    await collect(model.stream(ASKED))
    await model.aclose()
    assert "of-another-server" not in str(server.headers)


async def test_a_redirect_is_not_followed(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-0123456789")
    async with running() as elsewhere:
        server.answers = [{"status": 308, "headers": {"location": f"{elsewhere.url}/chat/completions"}, "body": {}}]
        model = OpenAIModel("fake", base_url=server.url, api_key_env="MY_KEY", auth_header="api-key", auth_prefix="")
        with pytest.raises(Exception, match="answered 308"):
            await collect(model.stream(ASKED))
        await model.aclose()
        assert elsewhere.requests == []


async def test_a_reply_has_its_cost_where_the_table_knows_it(server, model):
    prices["openai:fake"] = {"input": 2.0, "output": 8.0, "cached": 0.5}
    try:
        assert (await collect(model.stream(ASKED))).usage == Usage(11, 7, cached_tokens=3, cost=(8 * 2 + 3 * 0.5 + 7 * 8) / 1e6)
    finally:
        del prices["openai:fake"]


async def test_a_run_has_its_cost_and_that_of_a_model_nobody_knows_is_unknown(server):
    agent = causeline.Agent("openai:fake", base_url=server.url)
    assert (await agent.run("hi")).usage.cost is None
    prices["fake"] = {"input": 2.0, "output": 8.0}
    try:
        result = await agent.run("hi")
    finally:
        del prices["fake"]
    await agent.aclose()
    assert result.usage.cost == result.usage["cost"] == (11 * 2 + 7 * 8) / 1e6
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (11, 3)
    with pytest.raises(AttributeError, match="input_tokens"):
        _ = result.usage.price


async def test_a_hook_sees_each_request_as_it_is_sent(server):
    seen = []
    model = OpenAIModel("fake", base_url=server.url, on_request=seen.append)
    await collect(model.stream(ASKED))
    await model.aclose()
    assert seen == [{"model": "openai:fake", "url": f"{server.url}/chat/completions", "body": server.requests[0]}]
