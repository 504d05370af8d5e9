import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.models.messages import InvalidMessage, Message, ToolCall

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
calls = st.lists(st.builds(ToolCall, st.text(), st.text(min_size=1), objects | st.text()), max_size=3).map(tuple)
parts = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=3).map(tuple)
messages = (
    st.builds(Message, st.sampled_from(["system", "user"]), st.text() | parts, id=st.text())
    | st.builds(Message, st.just("assistant"), st.text() | parts, calls, id=st.text())
    | st.builds(Message, st.just("tool"), st.text() | parts, st.just(()), st.text(min_size=1), st.booleans(), st.text())
)


@given(messages)
def test_a_message_survives_json(message):
    assert Message.from_json(message.to_json()) == message


def test_every_key_is_always_written():
    assert Message("user", "hi").to_json() == {
        "id": "", "role": "user", "content": "hi", "tool_calls": [], "tool_call_id": None, "is_error": False,
    }  # fmt: skip


def test_raw_arguments_stay_raw():
    call = {"id": "c", "name": "lookup", "arguments": '{"a": 1'}
    assert Message.from_json({"role": "assistant", "content": None, "tool_calls": [call]}).tool_calls == (
        ToolCall("c", "lookup", '{"a": 1'),
    )


def test_text_of_parts_leaves_images_out():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = Message.from_json({"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]})
    assert message.text == "What is this?"
    assert message.content[1] == image


def test_all_faults_of_a_message_are_named_at_once():
    with pytest.raises(InvalidMessage) as caught:
        Message.from_json({"role": "robot", "content": 3, "tool_calls": [{"name": ""}], "is_error": "yes", "extra": 1})
    places = {finding.split(":")[0] for finding in caught.value.findings}
    assert places == {"role", "content", "tool_calls[0]", "is_error", "extra"}


@pytest.mark.parametrize(
    "value, finding",
    [
        ([], "expected an object, got list"),
        ({"role": "tool", "content": "x"}, "tool_call_id: a tool message names the call it answers"),
        ({"role": "user", "tool_calls": [{"name": "a", "arguments": {}}]}, "tool_calls: only an assistant message has calls"),
        ({"role": "user", "content": ["x"]}, "content[0]: expected an object with a type"),
        ({"role": "user", "id": 1}, "id: expected a string"),
    ],
)
def test_a_fault_says_its_place(value, finding):
    with pytest.raises(InvalidMessage) as caught:
        Message.from_json(value)
    assert caught.value.findings == (finding,)
