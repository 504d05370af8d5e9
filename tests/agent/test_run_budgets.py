"""Budgets of a run: tokens, money and time end it with their own stop reason. And a conversation that goes on without a store."""

import asyncio

import pytest

import causeline
from causeline.errors import Invalid
from causeline.models import ScriptedModel
from tests.agent.stage import calls, stage


@causeline.tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


def costly(item, cost):
    return {**item, "usage": {"input_tokens": 60, "output_tokens": 40, "cost": cost}}


@pytest.mark.parametrize(
    "options, reason",
    [({"max_total_tokens": 150}, "tokens"), ({"max_cost": 0.015}, "cost"), ({"max_total_tokens": 1000, "max_cost": 1.0}, None)],
)
async def test_a_run_that_has_used_up_its_budget_asks_no_more(options, reason):
    script = [costly(calls(("look", {"n": 1})), 0.01), costly(calls(("look", {"n": 2})), 0.01), costly({"text": "done"}, 0.01)]
    async with stage(script, [look], **options) as s:
        ran = await s.run("go")
    asked = 3 if reason is None else 2
    assert (ran.status, ran.stop_reason, len(s.model.requests)) == (
        "succeeded" if reason is None else "failed",
        reason or "answered",
        asked,
    )


async def test_a_run_may_take_so_long_and_no_longer():
    @causeline.tool
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    async with stage([calls(("wait", {}))], [wait], run_timeout=0.05, pairs=False) as s:
        ran = await s.run("go")
    assert (ran.status, ran.stop_reason) == ("failed", "timeout")


async def test_a_sub_agent_has_budgets_of_its_own():
    inner = causeline.Agent(ScriptedModel([calls(("look", {"n": 1})), {"text": "never"}]), name="inner", tools=[look])
    helper = inner.as_tool("help", "Helps.", max_steps=2)
    outer = causeline.Agent(ScriptedModel([calls(("help", {"prompt": "x"})), {"text": "done"}]), tools=[helper])
    result = await outer.run("go")
    assert result.answer == "done"
    assert "more than 2 visits" in next(one.text for one in result.messages if one.role == "tool")
    assert inner.limits.visits == 500


async def test_a_second_turn_needs_no_store():
    agent = causeline.Agent(ScriptedModel([{"text": "one"}]))
    first = await agent.run("first")
    by_history = await agent.run("second", history=first.messages)
    by_state = await agent.run("second", state=first.state)
    for second in (by_history, by_state):
        assert [(one.role, one.text) for one in second.messages] == [
            ("user", "first"),
            ("assistant", "one"),
            ("user", "second"),
            ("assistant", "one"),
        ]
    assert len(first.state) < len(by_state.state)


async def test_history_is_checked_with_its_place():
    agent = causeline.Agent("scripted:echo")
    with pytest.raises(Invalid, match=r"history\[0\]"):
        await agent.run("x", history=[{"role": "system", "content": "x"}])
    with pytest.raises(Invalid, match=r"history\[1\]"):
        await agent.run("x", history=[{"role": "user", "content": "x"}, {"role": "tool", "content": "x", "tool_call_id": "c"}])
    with pytest.raises(Invalid, match="not both"):
        await agent.run("x", history=[{"role": "user", "content": "x"}], state=(await agent.run("y")).state)


async def test_text_comes_piece_by_piece():
    agent = causeline.Agent(ScriptedModel([{"text": "one two three"}]))
    assert "".join([piece async for piece in agent.stream_text("go")]) == "one two three"
