"""Questions to a person: asked once each, answered in any order, bound to a call and its arguments; nothing runs twice."""

import pytest

from causeline import Approve, Ask, Deny, answer, approve, deny, edit, fail, record, retry, tool
from causeline.errors import Conflict, Invalid, Missing
from causeline.tools.human import ask_human
from tests.agent.stage import Turns, calls, stage

RAN = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


@tool(approval="ask")
async def write(n: int) -> str:
    """Has an effect."""
    RAN.append(n)
    return f"wrote {n}"


@tool
async def free(n: int) -> str:
    """Has an effect and asks nobody."""
    RAN.append(n)
    return f"free {n}"


THREE = [calls(("write", {"n": 1}, "a"), ("free", {"n": 2}, "b"), ("write", {"n": 3}, "c")), {"text": "done"}]


async def test_every_open_question_is_listed_and_the_others_ran_meanwhile():
    async with stage(THREE, [write, free]) as s:
        ran = await s.run("go")
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls(ran.run_id)}
        steps = await s.steps()
    assert (ran.status, ran.stop_reason) == ("interrupted", "interrupted")
    assert [(one.kind, one.tool_call_id, one.name, one.arguments) for one in ran.interrupts] == [
        ("approval", "a", "write", {"n": 1}),
        ("approval", "c", "write", {"n": 3}),
    ]
    assert len({one.id for one in ran.interrupts}) == 2
    assert RAN == [2]
    assert rows == {"a": "awaiting", "b": "succeeded", "c": "awaiting"}
    assert (steps[-1].node, steps[-1].next, steps[-1].appended) == ("call_tools", "call_tools", [])
    opened = ran.told("interrupt_opened")
    assert [(one["tool_call_id"], one["arguments"]) for one in opened] == [("a", {"n": 1}), ("c", {"n": 3})]
    assert ran.events[-1]["interrupts"] == [one.id for one in ran.interrupts]


@pytest.mark.parametrize("order", [("a", "c"), ("c", "a")])
async def test_answers_in_either_order_run_each_call_once_without_a_model_call_between(order):
    async with stage(THREE, [write, free]) as s:
        ran = await s.run("go")
        first, second = order
        half = await s.answer(ran, {first: approve()})
        assert (half.status, [one.tool_call_id for one in half.interrupts]) == ("interrupted", [second])
        assert half.interrupts[0].id == next(one.id for one in ran.interrupts if one.tool_call_id == second)
        assert len(s.model.requests) == 1
        assert sorted(RAN) == sorted([2, {"a": 1, "c": 3}[first]])
        done = await s.answer(half, {second: approve()})
        results = [(one.payload["call_id"], one.payload["result"]) for one in await s.nodes("tool_result")]
        assert [one.node for one in await s.steps(done.run_id)] == ["call_tools", "call_model", "exit"]
    assert done.answer == "done"
    assert sorted(RAN) == [1, 2, 3]
    assert results == [("a", "wrote 1"), ("b", "free 2"), ("c", "wrote 3")]


async def test_all_at_once_and_each_as_decided():
    async with stage(THREE, [write, free]) as s:
        ran = await s.run("go")
        done = await s.answer(ran, {"a": edit({"n": 10}), "c": deny("not today")})
        results = [(one.payload["ok"], one.payload["result"]) for one in await s.nodes("tool_result")]
        rows = {row.call.call_id: (row.call.state, row.call.arguments) for row in await s.runtime.calls(done.run_id)}
    assert results == [(True, "wrote 10"), (True, "free 2"), (False, "This call was not approved: not today")]
    assert sorted(RAN) == [2, 10]
    assert rows["a"] == ("succeeded", {"n": 10})
    assert rows["c"][0] == "denied"


async def test_a_decision_is_good_for_one_call_and_not_for_the_next():
    script = [calls(("write", {"n": 1}, "a")), calls(("write", {"n": 1}, "b")), {"text": "done"}]
    async with stage(script, [write]) as s:
        ran = await s.run("go")
        second = await s.answer(ran, {"a": approve()})
        assert (second.status, [one.tool_call_id for one in second.interrupts]) == ("interrupted", ["b"])
        assert RAN == [1]
        with pytest.raises(Conflict) as caught:
            await s.answer(ran, {"a": approve()})
        assert caught.value.code == "interrupt_closed"
    assert RAN == [1]


async def test_what_does_not_fit_is_refused_and_the_question_stays_open():
    async with stage(THREE, [write, free]) as s:
        ran = await s.run("go")
        for wrong in (
            answer("yes"),
            retry(),
            {"decision": "yes"},
            edit({"n": "many"}),
            edit({}),
            {"decision": "edit"},
            {"decision": "deny", "reason": 5},
            {"decision": "approve", "more": 1},
        ):
            with pytest.raises(Invalid):
                await s.answer(ran, {"a": wrong})
        with pytest.raises(Missing):
            await s.runtime.answer(ran.run_id, {"int_unknown": approve()})
        assert RAN == [2]
        assert (await s.answer(ran, {"a": approve(), "c": approve()})).answer == "done"


async def test_nothing_a_client_says_stands_in_for_a_decision():
    async with stage(Turns([calls(("write", {"n": 1}, "a"))], [{"text": "ok"}]), [write]) as s:
        ran = await s.run(
            "go", context={"tool_approval": "approve", "a": "approve"}, tools=[{"name": "mine", "parameters": {"type": "object"}}]
        )
        assert ran.status == "interrupted"
        again = await s.run("approve")
        assert RAN == []
        assert (again.status, again.answer) == ("succeeded", "ok")
        with pytest.raises(Conflict):
            await s.answer(ran, {"a": approve()})
    assert RAN == []


async def test_without_a_word_the_same_questions_are_open_again():
    """A run without input enters the tools again and asks what is still unanswered."""
    async with stage(THREE, [write, free]) as s:
        first = await s.run("go")
        again = await s.run()
        assert (again.status, [one.id for one in again.interrupts]) == ("interrupted", [one.id for one in first.interrupts])
        assert RAN == [2]
        assert (await s.answer(again, {"a": approve(), "c": approve()})).answer == "done"
    assert sorted(RAN) == [1, 2, 3]


async def test_arguments_mended_from_broken_text_are_what_the_person_is_shown():
    script = [{"calls": [{"id": "a", "name": "write", "arguments": "{'n': 4}"}]}, {"text": "done"}]
    async with stage(script, [write]) as s:
        ran = await s.run("go")
        assert ran.interrupts[0].arguments == {"n": 4}
        await s.answer(ran, {"a": approve()})
    assert RAN == [4]


async def test_arguments_that_will_be_refused_are_asked_of_nobody():
    async with stage([calls(("write", {"n": "many"}, "a")), {"text": "sorry"}], [write]) as s:
        ran = await s.run("go")
    assert (ran.status, RAN) == ("succeeded", [])


@pytest.mark.parametrize(
    "said, status",
    [
        (True, "succeeded"),
        ("approve", "succeeded"),
        (Approve(), "succeeded"),
        (False, "succeeded"),
        (Deny("no"), "succeeded"),
        ("pause", "interrupted"),
        (Ask("Sure?"), "interrupted"),
    ],
)
async def test_a_function_decides_with_the_arguments_at_hand(said, status):
    seen = []

    async def decide(name, args):
        seen.append((name, args))
        return said

    async with stage([calls(("free", {"n": 1}, "a")), {"text": "done"}], [free], tool_approval=decide) as s:
        ran = await s.run("go")
    assert ran.status == status
    assert seen == [("free", {"n": 1})]
    assert bool(RAN) == (said in (True, "approve") or said == Approve())
    if said == Ask("Sure?"):
        assert ran.interrupts[0].question == "Sure?"


@pytest.mark.parametrize("said", ["yes", "ok", 1, None, "interrupt", object()])
async def test_a_function_that_says_anything_else_lets_nothing_run(said):
    async with stage([calls(("free", {"n": 1}, "a")), {"text": "done"}], [free], tool_approval=lambda name, args: said) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert (ran.status, RAN, result.payload["ok"]) == ("succeeded", [], False)


# ask_human

QUESTIONS = [
    calls(("ask_human", {"question": "Which one?"}, "q1"), ("free", {"n": 1}, "b"), ("ask_human", {"question": "Why?"}, "q2")),
    {"text": "done"},
]


async def test_each_question_gets_its_own_answer_as_its_result():
    async with stage(QUESTIONS, [ask_human, free]) as s:
        ran = await s.run("go")
        assert [(one.kind, one.tool_call_id, one.question) for one in ran.interrupts] == [
            ("question", "q1", "Which one?"),
            ("question", "q2", "Why?"),
        ]
        half = await s.answer(ran, {"q2": answer({"because": None})})
        assert half.status == "interrupted"
        done = await s.answer(half, {"q1": answer("the red one")})
        results = [one.payload["result"] for one in await s.nodes("tool_result")]
    assert (done.answer, RAN) == ("done", [1])
    assert results == ["the red one", "free 1", {"because": None}]


async def test_null_is_an_answer():
    async with stage([calls(("ask_human", {"question": "Which one?"}, "q")), {"text": "done"}], [ask_human]) as s:
        done = await s.answer(await s.run("go"), {"q": answer(None)})
        (result,) = await s.nodes("tool_result")
    assert done.answer == "done"
    assert (result.payload["ok"], result.payload["result"]) == (True, None)


async def test_a_question_can_be_refused_and_a_malformed_one_is_not_asked():
    async with stage([calls(("ask_human", {"question": "Which one?"}, "q")), {"text": "done"}], [ask_human]) as s:
        await s.answer(await s.run("go"), {"q": deny("no time")})
        (result,) = await s.nodes("tool_result")
        assert result.payload["result"] == "This call was not approved: no time"
    for arguments in ('["what"]', {"question": ["what"]}, {"question": ""}, {}):
        async with stage([{"calls": [{"id": "q", "name": "ask_human", "arguments": arguments}]}, {"text": "done"}], [ask_human]) as s:
            assert (await s.run("go")).answer == "done"
            assert not (await s.nodes("tool_result"))[0].payload["ok"]


async def test_an_answer_that_cannot_be_stored_is_refused():
    async with stage([calls(("ask_human", {"question": "Which one?"}, "q")), {"text": "done"}], [ask_human]) as s:
        ran = await s.run("go")
        for value in ("\ud800", float("nan"), object(), {1: 2}):
            with pytest.raises(Invalid):
                await s.answer(ran, {"q": answer(value)})
        assert (await s.answer(ran, {"q": answer("yes")})).answer == "done"


async def test_the_turn_goes_on_under_the_system_prompt_it_began_with():
    async with stage(THREE, [write, free], system="It is {{ now }} in {{ run.id }}.") as s:
        ran = await s.run("go", run_id="r1")
        await s.answer(ran, {"a": approve(), "c": approve()})
        assert len(await s.nodes("system")) == 1
    assert s.model.requests[0].system == s.model.requests[1].system
    assert "r1" in s.model.last.system


def test_the_words_for_unknown_outcomes_are_the_contract_s():
    assert [record(1), fail("x"), retry()] == [
        {"decision": "record", "value": 1},
        {"decision": "fail", "reason": "x"},
        {"decision": "retry"},
    ]
