"""Going on after a pause, a failure or a crash never repeats an effect that has happened."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

import causeline
from causeline import ToolContext, approve, fail, record, retry, tool
from causeline.errors import Conflict
from causeline.runtime import lease
from causeline.runtime.records import Run
from causeline.testing.faults import FaultyStore
from causeline.tools.tool import ToolError
from tests.agent.stage import Heard, calls
from tests.scenarios.world import Effects, Process, World, end, only, playing, states, until


def writers(effects, **policy):
    """`free` has an effect and asks nobody, `gated` has one and asks first."""

    @tool
    async def free(n: int) -> str:
        """Has an effect."""
        effects.leave(f"free {n}")
        return f"free {n}"

    @tool(approval="ask", **policy)
    async def gated(n: int) -> str:
        """Has an effect and asks first."""
        effects.leave(f"gated {n}")
        return f"gated {n}"

    return [free, gated]


async def test_a_finished_call_beside_a_paused_one_is_not_run_again(world: World):
    """The result of each call is durable on its own; the answer runs the gated call and nothing else."""
    script = [calls(("free", {"n": 1}, "a"), ("gated", {"n": 2}, "b")), {"text": "done"}]
    async with world.stage(script, writers(world.effects)) as s:
        ran = await s.run("go")
        assert world.effects.lines == ["free 1"]
    async with world.stage(script, writers(world.effects)) as s:
        done = await end(await s.runtime.answer(ran.run_id, {only(ran): approve()}, agent=s.agent))
    assert (done.status, world.effects.lines) == ("succeeded", ["free 1", "gated 2"])


async def test_a_tool_slower_than_the_lease_is_not_started_elsewhere(world: World):
    """A holder whose counter moves is alive, however long its tool takes, also for those who cannot look at its process."""
    going = asyncio.Event()

    @tool
    async def slow() -> str:
        """Ends when it is told."""
        world.effects.leave("slow")
        await going.wait()
        return "slow"

    agent, _ = playing([calls(("slow", {})), {"text": "done"}], [slow])
    async with AsyncExitStack() as stack:
        holder = await stack.enter_async_context(world.process(agent))
        holder._dispatch._heart._seconds = 0.02  # before its heartbeat first sleeps
        other = await stack.enter_async_context(world.process(agent))
        other._dispatch.watch = lease.LeaseWatch(0.3)
        run = await holder.start(agent, "go", session="s")
        await until(lambda: world.effects.lines)
        working = asyncio.create_task(other.work())
        seen = [one.beat for one in await other.store.rows(Run, owner="default")]
        await until(partial(beaten, other, run.id, seen[0] + 30))
        assert ("default", run.id) not in other._dispatch.driving
        going.set()
        done = await run.result()
        working.cancel()
        rows = await other.run(run.id)
    assert (done.answer, world.effects.lines, rows.epoch) == ("done", ["slow"], 1)


async def beaten(runtime, run_id: str, times: int) -> bool:
    return (await runtime.run(run_id)).beat >= times


async def test_a_holder_that_was_taken_for_dead_cannot_write_any_more(world: World, monkeypatch):
    """Its late result is refused; the call is of unknown outcome, once, and is not run a second time."""
    going = asyncio.Event()

    @tool
    async def slow() -> str:
        """Ends when it is told."""
        world.effects.leave("slow")
        await going.wait()
        return "slow"

    agent, model = playing([calls(("slow", {}, "a")), {"text": "done"}], [slow])
    async with world.process(agent) as holder, world.process(agent) as other:
        other._dispatch.watch = lease.LeaseWatch(0.05)
        run = await holder.start(agent, "go", session="s")
        await until(lambda: world.effects.lines)
        monkeypatch.setattr(other._dispatch, "gone", lambda run: _yes())
        done = await (await other.resume(run.id)).result()
        going.set()
        await until(lambda: ("default", run.id) not in holder._dispatch.driving)
        told = [one.text for one in await other.messages("s") if one.role == "tool"]
        assert (await states(other, run.id), (await other.run(run.id)).epoch) == ({"a": "unknown"}, 2)
    assert (done.answer, world.effects.lines) == ("done", ["slow"])
    assert len(told) == 1
    assert "unknown" in told[0]
    assert model.faults == []


async def _yes() -> bool:
    return True


# a crash after the effect


def crashing(effects: Effects, on_unknown: Any):
    @tool(approval="ask", on_unknown=on_unknown)
    async def gated(n: int, context: ToolContext) -> str:
        """Its first attempt takes the process along, after the effect."""
        effects.leave(f"gated {n} {context.call_id}")
        if len(effects.lines) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"gated {n}"

    return playing([calls(("gated", {"n": 1}, "a")), {"text": "done"}], [gated])


async def approve_and_die(url: str, effects: str, on_unknown: str) -> None:
    agent, _ = crashing(Effects(effects), on_unknown)
    async with causeline.open(url, agents=[agent]) as runtime:
        ran = await (await runtime.start(agent, "go", session="s")).result()
        await (await runtime.answer(ran.run_id, {only(ran): approve()})).result()


@pytest.mark.parametrize(
    "decision, told, effects",
    [(record("it worked"), "it worked", 1), (fail("it did not"), "This call failed: it did not", 1), (retry(), "gated 1", 2)],
)
async def test_an_approval_is_used_up_by_the_start_and_a_crash_after_it_asks_what_happened(disk: World, decision, told, effects):
    """A started call without a result is never run again by itself; a person says what became of it."""
    assert Process(approve_and_die, disk.url, disk.effects.path, "ask").end()[0] == -signal.SIGKILL
    agent, model = crashing(disk.effects, "ask")
    async with disk.process(agent) as runtime:
        run = (await runtime.runs("s"))[-1]
        ran = await (await runtime.resume(run.id)).result()
        assert [(one.kind, one.tool_call_id, one.arguments) for one in ran.interrupts] == [("unknown_outcome", "a", {"n": 1})]
        assert len(disk.effects.lines) == 1
        with pytest.raises(causeline.Invalid):
            await runtime.answer(ran.run_id, {only(ran): approve()})
        done = await (await runtime.answer(ran.run_id, {only(ran): decision})).result()
        results = [one.text for one in await runtime.messages("s") if one.role == "tool"]
    assert (done.answer, results) == ("done", [told])
    assert disk.effects.lines == ["gated 1 a"] * effects
    assert model.faults == []


async def test_by_default_the_model_is_told_that_the_outcome_is_unknown(disk: World):
    """Nobody is asked and nothing is run again; the next request says what is known."""
    assert Process(approve_and_die, disk.url, disk.effects.path, "report").end()[0] == -signal.SIGKILL
    agent, model = crashing(disk.effects, "report")
    async with disk.process(agent) as runtime:
        run = (await runtime.runs("s"))[-1]
        done = await (await runtime.resume(run.id)).result()
        assert await states(runtime, run.id) == {"a": "unknown"}
    assert (done.answer, len(disk.effects.lines)) == ("done", 1)
    assert "outcome of this call is unknown" in model.last.messages[-1].text


class KillAfter(FaultyStore):
    """Ends the process once the result of one call is durable."""

    def __init__(self, inner, call_id: str) -> None:
        super().__init__(inner)
        self.call_id = call_id

    async def commit(self, commit) -> None:
        await super().commit(commit)
        if any(call.call_id == self.call_id and call.state == "succeeded" for call in commit.calls):
            os.kill(os.getpid(), signal.SIGKILL)


def three(effects: Effects, kind: str):
    @tool(exclusive=kind == "exclusive", idempotent=kind == "idempotent")
    async def write(n: int) -> str:
        """Has an effect; side by side, only the first ends before the crash."""
        if kind == "idempotent" and n and not (effects.path.parent / "again").exists():
            await asyncio.Event().wait()
        effects.leave(f"write {n}")
        return f"wrote {n}"

    return playing([calls(*[("write", {"n": n}, f"c{n}") for n in range(3)]), {"text": "done"}], [write])


async def die_after_the_first(url: str, effects: str, kind: str) -> None:
    agent, _ = three(Effects(effects), kind)
    world = World(url, Effects(effects).path.parent)
    async with world.process(agent, store=KillAfter(world.store(), "c0")) as runtime:
        await (await runtime.start(agent, "go", session="s", run_id="r")).result()


@pytest.mark.parametrize("kind", ["exclusive", "idempotent"])
async def test_after_a_crash_exactly_the_calls_without_a_result_run(disk: World, kind):
    """Each call is looked at by its id; one result does not stand for its siblings, and none is lost."""
    assert Process(die_after_the_first, disk.url, disk.effects.path, kind).end()[0] == -signal.SIGKILL
    assert disk.effects.lines == ["write 0"]
    (disk.folder / "again").touch()
    agent, model = three(disk.effects, kind)
    async with disk.process(agent) as runtime:
        done = await (await runtime.resume("r")).result()
        results = [one.text for one in await runtime.messages("s") if one.role == "tool"]
    assert (done.answer, results) == ("done", ["wrote 0", "wrote 1", "wrote 2"])
    assert sorted(disk.effects.lines) == ["write 0", "write 1", "write 2"]
    assert model.faults == []


# failures around the call


async def test_what_a_tool_says_to_the_model_is_no_failed_attempt(world: World):
    """A tool that answers with an error text has run; retries are for attempts that broke, not for what was said."""

    @tool(retries=3)
    async def picky(n: int) -> str:
        """Wants another number."""
        world.effects.leave(n)
        raise ToolError("ask with a larger number")

    async with world.stage([calls(("picky", {"n": 1})), {"text": "done"}], [picky]) as s:
        ran = await s.run("go")
        assert s.model.last.messages[-1].text == "ask with a larger number"
    assert (ran.answer, world.effects.lines) == ("done", ["1"])


async def test_a_model_failure_after_an_approved_call_loses_neither_the_result_nor_the_approval(world: World):
    """The same answer again is refused as already given, the conversation goes on from the durable result, and the tool ran once."""
    first = [calls(("gated", {"n": 1}, "a")), {"status": 500}]
    async with world.stage(first, writers(world.effects), max_retries=0) as s:
        ran = await s.run("go")
        failed = await s.answer(ran, {"a": approve()})
        assert (failed.status, failed.stop_reason) == ("failed", "model_error")
        with pytest.raises(Conflict) as caught:
            await s.runtime.answer(ran.run_id, {only(ran): approve()})
        assert caught.value.code == "interrupt_closed"
    async with world.stage([first[0], {"text": "done"}], writers(world.effects)) as s:
        done = await s.run()
        assert [one.text for one in s.model.last.messages] == ["go", "", "gated 1"]
    assert (done.answer, world.effects.lines) == ("done", ["gated 1"])


async def test_the_order_of_results_is_the_order_of_calls_whoever_finished_first(world: World):
    """A later call that finishes earlier changes neither the history nor the head."""
    heads = []
    for late in (0, 1):
        ends = [asyncio.Event(), asyncio.Event()]

        @tool(effects=False)
        async def wait(n: int, ends=ends) -> str:
            """Ends when it is told."""
            await ends[n].wait()
            return f"{n}"

        clock = FixedClock()
        agent = causeline.Agent(Heard([calls(("wait", {"n": 0}), ("wait", {"n": 1})), {"text": "done"}]), tools=[wait])
        async with World("memory://", world.folder).process(agent, clock=clock) as runtime:
            run = await runtime.start(agent, "go", session="s", run_id="r")
            async for event in run.events():
                if event["type"] == "tool_call_end" and event["tool_call_id"] == "c1":
                    ends[1 - late].set()
                if event["type"] == "tool_call_result":
                    ends[late].set()
            heads.append((await run.result()).head)
            assert [one.text for one in await runtime.messages("s") if one.role == "tool"] == ["0", "1"]
    assert heads[0] == heads[1]


class FixedClock:
    """Time stands still; waiting does not."""

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
