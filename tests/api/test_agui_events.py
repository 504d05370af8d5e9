"""A run in the words of AG-UI: right for a client that was there from the start, and for one that joins anywhere."""

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from causeline.api.agui_events import Translator
from tests.api.agui_client import Reader

EVENT = TypeAdapter(Event)
HISTORY = [
    {"id": "u0", "role": "user", "content": "before", "tool_calls": [], "tool_call_id": None, "is_error": False},
    {"id": "a0", "role": "assistant", "content": "yes", "tool_calls": [], "tool_call_id": None, "is_error": False},
]


def numbered(*events):
    common = {"run_id": "r1", "session_id": "s1", "ts": "2026-01-01T00:00:00.000Z"}
    return [{"type": kind, **common, "seq": place + 1, **fields} for place, (kind, fields) in enumerate(events)]


def message(name, role, content, calls=(), call=None):
    return {"id": name, "role": role, "content": content, "tool_calls": list(calls), "tool_call_id": call, "is_error": False}


CALL = {"id": "c1", "name": "look", "arguments": {"q": 1}}
TALK = numbered(
    ("run_started", {"agent": "a", "checkpoint_id": None, "parent_run_id": "r0"}),
    ("state_snapshot", {"context": {"city": "Ulm"}}),
    ("step_started", {"step": 0, "node": "call_model"}),
    ("reasoning_start", {"message_id": "t1"}),
    ("reasoning_content", {"message_id": "t1", "delta": "hm"}),
    ("reasoning_end", {"message_id": "t1"}),
    ("text_message_start", {"message_id": "m1", "role": "assistant"}),
    ("text_message_content", {"message_id": "m1", "delta": "Half of"}),
    ("message_retracted", {"message_id": "m1"}),
    ("text_message_start", {"message_id": "m2", "role": "assistant"}),
    ("text_message_content", {"message_id": "m2", "delta": "I will "}),
    ("text_message_content", {"message_id": "m2", "delta": "look."}),
    ("text_message_end", {"message_id": "m2"}),
    ("tool_call_delta", {"message_id": "m2", "index": 0, "delta": "{}"}),
    ("step_finished", {"step": 0, "node": "call_model", "checkpoint_id": "ck"}),
    ("step_started", {"step": 1, "node": "call_tools"}),
    ("step_started", {"step": 1, "node": "call_tools"}),
    ("tool_call_start", {"tool_call_id": "c1", "name": "look", "client": False, "message_id": "m2"}),
    ("tool_call_args", {"tool_call_id": "c1", "delta": '{"q": 1}'}),
    ("tool_call_end", {"tool_call_id": "c1"}),
    ("tool_progress", {"tool_call_id": "c1", "progress": {"done": 1}}),
    ("sub_run_started", {"tool_call_id": "c1", "sub_run_id": "r2", "sub_session_id": "s2", "agent": "helper"}),
    ("sub_run_event", {"event": {"type": "run_started", "run_id": "r2"}}),
    ("sub_run_event", {"event": {"type": "text_message_start", "run_id": "r2", "message_id": "x1", "role": "assistant"}}),
    ("sub_run_event", {"event": {"type": "text_message_content", "run_id": "r2", "message_id": "x1", "delta": "below"}}),
    ("sub_run_event", {"event": {"type": "text_message_end", "run_id": "r2", "message_id": "x1"}}),
    (
        "sub_run_finished",
        {"tool_call_id": "c1", "sub_run_id": "r2", "sub_session_id": "s2", "status": "succeeded", "stop_reason": "answered"},
    ),
    ("tool_call_result", {"tool_call_id": "c1", "message_id": "m3", "content": "found", "is_error": False}),
    ("context_changed", {"context": {"city": "Bonn"}}),
    ("step_finished", {"step": 1, "node": "call_tools", "checkpoint_id": "ck"}),
    ("text_message_start", {"message_id": "m4", "role": "assistant"}),
    ("text_message_content", {"message_id": "m4", "delta": "Found."}),
    ("text_message_end", {"message_id": "m4"}),
    (
        "messages_snapshot",
        {
            "messages": [
                *HISTORY,
                message("u1", "user", "look"),
                message("m2", "assistant", "I will look.", [CALL]),
                message("m3", "tool", "found", call="c1"),
                message("m4", "assistant", "Found."),
            ]
        },
    ),
    (
        "run_finished",
        {
            "status": "succeeded",
            "stop_reason": "answered",
            "answer": "Found.",
            "pending_tool_call_ids": [],
            "interrupts": [],
            "usage": {"input_tokens": 3, "output_tokens": 2},
        },
    ),
)


def translated(events, **given):
    translator = Translator(history=[*HISTORY, message("u1", "user", "look")], **given)
    return translator, [out for event in events for out in translator.translate(event)]


def test_every_event_is_one_of_the_protocol_and_a_client_accepts_their_order():
    _, events = translated(TALK)
    for event in events:
        EVENT.validate_python(event.model_dump(by_alias=True))
    client = Reader([]).read(events)
    assert client.outcome == {"type": "success"}
    assert client.state == {"city": "Bonn"}
    assert client.said()[-1] == ("m4", "assistant", "Found.", [])
    assert ("causeline.retracted", {"message_id": "m1"}) in client.customs
    assert ("causeline.tool_progress", {"tool_call_id": "c1", "progress": {"done": 1}}) in client.customs
    started = events[0].model_dump(by_alias=True)
    assert (started["protocolVersion"], started["parentRunId"], started["threadId"]) == ("1.0", "r0", "s1")


def test_a_retracted_message_is_gone_from_the_messages():
    _, events = translated(TALK[:9])
    assert [one[0] for one in Reader([]).read(events).said()] == ["u0", "a0", "u1"]


@pytest.mark.parametrize("known", ["nothing", "everything so far"])
def test_joining_at_any_event_ends_with_the_messages_of_who_was_there_all_along(known):
    _, events = translated(TALK)
    whole = Reader([]).read(events).said()
    for place in range(1, len(TALK)):
        translator, before = translated(TALK[:place])
        held = Reader([]).read(before).messages if known != "nothing" else []
        late = translator.reopened() + [out for event in TALK[place:] for out in translator.translate(event)]
        assert Reader(held).read(late).said() == whole, f"joined after event {place}"


def test_what_a_sub_agent_says_names_it_and_is_no_message_of_the_run():
    _, events = translated(TALK)
    below = [event for event in events if getattr(event, "subagent_run_id", None) == "r2"]
    assert [event.type.value for event in below] == [
        "SUBAGENT_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "SUBAGENT_FINISHED",
    ]  # fmt: skip
    assert (below[0].name, below[0].parent_tool_call_id) == ("helper", "c1")


END = {"answer": None, "pending_tool_call_ids": [], "interrupts": [], "usage": {}}


@pytest.mark.parametrize("place", range(1, len(TALK)))
def test_whatever_is_open_is_ended_before_a_run_that_stops_anywhere(place):
    ends = [
        ("run_finished", {"status": "cancelled", "stop_reason": "cancelled", **END}),
        ("run_error", {"status": "failed", "stop_reason": "model_error", "code": "model_error", "message": "no"}),
    ]
    for kind, fields in ends:
        end = {"type": kind, "run_id": "r1", "session_id": "s1", "ts": "2026-01-01T00:00:00.000Z", "seq": 99, **fields}
        _, events = translated([*TALK[:place], end])
        client = Reader([]).read(events)
        assert client.ended
        assert [*client.texts, *client.calls, *client.steps, *client.thoughts] == []


def test_questions_and_calls_of_the_client_are_outcomes():
    asked = numbered(
        ("run_started", {"agent": "a", "checkpoint_id": None}),
        (
            "interrupt_opened",
            {"interrupt_id": "int_1", "kind": "approval", "tool_call_id": "c1", "name": "pay", "arguments": {"n": 1}, "question": "Pay?"},
        ),
        ("run_finished", {"status": "interrupted", "stop_reason": "interrupted", **END, "interrupts": ["int_1", "int_0"]}),
    )
    before = {"int_0": {"kind": "question", "question": "Where?", "tool_call_id": "c0", "name": "ask_human", "arguments": {}}}
    _, events = translated(asked, interrupts=before)
    outcome = Reader([]).read(events).outcome
    assert outcome["type"] == "interrupt"
    assert [(one["id"], one["reason"], one["message"], one["toolCallId"]) for one in outcome["interrupts"]] == [
        ("int_1", "approval", "Pay?", "c1"),
        ("int_0", "question", "Where?", "c0"),
    ]
    assert outcome["interrupts"][0]["metadata"] == {"name": "pay", "arguments": {"n": 1}}
    client = numbered(
        ("run_started", {"agent": "a", "checkpoint_id": None}),
        ("run_finished", {"status": "succeeded", "stop_reason": "client_tools", **END, "pending_tool_call_ids": ["b", "a"]}),
    )
    _, events = translated(client)
    assert Reader([]).read(events).outcome == {"type": "success", "pendingToolCallIds": ["b", "a"]}
