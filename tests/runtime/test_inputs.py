"""What a caller hands in is refused in the caller's words, before anything is written."""

from typing import Any

import pytest

import causeline
from causeline import Invalid, RunFailed
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.run.decisions import WrongDecision
from causeline.tools.tool import InvalidTool
from tests.runtime.scenes import Scene, asks, runtime


@pytest.mark.parametrize(
    "given, kind, told",
    [
        ({"tools": ["x"]}, InvalidTool, r"tools\[0\]: expected an object with name, description and parameters"),
        ({"tools": "x"}, InvalidTool, "tools: expected a list of definitions"),
        ({"tools": {"name": "x"}}, InvalidTool, "tools: expected a list of definitions"),
        ({"tools": [{"name": "x", "parameters": 3}]}, InvalidTool, r"tools\[0\]: Tool 'x': parameters"),
        ({"context": "x"}, Invalid, "context: expected an object, got str"),
        ({"context": {"a": float("nan")}}, Invalid, r"context\.a"),
        ({"prompt": 5}, Invalid, "a prompt is text or a list of messages, not int"),
        ({"prompt": {"role": "user", "content": "x"}}, Invalid, "a prompt is text or a list of messages, not dict"),
        ({"prompt": ["x"]}, Invalid, "expected an object, got str"),
    ],
)
async def test_a_start_with_something_of_the_wrong_shape_is_refused_and_leaves_nothing(given: Any, kind: Any, told: str) -> None:
    async with runtime(InMemoryStore(), Scene([{"text": "hello"}]).agent()) as rt:
        with pytest.raises(kind, match=told):
            await rt.start("agent", **{"prompt": "go", **given})
        assert (list(await rt.runs()), list(await rt.sessions())) == ([], [])


NO_DECISION = r"a decision is one such as causeline\.approve"


@pytest.mark.parametrize(
    "given, told",
    [("approve", "is a question of kind approval"), (causeline.approve, NO_DECISION), (None, NO_DECISION), (["approve"], NO_DECISION)],
)
async def test_an_answer_that_is_no_decision_is_refused_and_the_question_stays_open(given: Any, told: str) -> None:
    scene = Scene([asks(("pay", {"n": 1}, "c1")), {"text": "paid"}])
    async with runtime(InMemoryStore(), scene.agent()) as rt:
        result = await (await rt.start("agent", "pay")).result()
        (one,) = result.interrupts
        with pytest.raises(WrongDecision, match=rf"{one.id}:? {told}"):
            await rt.answer(result.run_id, {one.id: given})
        assert (await rt.result(result.run_id)).interrupts == [one]
        with pytest.raises(Invalid, match="no decisions given"):
            await rt.answer(result.run_id, given)


async def test_an_interrupted_run_names_the_run_that_goes_on_from_it() -> None:
    scene = Scene([asks(("pay", {"n": 1}, "c1"), ("pay", {"n": 2}, "c2")), {"text": "paid"}])
    async with runtime(InMemoryStore(), scene.agent()) as rt:
        first = await (await rt.start("agent", "pay", run_id="first")).result()
        assert (len(first.interrupts), first.answered_by, first.ok) == (2, None, False)
        await (await rt.answer("first", {first.interrupts[0].id: causeline.approve()}, new_run_id="second")).result()
        second = await rt.result("second")
        assert ((await rt.result("first")).answered_by, (await rt.result("first")).interrupts) == ("second", [])
        await (await rt.answer("second", {second.interrupts[0].id: causeline.approve()}, new_run_id="third")).result()
        third = await rt.result("third")
        assert ((await rt.result("second")).answered_by, third.answered_by, third.ok) == ("third", None, True)


async def test_a_failed_run_can_be_raised_and_others_are_handed_on() -> None:
    agent = Scene([{"status": 400, "body": {"error": {"message": "no such model"}}}]).agent()
    async with runtime(InMemoryStore(), agent) as rt:
        failed = await (await rt.start(agent, "go", run_id="r")).result()
    assert (failed.ok, failed.answer) == (False, None)
    with pytest.raises(RunFailed, match=r"run r failed: .*no such model") as caught:
        failed.raise_if_failed()
    assert caught.value.facts["error"] == failed.error
    assert caught.value.facts["stop_reason"] == "model_error"
    done = await Scene([{"text": "hello"}]).agent().run("go")
    assert done.raise_if_failed() is done
    asked = await Scene([asks(("pay", {"n": 1}, "c1"))]).agent().run("pay")
    assert asked.raise_if_failed() is asked, "waiting for a person is no failure"


async def test_what_is_no_agent_no_checkpoint_and_no_export_is_refused_in_words() -> None:
    agent = Scene([{"text": "ok"}]).agent()
    async with runtime(InMemoryStore(), agent) as rt:
        for wrong in (None, 5, object()):
            with pytest.raises(Invalid, match="an agent is"):
                await rt.start(wrong, "go")
        with pytest.raises(Invalid, match="checkpoint id"):
            await rt.start(agent, "go", at=["ck_x"])
        with pytest.raises(Invalid, match="an export is bytes, not str"):
            await rt.import_("{}")
        assert await rt.runs() == []
    with pytest.raises(Invalid, match="edit takes the new arguments"):
        causeline.edit("x")
