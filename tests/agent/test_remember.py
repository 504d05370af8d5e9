"""`remember`: notes that cost no model call, supersede each other, and are refused aloud."""

import pytest

from causeline import tool
from causeline.agent.react.remember import note
from causeline.errors import Invalid
from tests.agent.stage import Turns, calls, stage


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


def keep(key, content, type="preference", id=""):
    return ("remember", {"type": type, "key": key, "content": content}, id or f"r-{key}")


async def test_beside_text_it_costs_no_model_call_and_rests_on_the_answer():
    async with stage([calls(keep("Hotel Style", "quiet"), keep("diet", {"meat": False}), text="Booked.")], remember=True) as s:
        ran = await s.run("go")
        log = await s.log()
        rows = [(row.call.call_id, row.call.state, row.call.result) for row in await s.runtime.calls(ran.run_id)]
        assert [one.node for one in await s.steps()] == ["entrypoint", "call_model", "exit"]
    assert (ran.status, ran.stop_reason, ran.answer, len(s.model.requests)) == ("succeeded", "answered", "Booked.", 1)
    assert [node.kind for node in log.nodes] == [
        "goal",
        "inference",
        "tool_call",
        "tool_call",
        "tool_result",
        "tool_result",
        "answer",
        "semantic",
        "semantic",
    ]
    inference, answer, first, second = log.nodes[1], *log.nodes[6:]
    assert answer.parents == (inference.id,)
    assert first.payload == {"type": "preference", "key": "hotel-style", "content": "quiet"}
    assert (first.resource_key, first.parents) == ("semantic:preference:hotel-style", (answer.id,))
    assert second.payload["content"] == {"meat": False}
    assert not {first.id, second.id} & set(log.frontier)
    assert rows == [("r-Hotel Style", "succeeded", "kept"), ("r-diet", "succeeded", "kept")]
    told = [
        (event["type"], event["tool_call_id"]) for event in ran.events if event["type"].startswith("tool_call_") and "tool_call_id" in event
    ]
    assert told == [
        (kind, one)
        for one in ("r-Hotel Style", "r-diet")
        for kind in ("tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result")
    ]
    results = {event["tool_call_id"]: event["message_id"] for event in ran.told("tool_call_result")}
    snapshot = {one["tool_call_id"]: one["id"] for one in ran.told("messages_snapshot")[0]["messages"] if one["role"] == "tool"}
    assert results == snapshot


async def test_alone_it_is_a_call_like_others_and_the_run_goes_on():
    async with stage([calls(keep("diet", "vegan")), {"text": "Noted."}], remember=True) as s:
        ran = await s.run("go")
        (result,), (kept,) = await s.nodes("tool_result"), await s.nodes("semantic")
    assert (ran.answer, len(s.model.requests)) == ("Noted.", 2)
    assert kept.parents == (result.id,)
    assert (s.model.last.messages[-1].text, result.payload["ok"]) == ("kept", True)


async def test_beside_other_calls_it_is_one_of_them_even_with_text():
    async with stage([calls(keep("diet", "vegan"), ("look", {"n": 1}), text="Let me see."), {"text": "done"}], [look], remember=True) as s:
        ran = await s.run("go")
        assert [one.payload["result"] for one in await s.nodes("tool_result")] == ["kept", "saw 1"]
        assert len(await s.nodes("semantic")) == 1
    assert (ran.answer, len(s.model.requests)) == ("done", 2)


async def test_the_same_key_supersedes_in_one_reply_and_across_turns():
    script = Turns(
        [calls(keep("diet", "vegan", id="a"), keep(" Diet ", "vegetarian", id="b"), text="ok")],
        [calls(keep("diet", "all", id="c"), text="ok")],
    )
    async with stage(script, remember=True) as s:
        await s.run("go")
        await s.run("again")
        log = await s.log()
    versions = log.versions("semantic:preference:diet")
    assert [one.payload["content"] for one in versions] == ["vegan", "vegetarian", "all"]
    assert versions[0].id in versions[1].parents
    assert versions[1].id in versions[2].parents
    assert log.head("semantic:preference:diet") == versions[2]


async def test_what_cannot_be_kept_is_told_and_recorded_and_the_answer_stands():
    script = [
        calls(
            keep("k", "v", type="secret"),
            ("remember", {"type": "memory", "key": "k"}, "b"),
            keep("!!", "v", id="c"),
            ("remember", {"type": 5, "key": "k", "content": 1}, "d"),
            keep("good", "v"),
            text="ok",
        )
    ]
    async with stage(script, remember=True) as s:
        ran = await s.run("go")
        results = {one.payload["call_id"]: (one.payload["ok"], one.payload["result"]) for one in await s.nodes("tool_result")}
        assert [one.payload["key"] for one in await s.nodes("semantic")] == ["good"]
    assert ran.answer == "ok"
    assert results["r-good"] == (True, "kept")
    assert not any(results[one][0] for one in ("r-k", "b", "c", "d"))
    assert "secret" in results["r-k"][1]
    assert "content" in results["b"][1]
    alone = [calls(keep("k", "v", type="secret")), {"text": "sorry"}]
    async with stage(alone, remember=True) as s:
        await s.run("go")
        assert await s.nodes("semantic") == []
        assert s.model.last.messages[-1].is_error


async def test_types_are_the_agent_s_own_and_can_be_open():
    script = [calls(keep("k", 1, type="Fact "), keep("k", 2, type="memory", id="m"), text="ok")]
    async with stage(script, node_types=[{"name": "fact", "description": "What is so."}]) as s:
        await s.run("go")
        assert [one.payload["type"] for one in await s.nodes("semantic")] == ["fact"]
        (spec,) = s.model.last.tools
    assert spec.parameters["properties"]["type"]["enum"] == ["fact"]
    async with stage([calls(keep("k", 1, type="Odd Things!"), text="ok")], allow_dynamic_node_types=True, remember=True) as s:
        await s.run("go")
        assert [one.resource_key for one in await s.nodes("semantic")] == ["semantic:odd-things:k"]


async def test_it_is_not_offered_where_the_agent_does_not_want_it():
    async with stage([calls(keep("k", "v"), text="ok"), {"text": "done"}], [look], remember=False) as s:
        ran = await s.run("go")
        assert await s.nodes("semantic") == []
    assert [spec.name for spec in s.model.requests[0].tools] == ["look"]
    assert ran.answer == "done"
    assert s.model.last.messages[-1].text.startswith("There is no tool 'remember'")


async def test_a_note_is_not_repeated_in_later_turns():
    async with stage(Turns([calls(keep("diet", "vegan"), text="ok")], [{"text": "two"}]), remember=True) as s:
        await s.run("go")
        await s.run("again")
        assert len(await s.nodes("semantic")) == 1
    assert [one.role for one in s.model.last.messages] == ["user", "assistant", "tool", "user"]
    assert s.model.last.system is None
    assert s.model.last.recall is None


async def test_with_notes_beside_an_answer_there_is_nothing_left_to_do():
    async with stage([calls(keep("diet", "vegan"), text="ok")], remember=True) as s:
        await s.run("go")
        again = await s.run()
    assert (again.answer, len(s.model.requests)) == ("ok", 1)
    assert "tool_call_start" not in again.kinds


@pytest.mark.parametrize(
    "arguments", ["text", None, [], {"type": "memory", "key": "k", "content": "x" * 100_001}, {"type": "memory", "key": 1, "content": 2}]
)
def test_a_note_says_what_is_wrong_with_it(arguments):
    with pytest.raises(Invalid):
        note(arguments, {"memory": ""}, dynamic=False, parent="")


def test_a_note_has_the_normal_form_of_type_and_key():
    made = note({"type": " Memory ", "key": " A b/C:d!! ", "content": None}, {"memory": ""}, dynamic=False, parent="p")
    assert (made.payload, made.resource_key, made.advance) == (
        {"type": "memory", "key": "a-b/c:d", "content": None},
        "semantic:memory:a-b/c:d",
        False,
    )
    assert len(note({"type": "memory", "key": "x" * 500, "content": 0}, {"memory": ""}, dynamic=False, parent="p").payload["key"]) == 120
