"""What counts as a structured answer: one JSON value, wherever in the reply it stands."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from causeline.agent.options import Options
from causeline.agent.react.structured_answer import check_output, typed
from tests.agent.stage import stage


class Invoice(BaseModel):
    total: float


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def answer(text: str, output_type: Any, *, cut: bool = False) -> Any:
    options = Options.checked(model="scripted:echo", output_type=output_type)
    value, finding = check_output(options, text, cut=cut)
    return finding if finding is not None else (typed(options, value),)


@pytest.mark.parametrize(
    "text",
    [
        '{"total": 1.5}',
        '\n{"total": 1.5}\n',
        '```json\n{"total": 1.5}\n```',
        '```\n{"total": 1.5}\n```',
        'Here it is:\n```json\n{"total": 1.5}\n```\nAnything else?',
        'The invoice is {"total": 1.5}, as you asked.',
        'Of [1, 2] and {"total": 1.5} the second fits.',
        "{'total': 1.5,}",
        "Sure: {total: 1.5} is it.",
        '{"total": 1.5} and once more {"total": 1.5}',
    ],
)
def test_an_object_may_stand_in_a_fence_in_prose_or_in_bad_syntax(text):
    assert answer(text, Invoice) == (Invoice(total=1.5),)


@pytest.mark.parametrize(
    "text, output_type, value",
    [
        ('{"value": 3}', int, 3),
        ("3", int, 3),
        ("```json\n3\n```", int, 3),
        ("The answer is 3.", int, 3),
        ("[1, 2]", list[int], [1, 2]),
        ('{"value": [1, 2]}', list[int], [1, 2]),
        ("Both: [1, 2]", list[int], [1, 2]),
        ("b", Literal["a", "b"], "b"),
        ('I take "b".', Literal["a", "b"], "b"),
        ("null", int | None, None),
        ('{"value": null}', Invoice | None, None),
        ('{"total": 2}', Invoice | None, Invoice(total=2)),
        ('{"value": {"total": 2}}', Invoice | int, Invoice(total=2)),
        ("Just words.", str, "Just words."),
        ('{"value": "quoted"}', str, "quoted"),
        ('He said "hi" 3 times.', str, 'He said "hi" 3 times.'),
    ],
)
def test_other_values_are_taken_with_their_wrapper_and_without(text, output_type, value):
    assert answer(text, output_type) == (value,)


@pytest.mark.parametrize(
    "text, output_type, finding",
    [
        ("warm", Invoice, "one JSON object and nothing else"),
        ('{"total": "much"}', Invoice, "$.total"),
        ('{"total": 1} or {"total": 2}', Invoice, "holds 2 values"),
        ("I counted 3 in 2 rows.", int, "holds 2 values"),
        ("c", Literal["a", "b"], "one JSON value"),
        ("none", int, "one JSON value"),
    ],
)
def test_what_does_not_fit_or_is_not_certain_is_asked_for_again(text, output_type, finding):
    said = answer(text, output_type)
    assert isinstance(said, str)
    assert finding in said


def test_a_reply_that_was_cut_is_not_completed():
    assert isinstance(answer('{"total": 1.5', Invoice, cut=True), str)


async def test_a_value_that_is_no_object_is_asked_for_in_one_and_answered_bare():
    async with stage([{"text": '{"value": [1, 2]}'}], output_type=list[int]) as s:
        ran = await s.run("go")
        (said,) = await s.nodes("answer")
    asked = s.model.last.response_schema["schema"]
    assert (asked["type"], list(asked["properties"])) == ("object", ["value"])
    assert (ran.answer, said.payload) == ([1, 2], [1, 2])


async def test_the_schema_of_a_recursive_type_has_an_object_at_its_root():
    async with stage([{"text": '{"name": "a", "children": [{"name": "b"}]}'}], output_type=Tree) as s:
        ran = await s.run("go")
    assert s.model.last.response_schema["schema"]["type"] == "object"
    assert ran.output.children[0].name == "b"
