"""Several writers on one session, several processes on one file: everything is kept, or its caller hears that it is not."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import causeline
from causeline import tool
from causeline.causal import verify_export
from causeline.errors import Conflict
from tests.agent.stage import Turns, calls
from tests.scenarios.world import Process, World, end, playing, tell, until, waved

EIGHT = [f"input {n}" for n in range(8)]


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


def looker():
    return playing([calls(("look", {"n": 1})), {"text": "done"}], [look])


@pytest.mark.parametrize("on_busy", ["reject", "enqueue"])
async def test_eight_runs_at_once_lose_no_input_without_saying_so(world: World, on_busy):
    """Each input is in the one history, or its caller got a conflict; the session has no branch that nobody knows of."""
    agent, model = looker()
    async with world.process(agent) as one, world.process(agent) as other:
        starts = [runtime.start(agent, text, session="s", on_busy=on_busy) for text, runtime in zip(EIGHT, [one, other] * 4, strict=True)]
        came = await asyncio.gather(*starts, return_exceptions=True)
        kept = [text for text, run in zip(EIGHT, came, strict=True) if not isinstance(run, BaseException)]
        assert {run.code for run in came if isinstance(run, Conflict)} <= {"session_busy"}
        ended = [await run.result() for run in came if not isinstance(run, BaseException)]
        assert {(run.status, run.answer) for run in ended} == {("succeeded", "done")}
        said = [message.text for message in await one.messages("s") if message.role == "user"]
        steps = await one.checkpoints("s")
        assert len(await one.runs("s")) == len(kept)
    assert sorted(said) == sorted(kept)
    assert len(kept) == (8 if on_busy == "enqueue" else len(kept)) > 0
    assert len({step.parent for step in steps}) == len(steps), "no two checkpoints have one parent"
    assert model.faults == []


async def speak_when_told(url: str, name: str, on_busy: Any) -> None:
    agent, _ = looker()
    async with causeline.open(url, agents=[agent]) as runtime:
        await waved()
        for n in range(3):
            try:
                run = await runtime.start(agent, f"{name}-{n}", session="s", on_busy=on_busy)
                await run.result()
                tell(f"{name}-{n}")
            except Conflict as error:
                tell(error.code)


async def test_processes_that_speak_at_once_share_one_history(disk: World):
    """Runs of different processes on one session come one after the other, none lost and none forked away."""
    speakers = [Process(speak_when_told, disk.url, name, "enqueue") for name in ("a", "b", "c")]
    for one in speakers:
        one.ready()
    for one in speakers:
        one.go()
    accepted = [line for one in speakers for line in one.end()[1]]
    async with disk.process() as runtime:
        said = [message.text for message in await runtime.messages("s") if message.role == "user"]
        verify_export(await runtime.export("s", all=True))
    assert len(said) == 9
    assert sorted(said) == sorted(accepted)


async def work_when_told(url: str, name: str) -> None:
    """Many sessions at once, each with many steps."""
    agent, _ = playing([calls(("look", {"n": n})) for n in range(12)] + [{"text": "done"}], [look])
    async with causeline.open(url, agents=[agent]) as runtime:
        await waved()
        runs = [await runtime.start(agent, "go", session=f"{name}-{n}") for n in range(4)]
        tell(" ".join([(await run.result()).answer for run in runs]))


async def test_processes_that_write_one_file_at_once_do_not_fail_each_other(disk: World):
    """Two processes, four sessions each, 27 steps a session: no lock error reaches anybody."""
    working = [Process(work_when_told, disk.url, name) for name in ("a", "b")]
    for one in working:
        one.ready()
    for one in working:
        one.go()
    assert [one.end() for one in working] == [(0, ["done done done done"])] * 2
    async with disk.process() as runtime:
        assert len(await runtime.sessions()) == 8
        assert {len(await runtime.checkpoints(one.id)) for one in await runtime.sessions()} == {27}


async def open_when_told(folder: str) -> None:
    await waved()
    for n in range(6):
        await until((Path(folder) / f"go{n}").exists)
        agent, _ = playing([{"text": "done"}])
        async with causeline.open(f"sqlite:///{folder}/fresh{n}.db", agents=[agent]) as runtime:
            await (await runtime.start(agent, "go")).result()
        tell(n)


async def test_processes_that_open_a_fresh_file_together_all_get_it(tmp_path):
    """Making the file, its mode and its schema is done once, and nobody fails for having been second."""
    opening = [Process(open_when_told, tmp_path) for _ in range(4)]
    for one in opening:
        one.ready()
    for one in opening:
        one.go()
    for n in range(6):
        (tmp_path / f"go{n}").touch()
        await asyncio.sleep(0.02)
    assert [one.end()[1] for one in opening] == [[str(n) for n in range(6)]] * 4
    for n in range(6):
        async with causeline.open(f"sqlite:///{tmp_path}/fresh{n}.db") as runtime:
            assert len(await runtime.sessions()) == 4


def busy():
    return playing([calls(("look", {"n": n})) for n in range(3_000)], [look])[0]


async def write_for_ever(url: str) -> None:
    agent = busy()
    async with causeline.open(url, agents=[agent]) as runtime:
        run = await runtime.start(agent, "what is a walrus?", session="s", run_id="r")
        tell("ready")
        await run.result()


async def began(runtime) -> bool:
    return any(one.head for one in await runtime.sessions())


async def test_a_killed_writer_leaves_no_lock(disk: World):
    """The next process opens the file at once, reads beside a second reader, and goes on."""
    process = Process(write_for_ever, disk.url)
    process.ready()
    async with disk.process() as reader:
        await until(partial(began, reader))
        process._inner.send_signal(signal.SIGKILL)
        process.end()
        async with disk.process(busy()) as second:
            told = await asyncio.gather(reader.recall("s", "walrus"), second.recall("s", "walrus"))
            assert told[0] == told[1]
            assert "walrus" in told[0].text
            await second.cancel("r")
            assert (await second.run("r")).status == "cancelled"
            verify_export(await second.export("s"))


async def test_another_process_follows_and_stops_a_run(world: World):
    """What one process drives, another one sees event by event, and can cancel."""
    hanging = asyncio.Event()

    @tool
    async def slow() -> str:
        """Does not end by itself."""
        hanging.set()
        await asyncio.Event().wait()
        return ""

    agent, _ = playing(Turns([calls(("slow", {}))]), [slow])
    async with world.process(agent) as driver, world.process() as watcher:
        run = await driver.start(agent, "go", session="s", run_id="r")
        following = asyncio.create_task(_events(watcher, "r"))
        await hanging.wait()
        await watcher.cancel("r")
        seen = await following
        assert (await run.result()).status == "cancelled"
        assert seen == (await end(run)).events


async def _events(runtime, run_id):
    return [event async for event in runtime.events(run_id)]
