"""Questions and their answers across deaths, processes, other code and failures."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import causeline
from causeline import approve, deny, edit, fail, record, retry
from causeline.errors import CauselineError, Conflict, Invalid, Missing
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import CallRow, Interrupt
from causeline.tools.tool import ToolContext
from tests.runtime.processes import append, die, ended, lines, spawn
from tests.runtime.scenes import GRAPHS, URLS, Scene, asks, by_call, runtime, said, store_at

SCRIPT = [asks(("pay", {"n": 1}, "a"), ("write", {"n": 2}, "b"), ("pay", {"n": 3}, "c")), {"text": "done"}]


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


def paying(folder, *, dies=False, on_unknown: Any = "report", script=SCRIPT, graph="react", approval: Any = "ask", idle=0.0):
    """An agent whose effects are lines of a file, so that several processes share them."""

    @causeline.tool(approval=approval, on_unknown=on_unknown)
    async def pay(n: int, context: ToolContext) -> str:
        """Pays."""
        append(folder / "effects", f"{context.call_id}:pay {n}")
        await asyncio.sleep(idle)
        if dies:
            die()
        return f"paid {n}"

    @causeline.tool
    async def write(n: int) -> str:
        """Writes."""
        append(folder / "effects", f"write {n}")
        return f"wrote {n}"

    return causeline.Agent(ScriptedModel(script), name="payer", tools=[pay, write], graph=graph)


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_question_is_answered_in_another_process_after_the_first_died(tmp_path, graph):
    async def ask():
        agent = paying(tmp_path, graph=graph)
        rt = await runtime(store_at("sqlite", tmp_path), agent).__aenter__()
        await (await rt.start(agent, "go", session="s", run_id="r1")).result()
        die()

    async def reply():
        agent = paying(tmp_path, graph=graph)
        async with runtime(store_at("sqlite", tmp_path), agent) as rt:
            first = await rt.result("r1")
            done = await (await rt.answer("r1", {one.id: approve() for one in first.interrupts})).result()
            return done.status, await said(rt)

    assert ended(spawn(ask)) == -9
    status, messages = asyncio.run(reply())
    assert status == "succeeded"
    assert [text for role, text in messages if role == "tool"] == ["paid 1", "wrote 2", "paid 3"]
    assert sorted(lines(tmp_path / "effects")) == ["a:pay 1", "c:pay 3", "write 2"]


@pytest.mark.parametrize("same", [True, False], ids=["the same question", "different questions"])
def test_processes_that_approve_at_once_start_one_run_and_the_call_runs_once(tmp_path, same):
    async def ask():
        agent = paying(tmp_path)
        async with runtime(store_at("sqlite", tmp_path), agent) as rt:
            first = await (await rt.start(agent, "go", session="s", run_id="r1")).result()
            return {one.tool_call_id: one.id for one in first.interrupts}

    questions = asyncio.run(ask())

    def replying(number):
        async def reply():
            agent = paying(tmp_path, idle=0.2)
            async with runtime(store_at("sqlite", tmp_path), agent) as rt:
                try:
                    run = await rt.answer("r1", {questions["a" if same or number % 2 else "c"]: approve()})
                except Conflict as conflict:
                    return conflict.code
                return (await run.result()).status

        return reply

    pids = [spawn(replying(number), tmp_path / f"told{number}") for number in range(4)]
    assert [ended(pid) for pid in pids] == [0] * 4
    told = sorted((tmp_path / f"told{number}").read_text() for number in range(4))
    effects = lines(tmp_path / "effects")
    assert len(effects) == len(set(effects))
    if same:
        assert told.count('"interrupted"') == 1
        assert set(told) <= {'"interrupted"', '"session_busy"', '"interrupt_closed"'}
        assert effects == ["write 2", "a:pay 1"]
    assert len(effects) == 1 + sum("interrupted" in one or "succeeded" in one for one in told)


async def test_tasks_that_approve_at_once_start_one_run(store):
    scene = Scene(SCRIPT)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        one = by_call(first)["a"].id
        found = await asyncio.gather(*(rt.answer(first.run_id, {one: approve()}) for _ in range(8)), return_exceptions=True)
        started = [run for run in found if not isinstance(run, BaseException)]
        assert len(started) == 1
        assert all(isinstance(run, Conflict) for run in found if run not in started)
        await started[0].result()
        assert scene.done == ["b:write 2", "a:pay 1"]


async def test_answers_that_wait_for_their_turn_go_on_from_where_the_one_before_paused(store):
    scene = Scene(SCRIPT)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        runs = [await rt.answer(first.run_id, {open_[name].id: approve()}, on_busy="enqueue") for name in ("a", "c")]
        assert [(await run.result()).status for run in runs] == ["interrupted", "succeeded"]
        assert scene.done == ["b:write 2", "a:pay 1", "c:pay 3"]
        assert [text for role, text in await said(rt) if role == "tool"] == ["paid 1", "wrote 2", "paid 3"]


@pytest.mark.parametrize("graph", GRAPHS)
def test_an_approved_call_that_died_after_its_effect_is_unknown_and_does_not_run_again(tmp_path, graph):
    async def reply():
        agent = paying(tmp_path, dies=True, graph=graph, script=[asks(("pay", {"n": 1}, "a")), {"text": "done"}])
        rt = await runtime(store_at("sqlite", tmp_path), agent).__aenter__()
        first = await (await rt.start(agent, "go", session="s", run_id="r1")).result()
        await (await rt.answer("r1", {first.interrupts[0].id: approve()})).result()

    async def later():
        agent = paying(tmp_path, graph=graph, script=[asks(("pay", {"n": 1}, "a")), {"text": "done"}])
        async with runtime(store_at("sqlite", tmp_path), agent) as rt:
            answering = (await rt.runs("s"))[1]
            result = await (await rt.resume(answering.id)).result()
            return result.status, [text for role, text in await said(rt) if role == "tool"]

    assert ended(spawn(reply)) == -9
    status, results = asyncio.run(later())
    assert (status, len(results), "unknown" in results[0]) == ("succeeded", 1, True)
    assert lines(tmp_path / "effects") == ["a:pay 1"]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("decision", ["retry", "record", "fail"])
def test_an_unknown_outcome_is_asked_about_and_ends_as_decided(tmp_path, decision, graph):
    script = [asks(("pay", {"n": 1}, "a"), ("write", {"n": 2}, "b")), {"text": "done"}]

    async def start():
        agent = paying(tmp_path, dies=True, on_unknown="ask", script=script, approval=None, graph=graph)
        rt = await runtime(store_at("sqlite", tmp_path), agent).__aenter__()
        await (await rt.start(agent, "go", session="s", run_id="r1")).result()

    async def later():
        agent = paying(tmp_path, on_unknown="ask", script=script, approval=None, graph=graph)
        async with runtime(store_at("sqlite", tmp_path), agent) as rt:
            first = await (await rt.resume("r1")).result()
            assert (first.status, [one.kind for one in first.interrupts]) == ("interrupted", ["unknown_outcome"])
            for wrong in (approve(), edit({"n": 2}), deny(), causeline.answer(1)):
                with pytest.raises(Invalid):
                    await rt.answer("r1", {first.interrupts[0].id: wrong})
            chosen = {"retry": retry(), "record": record("paid by hand"), "fail": fail("bounced")}[decision]
            done = await (await rt.answer("r1", {first.interrupts[0].id: chosen})).result()
            return done.status, [text for role, text in await said(rt) if role == "tool"]

    assert ended(spawn(start)) == -9
    status, results = asyncio.run(later())
    assert status == "succeeded"
    assert {"retry": "paid 1", "record": "paid by hand", "fail": "bounced"}[decision] in results[0]
    effects = lines(tmp_path / "effects")
    assert effects.count("a:pay 1") == (2 if decision == "retry" else 1)
    assert effects.count("write 2") == 1 or graph == "react-flat"  # begun with the reply, run one after the other


async def test_a_model_that_fails_after_the_approved_call_loses_nothing(store):
    scene = Scene([SCRIPT[0], {"status": 400}])
    agent = scene.agent(max_retries=0)
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        failed = await (await rt.answer(first.run_id, {one.id: approve() for one in first.interrupts})).result()
        assert (failed.status, failed.stop_reason) == ("failed", "model_error")
        with pytest.raises(Conflict):
            await rt.answer(first.run_id, {first.interrupts[0].id: approve()})
        well = Scene(SCRIPT, done=scene.done)
        done = await (await rt.start(well.agent(), session="s")).result()
        assert (done.answer, scene.done) == ("done", ["b:write 2", "a:pay 1", "c:pay 3"])
        assert [text for role, text in await said(rt) if role == "tool"] == ["paid 1", "wrote 2", "paid 3"]


async def test_an_answering_run_that_is_cancelled_in_mid_call_leaves_the_truth(store):
    """What it had begun is of unknown outcome afterwards, what it had finished is finished, and neither runs again."""
    began = asyncio.Event()
    done: list[str] = []

    @causeline.tool(approval="ask", exclusive=True)
    async def pay(n: int) -> str:
        """Pays."""
        done.append(f"pay {n}")
        if n == 2:
            began.set()
            await asyncio.Event().wait()
        return f"paid {n}"

    script = [asks(("pay", {"n": 1}, "a"), ("pay", {"n": 2}, "b"), ("pay", {"n": 3}, "c")), {"text": "went on"}]
    agent = causeline.Agent(ScriptedModel(script), tools=[pay])
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        open_ = by_call(first)
        run = await rt.answer(first.run_id, {open_["a"].id: approve(), open_["b"].id: approve()})
        await asyncio.wait_for(began.wait(), 30)
        await run.cancel()
        assert (await run.result()).status == "cancelled"
        with pytest.raises(Conflict):
            await rt.answer(first.run_id, {open_["a"].id: approve()})
        second = await (await rt.answer(first.run_id, {open_["c"].id: approve()})).result()
        assert (second.status, done) == ("succeeded", ["pay 1", "pay 2", "pay 3"])
        results = [text for role, text in await said(rt) if role == "tool"]
        assert (results[0], results[2]) == ("paid 1", "paid 3")
        assert "unknown" in results[1]


async def test_an_approved_call_whose_run_was_cancelled_before_it_began_is_asked_about_again_or_told_of(store):
    scene = Scene([asks(("pay", {"n": 1}, "a")), {"text": "done"}])
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        run = await rt.answer(first.run_id, {first.interrupts[0].id: approve()})
        await run.cancel()
        assert (await run.result()).status in ("cancelled", "succeeded")
        rows = {row.call.state for row in await rt.calls(run.id)}
        again = await (await rt.start(agent, session="s")).result()
        if rows <= {"awaiting"}:
            assert (again.status, len(again.interrupts), scene.done) == ("interrupted", 1, [])
            assert again.interrupts[0].id != first.interrupts[0].id
        else:  # its start was on record already
            assert again.status == "succeeded"
            assert "unknown" in (await said(rt))[2][1] or scene.done
        assert scene.done.count("a:pay 1") <= 1


@pytest.mark.parametrize("graph", GRAPHS)
async def test_newer_code_without_the_tool_refuses_an_approval_and_runs_nothing(store, graph):
    scene = Scene(SCRIPT, graph)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        newer = scene.agent(tools=scene.tools()[1:])
        for decision in (approve(), edit({"n": 1})):
            with pytest.raises(Invalid) as caught:
                await rt.answer(first.run_id, {first.interrupts[0].id: decision}, agent=newer)
            assert caught.value.code in ("tool_gone", "document_changed")
        assert scene.done == ["b:write 2"]
        if graph == "react":  # a call can be denied though its tool is gone
            done = await (await rt.answer(first.run_id, {one.id: deny("gone") for one in first.interrupts}, agent=newer)).result()
            assert (done.status, scene.done) == ("succeeded", ["b:write 2"])
            assert [text for role, text in await said(rt) if role == "tool"] == [
                "This call was not approved: gone",
                "wrote 2",
                "This call was not approved: gone",
            ]
        else:
            done = await (await rt.answer(first.run_id, {one.id: approve() for one in first.interrupts}, agent=agent)).result()
            assert done.answer == "done"


async def test_newer_code_with_another_schema_refuses_the_old_arguments(store):
    @causeline.tool(approval="ask")
    async def pay(amount: float, to: str) -> str:
        """Pays."""
        raise AssertionError("ran")

    scene = Scene(SCRIPT)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        newer = scene.agent(tools=[pay])
        with pytest.raises(Invalid, match="amount"):
            await rt.answer(first.run_id, {first.interrupts[0].id: approve()}, agent=newer)
        assert {one.state for one in await store.rows(Interrupt, owner="default", session="s")} == {"open"}


async def test_newer_code_that_forbids_the_call_outweighs_an_approval(store):
    scene = Scene(SCRIPT)
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        newer = scene.agent(tool_approval={"pay": "deny"})
        done = await (await rt.answer(first.run_id, {one.id: approve() for one in first.interrupts}, agent=newer)).result()
        assert (done.status, scene.done) == ("succeeded", ["b:write 2"])


async def test_an_agent_by_another_name_is_missed_by_name(store):
    scene = Scene(SCRIPT, name="first-name")
    async with runtime(store) as rt:
        first = await (await rt.start(scene.agent(), "go", session="s")).result()
    if store.__class__.__name__ == "InMemoryStore":
        return
    scene.name = "second-name"
    async with runtime(store, scene.agent()) as rt:
        with pytest.raises(Missing, match="first-name"):
            await rt.answer(first.run_id, {first.interrupts[0].id: approve()})
    assert scene.done == ["b:write 2"]


async def test_an_answer_is_bound_to_the_arguments_it_was_given_for(store):
    """A ledger row that says something else than the question asked is not run on the strength of the answer."""
    scene = Scene([asks(("pay", {"n": 1}, "a")), {"text": "done"}])
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        first = await (await rt.start(agent, "go", session="s")).result()
        inner = store.rows

        async def tampered(kind, **filters):
            found = await inner(kind, **filters)
            if kind is CallRow:
                return [replace(row, call=replace(row.call, arguments={"n": 1000}, args_hash="0" * 64)) for row in found]
            return found

        store.rows = tampered
        try:
            second = await (await rt.answer(first.run_id, {first.interrupts[0].id: approve()})).result()
        finally:
            store.rows = inner
        assert (second.status, scene.done) == ("interrupted", [])
        assert second.interrupts[0].id != first.interrupts[0].id


async def test_an_answer_given_while_its_run_still_goes_waits_for_it(store):
    """From the moment the event is delivered the question can be answered."""
    scene = Scene([asks(("pay", {"n": 1}, "a")), {"text": "done"}])
    agent = scene.agent()
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s")
        async for event in run.events():
            if event["type"] == "interrupt_opened":
                second = await rt.answer(run.id, {event["interrupt_id"]: approve()})
                break
        assert ((await second.result()).answer, scene.done) == ("done", ["a:pay 1"])
        with pytest.raises(CauselineError):
            await rt.answer(second.id, {event["interrupt_id"]: approve()})
