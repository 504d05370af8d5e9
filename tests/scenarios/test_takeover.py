"""Runs whose process is gone: taken up once, in order, by whoever comes first; nobody waits for the dead."""

import asyncio
import os
import signal

import pytest

from causeline import tool
from causeline.errors import CauselineError, Conflict
from causeline.runtime.records import Run
from tests.agent.stage import Turns, calls
from tests.scenarios.world import Effects, Process, World, end, playing, tell, waved


def writer(effects, *, die: bool = False, name: str = "agent"):
    """An agent with one call that has an effect. With `die` the process ends after it."""

    @tool(idempotent=True)
    async def write(who: str) -> str:
        """Has an effect at most once for its key, as a careful service would."""
        if who not in effects.lines:
            effects.leave(who)
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"wrote {who}"

    return playing(Turns([calls(("write", {"who": "first"})), {"text": "one"}], [{"text": "two"}], [{"text": "three"}]), [write], name=name)


async def die_with_a_queue(url: str, effects: str) -> None:
    """One run that kills the process, and one that waits behind it."""
    going = asyncio.Event()
    agent, _ = writer(Effects(effects), die=True)
    world = World(url, Effects(effects).path.parent)

    async with world.process(agent) as runtime:
        hold = runtime.store.commit

        async def commit(one) -> None:
            if any(call.state == "succeeded" for call in one.calls) or one.checkpoint is not None:
                await going.wait()
            await hold(one)

        runtime.store.commit = commit  # type: ignore[method-assign]
        await runtime.start(agent, "first", session="s", run_id="r1")
        await runtime.start(agent, "second", session="s", run_id="r2", on_busy="enqueue")
        going.set()
        await runtime.result("r2")


async def test_what_waited_behind_a_dead_run_comes_after_it_and_before_what_is_new(disk: World):
    """The dead run is finished, the queued one follows, then the new one: three inputs, in the order in which they were accepted."""
    assert Process(die_with_a_queue, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    agent, model = writer(disk.effects)
    async with disk.process(agent) as runtime:
        assert [(one.id, one.status) for one in await runtime.runs("s")] == [("r1", "running"), ("r2", "queued")]
        ran = await end(await runtime.start(agent, "third", session="s", on_busy="enqueue"))
        assert [(one.status, one.answer) for one in await runtime.runs("s")] == [("succeeded", word) for word in ("one", "two", "three")]
        said = [one.text for one in await runtime.messages("s") if one.role == "user"]
    assert (ran.answer, said, disk.effects.lines) == ("three", ["first", "second", "third"], ["first"])
    assert model.faults == []


async def test_two_who_resume_at_once_drive_the_run_once(world: World):
    """A claim is taken in the store: one goes on with the run, the other one hears that it came too late, and both see its end."""
    started = asyncio.Event()
    going = asyncio.Event()

    @tool
    async def write() -> str:
        """Has an effect."""
        world.effects.leave("write")
        return "wrote"

    @tool(idempotent=True)
    async def wait() -> str:
        """Ends when it is told."""
        started.set()
        await going.wait()
        return "waited"

    agent, model = playing([calls(("wait", {})), calls(("write", {})), {"text": "done"}], [write, wait])
    async with world.process(agent) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")
        await started.wait()
    going.set()
    async with world.process(agent) as one, world.process(agent) as other:
        came = await asyncio.gather(*[runtime.resume("r") for runtime in (one, other) * 3], return_exceptions=True)
        assert {error.code for error in came if isinstance(error, CauselineError)} <= {"run_held"}
        assert [error for error in came if isinstance(error, BaseException) and not isinstance(error, Conflict)] == []
        assert (await other.result("r")).answer == (await one.result("r")).answer == "done"
        assert (await one.run("r")).epoch == 2
    assert (world.effects.lines, len(model.requests)) == (["write"], 3)


async def test_a_run_that_was_taken_while_it_was_judged_stays_with_its_taker(world: World):
    """Between the judgement that a run is free and the claim somebody else may have claimed it: then it is live, and not for taking."""
    started = asyncio.Event()
    going = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Ends when it is told."""
        started.set()
        await going.wait()
        return "waited"

    agent, _ = playing([calls(("wait", {})), {"text": "done"}], [wait])
    async with world.process(agent) as runtime:
        await runtime.start(agent, "go", session="s", run_id="r")
        await started.wait()
    async with world.process(agent) as one, world.process(agent) as other:
        read = other._row

        async def row(run_id: str) -> Run:
            found = await read(run_id)
            if found.epoch == 1:
                await one.resume(run_id)
            return found

        other._row = row  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="taken by somebody else"):
            await other.resume("r")
        assert (await one.run("r")).epoch == 2
        going.set()
        assert (await one.result("r")).answer == "done"


async def test_workers_share_a_queue_without_driving_anything_twice(world: World):
    """Twenty runs, two workers: each run is driven by one of them, and none is left."""

    @tool
    async def write(n: int) -> str:
        """Has an effect."""
        world.effects.leave(n)
        await asyncio.sleep(0)
        return "wrote"

    class Asked(Turns):
        """Calls the tool with the number that the user says."""

        async def stream(self, request):
            self.scripts = [type(self.scripts[0])([calls(("write", {"n": int(request.messages[0].text)})), {"text": "done"}])]
            async for delta in super().stream(request):
                yield delta

    class Silent(Turns):
        """Does not answer."""

        async def stream(self, request):
            await asyncio.Event().wait()
            async for delta in super().stream(request):
                yield delta

    silent, _ = playing(Silent(), [write])
    agent, _ = playing(Asked([]), [write])
    async with world.process(silent) as runtime:
        for n in range(20):
            await runtime.start(silent, str(n), session=f"s{n}", run_id=f"r{n}")
    async with world.process(agent) as one, world.process(agent) as other:
        working = [asyncio.create_task(runtime.work(concurrency=4)) for runtime in (one, other)]
        assert {(await one.result(f"r{n}")).answer for n in range(20)} == {"done"}
        for task in working:
            task.cancel()
    assert sorted(map(int, world.effects.lines)) == list(range(20))


async def work_until_killed(url: str, effects: str) -> None:
    agent, _ = writer(Effects(effects), die=True)
    async with World(url, Effects(effects).path.parent).process(agent) as runtime:
        await waved()
        await runtime.work()


async def test_a_worker_takes_up_at_once_what_another_one_died_over(disk: World):
    """Nobody waits out a lease for a process that is evidently gone, and the effect is there once."""
    agent, _ = writer(disk.effects)
    async with disk.process(agent) as runtime:
        await runtime.start(agent, "first", session="s", run_id="r")
    doomed = Process(work_until_killed, disk.url, disk.effects.path)
    doomed.ready()
    async with disk.process(agent) as runtime:
        doomed.go()
        assert doomed.end()[0] == -signal.SIGKILL
        working = asyncio.create_task(runtime.work())
        async with asyncio.timeout(30):
            assert (await runtime.result("r")).answer == "one"
        working.cancel()
        assert (await runtime.run("r")).epoch >= 3
    assert disk.effects.lines == ["first"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_new_message_can_stop_what_runs_and_take_its_place(world: World, elsewhere):
    """The active run ends as cancelled, wherever it is driven, and the new one follows on the same history."""
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Does not end by itself."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent, model = playing(Turns([calls(("hang", {}))], [{"text": "fine"}]), [hang])
    async with world.process(agent) as one, world.process(agent) as other:
        first = await one.start(agent, "go", session="s")
        await started.wait()
        second = await (other if elsewhere else one).start(agent, "rather this", session="s", on_busy="cancel")
        assert (await second.result()).answer == "fine"
        assert (await first.result()).status == "cancelled"
        assert [message.text for message in model.last.messages if message.role == "user"] == ["go", "rather this"]
    assert model.faults == []


async def write_and_wait(url: str, effects: str) -> None:
    agent, _ = writer(Effects(effects))
    async with World(url, Effects(effects).path.parent).process(agent) as runtime:
        run = await runtime.start(agent, "first", session="s", run_id="r")
        tell((await run.result()).answer)


async def test_a_session_of_one_process_is_gone_on_with_in_another(disk: World):
    """The second turn sees the first, as if nothing had happened between."""
    assert Process(write_and_wait, disk.url, disk.effects.path).end() == (0, ["one"])
    agent, model = writer(disk.effects)
    async with disk.process(agent) as runtime:
        assert (await end(await runtime.start(agent, "second", session="s"))).answer == "two"
    assert [one.role for one in model.last.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert disk.effects.lines == ["first"]
