"""Questions of an agent below another one: asked at the top, answered through any run, handed down to the run that asked."""

import asyncio

import pytest

import causeline
from causeline import approve, deny, edit
from causeline.errors import Conflict, Invalid, Missing
from causeline.models.scripted_model import ScriptedModel
from causeline.tools.tool import ToolContext
from tests.runtime.scenes import GRAPHS, URLS, asks, runtime, said, store_at, told


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


class Stage:
    """Agents one below the other, and what their tools did."""

    def __init__(self, graph="react", depth=2, helpers=1, **options):
        self.done = []
        stage = self

        @causeline.tool(approval="ask")
        async def pay(n: int, context: ToolContext) -> str:
            """Pays."""
            stage.done.append(f"pay {n}")
            return f"paid {n}"

        @causeline.tool
        async def write(n: int) -> str:
            """Writes."""
            stage.done.append(f"write {n}")
            return f"wrote {n}"

        inner = [asks(("pay", {"n": 1}, "p"), ("write", {"n": 1}, "w")), {"text": "helped"}]
        agent = causeline.Agent(ScriptedModel(inner), name="helper", tools=[pay, write], graph=graph)
        for level in range(depth - 2):
            script = [asks(("deeper", {"prompt": "do it"}, f"d{level}")), {"text": "helped"}]
            agent = causeline.Agent(ScriptedModel(script), name=f"middle{level}", tools=[agent.as_tool("deeper", "Helps.")], graph=graph)
        calls = [(f"help{number}", {"prompt": f"do {number}"}, f"h{number}") for number in range(helpers)]
        outer = [asks(*calls, ("write", {"n": 2}, "w2")), {"text": "all done"}]
        tools = [agent.as_tool(name, "Helps.") for name, _, _ in calls]
        self.agent = causeline.Agent(ScriptedModel(outer), name="outer", tools=[*tools, write, pay], graph=graph, **options)
        self.inner = agent


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("graph", GRAPHS)
async def test_the_top_run_ends_with_the_questions_of_those_below_and_their_answer_ends_them_all(store, graph, depth):
    stage = Stage(graph, depth)
    async with runtime(store, stage.agent) as rt:
        run = await rt.start(stage.agent, "go", session="s")
        first = await run.result()
        assert (first.status, first.stop_reason) == ("interrupted", "interrupted")
        (question,) = first.interrupts
        asker = next(one for one in await rt.runs() if one.id == question.run)
        assert asker.agent == "helper"
        assert question.path == ["outer", *(f"middle{level}" for level in reversed(range(depth - 2))), "helper"]
        assert (question.kind, question.tool_call_id, question.name, question.arguments) == ("approval", "p", "pay", {"n": 1})
        for one in await rt.runs():
            assert (one.status, [held.id for held in (await rt.result(one.id)).interrupts]) == ("interrupted", [question.id])
            opened = [event for event in await told(rt_handle(rt, one)) if event["type"] == "interrupt_opened"]
            assert [(event["interrupt_id"], event["run"], event["path"]) for event in opened] == [
                (question.id, question.run, question.path)
            ]
        assert sorted(stage.done) == ["write 1", "write 2"]
        done = await (await rt.answer(run.id, {question.id: approve()})).result()
        assert (done.status, done.answer, done.session) == ("succeeded", "all done", "s")
        assert sorted(stage.done) == ["pay 1", "write 1", "write 2"]
        assert [one.status for one in await rt.runs()].count("succeeded") == depth
        assert ("tool", "helped") in await said(rt)
        assert (await rt.final(run.id)).run_id == done.run_id


def rt_handle(rt, run):
    return causeline.RunHandle(rt, run.id, run.session)


@pytest.mark.parametrize("depth", [2, 3])
async def test_an_answer_through_a_run_below_goes_on_there_and_its_end_resumes_those_above(store, depth):
    stage = Stage(depth=depth)
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        (question,) = first.interrupts
        going_on = await rt.answer(question.run, {question.id: deny("no")})
        done = await going_on.result()
        assert (done.answer, going_on.session) == ("helped", (await rt.run(question.run)).session)
        final = await rt.final(first.run_id)
        assert (final.answer, final.session) == ("all done", "s")
        assert sorted(stage.done) == ["write 1", "write 2"]


async def test_questions_of_several_runs_are_answered_one_at_a_time_or_together(store):
    stage = Stage(helpers=3)
    async with runtime(store, stage.agent) as rt:
        run = await rt.start(stage.agent, "go", session="s")
        first = await run.result()
        assert len({one.id for one in first.interrupts}) == 3
        one, *others = first.interrupts
        second = await (await rt.answer(run.id, {one.id: approve()})).result()
        assert (second.status, [held.id for held in second.interrupts]) == ("interrupted", [held.id for held in others])
        done = await (await rt.answer(others[0].run, {held.id: deny() for held in others})).result()
        assert done.answer == "helped"
        assert (await rt.final(run.id)).answer == "all done"
        assert sorted(stage.done) == ["pay 1", *["write 1"] * 3, "write 2"]


async def test_a_question_of_its_own_and_one_from_below_are_both_asked(store):
    stage = Stage()
    script = [asks(("help0", {"prompt": "x"}, "h"), ("pay", {"n": 9}, "own")), {"text": "all done"}]
    agent = causeline.Agent(ScriptedModel(script), name="outer", tools=list(stage.agent.toolbox))
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        asked = {held.tool_call_id: held for held in first.interrupts}
        assert {name: held.path for name, held in asked.items()} == {"own": ["outer"], "p": ["outer", "helper"]}
        second = await (await rt.answer(first.run_id, {asked["own"].id: edit({"n": 8})})).result()
        assert [held.id for held in second.interrupts] == [asked["p"].id]
        assert stage.done == ["write 1", "pay 8"]
        done = await (await rt.answer(first.run_id, {asked["p"].id: edit({"n": 7})})).result()
        assert done.answer == "all done"
        assert stage.done == ["write 1", "pay 8", "pay 7"]


async def test_an_answer_is_taken_from_the_moment_its_question_is_told(store):
    stage = Stage(depth=3)
    async with runtime(store, stage.agent) as rt, asyncio.timeout(30):
        run = await rt.start(stage.agent, "go", session="s")
        async for event in run.events():
            inner = event
            while inner["type"] == "sub_run_event":
                inner = inner["event"]
            if inner["type"] == "interrupt_opened":
                await rt.answer(run.id, {inner["interrupt_id"]: approve()})
                break
        assert (await rt.final(run.id)).answer == "all done"


async def test_what_does_not_fit_is_refused_and_what_is_closed_stays_closed_through_every_run(store):
    stage = Stage()
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        other = await (await rt.start(stage.agent, "go", session="other")).result()
        (question,) = first.interrupts
        for name in (first.run_id, question.run):
            for wrong in (edit({"n": "many"}), causeline.answer(1), causeline.retry()):
                with pytest.raises(Invalid):
                    await rt.answer(name, {question.id: wrong})
        for name in (other.run_id, other.interrupts[0].run):
            with pytest.raises(Missing):
                await rt.answer(name, {question.id: approve()})
        anew = await (await rt.start(stage.agent, "never mind, do this", session="s")).result()
        assert anew.interrupts[0].id != question.id
        for name in (first.run_id, question.run):
            with pytest.raises(Conflict) as caught:
                await rt.answer(name, {question.id: approve()})
            assert caught.value.code == "interrupt_closed"
        done = await (await rt.answer(other.run_id, {other.interrupts[0].id: approve()})).result()
        assert done.answer == "all done"
        with pytest.raises(Conflict):
            await rt.answer(other.interrupts[0].run, {other.interrupts[0].id: approve()})
        assert stage.done.count("pay 1") == 1
        assert [held.id for held in (await rt.result(anew.run_id)).interrupts] == [anew.interrupts[0].id]


async def test_the_tokens_of_runs_below_count_above_once(store):
    stage = Stage(depth=3)
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()
        own = {one.id: (one.usage.get("own") or one.usage)["input_tokens"] for one in await rt.runs()}
        assert done.usage_total["input_tokens"] == sum(own.values())
        assert first.usage["input_tokens"] + done.usage["input_tokens"] == sum(own.values())
        assert 0 < first.usage["own"]["input_tokens"] < first.usage["input_tokens"]


async def test_events_of_runs_below_are_told_above_live_and_later_unless_they_are_not_wanted(store):
    stage = Stage(depth=3)
    async with runtime(store, stage.agent) as rt:
        run = await rt.start(stage.agent, "go", session="s")
        live = await told(run)
        first = await run.result()
        assert await told(run) == live
        assert [event["seq"] for event in live] == list(range(1, len(live) + 1))
        below = [event for event in live if event["type"] == "sub_run_event"]
        child = next(one for one in await rt.runs() if one.parent_run == run.id)
        assert {event["run_id"] for event in below} == {child.id}
        assert [event["event"] for event in below] == await told(rt_handle(rt, child))
        assert {event["event"]["event"]["run_id"] for event in below if event["event"]["type"] == "sub_run_event"} == {
            first.interrupts[0].run
        }
        without = [dict(event) async for event in run.events(sub_runs=False)]
        assert without == [event for event in live if event["type"] != "sub_run_event"]
        half = below[len(below) // 2]["seq"]
        assert [dict(event) async for event in run.events(after=half)] == live[half:]
        further = await rt.answer(run.id, {first.interrupts[0].id: approve()})
        later = [event for event in await told(further) if event["type"] == "sub_run_event"]
        assert child.id not in {event["run_id"] for event in later}
        assert later[0]["event"]["type"] == "run_started"
        assert later[-1]["event"]["answer"] == "helped"


async def test_another_process_answers_with_the_top_agent_alone(tmp_path):
    first_stage, second_stage = Stage(depth=3), Stage(depth=3)
    async with runtime(store_at("sqlite", tmp_path), first_stage.agent) as rt:
        first = await (await rt.start(first_stage.agent, "go", session="s")).result()
    async with runtime(store_at("sqlite", tmp_path), second_stage.agent) as rt:
        with pytest.raises(Invalid):
            await rt.answer(first.run_id, {first.interrupts[0].id: edit({"n": "many"})})
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: edit({"n": 3})})).result()
        assert done.answer == "all done"
    assert (first_stage.done.count("pay 1"), second_stage.done) == (0, ["pay 3"])


async def test_agents_of_one_name_are_told_apart(store):
    @causeline.tool(approval="ask")
    async def pay(n: int) -> str:
        """Pays."""
        return f"paid {n}"

    inner = causeline.Agent(ScriptedModel([asks(("pay", {"n": 1}, "p")), {"text": "helped"}]), tools=[pay])
    outer = causeline.Agent(
        ScriptedModel([asks(("help", {"prompt": "x"}, "h")), {"text": "all done"}]), tools=[inner.as_tool("help", "H.")]
    )
    async with runtime(store, outer) as rt:
        first = await (await rt.start(outer, "go", session="s")).result()
        assert first.interrupts[0].path == ["agent", "agent/help"]
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()
        assert done.answer == "all done"


async def test_a_fork_asks_anew_and_its_answer_is_its_own(store):
    stage = Stage()
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        fork = await (await rt.start(stage.agent, session="s", at=first.head)).result()
        assert fork.interrupts[0].id != first.interrupts[0].id
        assert (await (await rt.answer(fork.run_id, {fork.interrupts[0].id: deny()})).result()).answer == "all done"
        assert (await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()).answer == "all done"
        assert stage.done.count("pay 1") == 1


@pytest.mark.parametrize("depth", [2, 3])
async def test_a_new_message_voids_a_question_at_every_level_and_says_so(store, depth):
    stage = Stage(depth=depth)
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        (question,) = first.interrupts
        below = [row.session for row in await rt.runs() if row.session != "s"]
        second = await rt.start(stage.agent, "never mind", session="s")
        await second.result()
        for session in ("s", *below):
            rows = [row for row in await rt.interrupts(session) if row.id == question.id]
            assert [row.state for row in rows] == ["superseded"]
        void = [event for event in await told(second) if event["type"] == "interrupt_superseded"]
        assert [(event["interrupt_id"], event["name"], event["kind"]) for event in void] == [(question.id, "pay", "approval")]
        for run in (first.run_id, question.run):
            with pytest.raises(Conflict, match="superseded"):
                await rt.answer(run, {question.id: approve()})
        assert "pay 1" not in stage.done


async def test_questions_of_all_sessions_are_listed_once_as_the_top_holds_them(store):
    stage = Stage(depth=3)
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        assert [(row.id, row.session) for row in await rt.interrupts()] == [(first.interrupts[0].id, "s")]


async def test_a_session_whose_question_a_run_above_waits_for_cannot_be_deleted_by_itself(store):
    stage = Stage(depth=3)
    async with runtime(store, stage.agent) as rt:
        first = await (await rt.start(stage.agent, "go", session="s")).result()
        below = [row.session for row in await rt.runs() if row.session != "s"]
        for session in below:
            with pytest.raises(Conflict, match=r"delete session s\b"):
                await rt.delete(session)
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()
        assert done.answer == "all done"
        await rt.delete("s")
        assert await rt.sessions() == []
