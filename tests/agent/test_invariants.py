"""Whatever a model replies and whatever a caller does next: what must always hold of log, history, ledger and events."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from causeline import approve, deny, edit, tool
from causeline.causal import verify_export
from causeline.models.scripted_model import ScriptedModel
from tests.agent.stage import Heard, stage

PICK = {"name": "pick", "parameters": {"type": "object"}}


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


@tool(exclusive=True)
async def alone(n: int) -> str:
    """Runs alone."""
    await asyncio.sleep(0)
    return f"alone {n}"


@tool(approval="ask")
async def write(n: int) -> str:
    """Asks first."""
    if n > 1:
        raise RuntimeError("too much")
    return f"wrote {n}"


NOTE = {"type": "memory", "key": "k", "content": "c"}
arguments = st.one_of(st.integers(0, 2).map(lambda n: {"n": n}), st.sampled_from([{}, {"n": "x"}, '{"n": ', "null", NOTE]))
call = st.fixed_dictionaries({
    "id": st.sampled_from(["", "x", "y", "z"]), "name": st.sampled_from(["look", "alone", "write", "pick", "remember", "nowhere", ""]),
    "arguments": arguments,
})  # fmt: skip
TEXTS: list[Any] = [
    {"text": ""},
    {"text": "An answer."},
    {"text": "Half an ans", "finish_reason": "length"},
    {"text": '{"name": "look", "arguments": {"n": 1}}'},
    {"text": "x", "status": 400},
    {"text": "half of", "cut_after": 2},
]
asking = st.fixed_dictionaries({"text": st.sampled_from(["", "", "Well. "]), "calls": st.lists(call, min_size=1, max_size=4)})
reply = st.one_of(asking, st.sampled_from(TEXTS))
action = st.sampled_from(["say", "nothing", "answer one", "answer all", "approve one", "decide all", "fork", "stop"])


class Next:
    """Gives one reply after the other, then answers."""

    name = "next"

    def __init__(self, replies: list[Any]) -> None:
        self.models = [ScriptedModel([item]) for item in replies]

    async def stream(self, request: Any) -> Any:
        inner = self.models.pop(0) if self.models else ScriptedModel([{"text": "The end."}])
        async for delta in inner.stream(type(request)(messages=[], tools=request.tools, round=0)):
            yield delta

    async def aclose(self) -> None:
        pass


def last_of(ran: Any, kind: str) -> Any:
    return ran is not None and (ran.interrupts if kind == "asked" else ran.pending_tool_call_ids)


async def act(s: Any, what: str, ran: Any, place: int) -> Any:
    """The next run, or the last one where there is nothing of the kind to do."""
    pending, asked = last_of(ran, "pending"), last_of(ran, "asked")
    if what.startswith("answer") and pending:
        some = pending if what == "answer all" else pending[-1:]
        return await s.run([{"role": "tool", "tool_call_id": one, "content": f"picked {one}"} for one in some])
    if what == "approve one" and asked:
        return await s.answer(ran, {asked[-1].tool_call_id: approve()})
    if what == "decide all" and asked:
        decisions = [approve(), deny("no"), edit({"n": 0})]
        return await s.answer(ran, {one.tool_call_id: decisions[index % 3] for index, one in enumerate(asked)})
    if what == "fork" and ran is not None:
        steps = await s.steps()
        return await s.run(f"fork {place}", at=steps[place * 7 % len(steps)].id, tools=[PICK])
    if what == "stop":
        run = await s.runtime.start(s.agent, f"stop {place}", session="s", tools=[PICK])
        for _ in range(place % 5):
            await asyncio.sleep(0)
        await run.cancel()
        return await s.end(run)
    return await s.run(None if what == "nothing" else f"say {place}", tools=[PICK])


CAUSES = {
    "inference": None, "system": None, "goal": None, "tool_call": {"inference"}, "answer": {"inference"},
    "tool_result": {"tool_call", "verification"}, "verification": {"tool_call"},
    "protocol_error": {"inference", "tool_result"}, "semantic": {"answer", "tool_result", "semantic"},
}  # fmt: skip


def check_log(log: Any) -> None:
    answered: set[str] = set()
    call_ids: list[str] = []
    for node in log.nodes:
        kinds = {log.node(parent).kind for parent in node.parents}
        if CAUSES[node.kind] is not None:
            assert kinds <= CAUSES[node.kind], (node.kind, kinds)
            assert kinds
        if node.kind == "inference":
            call_ids += [one["id"] for one in node.payload["calls"]]
            assert node.parents
        if node.kind == "tool_result":
            (asked,) = [parent for parent in node.parents if log.node(parent).kind == "tool_call"]
            assert log.node(asked).payload["call_id"] == node.payload["call_id"]
            assert asked not in answered
            answered.add(asked)
    assert all(call_ids)
    assert len(set(call_ids)) == len(call_ids)


def check_events(ran: Any) -> None:
    assert [event["seq"] for event in ran.events] == list(range(1, len(ran.events) + 1))
    assert ran.kinds[0] == "run_started"
    assert ran.kinds[-1] in ("run_finished", "run_error")
    assert ("run_error" in ran.kinds) == (ran.status == "failed")
    told = [
        (event["type"], event["tool_call_id"]) for event in ran.events if event["type"].startswith("tool_call_") and "tool_call_id" in event
    ]
    assert len(set(told)) == len(told)
    starts = [one for kind, one in told if kind == "tool_call_start"]
    assert {one for kind, one in told if kind == "tool_call_result"} <= set(starts)
    assert [one for kind, one in told if kind == "tool_call_end"] == starts
    speaking: set[str] = set()
    for event in ran.events:
        if event["type"] == "text_message_start":
            speaking.add(event["message_id"])
        elif event["type"] == "text_message_content":
            assert event["message_id"] in speaking
        elif event["type"] in ("text_message_end", "message_retracted"):
            speaking.discard(event["message_id"])
    assert speaking == set()


async def play(replies: list[Any], actions: list[str]) -> None:
    model = Heard(Next(replies))
    async with stage(model, [look, alone, write], max_tool_rounds=3, max_repeats=3, system="Be good.", pairs=False) as s:
        ran = None
        for place, what in enumerate(["say", *actions]):
            ran = await act(s, what, ran, place)
            assert ran.status in ("succeeded", "interrupted", "failed", "cancelled")
            assert (ran.status == "interrupted") == bool(ran.interrupts)
            assert (ran.stop_reason == "client_tools") == bool(ran.pending_tool_call_ids)
            check_events(ran)
            check_log(await s.log())
        for row in await s.runtime.runs("s"):
            states = {one.call.state for one in await s.runtime.calls(row.id)}
            assert "started" not in states or row.status == "cancelled"
        verify_export(await s.runtime.export("s", all=True))
    assert s.model.faults == []


@settings(max_examples=40, deadline=None)
@given(st.lists(reply, max_size=12), st.lists(action, max_size=5))
def test_any_conversation_keeps_the_promises(replies, actions):
    asyncio.run(play(replies, actions))
