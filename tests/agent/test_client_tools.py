"""Tools that only the client runs: announced, never executed here, and answered by a later run."""

import pytest

from causeline import tool
from causeline.errors import Invalid
from causeline.models.messages import Message
from causeline.models.transcript import NOT_EXECUTED
from tests.agent.stage import Turns, calls, stage

PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


@tool
async def write(n: int) -> str:
    """Has an effect."""
    RAN.append(n)
    return f"wrote {n}"


def result(call_id, text, **more):
    return Message("tool", text, tool_call_id=call_id, **more)


TRIPLE = ["tool_call_start", "tool_call_args", "tool_call_end"]


def told_of(ran, call_id):
    return [event["type"] for event in ran.events if event.get("tool_call_id") == call_id]


async def test_a_client_call_is_announced_by_three_events_and_ends_the_run():
    async with stage([calls(("pick", {"n": 1}, "a")), {"text": "you picked"}], [write]) as s:
        ran = await s.run("go", tools=[PICK])
        rows = await s.runtime.calls(ran.run_id)
    assert told_of(ran, "a") == TRIPLE
    assert ran.told("tool_call_start")[0]["client"] is True
    assert ran.told("tool_call_args")[0]["delta"] == '{"n":1}'
    assert (ran.status, ran.stop_reason, list(ran.pending_tool_call_ids)) == ("succeeded", "client_tools", ["a"])
    assert ran.answer is None
    end = ran.events[-1]
    assert (end["type"], end["pending_tool_call_ids"], end["interrupts"]) == ("run_finished", ["a"], [])
    assert [(row.call.call_id, row.call.state, row.call.client) for row in rows] == [("a", "awaiting", True)]


async def test_in_a_mixed_reply_the_server_calls_run_and_are_kept():
    script = [calls(("pick", {"n": 1}, "a"), ("write", {"n": 2}, "b"), ("pick", {"n": 3}, "c")), {"text": "done"}]
    async with stage(script, [write]) as s:
        ran = await s.run("go", tools=[PICK])
        assert RAN == [2]
        assert told_of(ran, "b") == [*TRIPLE, "tool_call_result"]
        assert told_of(ran, "a") == told_of(ran, "c") == TRIPLE
        assert list(ran.pending_tool_call_ids) == ["a", "c"]
        results = await s.nodes("tool_result")
        assert [(one.payload["call_id"], one.payload["result"]) for one in results] == [("b", "wrote 2")]
        last = await s.run([result("a", "one"), result("c", "three")])
        assert (last.answer, RAN) == ("done", [2])
        assert [(one.role, one.tool_call_id, one.text) for one in s.model.last.messages] == [
            ("user", None, "go"),
            ("assistant", None, ""),
            ("tool", "a", "one"),
            ("tool", "b", "wrote 2"),
            ("tool", "c", "three"),
        ]


async def test_with_answers_missing_only_those_are_announced_and_the_model_is_not_asked():
    script = [calls(("pick", {"n": 1}, "a"), ("write", {"n": 2}, "b"), ("pick", {"n": 3}, "c"), ("pick", {"n": 4}, "d")), {"text": "done"}]
    async with stage(script, [write]) as s:
        await s.run("go", tools=[PICK])
        second = await s.run([result("c", "three")])
        assert [event["tool_call_id"] for event in second.told("tool_call_start")] == ["a", "d"]
        assert second.told("tool_call_result") == []
        assert (second.stop_reason, list(second.pending_tool_call_ids)) == ("client_tools", ["a", "d"])
        third = await s.run()
        assert [event["tool_call_id"] for event in third.told("tool_call_start")] == ["a", "d"]
        assert len(s.model.requests) == 1
        fourth = await s.run([result("d", "four"), result("a", "one")])
        assert (fourth.answer, RAN) == ("done", [2])
        assert len(s.model.requests) == 2
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls(fourth.run_id)}
    assert rows == {"a": "succeeded", "d": "succeeded"}


async def test_an_error_of_the_client_is_an_error_result():
    async with stage([calls(("pick", {}, "a")), {"text": "sorry"}]) as s:
        await s.run("go", tools=[PICK])
        await s.run([result("a", "no such thing", is_error=True)])
        assert s.model.last.messages[-1].is_error
        (node,) = await s.nodes("tool_result")
    assert (node.payload["ok"], node.payload["result"]) == (False, "no such thing")


async def test_results_nobody_asked_the_client_for_are_refused_before_anything_is_written():
    async with stage([calls(("write", {"n": 1}, "a"), ("pick", {"n": 2}, "b")), {"text": "done"}], [write]) as s:
        await s.run("go", tools=[PICK])
        head = (await s.steps())[-1].id
        for forged in ([result("a", "forged")], [result("x", "unknown")], [result("b", "1"), result("b", "2")]):
            with pytest.raises(Invalid):
                await s.run(forged)
        await s.run([result("b", "fine")])
        with pytest.raises(Invalid):
            await s.run([result("b", "again")])
        runs = await s.runtime.runs("s")
    assert len(runs) == 2
    assert runs[1].base == head


async def test_a_forged_result_that_got_past_the_door_is_not_believed(monkeypatch):
    async def unchecked(store, run, messages):
        return None

    monkeypatch.setattr("causeline.runtime.runtime.check_results", unchecked)

    @tool(approval="ask")
    async def ask(n: int) -> str:
        """Asks first."""
        RAN.append(n)
        return f"asked {n}"

    async with stage([calls(("ask", {"n": 1}, "a"), ("pick", {"n": 2}, "b")), {"text": "done"}], [ask]) as s:
        await s.run("go", tools=[PICK])
        forged = await s.run([result("a", "forged"), result("b", "fine"), result("x", "unknown")])
        results = [(one.payload["call_id"], one.payload["result"]) for one in await s.nodes("tool_result")]
    assert (forged.status, [one.tool_call_id for one in forged.interrupts]) == ("interrupted", ["a"])
    assert (results, RAN) == ([("b", "fine")], [])


async def test_a_client_tool_may_not_take_the_name_of_a_server_tool():
    async with stage([{"text": "x"}], [write], remember=True) as s:
        for name in ("write", "remember"):
            with pytest.raises(Invalid):
                await s.run("go", tools=[{**PICK, "name": name}])
        assert await s.runtime.runs() == []


async def test_going_on_without_the_client_shows_the_model_a_stand_in_and_stores_none():
    asked = calls(("pick", {"n": 1}, "a"), ("write", {"n": 2}, "b"))
    async with stage(Turns([asked], [{"text": "as you like"}]), [write]) as s:
        await s.run("go", tools=[PICK])
        second = await s.run("never mind")
        shown = [(one.role, one.tool_call_id, one.text) for one in s.model.requests[1].messages]
        assert shown == [
            ("user", None, "go"),
            ("assistant", None, ""),
            ("tool", "b", "wrote 2"),
            ("tool", "a", NOT_EXECUTED),
            ("user", None, "never mind"),
        ]
        assert [one.payload["call_id"] for one in await s.nodes("tool_result")] == ["b"]
        assert [row.call.state for row in await s.runtime.calls(second.run_id)] == ["superseded"]
        with pytest.raises(Invalid):
            await s.run([result("a", "late")])
        assert "tool_call_start" not in (await s.run("again")).kinds


async def test_a_fork_at_the_exit_of_an_announcing_run_announces_again_and_opens_rows_of_its_own():
    script = [calls(("pick", {"n": 1}, "a"), ("write", {"n": 2}, "b")), {"text": "done"}]
    async with stage(script, [write]) as s:
        first = await s.run("go", tools=[PICK], run_id="first")
        await s.run([result("a", "one")], run_id="second")
        forked = await s.run(at=first.head, run_id="forked")
        assert told_of(forked, "a") == TRIPLE
        assert (forked.stop_reason, list(forked.pending_tool_call_ids)) == ("client_tools", ["a"])
        assert [(row.call.call_id, row.call.state) for row in await s.runtime.calls("forked")] == [("a", "awaiting")]
        other = await s.run([result("a", "uno")])
        assert "uno" in [message.text for message in s.model.last.messages]
        assert (other.answer, RAN) == ("done", [2])
        steps = await s.steps("first")
    assert steps[-1].id == first.head


async def test_a_fork_before_the_results_runs_the_server_calls_anew():
    """A fork opens rows of its own: what the other branch did is not known on this one."""
    async with stage([calls(("write", {"n": 1}, "a")), {"text": "done"}], [write]) as s:
        await s.run("go", run_id="first")
        asked = next(one for one in await s.steps("first") if one.node == "call_model")
        forked = await s.run(at=asked.id)
        rows = await s.runtime.calls(forked.run_id)
    assert RAN == [1, 1]
    assert forked.answer == "done"
    assert [(row.call.call_id, row.call.state) for row in rows] == [("a", "succeeded")]


async def test_a_client_call_with_broken_arguments_is_handed_to_the_client_as_it_was_written():
    async with stage([{"calls": [{"id": "a", "name": "pick", "arguments": '{"n": '}]}]) as s:
        ran = await s.run("go", tools=[PICK])
    assert ran.told("tool_call_args")[0]["delta"] == '{"n": '
    assert list(ran.pending_tool_call_ids) == ["a"]


async def test_the_flat_document_leaves_the_clients_calls_to_the_client_and_asks_the_model_when_all_have_results():
    script = [calls(("pick", {"n": 1}, "a"), ("write", {"n": 2}, "b"), ("pick", {"n": 3}, "c")), {"text": "you picked"}]
    async with stage(script, [write], graph="react-flat") as s:
        first = await s.run("go", tools=[PICK])
        assert (first.status, first.stop_reason, list(first.pending_tool_call_ids)) == ("succeeded", "client_tools", ["a", "c"])
        assert [(one["tool_call_id"], one["client"]) for one in first.told("tool_call_start")] == [("a", True), ("b", False), ("c", True)]
        assert [one["tool_call_id"] for one in first.told("tool_call_result")] == ["b"]
        second = await s.run([result("c", "three")], tools=[PICK])
        assert (second.stop_reason, list(second.pending_tool_call_ids)) == ("client_tools", ["a"])
        assert [one["tool_call_id"] for one in second.told("tool_call_start")] == ["a"]
        assert len(s.model.requests) == 1
        third = await s.run([result("a", "one")])
        assert (third.status, third.answer, RAN) == ("succeeded", "you picked", [2])
        assert len(s.model.requests) == 2


async def test_only_client_calls_in_the_flat_document():
    async with stage([calls(("pick", {"n": 1}, "a")), {"text": "you picked"}], [write], graph="react-flat") as s:
        first = await s.run("go", tools=[PICK])
        assert (first.status, first.stop_reason, list(first.pending_tool_call_ids)) == ("succeeded", "client_tools", ["a"])
        assert (await s.run("never mind")).answer == "you picked"
