import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.models.messages import ToolCall, ToolSpec
from causeline.models.text_calls import Decoded, decode_calls, may_open_call

OBJECT = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = [ToolSpec("lookup", "Look up.", OBJECT), ToolSpec("add", "Add.", OBJECT), ToolSpec("remember", "Keep.", {"type": "object"})]


def call(name="lookup", **arguments):
    return ToolCall("", name, arguments)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "lookup", "arguments": {"q": "x"}}',
        '{"name": "lookup", "parameters": {"q": "x"}}',
        '{"name": "lookup", "input": {"q": "x"}, "id": "c1", "type": "tool_use"}',
        '{"tool": "lookup", "args": {"q": "x"}}',
        '{"name": "lookup", "arguments": "{\\"q\\": \\"x\\"}"}',
        '{"function": {"name": "lookup", "arguments": "{\\"q\\": \\"x\\"}"}, "id": "c1", "type": "function"}',
        '{"function": "lookup", "arguments": {"q": "x"}}',
        '{"tool_calls": [{"name": "lookup", "arguments": {"q": "x"}}]}',
        '[{"name": "lookup", "arguments": {"q": "x"}}]',
        '```json\n{"name": "lookup", "arguments": {"q": "x"}}\n```',
        '```tool_call\n{"name": "lookup", "arguments": {"q": "x"}}```',
        '<tool_call>\n{"name": "lookup", "arguments": {"q": "x"}}\n</tool_call>',
        '<tool_call>{"name": "lookup", "arguments": {"q": "x"}}',
        '<function=lookup>{"q": "x"}</function>',
        "<tool_call>\n<function=lookup>\n<parameter=q>\nx\n</parameter>\n</function>\n</tool_call>",
        '[TOOL_CALLS] [{"name": "lookup", "arguments": {"q": "x"}}]',
        '<|python_tag|>{"name": "lookup", "parameters": {"q": "x"}}<|eom_id|>',
        'TOOL_CALL {"name": "lookup", "args": {"q": "x"}}',
        'TOOL_CALL: {"name": "lookup", "args": {"q": "x"}}\nRESULT: 42\nFINAL 42',
    ],
)
def test_a_whole_envelope_is_a_call_and_leaves_no_text(text):
    assert decode_calls(text, TOOLS) == Decoded("", (call(q="x"),))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob"}',
        '{"name": "Bob", "arguments": {}}',
        '{"name": "lookup"}',
        '{"name": "lookup", "arguments": ["x"]}',
        '{"name": "lookup", "arguments": "x"}',
        '{"name": "lookup", "arguments": {"q": NaN}}',
        '{"name": "lookup", "arguments": {"q": 1e999}}',
        '{"name": "lookup", "arguments": {"q": "x"}',
        "{'name': 'lookup', 'arguments': {'q': 'x'}}",
        '{"name": "lookup", "arguments": {"q": "x"}, "description": "Look up."}',
        '{"name": "lookup", "parameters": {"type": "object", "properties": {"q": {}}}}',
        '{"result": {"name": "lookup", "arguments": {"q": "x"}}}',
        '{"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}',
        '[{"name": "lookup", "arguments": {}}, {"name": "unknown", "arguments": {}}]',
        '{"tool_calls": [{"name": "lookup", "arguments": {}}, 5]}',
        '{"tool_calls": []}',
        '{"a": {"name": "lookup", "arguments": {"q": "x"}} broken',
        '<function=lookup>{"q": "x"}',
        "<function=lookup>not json</function>",
        "<function=lookup><parameter=q>x</function>",
        "Set {x | x > 0} and [1, 2] are fine.",
        "FINAL SCORE: 3-1",
        "FINAL",
        "",
    ],
)
def test_anything_less_than_a_whole_call_in_scope_is_text(text):
    decoded = decode_calls(text, TOOLS)
    assert (decoded.text, decoded.calls) == (text, ())


def test_several_envelopes_with_prose_and_fences_are_all_taken_in_order():
    fenced = '```json\n{"name": "lookup", "arguments": {"q": "a"}}\n```\n\n```json\n{"tool": "add", "args": {"n": 1}}\n```'
    text = f"First:\n{fenced}\nThen I answer."
    assert decode_calls(text, TOOLS) == Decoded("First:\n\nThen I answer.", (call(q="a"), call("add", n=1)))


def test_calls_of_one_list_and_lines_of_calls_are_all_taken():
    two = (call(q="a"), call("add", n=1))
    assert decode_calls(json.dumps([{"name": c.name, "arguments": c.arguments} for c in two]), TOOLS).calls == two
    lines = "\n".join(f"TOOL_CALL {json.dumps({'name': c.name, 'args': c.arguments})}" for c in two)
    assert decode_calls(lines, TOOLS) == Decoded("", two)


def test_text_parameters_stay_text_and_others_are_read():
    text = "<function=lookup><parameter=q>5</parameter><parameter=n>5</parameter></function>"
    assert decode_calls(text, TOOLS).calls == (call(q="5", n=5),)


@pytest.mark.parametrize(
    "text, answer",
    [
        ("FINAL Paris", "Paris"),
        ("FINAL: Paris\nis it.", "Paris\nis it."),
        ('FINAL {"answer": "Paris"}', "Paris"),
        ('FINAL {"answer": {"city": "Paris"}}', '{"city": "Paris"}'),
        ("I know this.\nFINAL: Paris", "Paris"),
        ('I know this.\nFINAL {"answer": "Paris"}', "Paris"),
        ('FINAL: send {"name": "lookup", "arguments": {}}', 'send {"name": "lookup", "arguments": {}}'),
        ('FINAL {"other": 1}', '{"other": 1}'),
    ],
)
def test_final_marks_the_answer(text, answer):
    assert decode_calls(text, TOOLS) == Decoded(answer)


def test_notes_beside_a_call_or_an_answer_become_calls_of_remember():
    state = [{"type": "memory", "key": "k", "content": 1}, {"type": "memory"}, 5]
    note = call("remember", type="memory", key="k", content=1)
    assert decode_calls("FINAL " + json.dumps({"answer": "yes", "state": state}), TOOLS) == Decoded("yes", (note,))
    assert decode_calls("TOOL_CALL " + json.dumps({"name": "add", "args": {}, "state": state}), TOOLS).calls == (call("add"), note)
    assert decode_calls("FINAL " + json.dumps({"answer": "yes", "state": state}), TOOLS[:2]) == Decoded("yes")


@pytest.mark.parametrize("text", ['TOOL_CALL {"name": "lookup"', 'TOOL_CALL {"args": {}}', "<tool_call>lookup</tool_call>"])
def test_a_marked_call_that_is_none_comes_back_with_the_problem(text):
    decoded = decode_calls(text, TOOLS)
    assert (decoded.text, decoded.calls) == (text, ())
    assert decoded.problem


@pytest.mark.parametrize(
    "text",
    [
        'TOOL_CALL {"name": "unknown", "args": {}}',
        '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
        "<function=unknown>{}</function>",
    ],
)
def test_what_is_marked_as_a_call_is_one_whatever_it_names(text):
    assert [(one.name, one.arguments) for one in decode_calls(text, TOOLS).calls] == [("unknown", {})]


MARKED = '<tool_call>{"name": "lookup", "arguments": {"q": "x"}}</tool_call>'
BARE = '{"name": "lookup", "arguments": {"q": "x"}}'


@pytest.mark.parametrize(
    "text, made",
    [
        (BARE, 1),
        (f"```json\n{BARE}\n```", 1),
        (f"{BARE}\n{BARE}", 2),
        (f"Let me look.\n{MARKED}", 1),
        (f"Let me look.\n{MARKED}\n{MARKED}", 2),
        (f"I could say {BARE} here.", 0),
        (f"I would write: {BARE}", 0),
        (f"Use {MARKED} for that.", 0),
        (f"Like so:\n```\n{MARKED}\n```", 0),
        (f"Write `{MARKED}`", 0),
        (f"{MARKED} and then you are done.", 0),
    ],
)
def test_what_a_model_with_tools_of_its_own_quotes_is_text(text, made):
    decoded = decode_calls(text, TOOLS, native=True)
    assert len(decoded.calls) == made
    assert made or decoded.text == text


@settings(max_examples=60)
@given(st.text(st.sampled_from('{}[]",:\\ `<>=/nameTOOL_CALLfunction\n'), max_size=80))
def test_no_text_raises_or_invents_a_call(text):
    decoded = decode_calls(text, TOOLS)
    assert decoded.text == text or decoded.calls or "FINAL" in text


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        "[",
        '{"a":',
        '{"',
        '{"\\"',
        "<function=lookup>",
        "[NaN",
        "TOOL_CALL ",
        '{"a":[1,2],',
        "```",
        '[{"',
        "<parameter=",
        '{"a":1} ',
        "{}[]",
    ],
)
def test_time_is_linear_in_a_hostile_text(unit):
    def took(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        decode_calls(text, TOOLS)
        return time.process_time() - start

    # Quadratic work would make the ratio 64; the floor keeps timer noise out of it.
    assert max(took(400_000), 0.02) / max(took(50_000), 0.02) < 24


@pytest.mark.parametrize("text", ["", "  ", "{", '{"na', "``", "<tool", "TOOL", "FI", "[", "\n<|py"])
def test_a_beginning_that_may_become_a_call_is_held_back(text):
    assert may_open_call(text)


@pytest.mark.parametrize("text", ["H", "The", "`code`", "<b>", "To", "Fine", "1 [x]"])
def test_a_beginning_that_cannot_become_a_call_is_not_held_back(text):
    assert not may_open_call(text)
