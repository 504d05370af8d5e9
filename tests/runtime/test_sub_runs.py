"""An agent as a tool of another: a run of its own below the call, started once, found again, and stopped with what it hangs on."""

import asyncio

import pytest

import causeline
from causeline.errors import Conflict
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import ACTIVE, Run
from tests.runtime.processes import append, die, ended, lines, spawn
from tests.runtime.scenes import GRAPHS, URLS, asks, runtime, said, store_at, told

OUTER = [asks(("helper", {"prompt": "do it"}, "h")), {"text": "all done"}]
INNER = [asks(("work", {"n": 1}, "w")), {"text": "helped"}]


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


def pair(work, graph="react", outer=OUTER, inner=INNER, **options):
    helper = causeline.Agent(ScriptedModel(inner), name="helper", tools=[work], graph=graph)
    tool = helper.as_tool("helper", "Helps.")
    return causeline.Agent(ScriptedModel(outer), name="outer", tools=[tool], graph=graph, **options), helper


@causeline.tool
async def work(n: int) -> str:
    """Works."""
    return f"worked {n}"


@pytest.mark.parametrize("graph", GRAPHS)
async def test_the_answer_of_the_run_below_is_the_result_of_the_call(store, graph):
    outer, _ = pair(work, graph)
    async with runtime(store, outer) as rt:
        run = await rt.start(outer, "go", session="s")
        assert (await run.result()).answer == "all done"
        assert ("tool", "helped") in await said(rt)
        below = next(one for one in await rt.runs() if one.parent_run == run.id)
        assert (below.parent_call, below.status, below.agent) == ("h", "succeeded", "helper")
        assert below.session != "s"
        assert await said(rt, below.session) == [("user", "do it"), ("assistant", ""), ("tool", "worked 1"), ("assistant", "helped")]
        events = [event for event in await told(run) if event["type"] in ("sub_run_started", "sub_run_finished")]
        assert [event["type"] for event in events] == ["sub_run_started", "sub_run_finished"]
        named = {(event["sub_run_id"], event["sub_session_id"], event["tool_call_id"]) for event in events}
        assert named == {(below.id, below.session, "h")}
        assert events[1]["status"] == "succeeded"


async def test_the_ids_of_the_run_below_follow_from_the_call_so_the_log_is_the_same_each_time(tmp_path):
    found = []
    for _ in range(2):
        outer, _ = pair(work)
        async with runtime(store_at("memory", tmp_path), outer) as rt:
            await (await rt.start(outer, "go", session="s", run_id="r1")).result()
            found.append(sorted(one.id for one in await rt.runs()))
    assert found[0] == found[1]


async def test_a_failure_below_is_a_result_that_says_so(store):
    outer, _ = pair(work, inner=[{"status": 400}])
    async with runtime(store, outer) as rt:
        assert (await (await rt.start(outer, "go", session="s")).result()).answer == "all done"
        result = next(text for role, text in await said(rt) if role == "tool")
        assert "helper failed" in result


@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_the_run_below_is_stopped_with_the_call_it_hangs_on(store, how):
    began = asyncio.Event()

    @causeline.tool
    async def work(n: int) -> str:
        """Works."""
        began.set()
        await asyncio.Event().wait()
        return ""

    outer, _ = pair(work, tool_timeout=0.5 if how == "timeout" else None)
    async with runtime(store, outer) as rt:
        run = await rt.start(outer, "go", session="s")
        await asyncio.wait_for(began.wait(), 30)
        if how == "cancel":
            await run.cancel()
        result = await asyncio.wait_for(run.result(), 30)
        assert result.status == ("cancelled" if how == "cancel" else "succeeded")
        below = next(one for one in await rt.runs() if one.parent_call == "h")
        assert below.status == "cancelled"


@pytest.mark.parametrize("graph", GRAPHS)
def test_after_a_crash_the_run_below_is_found_again_and_not_run_twice(tmp_path, graph):
    def agents(dies):
        @causeline.tool(idempotent=True)
        async def work(n: int) -> str:
            """Works."""
            append(tmp_path / "effects", "began")
            if dies:
                die()
            return f"worked {n}"

        return pair(work, graph)

    async def first():
        outer, helper = agents(dies=True)
        rt = await runtime(store_at("sqlite", tmp_path), outer, helper).__aenter__()
        await (await rt.start(outer, "go", session="s", run_id="r1")).result()

    async def second():
        outer, helper = agents(dies=False)
        async with runtime(store_at("sqlite", tmp_path), outer, helper) as rt:
            result = await (await rt.resume("r1")).result()
            return result.answer, [(one.parent_call, one.status) for one in await rt.runs()], await said(rt)

    assert ended(spawn(first)) == -9
    answer, runs, messages = asyncio.run(second())
    assert (answer, runs) == ("all done", [(None, "succeeded"), ("h", "succeeded")])
    assert ("tool", "helped") in messages
    assert lines(tmp_path / "effects") == ["began", "began"]


def test_cancelling_a_run_whose_process_died_stops_what_ran_below_it_too(tmp_path):
    @causeline.tool
    async def work(n: int) -> str:
        """Works."""
        append(tmp_path / "effects", "began")
        die()
        return ""

    async def first():
        outer, helper = pair(work)
        rt = await runtime(store_at("sqlite", tmp_path), outer, helper).__aenter__()
        await (await rt.start(outer, "go", session="s", run_id="r1")).result()

    async def second():
        outer, helper = pair(work)
        async with runtime(store_at("sqlite", tmp_path), outer, helper) as rt:
            await rt.cancel("r1")
            return [one.status for one in await rt.runs()]

    assert ended(spawn(first)) == -9
    assert asyncio.run(second()) == ["cancelled", "cancelled"]
    assert lines(tmp_path / "effects") == ["began"]


async def test_handing_a_run_back_hands_back_what_is_below_and_both_go_on(store):
    if store.__class__.__name__ == "InMemoryStore":
        return
    began, go = asyncio.Event(), asyncio.Event()

    @causeline.tool(idempotent=True)
    async def work(n: int) -> str:
        """Works."""
        began.set()
        await go.wait()
        return "worked"

    outer, helper = pair(work)
    async with runtime(store, outer, helper) as rt:
        await rt.start(outer, "go", session="s", run_id="r1")
        await asyncio.wait_for(began.wait(), 30)
    go.set()
    async with runtime(store, outer, helper) as rt:
        assert not [one for one in await store.rows(Run, owner=None, status=tuple(ACTIVE)) if one.status == "running"]
        assert (await (await rt.resume("r1")).result()).answer == "all done"
        assert [one.status for one in await rt.runs()] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_session_is_deleted_with_those_of_the_runs_below_its_own_or_not_at_all(store, graph):
    @causeline.tool(approval="ask")
    async def work(n: int) -> str:
        """Works until it is stopped."""
        await asyncio.Event().wait()
        return f"worked {n}"

    outer, helper = pair(work, graph)
    async with runtime(store, outer, helper) as rt:
        await (await rt.start(outer, "go", session="s")).result()
        await (await rt.start(outer, "go", session="other")).result()
        (below,) = [one for one in await rt.runs() if one.parent_run == (await rt.runs("s"))[0].id]
        (question,) = (await rt.result(below.id)).interrupts
        answering = await rt.answer(below.parent_run, {question.id: causeline.approve()})
        with pytest.raises(Conflict) as caught:
            await rt.delete("s")
        assert (caught.value.code, len(await rt.sessions())) == ("session_busy", 4)
        await rt.cancel(answering.id)
        await rt.delete("s")
        left = {one.session for one in await rt.runs()}
        assert not left & {"s", below.session}
        assert {one.id for one in await rt.sessions()} == left
        assert len(left) == 2
