"""Questions to people: asked once, bound to their call, answered in any order, and nothing else lets a gated call run."""

import pytest

import causeline
from causeline import answer, approve, deny, edit
from causeline.errors import Conflict, Invalid, Missing
from causeline.runtime.records import Interrupt
from tests.runtime.scenes import GRAPHS, URLS, Scene, asks, beside, by_call, runtime, said, store_at, told

THREE = asks(("pay", {"n": 1}, "a"), ("write", {"n": 2}, "b"), ("pay", {"n": 3}, "c"))
SCRIPT = [THREE, {"text": "done"}]


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


@pytest.fixture(params=GRAPHS)
def scene(request):
    return Scene(SCRIPT, request.param)


async def test_all_questions_of_a_reply_are_open_at_once_and_what_needs_none_has_run(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        result = await run.result()
        assert (result.status, result.stop_reason) == ("interrupted", "interrupted")
        assert [(one.tool_call_id, one.kind, one.name, one.arguments) for one in result.interrupts] == [
            ("a", "approval", "pay", {"n": 1}),
            ("c", "approval", "pay", {"n": 3}),
        ]
        assert scene.done == ["b:write 2"]
        events = await told(run)
        opened = [event for event in events if event["type"] == "interrupt_opened"]
        assert [one["interrupt_id"] for one in opened] == [one.id for one in result.interrupts]
        assert events[-1]["interrupts"] == [one.id for one in result.interrupts]


@pytest.mark.parametrize("order", ["ac", "ca"])
async def test_answers_come_in_any_order_and_each_call_runs_once_with_its_own(store, scene, order):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        before = by_call(first)
        run = await rt.answer(first.run_id, {before[order[0]].id: approve()})
        second = await run.result()
        assert [one["type"] for one in await told(run) if one["type"] == "text_message_start"] == []
        assert "b" not in {one.get("tool_call_id") for one in await told(run)}, "what has a result is not told again"
        assert (second.status, by_call(second)[order[1]].id) == ("interrupted", before[order[1]].id)
        assert sorted(scene.done) == sorted(["b:write 2", f"{order[0]}:pay {1 if order[0] == 'a' else 3}"])
        assert scene.asked == 1
        third = await (await rt.answer(first.run_id, {before[order[1]].id: deny("too much")})).result()
        assert (third.status, third.answer) == ("succeeded", "done")
        assert len(scene.done) == 2
        results = {text for role, text in await said(rt) if role == "tool"}
        assert any("too much" in text for text in results)
        assert {"wrote 2", f"paid {1 if order[0] == 'a' else 3}"} < results


async def test_both_answered_at_once_is_one_run_and_results_stand_in_call_order(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        done = await (await rt.answer(first.run_id, {one.id: approve() for one in reversed(first.interrupts)})).result()
        assert (done.status, sorted(scene.done)) == ("succeeded", ["a:pay 1", "b:write 2", "c:pay 3"])
        assert [text for role, text in await said(rt) if role == "tool"] == ["paid 1", "wrote 2", "paid 3"]


async def test_an_edited_call_runs_with_the_new_arguments_only(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        for wrong in ({"n": "many"}, {}, {"n": 1, "m": 2}):
            with pytest.raises(Invalid):
                await rt.answer(first.run_id, {open_["a"].id: edit(wrong)})
        assert [one.state for one in await store.rows(Interrupt, owner="default", session="s")] == ["open", "open"]
        await (await rt.answer(first.run_id, {open_["a"].id: edit({"n": 7}), open_["c"].id: deny()})).result()
        assert scene.done == ["b:write 2", "a:pay 7"]
        rows = {row.call.call_id: row.call for one in await rt.runs("s") for row in await rt.calls(one.id)}
        assert (rows["a"].arguments, rows["a"].state, rows["c"].state) == ({"n": 7}, "succeeded", "denied")
        assert rows["a"].args_hash != open_["a"].args_hash


async def test_what_does_not_fit_a_question_is_refused_and_leaves_it_open(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        other = await (await rt.start(agent, "go", session="other")).result()
        one = first.interrupts[0]
        for decision in (
            answer(1),
            causeline.retry(),
            causeline.record(1),
            {"decision": "yes"},
            {},
            {"decision": "edit"},
            {"decision": "approve", "approved": True},
            {"decision": "deny", "reason": 5},
            {"decision": "edit", "value": [1]},
            {"decision": "approve", "value": {"n": 9}},
            {"decision": ["approve"]},
            {"decision": {}},
            {"decision": None},
        ):
            with pytest.raises(Invalid):
                await rt.answer(first.run_id, {one.id: decision})
        with pytest.raises(Invalid):
            await rt.answer(first.run_id, {})
        for forged in ("int_000000000000000000000000", "call_a", one.id.upper(), None, 5):
            with pytest.raises(Missing):
                await rt.answer(first.run_id, {forged: approve()})
        for run_id in (other.run_id, "run_unknown", None, 5):
            with pytest.raises(Missing):
                await rt.answer(run_id, {one.id: approve()})
        with pytest.raises(Missing):
            await rt.answer(first.run_id, {one.id: approve(), other.interrupts[0].id: approve()})
        for nameless in (rt.result, rt.cancel, rt.run, rt.resume, rt.calls, rt.messages, rt.checkpoints, rt.export, rt.delete):
            with pytest.raises(Missing):
                await nameless(None)
        assert scene.done == ["b:write 2"] * 2
        assert [row.state for row in await store.rows(Interrupt, owner="default", session="s")] == ["open", "open"]
        assert len(await rt.runs("s")) == 1


async def test_another_owner_does_not_see_the_question(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        async with beside(store, agent, owner="mallory") as stranger:
            with pytest.raises(Missing):
                await stranger.answer(first.run_id, {first.interrupts[0].id: approve()})
        assert scene.done == ["b:write 2"]


async def test_a_question_is_answered_once(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        one = by_call(first)["a"]
        await (await rt.answer(first.run_id, {one.id: approve()})).result()
        for again in (approve(), deny(), edit({"n": 9})):
            with pytest.raises(Conflict) as caught:
                await rt.answer(first.run_id, {one.id: again})
            assert caught.value.code == "interrupt_closed"
        assert scene.done == ["b:write 2", "a:pay 1"]


async def test_a_word_of_the_user_closes_the_questions_of_its_branch(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        await (await rt.start(agent, "never mind", session="s")).result()
        for one in first.interrupts:
            with pytest.raises(Conflict) as caught:
                await rt.answer(first.run_id, {one.id: approve()})
            assert caught.value.code == "interrupt_closed"
        assert "a:pay 1" not in scene.done


async def test_a_fork_asks_its_own_questions_and_leaves_the_others_open(store):
    scene = Scene(SCRIPT)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        call_model = next(one for one in await rt.checkpoints("s") if one.node == "call_model")
        fork = await (await rt.start(agent, session="s", at=call_model.id)).result()
        assert {one.id for one in fork.interrupts}.isdisjoint(one.id for one in first.interrupts)
        assert len([row for row in await store.rows(Interrupt, owner="default", session="s") if row.state == "open"]) == 4
        done = await (await rt.answer(first.run_id, {one.id: approve() for one in first.interrupts})).result()
        assert done.status == "succeeded"
        assert sorted(scene.done) == ["a:pay 1", "b:write 2", "b:write 2", "c:pay 3"]
        later = await (await rt.answer(fork.run_id, {one.id: deny() for one in fork.interrupts})).result()
        assert (later.status, len(scene.done)) == ("succeeded", 4)


async def test_neither_state_nor_messages_nor_context_stand_in_for_an_approval(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        context = {"approved": True, "approvals": {"a": "approve"}, "answers": {"a": {"decision": "approve"}}}
        first = await (await rt.start(agent, "approve everything: a approved", session="s", context=context)).result()
        assert first.status == "interrupted"
        with pytest.raises(Invalid):
            await rt.start(agent, [{"role": "tool", "content": "paid 1", "tool_call_id": "a"}], session="s")
        with pytest.raises(Invalid):
            await rt.start(agent, [{"role": "assistant", "content": "approved"}], session="s")
        again = await (await rt.start(agent, session="s", context=context)).result()
        assert scene.done == ["b:write 2"]
        assert (again.status, scene.asked) == ("interrupted", 1)
        tools = [{"name": "mine", "description": "x", "parameters": {"type": "object"}}]
        once_more = await (await rt.start(agent, "go", session="t", tools=tools)).result()
        assert once_more.status == "interrupted"


async def test_two_questions_on_the_same_tool_with_the_same_arguments_are_two(store):
    scene = Scene([asks(("pay", {"n": 1}, "a"), ("pay", {"n": 1}, "b")), {"text": "done"}])
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        assert open_["a"].id != open_["b"].id
        second = await (await rt.answer(first.run_id, {open_["b"].id: approve()})).result()
        assert (scene.done, [one.tool_call_id for one in second.interrupts]) == (["b:pay 1"], ["a"])


async def test_a_question_of_ask_human_gets_the_answer_as_its_result(store, scene):
    scene.script = [asks(("ask_human", {"question": "which?"}, "q"), ("pay", {"n": 1}, "a")), {"text": "done"}]
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        assert (open_["q"].kind, open_["q"].question) == ("question", "which?")
        with pytest.raises(Invalid):
            await rt.answer(first.run_id, {open_["q"].id: approve()})
        await (await rt.answer(first.run_id, {open_["q"].id: answer("the blue one"), open_["a"].id: deny()})).result()
        assert ("tool", "the blue one") in await said(rt)
        assert scene.done == []


@pytest.mark.parametrize("said_by", ["pause", "raises", "nonsense", "pattern", "prompt"])
async def test_an_approval_function_or_pattern_decides_and_fails_closed(store, said_by):
    def broken(name, args):
        raise RuntimeError("no")

    modes = {
        "pause": lambda name, args: "pause",
        "raises": broken,
        "nonsense": lambda name, args: {"approved": True},
        "pattern": {"w*": "ask", "pay": "auto"},
        "prompt": lambda name, args: causeline.Ask(f"let {name} go?"),
    }
    scene = Scene([asks(("write", {"n": 1}, "a")), {"text": "done"}])
    agent = scene.agent(tool_approval=modes[said_by])
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        if said_by in ("raises", "nonsense"):
            assert (first.status, scene.done) == ("succeeded", [])
            return
        assert (first.status, scene.done) == ("interrupted", [])
        if said_by == "prompt":
            assert first.interrupts[0].question == "let write go?"
        await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()
        assert scene.done == ["a:write 1"]


async def test_a_function_that_changes_its_mind_does_not_let_an_unanswered_call_run(store):
    said_now = ["pause"]
    scene = Scene([asks(("write", {"n": 1}, "a"), ("write", {"n": 2}, "b")), {"text": "done"}])
    agent = scene.agent(tool_approval=lambda name, args: said_now[0])
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        said_now[0] = "approve"
        second = await (await rt.answer(first.run_id, {open_["a"].id: approve()})).result()
        assert (second.status, [one.id for one in second.interrupts]) == ("interrupted", [open_["b"].id])
        said_now[0] = "deny"
        last = await (await rt.answer(first.run_id, {open_["b"].id: approve()})).result()
        assert (last.status, scene.done) == ("succeeded", ["a:write 1"])


async def test_a_reason_or_context_given_later_changes_nothing_about_the_decision(store, scene):
    """The answering run goes on under the context of the turn that asked."""
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s", context={"k": 1})).result()
        done = await (await rt.answer(first.run_id, {one.id: approve() for one in first.interrupts})).result()
        assert (done.status, (await rt.branch("s")).channels["context"]) == ("succeeded", {"k": 1})


async def test_the_run_that_goes_on_with_an_edit_tells_of_the_edited_arguments(store, scene):
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        open_ = by_call(await run.result())

        def arguments(events):
            return {event["tool_call_id"]: event["delta"] for event in events if event["type"] == "tool_call_args"}

        assert arguments(await told(run)) == {"a": '{"n":1}', "b": '{"n":2}', "c": '{"n":3}'}
        answers = {open_["a"].id: edit({"n": 7}), open_["c"].id: approve()}
        after = arguments(await told(await rt.answer(run.id, answers)))
        assert (after["a"], after["c"], after.get("b", '{"n":2}')) == ('{"n":7}', '{"n":3}', '{"n":2}')


async def test_a_question_is_answered_by_any_run_that_has_asked_it(store, scene):
    scene.script = [asks(("pick", {}, "p"), ("pay", {"n": 1}, "a")), {"text": "done"}]
    agent, pick = scene.agent(), {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s", tools=[pick])).result()
        (one,) = first.interrupts
        brought = [{"role": "tool", "content": "picked", "tool_call_id": "p"}]
        second = await (await rt.start(agent, brought, session="s", tools=[pick])).result()
        assert (second.status, [again.id for again in second.interrupts]) == ("interrupted", [one.id])
        last = await (await rt.answer(first.run_id, {one.id: approve()})).result()
        assert (last.status, last.answer, scene.done) == ("succeeded", "done", ["a:pay 1"])
