"""Events become words in order, each on a line of its own, with nothing hostile left in them."""

import pytest

from causeline.cli.views.narration import Narrator


def say(*events, steps=False):
    narrator = Narrator(steps=steps)
    text = "".join(piece.text for event in events for piece in narrator.tell(event))
    return text, narrator


def message(*deltas, name="m1"):
    yield {"type": "text_message_start", "message_id": name}
    for delta in deltas:
        yield {"type": "text_message_content", "message_id": name, "delta": delta}
    yield {"type": "text_message_end", "message_id": name}


def call(name, arguments, result=None, *, id="c1", client=False, is_error=False):
    yield {"type": "tool_call_start", "tool_call_id": id, "name": name, "client": client}
    yield {"type": "tool_call_args", "tool_call_id": id, "delta": arguments}
    yield {"type": "tool_call_end", "tool_call_id": id}
    if result is not None:
        yield {"type": "tool_call_result", "tool_call_id": id, "content": result, "is_error": is_error}


FINISHED = {"type": "run_finished", "status": "succeeded"}


def test_text_streams_as_it_comes_and_ends_with_a_line():
    text, narrator = say(*message("Hello ", "world"), FINISHED)
    assert text == "Hello world\n"
    assert narrator.said == "Hello world"


def test_a_call_and_its_result_have_a_line_each():
    text, _ = say(*message("Let me see."), *call("lookup", '{"term": "x"}', "found\nit"), *message("It is x."), FINISHED)
    assert text == 'Let me see.\ncall    lookup {"term": "x"}\nresult  lookup: found it\nIt is x.\n'


def test_results_of_parallel_calls_name_their_tool():
    events = [*call("a", "{}", id="1"), *call("b", "{}", id="2")]
    results = [{"type": "tool_call_result", "tool_call_id": id, "content": id, "is_error": id == "2"} for id in ("2", "1")]
    assert say(*events, *results)[0] == "call    a {}\ncall    b {}\nfailed  b: 2\nresult  a: 1\n"


def test_a_client_call_says_who_has_to_carry_it_out():
    assert say(*call("pick", "{}", client=True))[0] == "call    pick {}  (for the caller to carry out)\n"


def test_an_escape_sequence_over_two_deltas_never_reaches_the_screen():
    text, _ = say(*message("a\x1b[3", "1mb\x1b"), *call("t\x1b[2Jx", '{"a": "\x1b[31m"}', "\x1b]0;t\x07done"))
    assert text == 'ab\ncall    tx {"a": ""}\nresult  tx: done\n'


def test_a_retracted_message_is_said_to_be_void_and_does_not_count_as_the_answer():
    events = list(message("The answ"))[:2]
    text, narrator = say(*events, {"type": "message_retracted", "message_id": "m1"}, *message("Forty-two.", name="m2"), FINISHED)
    assert text == "The answ\n[the reply broke off here and does not count]\nForty-two.\n"
    assert narrator.said == "Forty-two."


def test_a_retraction_of_nothing_says_nothing():
    assert say({"type": "message_retracted", "message_id": "m1"})[0] == ""


def test_thinking_is_told_apart_from_the_answer():
    events = [{"type": "reasoning_start"}, {"type": "reasoning_content", "delta": "hm"}, {"type": "reasoning_end"}]
    assert say(*events, *message("Yes."))[0] == "thinking: hm\nYes.\n"


def test_steps_are_told_when_asked_for():
    event = {"type": "step_started", "step": 1, "node": "urn:causeline:node:call_model"}
    assert say(event)[0] == ""
    assert say(event, steps=True)[0] == "step 1  call_model\n"


@pytest.mark.parametrize(
    "citations, said",
    [
        ([], "recall  nothing from earlier runs\n"),
        ([{"run": "a", "step": 0, "node": "n"}], "recall  1 piece from 1 earlier run\n"),
        ([{"run": "a"}, {"run": "b"}, {"run": "b"}], "recall  3 pieces from 2 earlier runs\n"),
    ],
)
def test_recall_says_how_much_from_where(citations, said):
    assert say({"type": "memory_recalled", "kind": "recall", "citations": citations})[0] == said


@pytest.mark.parametrize(
    "told, line",
    [
        ({"citations": []}, "memory  nothing that fits\n"),
        ({"citations": [{"key": "k"}]}, "memory  1 piece\n"),
        ({"citations": [], "error": {"code": "unavailable", "message": "the disk is full"}}, "memory  not there: the disk is full\n"),
    ],
)
def test_what_long_term_memory_has_is_told_apart(told, line):
    assert say({"type": "memory_recalled", "kind": "memory", **told})[0] == line


def test_a_sub_run_is_named():
    assert say({"type": "sub_run_started", "sub_run_id": "run_2", "agent": "helper"})[0] == "sub-run helper run_2\n"


def test_events_nobody_reads_say_nothing():
    kinds = ["run_started", "state_snapshot", "step_finished", "tool_call_delta", "context_changed", "messages_snapshot", "something_new"]
    assert say(*({"type": kind} for kind in kinds))[0] == ""


def test_a_long_result_is_cut_and_says_so():
    text, _ = say(*call("read", "{}", "x" * 1000))
    assert "(700 more)" in text
