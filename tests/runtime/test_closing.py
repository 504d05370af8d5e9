"""A runtime that is not open, or not any more, says so on every store; nobody waits for what will not come."""

import asyncio
from typing import Any

import pytest

import causeline
from causeline import Corrupt, Misuse
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.runtime.records import Run
from tests.runtime.scenes import URLS, Scene, runtime, store_at, told


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return store_at(request.param, tmp_path)


CALLS = {
    "start": lambda rt: rt.start("agent", "go"), "answer": lambda rt: rt.answer("r", {"int_1": causeline.approve()}),
    "resume": lambda rt: rt.resume("r"), "cancel": lambda rt: rt.cancel("r"), "result": lambda rt: rt.result("r"),
    "events": lambda rt: anext(rt.events("r")), "work": lambda rt: rt.work(), "sessions": lambda rt: rt.sessions(),
    "runs": lambda rt: rt.runs(), "run": lambda rt: rt.run("r"), "branch": lambda rt: rt.branch("s"),
    "messages": lambda rt: rt.messages("s"), "checkpoints": lambda rt: rt.checkpoints("s"), "calls": lambda rt: rt.calls("r"),
    "why": lambda rt: rt.why("cw_1"), "recall": lambda rt: rt.recall(query="x"), "export": lambda rt: rt.export("s"),
    "delete": lambda rt: rt.delete("s"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_before_opening_and_after_closing_is_a_misuse_that_names_what_to_write(store: Any, call: str) -> None:
    rt = runtime(store, Scene([{"text": "hello"}]).agent())
    with pytest.raises(Misuse, match=r"not open yet; use `async with causeline\.open"):
        await CALLS[call](rt)
    async with rt:
        await (await rt.start("agent", "go", session="s", run_id="r")).result()
    with pytest.raises(Misuse, match=r"is closed; open another one with `async with causeline\.open"):
        await CALLS[call](rt)


async def test_an_import_is_refused_as_well(store: Any) -> None:
    async with runtime(store, Scene([{"text": "hello"}]).agent()) as rt:
        await (await rt.start("agent", "go", session="s")).result()
        data = await rt.export("s")
    with pytest.raises(Misuse, match="is closed"):
        await rt.import_(data)


async def test_whoever_waits_when_a_runtime_closes_is_told_to_resume_and_the_run_is_queued(store: Any, tmp_path: Any) -> None:
    agent = Scene([{"text": "slow", "delay": 3600}]).agent()
    async with runtime(store, agent) as rt:
        run = await rt.start(agent, "go", session="s", run_id="r")
        stepped = asyncio.Event()

        async def follow() -> None:
            async for event in run.events():
                if event["type"] == "step_finished":
                    stepped.set()

        async with asyncio.timeout(20):
            waiting = [asyncio.create_task(run.result()), asyncio.create_task(follow())]
            await stepped.wait()
            await rt.__aexit__()
            ends = await asyncio.gather(*waiting, return_exceptions=True)
    for end in ends:
        assert isinstance(end, Misuse)
        assert "closed before run r has ended; the run is queued: open another runtime" in end.message
    if not isinstance(store, InMemoryStore):
        store = store_at("sqlite", tmp_path)
    async with runtime(store, Scene([{"text": "quick"}]).agent()) as again:
        assert (await again.store.rows(Run, owner="default", id="r"))[0].status in ("queued", "running")
        assert (await (await again.resume("r")).result()).answer == "quick"


async def test_a_runtime_is_opened_once() -> None:
    rt = runtime(InMemoryStore())
    async with rt:
        pass
    with pytest.raises(Misuse, match="is closed; open another"):
        await rt.__aenter__()


async def test_followers_of_a_run_that_could_not_be_driven_get_its_end(store: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    real = agent.services
    asked = 0

    def services(scope: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise RuntimeError("the driver broke")
        return real(scope)

    agent.services = services  # type: ignore[method-assign]
    async with asyncio.timeout(20), runtime(store, agent) as rt:
        run = await rt.start(agent, "go")
        events = await told(run)
        assert (events[-1]["type"], events[-1]["message"]) == ("run_error", "the driver broke")
        assert ((await run.result()).status, (await run.result()).error) == ("failed", {"code": "internal", "message": "the driver broke"})


class Stuck(InMemoryStore):
    """Refuses every commit with a fault of its own."""

    async def commit(self, commit: Any) -> None:
        raise Corrupt("the disk is gone")


async def test_followers_of_a_run_whose_end_could_not_be_recorded_are_told_why() -> None:
    agent = Scene([{"text": "hello"}]).agent()
    async with asyncio.timeout(20), runtime(Stuck(), agent) as rt:
        run = await rt.start(agent, "go")
        with pytest.raises(Corrupt, match="the disk is gone"):
            await run.result()
        with pytest.raises(Corrupt, match="the disk is gone"):
            await told(run)
