"""Rounds, steps, repetitions, concurrency, time: every bound holds, says so, and leaves the session usable."""

import asyncio

import pytest

from causeline import tool
from causeline.models.scripted_model import ScriptedModel
from tests.agent.stage import Turns, calls, stage

RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


@tool(effects=False)
async def look(n: int = 0) -> str:
    """Looks."""
    RAN.append(n)
    return f"saw {n}"


def rounds(count, first=0):
    return [calls(("look", {"n": first + place}, f"r{first + place}")) for place in range(count)]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_when_the_rounds_are_spent_the_last_call_goes_out_without_tools(limit):
    async with stage([*rounds(limit), {"text": "that is all"}], [look], max_tool_rounds=limit) as s:
        ran = await s.run("go")
    assert (ran.status, ran.stop_reason, ran.answer) == ("succeeded", "tool_rounds", "that is all")
    assert [bool(request.tools) for request in s.model.requests] == [True] * limit + [False]
    assert list(range(limit)) == RAN


async def test_an_answer_before_the_rounds_are_spent_is_just_an_answer():
    async with stage([*rounds(1), {"text": "enough"}], [look], max_tool_rounds=2) as s:
        assert (await s.run("go")).stop_reason == "answered"


async def test_rounds_count_anew_in_every_user_turn():
    script = Turns([*rounds(2), {"text": "one"}], [*rounds(2, 2), {"text": "two"}])
    async with stage(script, [look], max_tool_rounds=2) as s:
        await s.run("go")
        ran = await s.run("again")
    assert (ran.answer, ran.stop_reason) == ("two", "tool_rounds")
    assert RAN == [0, 1, 2, 3]
    assert [bool(request.tools) for request in s.model.requests] == [True, True, False] * 2


async def test_a_model_that_asks_for_tools_it_was_not_given_is_told_so_and_then_stopped():
    async with stage(rounds(9), [look], max_tool_rounds=1) as s:
        ran = await s.run("go")
        faults = await s.nodes("protocol_error")
        log = await s.log()
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "tool_rounds", "unexpected_call")
    assert RAN == [0]
    assert len(s.model.requests) == 3
    assert [node.payload["code"] for node in faults] == ["unexpected_call"] * 2
    assert "look did not run" in s.model.last.messages[-1].text
    assert sum(node.kind == "tool_call" for node in log.nodes) == 1


async def test_text_beside_calls_that_may_not_run_is_the_answer():
    script = [*rounds(1), {**calls(("look", {"n": 5})), "text": "I know enough."}]
    async with stage(script, [look], max_tool_rounds=1) as s:
        ran = await s.run("go")
        (fault,) = await s.nodes("protocol_error")
        await s.run("and now?")
    assert (ran.status, ran.stop_reason, ran.answer) == ("succeeded", "tool_rounds", "I know enough.")
    assert fault.payload["code"] == "dropped_call"
    assert [one.text for one in s.model.requests[2].messages][-2:] == ["I know enough.", "and now?"]


async def test_more_steps_than_allowed_fail_the_run_and_a_later_run_goes_on_where_it_stopped():
    async with stage([*rounds(5), {"text": "done"}], [look], max_steps=7) as s:
        ran = await s.run("go")
        steps = await s.steps(ran.run_id)
        assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "max_steps", "limit_visits")
        assert [one.node for one in steps] == ["entrypoint", *("call_model", "call_tools") * 3]
        later = await s.run()
        assert [one.node for one in await s.steps(later.run_id)] == ["entrypoint", *("call_model", "call_tools") * 2, "call_model", "exit"]
    assert (later.status, later.answer) == ("succeeded", "done")
    assert RAN == [0, 1, 2, 3, 4]


async def test_steps_of_the_run_before_a_question_do_not_count_for_the_run_that_answers():
    @tool(approval="ask")
    async def write(n: int) -> str:
        """Has an effect."""
        return f"wrote {n}"

    script = [*rounds(2), calls(("write", {"n": 1}, "w")), *rounds(2, 2), {"text": "done"}]
    async with stage(script, [look, write], max_steps=8) as s:
        ran = await s.run("go")
        assert (ran.status, len(await s.steps(ran.run_id))) == ("interrupted", 7)
        from causeline import approve

        ended = await s.answer(ran, {"w": approve()})
        assert len(await s.steps(ended.run_id)) == 7
    assert (ended.status, ended.answer) == ("succeeded", "done")


def same(count):
    return [calls(("look", {"n": 7}, f"r{place}")) for place in range(count)]


async def test_a_call_that_repeats_is_warned_of_once_and_then_ends_the_run():
    async with stage(same(9), [look], max_repeats=3) as s:
        ran = await s.run("go")
        (fault,) = await s.nodes("protocol_error")
        log = await s.log()
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "loop", "loop")
    assert len(RAN) == 4
    assert fault.payload["code"] == "repeated_call"
    assert sorted(log.node(parent).kind for parent in fault.parents) == ["inference", "tool_result"]
    assert fault.id in log.ancestors([node.id for node in log.nodes if node.kind == "inference"][3:4])
    warned = s.model.requests[3].messages
    assert [("same result" in one.text) for one in warned if one.role == "tool"] == [False, False, True]
    assert "same result" not in "".join(one.text for one in s.model.requests[2].messages)


async def test_another_call_between_breaks_the_chain():
    script = [*same(2), calls(("look", {"n": 8}, "x")), *[calls(("look", {"n": 7}, f"y{place}")) for place in range(2)], {"text": "done"}]
    async with stage(script, [look], max_repeats=3) as s:
        ran = await s.run("go")
        assert await s.nodes("protocol_error") == []
    assert ran.stop_reason == "answered"


async def test_repetition_within_one_reply_is_warned_of_before_it_ends_the_run():
    many = calls(*[("look", {"n": 7}, f"m{place}") for place in range(6)])
    async with stage([many, {"text": "sorry"}], [look], max_repeats=3) as s:
        ran = await s.run("go")
        assert len(await s.nodes("protocol_error")) == 1
    assert (ran.status, ran.answer) == ("succeeded", "sorry")
    async with stage([many, calls(("look", {"n": 7}, "n")), {"text": "sorry"}], [look], max_repeats=3) as s:
        assert (await s.run("go")).stop_reason == "loop"


async def test_repetition_counts_within_a_user_turn():
    async with stage(Turns(*[[*same(2), {"text": "ok"}]] * 3), [look], max_repeats=3) as s:
        for _ in range(3):
            assert (await s.run("go")).status == "succeeded"
        assert await s.nodes("protocol_error") == []


# failing tools


async def test_raise_ends_the_run_with_the_tool_s_error_and_keeps_what_the_others_did():
    @tool
    async def fail(n: int) -> str:
        """Fails."""
        raise RuntimeError("out of paper")

    async with stage(
        [calls(("fail", {"n": 1}, "a"), ("look", {"n": 2}, "b")), {"text": "never"}], [fail, look], tool_error_mode="raise"
    ) as s:
        ran = await s.run("go")
        results = [(one.payload["call_id"], one.payload["ok"]) for one in await s.nodes("tool_result")]
        after = await s.run("go on")
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "tool_error", "tool_error")
    assert "out of paper" in ran.error["message"]
    assert results == [("a", False), ("b", True)]
    assert RAN[:1] == [2]
    assert after.stop_reason == "tool_error"


async def test_by_default_the_model_is_told_and_the_run_goes_on():
    @tool
    async def fail() -> str:
        """Fails."""
        raise RuntimeError("out of paper")

    async with stage([calls(("fail", {}, "a")), {"text": "sorry"}], [fail]) as s:
        ran = await s.run("go")
    assert (ran.status, ran.answer) == ("succeeded", "sorry")
    assert s.model.last.messages[-1].text == "Error calling fail: RuntimeError: out of paper"


async def test_the_agent_s_time_and_retries_hold_for_tools_without_their_own():
    tries = []

    @tool(effects=False)
    async def hang() -> str:
        """Hangs."""
        tries.append("hang")
        await asyncio.sleep(30)
        return "late"

    @tool(effects=False, retries=1, timeout=20)
    async def flaky() -> str:
        """Fails once."""
        tries.append("flaky")
        if tries.count("flaky") == 1:
            raise RuntimeError("busy")
        return "fine"

    async with stage([calls(("hang", {}, "a"), ("flaky", {}, "b")), {"text": "ok"}], [hang, flaky], tool_timeout=0.05) as s:
        await s.run("go")
        results = [one.payload["result"] for one in await s.nodes("tool_result")]
    assert results == ["Error calling hang: timed out after 0.05 s", "fine"]
    assert tries.count("flaky") == 2
    assert tries.count("hang") == 1


class Watch:
    """Counts what runs at once, and keeps the order of beginnings and ends."""

    def __init__(self):
        self.now = self.most = 0
        self.order: list[str] = []

    async def stay(self, name):
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(f"+{name}")
        await asyncio.sleep(0.01)
        self.order.append(f"-{name}")
        self.now -= 1


async def test_never_more_tools_at_once_than_allowed():
    watch = Watch()

    @tool(effects=False)
    async def stay(n: int) -> str:
        """Stays a while."""
        await watch.stay(str(n))
        return "ok"

    script = [calls(*[("stay", {"n": place}, f"c{place}") for place in range(11)]), {"text": "done"}]
    async with stage(script, [stay], tool_concurrency=4) as s:
        await s.run("go")
    assert watch.most == 4
    assert len(watch.order) == 22


async def test_an_exclusive_tool_runs_alone_and_in_its_place():
    watch = Watch()

    @tool
    async def stay(n: int) -> str:
        """Stays a while."""
        await watch.stay(f"s{n}")
        return "ok"

    @tool(exclusive=True)
    async def alone(n: int) -> str:
        """Runs alone."""
        assert watch.now == 0
        await watch.stay(f"a{n}")
        return "ok"

    names = ["stay", "stay", "alone", "alone", "stay", "stay"]
    async with stage(
        [calls(*[(name, {"n": place}, f"c{place}") for place, name in enumerate(names)]), {"text": "done"}], [stay, alone]
    ) as s:
        await s.run("go")
        assert [one.payload["ok"] for one in await s.nodes("tool_result")] == [True] * 6
    assert watch.order[:2] == ["+s0", "+s1"]
    assert set(watch.order[2:4]) == {"-s0", "-s1"}
    assert watch.order[4:8] == ["+a2", "-a2", "+a3", "-a3"]
    assert watch.order[8:10] == ["+s4", "+s5"]


async def test_a_view_that_cannot_fit_says_which_bound_it_met():
    async with stage(ScriptedModel([{"text": "x"}]), context_mode="causal", context_tokens=256, system="Be good. " * 400) as s:
        ran = await s.run("go")
    assert (ran.status, ran.stop_reason, ran.error["code"]) == ("failed", "tokens", "context_tokens")
    assert s.model.requests == []
