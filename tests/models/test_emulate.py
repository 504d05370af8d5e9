import json

import pytest

from causeline.models.emulated_tools import EmulatedTools, in_mode
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import CallDelta, Finish, Request, Retracted, TextDelta, Usage
from causeline.models.scripted_model import ScriptedModel
from causeline.models.stream import collect, fold

TOOLS = [ToolSpec("lookup", "Look up a word.", {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})]
HISTORY = [
    Message("user", "hi"),
    Message("assistant", "Let me see.", (ToolCall("c1", "lookup", {"word": "ö"}), ToolCall("c2", "lookup", "raw"))),
    Message("tool", "a letter", (), "c1"),
    Message("tool", "no such word", (), "c2", is_error=True),
    Message("assistant", "It is a letter."),
    Message("user", "thanks"),
]


class Asked(ScriptedModel):
    """Keeps the request it was asked."""

    request: Request

    def stream(self, request):
        self.request = request
        return super().stream(request)

    @property
    def schema(self):
        return (self.request.response_schema or {})["schema"]


def emulated(mode, *items):
    inner = Asked(items)
    return EmulatedTools(inner, mode), inner


async def deltas_of(model, **fields):
    return [delta async for delta in model.stream(Request(HISTORY, tools=TOOLS, round=0, **fields))]


async def test_text_mode_puts_tools_and_history_into_text():
    model, inner = emulated("text", {"text": "ok"})
    await deltas_of(model, system="Be kind.")
    asked = inner.request
    system = asked.system or ""
    assert system.startswith("Be kind.\n\n")
    assert '- lookup: Look up a word. Arguments: {"word": {"type": "string"}}' in system
    assert (asked.tools, asked.response_schema) == ((), None)
    assert [(message.role, message.text) for message in asked.messages[1:5]] == [
        ("assistant", 'Let me see.\nTOOL_CALL {"name": "lookup", "args": {"word": "ö"}}\nTOOL_CALL {"name": "lookup", "args": "raw"}'),
        ("user", "Result: a letter"),
        ("user", "Error: no such word"),
        ("assistant", "It is a letter."),
    ]


async def test_schema_mode_shows_examples_and_holds_the_reply_to_a_schema():
    model, inner = emulated("schema", {"text": '{"answer": "ok"}'})
    await deltas_of(model)
    asked = inner.request
    assert inner.schema["anyOf"][0]["properties"]["tool"] == {"const": "lookup"}
    examples = len(asked.messages) - len(HISTORY)
    assert examples == 2 + 4 * 4
    assert [message.text for message in asked.messages[examples + 1 :]] == [
        '{"tool": "lookup", "args": {"word": "ö"}}\n{"tool": "lookup", "args": "raw"}',
        "Result: a letter",
        "Error: no such word",
        '{"answer": "It is a letter."}',
        "thanks",
    ]


@pytest.mark.parametrize("mode", ["text", "schema"])
async def test_the_round_of_the_request_is_not_changed_by_the_rendering(mode):
    model, inner = emulated(mode, {"text": "x"})
    await collect(model.stream(Request(HISTORY[:4], tools=TOOLS)))
    assert inner.request.rounds() == 1


@pytest.mark.parametrize("mode", ["text", "schema"])
async def test_when_tools_are_not_to_be_called_none_are_offered(mode):
    model, inner = emulated(mode, {"text": '{"answer": "ok"}' if mode == "schema" else 'TOOL_CALL {"name": "lookup", "args": {}}'})
    reply = fold(await deltas_of(model, tool_choice="none"))
    assert reply.calls == ()
    assert "lookup" not in (inner.request.system or "")
    assert mode == "text" or "anyOf" not in inner.schema


async def test_a_call_in_text_becomes_a_call_and_is_never_shown():
    model, _ = emulated("text", {"text": 'TOOL_CALL {"name": "lookup", "args": {"word": "x"}}'})
    deltas = await deltas_of(model)
    assert not any(isinstance(delta, TextDelta | Retracted) for delta in deltas)
    assert fold(deltas).calls == (ToolCall("", "lookup", {"word": "x"}),)
    assert fold(deltas).finish == "tool_calls"


async def test_plain_text_is_passed_on_as_it_comes():
    model, _ = emulated("text", {"text": "It is a letter."})
    deltas = await deltas_of(model)
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["It ", "is ", "a ", "letter."]
    assert isinstance(deltas[-1], Finish)


async def test_a_call_after_text_that_was_shown_takes_the_text_back_and_counts_tokens_once():
    model, _ = emulated("text", {"text": 'I will look. TOOL_CALL {"name": "lookup", "args": {"word": "x"}}'})
    deltas = await deltas_of(model)
    assert any(isinstance(delta, Retracted) for delta in deltas)
    reply = fold(deltas)
    assert (reply.text, reply.calls) == ("I will look.", (ToolCall("", "lookup", {"word": "x"}),))
    assert reply.usage == Usage(8, 8)


async def test_a_marked_answer_loses_its_mark():
    model, _ = emulated("text", {"text": "FINAL It is a letter."})
    deltas = await deltas_of(model)
    assert fold(deltas).text == "It is a letter."
    assert not any(isinstance(delta, Retracted) for delta in deltas)


async def test_an_answer_under_a_schema_streams_while_it_is_written():
    said = 'He said: "ö \\ 😀"\n'
    text = json.dumps({"answer": said})
    model = EmulatedTools(ByLetter(text), "schema")
    deltas = await deltas_of(model)
    assert fold(deltas).text == said
    assert sum(isinstance(delta, TextDelta) for delta in deltas) > len(said) // 2


async def test_a_call_under_a_schema_is_a_call():
    model, _ = emulated("schema", {"text": '{"tool": "lookup", "args": {"word": "x"}}'})
    deltas = await deltas_of(model)
    assert [delta for delta in deltas if isinstance(delta, CallDelta)] == [CallDelta(0, "", "lookup", '{"word": "x"}')]
    assert not any(isinstance(delta, TextDelta) for delta in deltas)


async def test_a_cut_answer_keeps_what_was_said():
    model, _ = emulated("schema", {"text": '{"answer": "It is a', "finish_reason": "length"})
    reply = fold(await deltas_of(model))
    assert (reply.text, reply.finish) == ("It is a", "length")


async def test_a_reply_that_breaks_the_schema_is_text():
    model, _ = emulated("schema", {"text": "I would rather talk."})
    assert fold(await deltas_of(model)).text == "I would rather talk."


async def test_an_answer_of_a_given_shape_is_its_json():
    model, inner = emulated("schema", {"text": '{"answer": {"n": 1}}'})
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert fold(await deltas_of(model, response_schema={"name": "n", "schema": shape})).text == '{"n": 1}'
    assert inner.schema["anyOf"][1]["properties"]["answer"] == shape


async def test_the_history_is_rendered_once():
    model, inner = emulated("schema", {"text": '{"answer": "ok"}'})
    await deltas_of(model)
    first = list(inner.request.messages)
    await deltas_of(model)
    assert all(one is other for one, other in zip(first, inner.request.messages, strict=True))


class Small(ScriptedModel):
    prefers = "schema"


@pytest.mark.parametrize("asked, mode", [("text", "text"), ("schema", "schema")])
def test_a_model_gets_the_mode_that_is_asked_for(asked, mode):
    wrapped = in_mode(ScriptedModel([]), asked)
    assert isinstance(wrapped, EmulatedTools)
    assert wrapped._mode == mode


def test_a_model_gets_the_mode_it_prefers_when_none_is_asked_for():
    native, small = ScriptedModel([]), Small([])
    assert in_mode(native) is native
    assert in_mode(small, "native") is small
    wrapped = in_mode(small)
    assert isinstance(wrapped, EmulatedTools)
    assert wrapped._mode == "schema"


class ByLetter(ScriptedModel):
    """Says a text one letter at a time."""

    def __init__(self, text):
        super().__init__([])
        self.text = text

    async def stream(self, request):
        for letter in self.text:
            yield TextDelta(letter)
        yield Finish("stop")
