import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.models.messages import ToolCall
from causeline.models.model import Attempt, CallDelta, Delta, Finish, ReasoningDelta, Reply, Retracted, Served, TextDelta, Usage
from causeline.models.stream import Fold, collect, fold, parse_arguments, read_json

plain = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(st.integers() | st.booleans() | plain, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
arguments = st.dictionaries(plain, values, max_size=2)


def cut(data: st.DataObject, text: str) -> list[str]:
    """`text` in pieces, some of them empty."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(st.data(), plain, st.lists(st.tuples(st.sampled_from(["", "a", "b"]), arguments), max_size=3))
def test_where_a_reply_was_cut_and_how_it_was_interleaved_changes_nothing(data, text, calls):
    streams: list[list[Delta]] = [[TextDelta(piece) for piece in cut(data, text)]]
    for index, (call_id, value) in enumerate(calls):
        pieces = [CallDelta(index, "", "", piece) for piece in cut(data, json.dumps(value))]
        streams.append([CallDelta(index, call_id, f"tool_{index}"), *pieces])
    merged = []
    while any(streams):
        merged.append(data.draw(st.sampled_from([stream for stream in streams if stream])).pop(0))
    reply = fold([*merged, Finish("stop")])
    assert reply.text == text
    assert [(call.name, call.arguments) for call in reply.calls] == [(f"tool_{index}", value) for index, (_, value) in enumerate(calls)]
    assert list(reply.provider_ids) == [call_id for call_id, _ in calls]
    assert reply.finish == ("tool_calls" if calls else "stop")


def test_interleaved_calls_without_ids_are_told_apart_by_index():
    reply = fold(
        [CallDelta(0, "", "a", '{"x"'), CallDelta(1, "", "b", '{"y"'), CallDelta(0, arguments=": 1}"), CallDelta(1, arguments=": 2}")]
    )
    assert reply.calls == (ToolCall("", "a", {"x": 1}), ToolCall("", "b", {"y": 2}))


def test_calls_one_after_another_at_one_index_are_told_apart_by_id():
    reply = fold(
        [CallDelta(0, "c1", "a", '{"x":'), CallDelta(0, "", "", "1}"), CallDelta(0, "c2", "a", '{"x":'), CallDelta(0, "", "", "2}")]
    )
    assert reply.calls == (ToolCall("c1", "a", {"x": 1}), ToolCall("c2", "a", {"x": 2}))


def test_calls_at_one_index_whose_chunks_carry_their_ids_may_be_interleaved():
    reply = fold(
        [CallDelta(0, "c1", "a", '{"x":'), CallDelta(0, "c2", "a", '{"x":'), CallDelta(0, "c1", "", "1}"), CallDelta(0, "c2", "", "2}")]
    )
    assert [call.arguments for call in reply.calls] == [{"x": 1}, {"x": 2}]


def test_whole_calls_without_ids_at_one_index_stay_two():
    reply = fold([CallDelta(0, "", "a", '{"x": 1}'), CallDelta(0, "", "a", '{"x": 2}'), CallDelta(0, "", "b", "{}")])
    assert [(call.name, call.arguments) for call in reply.calls] == [("a", {"x": 1}), ("a", {"x": 2}), ("b", {})]


def test_a_whole_call_in_one_chunk_is_a_call():
    assert fold([CallDelta(0, "c1", "a", '{"x": {"y": 1}}')]).calls == (ToolCall("c1", "a", {"x": {"y": 1}}),)


def test_a_name_and_id_repeated_in_every_chunk_are_one_call():
    reply = fold([CallDelta(0, "c1", "a", '{"x":'), CallDelta(0, "c1", "a", '{"y": 1}'), CallDelta(0, "c1", "a", "}")])
    assert reply.calls == (ToolCall("c1", "a", {"x": {"y": 1}}),)


def test_one_id_at_two_indexes_is_two_calls_and_the_second_id_is_missing():
    reply = fold([CallDelta(0, "r", "a", "{}"), CallDelta(1, "r", "b", "{}")])
    assert reply.calls == (ToolCall("r", "a", {}), ToolCall("", "b", {}))
    assert reply.provider_ids == ("r", "r")


def test_an_id_that_comes_after_the_name_belongs_to_the_call():
    assert fold([CallDelta(0, "", "a"), CallDelta(0, "late", "", "{}")]).calls == (ToolCall("late", "a", {}),)


def test_a_call_with_neither_name_nor_arguments_is_none():
    assert fold([CallDelta(0, "c1"), Finish("stop")]) == Reply(finish="stop")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        "[1]",
        "null",
        '"x"',
        "{} {}",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": -Infinity}',
        "{'a': 1}",
        '{"a": "\\ud83d"}',
        "{" * 100_000,
    ],
)
def test_arguments_that_are_not_one_strict_object_stay_text(text):
    assert parse_arguments(text) == text


def test_integers_of_any_size_and_paired_surrogates_are_kept():
    assert parse_arguments('{"n": 123456789012345678901234567890, "t": "\\ud83d\\ude00"}') == {
        "n": 123456789012345678901234567890,
        "t": "😀",
    }


def test_a_number_too_long_to_read_is_an_error_and_no_crash():
    huge = '{"n": ' + "9" * 5_000 + "}"
    assert parse_arguments(huge) == huge
    with pytest.raises(ValueError, match="deeply"):
        read_json("[" * 100_000)


def test_no_argument_text_is_no_arguments_unless_the_reply_was_cut():
    deltas = [CallDelta(0, "c1", "a"), CallDelta(1, "c2", "b")]
    assert [call.arguments for call in fold([*deltas, Finish("tool_calls")]).calls] == [{}, {}]
    for reason in ("length", "content_filter", "nobody knows"):
        assert [call.arguments for call in fold([*deltas, Finish(reason)]).calls] == [{}, ""]


@pytest.mark.parametrize(
    "reason, finish", [("function_call", "tool_calls"), ("max_tokens", "length"), ("end_turn", "stop"), ("other", "other")]
)
def test_finish_reasons_have_one_word_each(reason, finish):
    assert fold([TextDelta("x"), Finish(reason)]).finish == finish


def test_a_retraction_voids_what_came_before_and_keeps_what_it_cost():
    failed = Attempt("m", "stream_cut", "broke off", 0.5)
    reply = fold(
        [
            Served("m1", "r1"), ReasoningDelta("hm"), TextDelta("half"), CallDelta(0, "c1", "a", "{}"), Usage(5, 1, cost=0.25),
            Retracted("stream_cut"), failed, Served("m2", "r2"), TextDelta("whole"), Usage(1, 1), Usage(5, 2, cost=0.5), Finish("stop"),
        ]
    )  # fmt: skip
    assert reply == Reply(text="whole", usage=Usage(10, 3, cost=0.75), model="m2", request_id="r2", attempts=(failed,))


def test_surrogates_are_joined_over_pieces_or_replaced():
    assert fold([TextDelta("\ud83d"), TextDelta("\ude00 \ud83d!")]).text == "😀 \ufffd!"


def test_a_fold_knows_whether_there_is_something_to_take_back():
    state = Fold()
    state.add(Usage(1, 1))
    assert not state.started
    state.add(ReasoningDelta("x"))
    assert state.started
    state.add(Retracted("x"))
    assert not state.started


def test_an_empty_reply_is_one_without_text_or_calls():
    assert fold([TextDelta(" \n"), Finish("stop")]).empty
    assert not fold([CallDelta(0, "", "a")]).empty


async def test_collect_reads_to_the_end():
    async def stream():
        yield TextDelta("a")
        yield TextDelta("b")

    assert (await collect(stream())).text == "ab"


@pytest.mark.parametrize(
    "pieces, calls",
    [
        ([(0, "c1", "a", ""), (0, "", "a", '{"x": 1}'), (0, "", "a", "")], [{"x": 1}]),
        ([(0, "", "a", ""), (0, "", "a", '{"x": 1}'), (0, "", "a", " ")], [{"x": 1}]),
        ([(0, "c1", "a", '{"x": 1}'), (0, "c2", "a", "")], [{"x": 1}]),
        ([(0, "c1", "a", ""), (0, "c2", "", '{"x"'), (0, "c3", "", ": 1}")], [{"x": 1}]),
        ([(0, "c1", "a", ""), (0, "c2", "a", '{"x": 1}')], [{"x": 1}]),
        ([(0, "c1", "a", '{"x": 1}'), (0, "", "a", '{"x": 1}')], ['{"x": 1}{"x": 1}']),
        ([(0, "c1", "a", '{"x": 1}'), (0, "c2", "a", ""), (0, "", "", '{"x": 2}')], [{"x": 1}, {"x": 2}]),
        ([(0, "c1", "a", '{"x": 1}'), (0, "c2", "a", ""), (0, "c2", "", '{"x": 2}')], [{"x": 1}, {"x": 2}]),
        ([(0, "", "a", '{"x": 1}'), (0, "", "a", ""), (0, "", "", '{"x": 2}')], [{"x": 1}, {"x": 2}]),
    ],
)
def test_a_name_that_comes_again_or_an_id_that_changes_begins_no_call(pieces, calls):
    reply = fold([CallDelta(*piece) for piece in pieces])
    assert [call.arguments for call in reply.calls] == calls
    assert {call.name for call in reply.calls} == {"a"}
