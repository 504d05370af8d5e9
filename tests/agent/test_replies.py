"""What a reply comes to: an answer, a fault that is asked about again, a failure. And answers that have a shape."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from causeline import tool
from causeline.models.model import Finish, TextDelta
from tests.agent.stage import Turns, calls, stage
from tests.agent.test_calls import Pieces

RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    RAN.append(n)
    return f"saw {n}"


EMPTY = {"text": ""}


def faults(nodes):
    return [node.payload["code"] for node in nodes]


async def test_an_empty_reply_is_asked_for_once_more():
    async with stage([EMPTY, {"text": "here"}]) as s:
        ran = await s.run("go")
        log = await s.log()
    assert (ran.status, ran.answer) == ("succeeded", "here")
    assert [node.kind for node in log.nodes] == ["goal", "inference", "protocol_error", "inference", "answer"]
    _, first, fault, second, _ = log.nodes
    assert first.payload == {"text": "", "calls": [], "finish": "stop"}
    assert (fault.payload["code"], fault.parents) == ("empty_reply", (first.id,))
    assert second.parents == (fault.id,)
    assert len(s.model.requests) == 2
    assert s.model.requests[0].messages == s.model.requests[1].messages


@pytest.mark.parametrize("deltas", [(Finish("stop"),), (TextDelta(" \n"), Finish("stop")), (Finish("length"),)])
async def test_no_text_blank_text_and_text_cut_before_it_began_are_empty(deltas):
    async with stage(Pieces(*deltas)) as s:
        ran = await s.run("go")
        assert "empty_reply" in faults(await s.nodes("protocol_error"))
    assert ran.answer == "done"


async def test_two_empty_replies_fail_the_run():
    async with stage([EMPTY, EMPTY]) as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == ["empty_reply", "empty_reply"]
        assert [one.node for one in await s.steps()] == ["entrypoint", "call_model", "call_model", "exit"]
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "empty_reply")
    assert (ran.events[-1]["type"], ran.events[-1]["code"]) == ("run_error", "empty_reply")
    assert len(s.model.requests) == 2


async def test_use_of_tools_between_empty_replies_starts_the_count_anew():
    async with stage([EMPTY, calls(("look", {"n": 1})), EMPTY, {"text": "here"}], [look]) as s:
        ran = await s.run("go")
    assert (ran.status, ran.answer) == ("succeeded", "here")


async def test_a_later_run_may_try_again_after_a_failed_one():
    async with stage([EMPTY, EMPTY, EMPTY, {"text": "at last"}]) as s:
        first = await s.run("go")
        second = await s.run()
        assert (first.status, second.status, second.answer) == ("failed", "succeeded", "at last")
        assert await s.said() == [("user", "go"), ("assistant", "at last")]


async def test_a_cut_reply_is_the_answer_with_a_fault_beside_it():
    async with stage([{"text": "The first half of", "finish_reason": "length"}]) as s:
        ran = await s.run("go")
        _, said, fault, answer = (await s.log()).nodes
    assert (ran.status, ran.stop_reason, ran.answer) == ("succeeded", "answered", "The first half of")
    assert said.payload["finish"] == "length"
    assert (fault.kind, fault.payload["code"], fault.parents) == ("protocol_error", "cut_reply", (said.id,))
    assert (answer.kind, answer.parents) == ("answer", (said.id,))


@pytest.mark.parametrize(
    "reason, code", [("content_filter", "content_filter"), ("SAFETY", "content_filter"), ("nobody knows", "cut_reply")]
)
async def test_a_reply_whose_end_is_no_end_is_the_answer_with_a_fault_beside_it(reason, code):
    async with stage([{"text": "half of it", "finish_reason": reason}]) as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == [code]
    assert (ran.status, ran.answer) == ("succeeded", "half of it")


async def test_a_reply_that_was_withheld_fails_the_run_and_is_not_asked_for_again():
    async with stage([{"text": "", "finish_reason": "content_filter"}]) as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == ["content_filter"]
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "content_filter")
    assert len(s.model.requests) == 1


async def test_a_reply_that_ends_in_a_failure_of_the_provider_is_a_failure():
    async with stage([{"text": "half", "finish_reason": "error", "times": 1}]) as s:
        ran = await s.run("go")
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "stream_cut")


async def test_a_reply_cut_among_its_calls_runs_the_whole_ones_only():
    cut = {
        "calls": [{"id": "a", "name": "look", "arguments": {"n": 1}}, {"id": "b", "name": "look", "arguments": '{"n": '}],
        "finish_reason": "length",
    }
    async with stage([cut, {"text": "ok"}], [look]) as s:
        await s.run("go")
        results = [one.payload["ok"] for one in await s.nodes("tool_result")]
        assert faults(await s.nodes("protocol_error")) == ["cut_reply"]
    assert (RAN, results) == ([1], [True, False])


TEXT_CALLS = [
    '{"name": "look", "arguments": {"n": 5}}',
    '```json\n{"name": "look", "arguments": "{\\"n\\": 5}"}\n```',
    'Sure.\n<tool_call>{"name": "look", "arguments": {"n": 5}}</tool_call>',
    '<tool_call>{"name": "look", "arguments": {"n": 5}}</tool_call>',
    'TOOL_CALL {"name": "look", "args": {"n": 5}}',
    "<function=look><parameter=n>5</parameter></function>",
]


@pytest.mark.parametrize("text", TEXT_CALLS)
async def test_a_call_written_as_text_is_a_call_with_an_id_and_a_paired_history(text):
    async with stage([{"text": text}, {"text": "FINAL done"}], [look]) as s:
        ran = await s.run("go")
        (call,) = await s.nodes("tool_call")
    assert RAN == [5]
    assert call.payload["call_id"].startswith("call_")
    assert ran.answer == "done"


NO_CALLS = [
    '{"name": "Bob"}',
    '{"name": "Bob", "arguments": {}}',
    'The call {"name": "look", "arguments": {"n": ',
    '{"name": "look"',
    "[1, 2]",
]


@pytest.mark.parametrize("text", NO_CALLS)
async def test_text_that_is_no_whole_call_of_a_tool_there_is_stays_the_answer(text):
    async with stage([{"text": text}], [look]) as s:
        ran = await s.run("go")
        assert await s.nodes("tool_call") == await s.nodes("protocol_error") == []
    assert (ran.status, ran.answer, RAN) == ("succeeded", text, [])


async def test_text_marked_as_a_call_that_is_none_is_the_answer_with_a_fault_beside_it():
    async with stage([{"text": 'TOOL_CALL {"name": "look", '}], [look]) as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == ["unparseable_action"]
    assert (ran.status, ran.answer) == ("succeeded", 'TOOL_CALL {"name": "look", ')
    assert len(s.model.requests) == 1


async def test_text_calls_can_be_switched_off():
    async with stage([{"text": TEXT_CALLS[0]}], [look], parse_text_tool_calls=False) as s:
        assert (await s.run("go")).answer == TEXT_CALLS[0]
    assert RAN == []


@pytest.mark.parametrize(
    "mode, script",
    [
        (
            "text",
            ['TOOL_CALL {"name": "look", "args": {"n": 5}}', 'FINAL {"answer": "{\\"name\\": \\"look\\", \\"arguments\\": {\\"n\\": 6}}"}'],
        ),
        ("schema", ['{"tool": "look", "args": {"n": 5}}', '{"answer": "{\\"name\\": \\"look\\", \\"arguments\\": {\\"n\\": 6}}"}']),
    ],
)
async def test_models_without_tool_calls_are_decoded_once(mode, script):
    """An answer that quotes a call is an answer."""
    async with stage([{"text": one} for one in script], [look], tool_mode=mode, pairs=False) as s:
        ran = await s.run("go")
    assert RAN == [5]
    assert (ran.status, ran.answer) == ("succeeded", '{"name": "look", "arguments": {"n": 6}}')
    assert all(request.tools == () for request in s.model.requests)
    assert {one.role for request in s.model.requests for one in request.messages} == {"user", "assistant"}


# answers with a shape

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "high": {"type": "integer"}}, "required": ["city", "high"]}


async def test_a_shaped_answer_is_the_value_in_the_log_the_run_and_the_result():
    async with stage([{"text": '{"city": "Graz", "high": 21}'}], response_format=WEATHER) as s:
        ran = await s.run("go")
        (answer,) = await s.nodes("answer")
    assert ran.answer == ran.output == answer.payload == {"city": "Graz", "high": 21}
    assert s.model.last.response_schema == {"name": "answer", "schema": WEATHER}


async def test_an_answer_of_another_shape_is_asked_for_again_with_the_reason():
    script = [{"text": "It is warm."}, {"text": '{"city": "Graz", "high": "warm"}'}, {"text": '{"city": "Graz", "high": 21}'}]
    async with stage(script, response_format=WEATHER) as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == ["invalid_output", "invalid_output"]
        said, fault = (await s.log()).nodes[1:3]
        assert await s.said() == [
            ("user", "go"),
            ("assistant", "It is warm."),
            ("assistant", '{"city": "Graz", "high": "warm"}'),
            ("assistant", '{"city": "Graz", "high": 21}'),
        ]
    assert fault.parents == (said.id,)
    assert ran.answer == {"city": "Graz", "high": 21}
    asked = s.model.last.messages
    assert [one.role for one in asked] == ["user", "assistant", "user", "assistant", "user"]
    assert "$.high" in asked[-1].text


@pytest.mark.parametrize("retries, asked", [(0, 1), (2, 3)])
async def test_rounds_of_repair_are_bounded(retries, asked):
    async with stage([{"text": "no"}] * 9, response_format=WEATHER, max_retries=retries) as s:
        ran = await s.run("go")
        again = await s.run()
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "model_error", "invalid_output")
    assert (again.status, len(s.model.requests)) == ("failed", 2 * asked)


async def test_faults_of_different_kinds_in_turn_are_bounded_too():
    async with stage([EMPTY, {"text": "no"}] * 9, response_format=WEATHER, max_retries=2) as s:
        ran = await s.run("go")
    assert (ran.status, len(s.model.requests)) == ("failed", 3)


class Weather(BaseModel):
    model_config = ConfigDict(strict=True)
    city: str
    high: int

    @field_validator("city")
    @classmethod
    def known(cls, value):
        if value != "Graz":
            raise ValueError("no such city")
        return value


@dataclass
class Point:
    x: int
    y: int = 0


async def test_an_output_type_gives_its_own_values_and_its_own_checks_count():
    script = [{"text": '{"city": "Gratz", "high": 21}'}, {"text": '{"city": "Graz", "high": 21}'}]
    async with stage(script, output_type=Weather) as s:
        ran = await s.run("go")
    assert ran.output == Weather(city="Graz", high=21)
    assert ran.answer == {"city": "Graz", "high": 21}
    assert "no such city" in s.model.last.messages[-1].text
    async with stage([{"text": '{"x": 1}'}], output_type=Point) as s:
        assert (await s.run("go")).output == Point(1, 0)


async def test_notes_beside_a_shaped_answer_do_not_let_a_wrong_shape_through():
    note = {"name": "remember", "arguments": {"type": "memory", "key": "k", "content": "c"}}
    script = [{"text": "warm", "calls": [{"id": "a", **note}]}, {"text": '{"city": "Graz", "high": 21}', "calls": [{"id": "b", **note}]}]
    async with stage(script, response_format=WEATHER, remember=True) as s:
        ran = await s.run("go")
        assert len(await s.nodes("semantic")) == 2
        (answer,) = await s.nodes("answer")
    assert ran.answer == answer.payload == {"city": "Graz", "high": 21}
    assert len(s.model.requests) == 2


async def test_the_answer_of_an_earlier_turn_keeps_its_shape_when_there_is_nothing_to_do():
    async with stage(Turns([{"text": '{"city": "Graz", "high": 21}'}]), response_format=WEATHER) as s:
        await s.run("go")
        assert (await s.run()).answer == {"city": "Graz", "high": 21}


async def test_in_text_mode_a_call_that_cannot_be_read_is_asked_for_again():
    script = [{"text": 'TOOL_CALL {"name": "look", "args": {'}, {"text": "FINAL done"}]

    @tool(effects=False)
    async def look(n: int) -> str:
        """Looks."""
        return f"saw {n}"

    async with stage(script, [look], tool_mode="text") as s:
        ran = await s.run("go")
        assert faults(await s.nodes("protocol_error")) == ["unparseable_action"]
    assert (ran.status, ran.answer) == ("succeeded", "done")
    assert "Write it again" in s.model.last.messages[-1].text
