"""Workers: several processes share one store; each run is driven by one of them, and none is left behind."""

import asyncio
import os
import signal
import time

import pytest

import causeline
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import ACTIVE, Run
from tests.runtime.processes import append, die, ended, lines, spawn
from tests.runtime.scenes import URLS, asks, runtime, said, store_at

PARALLEL = [asks(*(("work", {"n": number}, f"c{number}") for number in range(4))), {"text": "done"}]


def worker_agent(folder, *, dies_on=None, script=PARALLEL, seconds=0.0):
    @causeline.tool
    async def work(n: int, context: causeline.ToolContext) -> str:
        """Works."""
        await asyncio.sleep(seconds)
        append(folder / "effects", f"{context.session_id} {n}")
        if (folder / "die").exists() and n == dies_on:
            (folder / "die").unlink()
            die()
        return f"worked {n}"

    return causeline.Agent(ScriptedModel(script), name="worker-agent", tools=[work])


async def queue(folder, agent, count):
    async with runtime(store_at("sqlite", folder), agent) as rt:
        for number in range(count):
            run = Run(
                id=f"r{number}",
                session=f"s{number}",
                owner="default" if number % 2 else "other",
                status="queued",
                agent=agent.name,
                created_at="2026-01-01T00:00:00.000Z",
                input=[{"role": "user", "content": "go"}],
            )
            await rt.store.start(run, "enqueue")


def working(folder, agent_options, until=None):
    async def work():
        agent = worker_agent(folder, **agent_options)
        async with runtime(store_at("sqlite", folder), agent, lease_seconds=1.0, beat_seconds=0.1) as rt:
            task = asyncio.create_task(rt.work(concurrency=3))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
            while not task.done():
                if until is None and not await rt.store.rows(Run, owner=None, status=tuple(ACTIVE)):
                    task.cancel()
                await asyncio.wait([task], timeout=0.02)

    return work


async def look(folder):
    store = store_at("sqlite", folder)
    await store.open()
    runs = await store.rows(Run, owner=None)
    await store.close()
    return runs


def test_several_workers_share_the_runs_of_all_owners_and_each_is_driven_once(tmp_path):
    agent = worker_agent(tmp_path)
    asyncio.run(queue(tmp_path, agent, 12))
    pids = [spawn(working(tmp_path, {})) for _ in range(3)]
    assert [ended(pid) for pid in pids] == [0] * 3
    runs = asyncio.run(look(tmp_path))
    assert [(run.status, run.epoch) for run in runs] == [("succeeded", 1)] * 12
    effects = lines(tmp_path / "effects")
    assert len(effects) == len(set(effects)) == 48


def test_a_worker_that_is_killed_in_the_middle_of_parallel_calls_is_followed_by_another(tmp_path):
    agent = worker_agent(tmp_path)
    asyncio.run(queue(tmp_path, agent, 6))
    (tmp_path / "die").touch()
    pids = [spawn(working(tmp_path, {"dies_on": 2, "seconds": 0.02})) for _ in range(3)]
    codes = [ended(pid) for pid in pids]
    assert sorted(codes) == [-9, 0, 0]
    runs = asyncio.run(look(tmp_path))
    assert [run.status for run in runs] == ["succeeded"] * 6
    assert max(run.epoch for run in runs) == 2
    effects = lines(tmp_path / "effects")
    assert len(effects) == len(set(effects))


def test_sigterm_drains_no_run_is_left_running_and_another_worker_goes_on_at_once(tmp_path):
    script = [*(asks(("work", {"n": number}, f"c{number}")) for number in range(30)), {"text": "done"}]
    agent = worker_agent(tmp_path)
    asyncio.run(queue(tmp_path, agent, 5))
    pid = spawn(working(tmp_path, {"script": script, "seconds": 0.02}, until="told"))
    for _ in range(500):
        if len(lines(tmp_path / "effects")) >= 6:
            break
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
    assert ended(pid) == 0
    runs = asyncio.run(look(tmp_path))
    assert {run.status for run in runs} == {"queued"}
    assert all(run.holder is None for run in runs)
    assert 0 < sum(run.epoch for run in runs) <= 3
    assert ended(spawn(working(tmp_path, {"script": script}))) == 0
    assert [run.status for run in asyncio.run(look(tmp_path))] == ["succeeded"] * 5
    effects = lines(tmp_path / "effects")
    assert len(effects) == len(set(effects))


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


async def test_no_more_runs_at_once_than_it_may_drive(store):
    at_once = []
    running = 0

    @causeline.tool
    async def work(n: int) -> str:
        """Works."""
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.02)
        running -= 1
        return "ok"

    agent = causeline.Agent(ScriptedModel([asks(("work", {"n": 1}, "a")), {"text": "done"}]), tools=[work])
    async with runtime(store, agent) as rt:
        for number in range(8):
            await store.start(
                Run(
                    id=f"r{number}",
                    session=f"s{number}",
                    owner="default",
                    status="queued",
                    agent="agent",
                    created_at="2026-01-01T00:00:00.000Z",
                    input=[{"role": "user", "content": "go"}],
                ),
                "enqueue",
            )
        task = asyncio.create_task(rt.work(concurrency=2))
        for number in range(8):
            assert (await asyncio.wait_for(rt.result(f"r{number}"), 30)).status == "succeeded"
        task.cancel()
        assert (len(at_once), max(at_once)) == (8, 2)


async def test_runs_of_an_agent_it_does_not_know_are_left_for_somebody_else(store):
    agent = causeline.Agent(ScriptedModel.named("echo"), name="known")
    async with runtime(store, agent) as rt:
        for name in ("known", "unknown"):
            await store.start(
                Run(
                    id=name,
                    session=name,
                    owner="default",
                    status="queued",
                    agent=name,
                    created_at="2026-01-01T00:00:00.000Z",
                    input=[{"role": "user", "content": "hello"}],
                ),
                "enqueue",
            )
        task = asyncio.create_task(rt.work())
        assert (await asyncio.wait_for(rt.result("known"), 30)).answer == "hello"
        task.cancel()
        assert (await rt.run("unknown")).status == "queued"
        assert await said(rt, "known") == [("user", "hello"), ("assistant", "hello")]
