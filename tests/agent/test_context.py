"""The context object: given with a run, seen and changed by tools, kept with each step."""

from typing import Any

from causeline import ToolContext, ToolResult, tool
from tests.agent.stage import Turns, calls, stage


@tool
async def put(key: str, value: str | None, context: ToolContext) -> ToolResult:
    """Changes a key of the context, and says what it saw."""
    return ToolResult(dict(context.context), context_patch={key: value})


@tool(effects=False)
async def scribble(context: ToolContext) -> str:
    """Changes its own copy."""
    mine: Any = context.context
    mine["scribbled"] = mine["deep"]["scribbled"] = True
    return "ok"


def patch(key, value, id):
    return ("put", {"key": key, "value": value}, id)


async def context_at(s, at=None):
    return (await s.runtime.branch("s", at)).channels.get("context")


async def test_a_run_s_context_is_told_first_and_kept_for_later_runs():
    async with stage(Turns([{"text": "one"}], [{"text": "two"}], [{"text": "three"}])) as s:
        first = await s.run("go", context={"a": 1, "b": {"c": 2}})
        second = await s.run("again")
        third = await s.run("more", context={"a": None, "d": 4})
        assert await context_at(s) == {"b": {"c": 2}, "d": 4}
        assert await context_at(s, first.head) == {"a": 1, "b": {"c": 2}}
    assert [ran.told("state_snapshot")[0]["context"] for ran in (first, second, third)] == [
        {"a": 1, "b": {"c": 2}},
        {"a": 1, "b": {"c": 2}},
        {"b": {"c": 2}, "d": 4},
    ]


async def test_tools_patch_it_in_call_order_and_the_change_is_told_once_a_step():
    script = [calls(patch("x", "1", "a"), patch("x", "2", "b"), patch("gone", None, "c")), calls(patch("y", "3", "d")), {"text": "done"}]
    async with stage(script, [put]) as s:
        ran = await s.run("go", context={"gone": "soon", "stays": True})
        results = [one.payload["result"] for one in await s.nodes("tool_result")]
        assert await context_at(s) == {"stays": True, "x": "2", "y": "3"}
    assert [event["context"] for event in ran.told("context_changed")] == [{"stays": True, "x": "2"}, {"stays": True, "x": "2", "y": "3"}]
    assert results[:3] == [{"gone": "soon", "stays": True}] * 3
    assert results[3] == {"stays": True, "x": "2"}


async def test_no_tool_can_change_it_but_by_a_patch():
    async with stage([calls(("scribble", {}, "a")), {"text": "done"}], [scribble]) as s:
        ran = await s.run("go", context={"deep": {}})
        assert await context_at(s) == {"deep": {}}
    assert ran.told("context_changed") == []


async def test_a_fork_has_the_context_of_its_checkpoint():
    script = Turns([calls(patch("x", "1", "a")), {"text": "one"}], [calls(patch("x", "2", "b")), {"text": "two"}])
    async with stage(script, [put]) as s:
        first = await s.run("go", context={"x": "0"})
        await s.run("again")
        assert await context_at(s) == {"x": "2"}
        forked = await s.run("another way", at=first.head)
        assert forked.told("state_snapshot")[0]["context"] == {"x": "1"}
        early = next(one for one in await s.steps(first.run_id) if one.node == "call_model")
        again = await s.run("from the start", at=early.id)
        assert again.told("state_snapshot")[0]["context"] == {"x": "0"}


async def test_a_patch_from_before_a_question_is_not_lost():
    from causeline import approve

    @tool(approval="ask")
    async def write() -> str:
        """Asks first."""
        return "ok"

    async with stage([calls(patch("x", "1", "a"), ("write", {}, "b")), {"text": "done"}], [put, write]) as s:
        ran = await s.run("go")
        assert ran.told("context_changed") == []
        done = await s.answer(ran, {"b": approve()})
        assert await context_at(s) == {"x": "1"}
    assert [event["context"] for event in done.told("context_changed")] == [{"x": "1"}]


async def test_a_failed_tool_changes_nothing():
    @tool
    async def half() -> ToolResult:
        """Fails in its own words."""
        return ToolResult("no", ok=False)

    async with stage([calls(("half", {}, "a")), {"text": "done"}], [half]) as s:
        ran = await s.run("go")
        assert await context_at(s) in (None, {})
    assert ran.told("context_changed") == []
