"""A run is stopped wherever it was left: its process dead on this machine or silent on another, its agent known or not."""

import asyncio
import json
from typing import Any

import pytest

from causeline.errors import Invalid
from causeline.runtime.records import Run
from tests.runtime.scenes import URLS, Scene, runtime, store_at, told

AT = "2026-01-01T00:00:00.000Z"
ELSEWHERE = json.dumps({"host": "elsewhere", "boot": "other", "pid": 1, "born": "1", "nonce": "1"})


async def left(store: Any, agent: Any, *, manifest: Any = None, holder: str = ELSEWHERE) -> None:
    """A run that a process on another machine has begun."""
    await store.open()
    await store.start(
        Run(
            id="r",
            session="s",
            owner="default",
            status="running",
            agent=agent.name,
            created_at=AT,
            started_at=AT,
            manifest=manifest,
            input=[{"role": "user", "content": "go"}],
            holder=holder,
        ),
        "reject",
    )


@pytest.fixture(params=URLS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return store_at(request.param, tmp_path)


@pytest.mark.parametrize("known", [True, False], ids=["agent known", "agent unknown"])
async def test_a_run_whose_machine_fell_silent_is_taken_over_and_ended_as_cancelled(store: Any, known: bool) -> None:
    agent = Scene([{"text": "never"}]).agent()
    await left(store, agent)
    async with asyncio.timeout(30), runtime(store, *([agent] if known else []), lease_seconds=0.2, beat_seconds=0.05) as rt:
        await rt.cancel("r")
        assert ((await rt.run("r")).status, (await rt.run("r")).stop_reason) == ("cancelled", "cancelled")
        assert (await told(await rt.resume("r")))[-1]["type"] == "run_finished"
        if known:
            assert [(one.role, one.text) for one in await rt.messages("s")] == [("user", "go")], "what was said is kept"


@pytest.mark.parametrize("known", [True, False], ids=["agent known", "agent unknown"])
async def test_a_run_that_was_taken_over_while_its_holder_was_waited_out_is_left_to_its_taker(store: Any, known: bool) -> None:
    """Judged as gone, then claimed by a third: it is live again, has been asked to stop, and is not for ending from here."""
    agent = Scene([{"text": "never"}]).agent()
    await left(store, agent)
    third = json.dumps({**json.loads(ELSEWHERE), "nonce": "3"})
    async with asyncio.timeout(30), runtime(store, *([agent] if known else []), lease_seconds=0.2, beat_seconds=0.05) as rt:
        judge = rt._dispatch.gone

        async def gone(run: Run) -> bool:
            judged = await judge(run)
            assert judged
            assert await store.claim("default", "r", third, epoch=run.epoch, beat=run.beat, at=AT)
            return judged

        rt._dispatch.gone = gone  # type: ignore[method-assign]
        await rt.cancel("r")
        row = await rt.run("r")
        assert (row.status, row.cancel_requested, row.epoch, row.holder) == ("running", True, 2, third)


async def test_a_live_run_elsewhere_is_asked_and_not_taken(store: Any) -> None:
    agent = Scene([{"text": "never"}]).agent()
    await left(store, agent)

    async def beat() -> None:
        while True:
            await store.renew(ELSEWHERE)
            await asyncio.sleep(0.05)

    async with asyncio.timeout(30), runtime(store, agent, lease_seconds=2.5, beat_seconds=0.05) as rt:
        beating = asyncio.create_task(beat())
        await rt.cancel("r")
        row = await rt.run("r")
        beating.cancel()
        assert (row.status, row.cancel_requested, row.epoch) == ("running", True, 1)


async def test_a_run_whose_stored_agent_cannot_be_built_any_more_hinders_nobody(store: Any) -> None:
    agent = Scene([{"text": "hello"}], name="other").agent()
    await left(store, Scene([], name="lost").agent(), manifest={"agent": {}}, holder=json.dumps({**json.loads(_here()), "pid": 0}))

    def build(_manifest: Any) -> Any:
        raise Invalid("its tools are gone")

    async with asyncio.timeout(30), runtime_with(store, build, agent) as rt:
        worker = asyncio.create_task(rt.work())
        result = await (await rt.start(agent, "go", session="t")).result()
        assert (result.status, worker.done()) == ("succeeded", False)
        worker.cancel()
        await rt.cancel("r")
        assert (await rt.run("r")).status == "cancelled"


async def test_agents_built_from_what_a_run_has_stored_are_closed_with_the_runtime(store: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    closed: list[str] = []
    await left(store, agent, manifest={"agent": {}}, holder=json.dumps({**json.loads(_here()), "pid": 0}))

    def build(_manifest: Any) -> Any:
        async def aclose() -> None:
            closed.append("built")

        agent.aclose = aclose  # type: ignore[method-assign]
        return agent

    async with asyncio.timeout(30), runtime_with(store, build) as rt:
        assert (await (await rt.resume("r")).result()).answer == "hello"
        assert closed == []
    assert closed == ["built"]


def runtime_with(store: Any, build: Any, *agents: Any) -> Any:
    rt = runtime(store, *agents)
    rt.room.programs.build = build
    return rt


def _here() -> str:
    from causeline.runtime.lease import new_holder

    return new_holder()
