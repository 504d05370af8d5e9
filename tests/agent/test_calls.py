"""Ids and arguments of calls, as models really write them."""

import pytest

from causeline import tool
from causeline.models.messages import ToolCall
from causeline.models.model import CallDelta, Finish, TextDelta
from causeline.run.ledger import derive
from tests.agent.stage import Turns, calls, stage

RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


@tool
async def write(n: int = 0, note: str = "") -> str:
    """Has an effect, and needs no argument."""
    RAN.append((n, note))
    return f"wrote {n}"


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    RAN.append(n)
    return f"saw {n}"


def asked(*ids, name="write"):
    return {"calls": [{"id": one, "name": name, "arguments": {"n": place}} for place, one in enumerate(ids)]}


def ids_of(node):
    return [call["id"] for call in node.payload["calls"]]


async def test_missing_empty_and_repeated_ids_become_ids_of_their_own():
    script = [asked("", "x", "x", ""), asked("x", "y"), {"text": "done"}]
    async with stage(script, [write]) as s:
        ran = await s.run("go", run_id="run-1")
        first, second, _ = await s.nodes("inference")
        results = [(one.payload["call_id"], one.payload["result"]) for one in await s.nodes("tool_result")]
        facts = [one.facts.get("provider_ids") for one in await s.steps() if one.node == "call_model"]
        rows = {row.call.call_id: (row.call.state, row.call.index) for row in await s.runtime.calls("run-1")}
    made = [derive("call_", "run-1", 1, 0), "x", derive("call_", "run-1", 1, 2), derive("call_", "run-1", 1, 3)]
    later = [derive("call_", "run-1", 3, 0), "y"]
    assert (ids_of(first), ids_of(second)) == (made, later)
    assert results == [
        (made[0], "wrote 0"),
        (made[1], "wrote 1"),
        (made[2], "wrote 2"),
        (made[3], "wrote 3"),
        (later[0], "wrote 0"),
        ("y", "wrote 1"),
    ]
    assert facts == [["", "x", "x", ""], ["x", "y"], None]
    assert rows == {one: ("succeeded", place) for group in (made, later) for place, one in enumerate(group)}
    assert ran.answer == "done"


async def test_an_id_of_an_earlier_turn_or_run_is_replaced_too():
    async with stage(Turns([asked("x"), {"text": "one"}], [asked("x"), {"text": "two"}]), [write]) as s:
        await s.run("go", run_id="run-1")
        await s.run("again", run_id="run-2")
        first, _, second, _ = await s.nodes("inference")
    assert ids_of(first) == ["x"]
    assert ids_of(second) == [derive("call_", "run-2", 1, 0)]


async def test_two_equal_calls_stay_two_nodes_with_two_results():
    async with stage([calls(("look", {"n": 7}, "a"), ("look", {"n": 7}, "b")), {"text": "done"}], [look]) as s:
        await s.run("go")
        made, results = await s.nodes("tool_call"), await s.nodes("tool_result")
    assert RAN == [7, 7]
    assert len({one.id for one in made}) == len({one.id for one in results}) == 2


BROKEN = ['{"n": 1', '{"{"n":1', "n=1", "[1]", "null", '"{}"', '{"n": 1}{"n": 2}', '{"n": NaN}']


@pytest.mark.parametrize("raw", BROKEN)
async def test_arguments_that_are_no_object_never_run_a_tool_and_are_kept_as_written(raw):
    """`write` needs no argument, so an empty object would have run it."""
    async with stage([{"calls": [{"id": "a", "name": "write", "arguments": raw}]}, {"text": "sorry"}], [write]) as s:
        ran = await s.run("go")
        (call,), (result,) = await s.nodes("tool_call"), await s.nodes("tool_result")
        shown = s.model.last.messages
    assert (ran.status, ran.answer) == ("succeeded", "sorry")
    assert (call.payload["raw"], call.payload["args"]) == (raw, raw)
    assert shown[1].tool_calls == (ToolCall("a", "write", raw),)
    assert RAN == []
    assert not result.payload["ok"]
    assert result.payload["result"].startswith("Invalid arguments for write: $")
    assert shown[2].is_error


async def test_a_slip_of_syntax_is_mended_where_the_schema_agrees_and_the_text_is_kept():
    async with stage([{"calls": [{"id": "a", "name": "look", "arguments": "{'n': 1,}"}]}, {"text": "ok"}], [look]) as s:
        ran = await s.run("go")
        (call,), (result,) = await s.nodes("tool_call"), await s.nodes("tool_result")
        (row,) = await s.runtime.calls(ran.run_id)
    assert (RAN, result.payload["result"]) == ([1], "saw 1")
    assert call.payload["raw"] == "{'n': 1,}"
    assert row.call.arguments == {"n": 1}


async def test_arguments_that_do_not_fit_tell_the_model_which_field():
    script = [calls(("write", {"n": "many", "note": 3, "more": True}, "a")), calls(("look", {}, "b")), {"text": "ok"}]
    async with stage(script, [write, look]) as s:
        await s.run("go")
        first, second = (one.payload for one in await s.nodes("tool_result"))
    assert RAN == []
    assert not first["ok"]
    assert not second["ok"]
    assert "$.n" in first["result"]
    assert "$.note" in first["result"]
    assert "more" in first["result"]
    assert "n" in second["result"]


async def test_an_unknown_tool_is_a_result_that_lists_those_there_are():
    async with stage([calls(("wriet", {"n": 1}, "a"), ("", {}, "b"), ("write", {"n": 2}, "c")), {"text": "ok"}], [write]) as s:
        ran = await s.run("go")
        results = [one.payload for one in await s.nodes("tool_result")]
    assert [one["ok"] for one in results] == [False, False, True]
    assert results[0]["result"] == "There is no tool 'wriet'. Available tools: write."
    assert ran.status == "succeeded"
    assert RAN == [(2, "")]


class Pieces:
    """A model that gives exactly these deltas once, then an answer."""

    name = "pieces"

    def __init__(self, *deltas):
        self.deltas = deltas

    async def stream(self, request):
        for delta in self.deltas if not request.round else (TextDelta("done"), Finish("stop")):
            yield delta

    async def aclose(self):
        pass


async def test_calls_cut_anywhere_and_interleaved_are_told_apart():
    deltas = [
        CallDelta(0, "", "look", '{"n"'),
        CallDelta(1, "", "look", '{"n": 2'),
        CallDelta(0, "", "", ": 1}"),
        CallDelta(1, "", "", "}"),
        Finish("tool_calls"),
    ]
    async with stage(Pieces(*deltas), [look]) as s:
        await s.run("go")
        results = [one.payload["result"] for one in await s.nodes("tool_result")]
    assert results == ["saw 1", "saw 2"]


async def test_results_come_back_in_call_order_whoever_settles_them():
    @tool(approval="deny")
    async def never(n: int) -> str:
        """Is not allowed."""
        return "ran"

    script = [calls(("never", {"n": 1}, "a"), ("look", {"n": 2}, "b"), ("nowhere", {}, "c"), ("look", {"n": 4}, "d")), {"text": "ok"}]
    async with stage(script, [look, never]) as s:
        await s.run("go")
        shown = [(one.tool_call_id, one.is_error) for one in s.model.last.messages if one.role == "tool"]
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls((await s.runtime.runs("s"))[0].id)}
    assert shown == [("a", True), ("b", False), ("c", True), ("d", False)]
    assert rows == {"a": "denied", "b": "succeeded", "c": "failed", "d": "succeeded"}
