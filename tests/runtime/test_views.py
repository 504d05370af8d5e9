"""One engine room in a process, many owners: each sees its own, and leaving a view closes nothing."""

import asyncio
from typing import Any

import pytest

import causeline
from causeline import Conflict, Missing, Misuse
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.graph import Graph, Outcome, node
from causeline.run.scope import RunScope
from causeline.runtime import GraphProgram
from tests.runtime.scenes import URLS, Scene, runtime, said, store_at


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return store_at(request.param, tmp_path)


async def test_two_owners_use_the_same_ids_in_one_room_and_do_not_see_each_other(store: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    async with runtime(store, agent) as rt:
        ada, bob = rt.of("ada"), rt.of("bob")
        assert ada.room is bob.room is rt.room
        for view in (ada, bob):
            assert (await (await view.start("agent", f"of {view.owner}", session="s", run_id="r")).result()).answer == "hello"
        assert [text for role, text in await said(ada) if role == "user"] == ["of ada"]
        assert [text for role, text in await said(bob) if role == "user"] == ["of bob"]
        assert await rt.sessions() == []
        with pytest.raises(Missing):
            await rt.run("r")


async def test_leaving_a_view_closes_nothing_and_leaving_the_room_closes_every_view(store: Any) -> None:
    agent = Scene([{"text": "slow", "delay": 0.2}, {"text": "hello"}]).agent()
    async with runtime(store, agent) as rt:
        async with rt.of("ada") as ada:
            run = await ada.start("agent", "go", session="s")
        assert (await run.result()).answer == "slow"
        assert (await ada.run(run.id)).status == "succeeded"
    with pytest.raises(Misuse, match="closed"):
        await ada.sessions()


async def test_an_agent_that_one_owner_came_with_is_not_another_owners(store: Any) -> None:
    async with runtime(store) as rt:
        await (await rt.of("ada").start(Scene([{"text": "ada's"}], name="mine").agent(), "go")).result()
        with pytest.raises(Missing, match="no agent 'mine'"):
            await rt.of("bob").start("mine", "go")


@node("urn:test:deps", ("done",))
def shows_deps(ctx: Any) -> Outcome:
    return Outcome("done", {"result": {"answer": ctx.use(RunScope).deps}})


async def test_deps_are_those_of_the_start_else_of_the_view_else_of_the_runtime(store: Any) -> None:
    graph = Graph("urn:test:dag:deps").node("n", shows_deps.iri, {"done": "end"}).terminal("end").entry("main", "n").build()
    program = GraphProgram(graph, (shows_deps,))
    async with runtime(store, program, deps="the runtime's") as rt:
        view = rt.of("ada", deps="the view's")
        answers = [
            (await (await owner.start(program, deps=given)).result()).answer
            for owner, given in ((rt, None), (view, None), (view, "its own"), (rt.of("bob"), None))
        ]
        assert answers == ["the runtime's", "the view's", "its own", "the runtime's"]


# only stored


async def test_a_run_that_is_only_stored_waits_for_somebody_who_drives_it(store: Any, tmp_path: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    async with runtime(store, agent) as rt:
        run = await rt.start("agent", "go", session="s", run_id="r", drive=False)
        row = await rt.run("r")
        assert (row.status, row.holder, row.started_at) == ("queued", None, None)
        again = await rt.start("agent", "go", session="s", run_id="r", drive=False)
        assert again.id == run.id
        with pytest.raises(Conflict) as caught:
            await rt.start("agent", "more", session="s", drive=False)
        assert caught.value.code == "session_busy"
    if not isinstance(store, InMemoryStore):
        store = store_at("sqlite", tmp_path)
    async with runtime(store, agent) as rt:
        assert (await rt.run("r")).status == "queued", "opening alone drives nothing"
        assert (await (await rt.resume("r")).result()).answer == "hello"


async def test_a_worker_drives_what_was_only_stored(store: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    async with runtime(store, agent) as rt:
        names = [(await rt.start("agent", "go", session=f"s{n}", drive=False)).id for n in range(3)]
        working = asyncio.create_task(rt.work())
        assert [(await rt.result(name)).answer for name in names] == ["hello"] * 3
        working.cancel()


async def test_opening_with_agents_brings_on_what_a_process_that_is_gone_has_left(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    agent = Scene([{"text": "hello"}]).agent()
    async with causeline.open(url) as rt:
        for n in range(3):
            await rt.start(agent, f"word {n}", session="s", run_id=f"r{n}", on_busy="enqueue", drive=False)
    async with causeline.open(url, agents=[agent]) as rt:
        assert [(await rt.result(f"r{n}")).answer for n in range(3)] == ["hello"] * 3
        assert [text for role, text in await said(rt) if role == "user"] == ["word 0", "word 1", "word 2"]
