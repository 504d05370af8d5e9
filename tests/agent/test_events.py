"""What a run tells while it goes: the order of events, their fields, and each thing told once."""

import pytest

from causeline import ToolContext, approve, deny, tool
from causeline.models.model import CallDelta, Finish, ReasoningDelta, TextDelta
from tests.agent.stage import Turns, calls, stage
from tests.agent.test_calls import Pieces

COMMON = {"type", "run_id", "session_id", "seq", "ts"}
FIELDS = {
    "run_started": {"checkpoint_id", "agent"},
    "state_snapshot": {"context"},
    "step_started": {"node", "step"},
    "step_finished": {"node", "step", "checkpoint_id"},
    "text_message_start": {"message_id", "role"},
    "text_message_content": {"message_id", "delta"},
    "text_message_end": {"message_id"},
    "reasoning_start": {"message_id"},
    "reasoning_content": {"message_id", "delta"},
    "reasoning_end": {"message_id"},
    "tool_call_start": {"message_id", "tool_call_id", "name", "client"},
    "tool_call_args": {"tool_call_id", "delta"},
    "tool_call_end": {"tool_call_id"},
    "tool_call_result": {"message_id", "tool_call_id", "content", "is_error"},
    "tool_progress": {"tool_call_id", "progress"},
    "messages_snapshot": {"messages"},
    "run_finished": {"status", "stop_reason", "usage", "answer", "pending_tool_call_ids", "interrupts"},
}


@tool(effects=False)
async def look(n: int, context: ToolContext) -> dict:
    """Looks."""
    context.emit_progress({"part": n})
    return {"saw": n}


SCRIPT = [
    {**calls(("look", {"n": 1}, "a"), ("look", {"n": 2}, "b")), "text": "Let me see.", "reasoning": "I should look."},
    {"text": "done"},
]


def without_deltas(ran):
    return [kind for kind in ran.kinds if kind not in ("text_message_content", "reasoning_content", "tool_call_delta", "tool_progress")]


async def test_the_order_of_events():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go")
    step = ["step_started", "step_finished"]
    triple = ["tool_call_start", "tool_call_args", "tool_call_end"]
    assert without_deltas(ran) == [
        "run_started",
        "step_started",
        "state_snapshot",
        "step_finished",
        "step_started",
        "reasoning_start",
        "reasoning_end",
        "text_message_start",
        "text_message_end",
        "step_finished",
        "step_started",
        *triple,
        *triple,
        "tool_call_result",
        "tool_call_result",
        "step_finished",
        "step_started",
        "text_message_start",
        "text_message_end",
        "step_finished",
        "step_started",
        "messages_snapshot",
        "step_finished",
        "run_finished",
    ]
    assert step[0] in ran.kinds


async def test_every_event_has_its_fields_and_the_numbers_have_no_gap():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go", run_id="r1")
        again = [event async for event in s.runtime.events("r1")]
        later = [event async for event in s.runtime.events("r1", after=5)]
    assert [event["seq"] for event in ran.events] == list(range(1, len(ran.events) + 1))
    assert again == ran.events
    assert later == ran.events[5:]
    for event in ran.events:
        assert (event["run_id"], event["session_id"]) == ("r1", "s")
        if event["type"] == "tool_call_delta":
            assert set(event) - COMMON <= {"message_id", "index", "delta", "name"}
        else:
            assert set(event) == COMMON | FIELDS[event["type"]], event["type"]


async def test_deltas_make_up_the_text_the_thinking_and_the_arguments():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go")
    first = ran.told("text_message_start")[0]["message_id"]

    def joined(kind, **fields):
        return "".join(event["delta"] for event in ran.told(kind) if all(event.get(key) == value for key, value in fields.items()))

    assert joined("text_message_content", message_id=first) == "Let me see."
    assert joined("reasoning_content", message_id=first) == "I should look."
    assert joined("tool_call_delta", index=0) == '{"n": 1}'
    assert joined("tool_call_delta", index=1) == '{"n": 2}'
    assert [event["name"] for event in ran.told("tool_call_delta") if "name" in event] == ["look", "look"]


async def test_ids_of_messages_in_events_are_those_of_the_history():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go")
        messages = await s.runtime.messages("s")
    user, asked, one, two, said = messages
    assert [event["message_id"] for event in ran.told("text_message_start")] == [asked.id, said.id]
    assert {event["message_id"] for event in ran.told("tool_call_start")} == {asked.id}
    assert {event["tool_call_id"]: event["message_id"] for event in ran.told("tool_call_result")} == {"a": one.id, "b": two.id}
    (snapshot,) = ran.told("messages_snapshot")
    assert snapshot["messages"] == [one.to_json() for one in messages]
    assert user.id.startswith("msg_")


async def test_a_call_announced_again_names_the_message_that_asked_for_it():
    pick = {"name": "pick", "parameters": {"type": "object"}}
    async with stage([calls(("pick", {}, "a"))]) as s:
        await s.run("go", tools=[pick])
        again = await s.run()
        asked = (await s.runtime.messages("s"))[1]
    assert again.told("tool_call_start")[0]["message_id"] == asked.id


async def test_progress_is_told_and_not_kept():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go")
        log = await s.log()
    assert [(event["tool_call_id"], event["progress"]) for event in ran.told("tool_progress")] == [("a", {"part": 1}), ("b", {"part": 2})]
    assert not any("part" in str(node.payload) for node in log.nodes)


async def test_the_end_says_how_and_what_it_cost():
    async with stage(SCRIPT, [look]) as s:
        ran = await s.run("go")
    end = ran.events[-1]
    assert (end["type"], end["status"], end["stop_reason"], end["answer"]) == ("run_finished", "succeeded", "answered", "done")
    assert (end["pending_tool_call_ids"], end["interrupts"]) == ([], [])
    assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (16, 16)
    assert end["usage"] == ran.usage


async def test_a_reply_of_calls_alone_speaks_no_message():
    empty = Pieces(TextDelta(""), CallDelta(0, "a", "look", '{"n": 1}'), TextDelta(""), ReasoningDelta(""), Finish("tool_calls"))
    async with stage(empty, [look]) as s:
        ran = await s.run("go")
    assert len(ran.told("text_message_start")) == 1
    assert len(ran.told("reasoning_start")) == 0
    assert all(event["delta"] for event in ran.told("text_message_content"))


async def test_thinking_ends_before_text_begins_and_may_come_again():
    deltas = [ReasoningDelta("hm"), TextDelta("one "), ReasoningDelta("so"), TextDelta("two"), Finish("stop")]
    async with stage(Pieces(*deltas)) as s:
        ran = await s.run("go")
    kinds = [event["type"].replace("_message", "") for event in ran.events if "message_id" in event]
    assert kinds == [
        "reasoning_start",
        "reasoning_content",
        "reasoning_end",
        "text_start",
        "text_content",
        "reasoning_start",
        "reasoning_content",
        "reasoning_end",
        "text_content",
        "text_end",
    ]
    assert ran.answer == "one two"


@pytest.mark.parametrize("halves", [("\ud83d", "\ude00"), ("a\ud83d", "\ude00b")])
async def test_a_character_cut_in_two_is_told_whole(halves):
    heard = []
    deltas = [*(ReasoningDelta(half) for half in halves), *(TextDelta(half) for half in halves), Finish("stop")]
    async with stage(Pieces(*deltas), on_token=heard.append) as s:
        ran = await s.run("go")
    whole = "".join(halves).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    assert ran.answer == "".join(heard) == whole
    assert "".join(event["delta"] for event in ran.told("text_message_content")) == whole
    assert "".join(event["delta"] for event in ran.told("reasoning_content")) == whole
    assert all(event["delta"].encode() for event in ran.told("text_message_content", "reasoning_content"))


async def test_a_second_turn_tells_its_own_and_shows_the_whole_history_at_the_end():
    async with stage(Turns([{"text": "one"}], [{"text": "two"}])) as s:
        await s.run("first")
        ran = await s.run("second")
    assert ran.events[0]["checkpoint_id"] is not None
    assert [one["content"] for one in ran.told("messages_snapshot")[0]["messages"]] == ["first", "one", "second", "two"]
    assert len(ran.told("text_message_start")) == 1


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_a_result_has_one_id_in_event_and_history_whichever_run_brings_it(graph):
    @tool(approval="ask")
    async def pay(n: int) -> str:
        """Pays."""
        return f"paid {n}"

    async with stage([calls(("pay", {"n": 1}, "a"), ("pay", {"n": 2}, "b")), {"text": "done"}], [pay], graph=graph) as s:
        first = await s.run("go")
        second = await s.answer(first, {"a": approve()})
        third = await s.answer(second, {"b": deny()})
        history = {one.tool_call_id: one.id for one in await s.runtime.messages("s") if one.role == "tool"}
    told = {(event["tool_call_id"], event["message_id"]) for ran in (first, second, third) for event in ran.told("tool_call_result")}
    assert told == set(history.items())
    assert len(history) == 2
