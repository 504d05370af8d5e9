import json

import jsonschema_rs
import pytest

from causeline.models.messages import ToolCall, ToolSpec
from causeline.models.schema_calls import decode_schema_reply, examples, schema_for
from causeline.models.text_calls import Decoded

CITY = ToolSpec("weather", "Weather in a city.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
DRAW = ToolSpec(
    "draw",
    "Draw.",
    {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Point"}, "path": {"type": "array", "items": {"$ref": "#/$defs/Point"}}},
        "required": ["at"],
        "$defs": {"Point": POINT},
    },
)
MOVE = ToolSpec("move", "Move.", {"type": "object", "properties": {"to": {"$ref": "#/definitions/Point"}}, "definitions": {"Point": POINT}})


@pytest.mark.parametrize(
    "reply, valid",
    [
        ({"tool": "weather", "args": {"city": "Oslo"}}, True),
        ({"answer": "Rain."}, True),
        ({"answer": ""}, False),
        ({"tool": "weather", "args": {}}, False),
        ({"tool": "draw", "args": {"city": "Oslo"}}, False),
        ({"tool": "draw", "args": {"at": {"x": 1}, "path": [{"x": 2}]}}, True),
        ({"tool": "draw", "args": {"at": {"x": "1"}}}, False),
        ({"tool": "move", "args": {"to": {"x": 1}}}, True),
        ({"tool": "move", "args": {"to": {"y": 1}}}, False),
        ({"tool": "unknown", "args": {}}, False),
        ({"answer": "x", "tool": "weather", "args": {"city": "Oslo"}}, False),
    ],
)
def test_a_valid_reply_calls_one_tool_with_its_own_arguments_or_answers(reply, valid):
    assert jsonschema_rs.is_valid(schema_for([CITY, DRAW, MOVE]), reply) is valid


def test_an_answer_may_have_a_schema_of_its_own():
    schema = schema_for([CITY], {"$ref": "#/$defs/Point", "$defs": {"Point": POINT}})
    assert jsonschema_rs.is_valid(schema, {"answer": {"x": 1}})
    assert not jsonschema_rs.is_valid(schema, {"answer": "x"})


def test_without_tools_there_is_only_the_answer():
    answer = {"answer": {"type": "string", "minLength": 1}}
    assert schema_for([]) == {"type": "object", "properties": answer, "required": ["answer"], "additionalProperties": False}


@pytest.mark.parametrize(
    "text, decoded",
    [
        ('{"answer": "Rain."}', Decoded("Rain.")),
        ('{"answer": {"x": 1}}', Decoded('{"x": 1}')),
        (' {"tool": "weather", "args": {"city": "Oslo"}} ', Decoded("", (ToolCall("", "weather", {"city": "Oslo"}),))),
    ],
)
def test_a_reply_is_decoded(text, decoded):
    assert decode_schema_reply(text, [CITY]) == decoded


@pytest.mark.parametrize(
    "text",
    [
        "Rain.",
        "",
        "[]",
        '{"answer": "Ra',
        '{"tool": "draw", "args": {}}',
        '{"tool": "weather", "args": "Oslo"}',
        '{"answer": 1, "tool": 2}',
    ],
)
def test_what_is_no_reply_comes_back_with_the_problem(text):
    decoded = decode_schema_reply(text, [CITY])
    assert (decoded.text, decoded.calls) == (text, ())
    assert decoded.problem


def test_examples_are_valid_replies_that_show_each_tool_in_turn_and_an_answer_after_each():
    tools, schema = [CITY, DRAW], schema_for([CITY, DRAW])
    turns = examples(tools)
    assert [turn.role for turn in turns] == ["user", "assistant"] * (len(turns) // 2)
    replies = [json.loads(turn.text) for turn in turns if turn.role == "assistant"]
    assert all(jsonschema_rs.is_valid(schema, reply) for reply in replies)
    assert [reply.get("tool", "answer") for reply in replies[:9]] == [
        "answer", "weather", "answer", "draw", "answer", "draw", "answer", "weather", "answer",
    ]  # fmt: skip
    assert len(turns) == 2 + 8 * 4
    assert turns == examples(tools)


def test_examples_use_the_values_a_schema_gives():
    properties = {
        "city": {"type": "string", "examples": ["Bergen", "Oslo"]}, "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer", "minimum": 90}, "exact": {"type": "boolean"}, "near": {"default": "sea"},
    }  # fmt: skip
    calls = [
        json.loads(turn.text)["args"]
        for turn in examples([ToolSpec("weather", "Weather.", {"type": "object", "properties": properties})])
        if '"args"' in turn.text and turn.role == "assistant"
    ]
    assert [(call["city"], call["unit"], call["near"], call["exact"]) for call in calls[:2]] == [
        ("Bergen", "C", "sea", True),
        ("Oslo", "F", "sea", True),
    ]
    assert all(call["days"] >= 90 for call in calls)


def test_examples_of_a_schema_that_holds_itself_end():
    tree = {
        "type": "object",
        "properties": {"name": {"type": ["string", "null"]}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    }
    tool = ToolSpec(
        "plant", "Plant.", {"type": "object", "properties": {"tree": {"anyOf": [{"$ref": "#/$defs/Tree"}, {}]}}, "$defs": {"Tree": tree}}
    )
    replies = [json.loads(turn.text) for turn in examples([tool]) if turn.role == "assistant"]
    assert isinstance(replies[1]["args"]["tree"]["children"][0]["name"], str)
    assert all(jsonschema_rs.is_valid(schema_for([tool]), reply) for reply in replies)


def test_many_tools_get_few_examples():
    many = [ToolSpec(f"tool_{number}", "Do.", {"type": "object"}) for number in range(30)]
    assert len(examples(many)) == 2 + 8 * 4
