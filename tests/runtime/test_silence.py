"""Who is silent loses its runs, on this machine too; who is only busy does not fall silent."""

import asyncio
import time
from typing import Any

import pytest

import causeline
from causeline.runtime.records import Run
from causeline.runtime.runtime import Runtime
from tests.runtime.scenes import Scene, asks, beside, runtime, store_at


async def test_a_blocked_event_loop_does_not_stop_the_heart(tmp_path: Any) -> None:
    """The tool holds the event loop until the counter in the file has moved twice, which only another thread can bring about."""
    seen: list[int] = []

    @causeline.tool
    async def hold() -> str:
        """Blocks the event loop."""
        import sqlite3

        deadline = time.monotonic() + 30
        with sqlite3.connect(tmp_path / "store.db") as file:
            while (not seen or seen[-1] < 2) and time.monotonic() < deadline:
                seen.append(file.execute("SELECT beat FROM run").fetchone()[0])
                time.sleep(0.01)  # noqa: ASYNC251 - that it blocks is the point
        return "held"

    agent = Scene([asks(("hold", {}, "a")), {"text": "done"}]).agent(tools=[hold])
    store = store_at("sqlite", tmp_path)
    async with Runtime(store, programs=[agent], heart_store=lambda: store_at("sqlite", tmp_path), beat_seconds=0.02) as rt:
        assert (await (await rt.start(agent, "go", session="s")).result()).answer == "done"
    assert seen[-1] >= 2


@pytest.mark.parametrize("way", ["cancel", "resume", "take"])
async def test_a_live_process_of_this_machine_that_says_nothing_loses_its_run(tmp_path: Any, way: str) -> None:
    going = asyncio.Event()

    @causeline.tool(idempotent=True)
    async def wait() -> str:
        """Waits, the first time."""
        if not going.is_set():
            going.set()
            await asyncio.Event().wait()
        return "waited"

    agent = Scene([asks(("wait", {}, "a")), {"text": "done"}]).agent(tools=[wait])
    async with asyncio.timeout(30), runtime(store_at("sqlite", tmp_path), agent, beat_seconds=3600, grace=0) as silent:
        await silent.start(agent, "go", session="s", run_id="r")
        await going.wait()
        assert silent._dispatch._listener is not None
        silent._dispatch._listener.cancel()  # it does not even hear
        async with beside(silent.store, agent, lease_seconds=0.2) as other:
            if way == "cancel":
                await other.cancel("r")
            elif way == "resume":
                await other.resume("r")
            else:
                working = asyncio.create_task(other.work())
            result = await other.result("r")
            if way == "take":
                working.cancel()
            (row,) = await other.store.rows(Run, owner="default", id="r")
            assert row.epoch == 2
            assert (result.status, result.answer) == (("cancelled", None) if way == "cancel" else ("succeeded", "done"))


async def test_a_session_that_is_busy_with_a_run_that_nobody_drives_says_how_to_go_on(tmp_path: Any) -> None:
    slow = Scene([{"text": "slow", "delay": 3600}]).agent()
    async with runtime(store_at("sqlite", tmp_path), slow) as rt:
        run = await rt.start(slow, "go", session="s", run_id="r")
        async for event in run.events():
            if event["type"] == "step_finished":
                break
    async with runtime(store_at("sqlite", tmp_path), Scene([{"text": "quick"}]).agent()) as rt:
        with pytest.raises(causeline.Conflict, match=r"run r was left by a process that is gone; .*causeline resume r") as caught:
            await rt.start("agent", "more", session="s")
        assert caught.value.code == "session_busy"
        assert (await rt.result("r")).answer == "quick"
