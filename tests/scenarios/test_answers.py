"""Several open questions at once: each has its own id, its own answer, and is answered once, whoever else answers too."""

import asyncio
import signal
from itertools import permutations

import pytest

import causeline
from causeline import approve, deny, tool
from causeline.errors import CauselineError, Conflict, Invalid, Missing
from causeline.testing.faults import FaultyStore
from tests.agent.stage import Turns, calls
from tests.scenarios.world import Effects, Process, World, end, only, playing, states, tell, until, waved


def gates(effects):
    @tool(approval="ask")
    async def gated(n: int) -> str:
        """Has an effect and asks first."""
        effects.leave(f"gated {n}")
        return f"gated {n}"

    return [gated]


THREE = [calls(*[("gated", {"n": 7}, f"c{n}") for n in range(3)]), {"text": "done"}]
AGAIN = Turns(THREE, [{"text": "as you like"}])


async def test_all_open_questions_are_listed_with_ids_that_stay_the_same(world: World):
    """Three approvals of one tool with the same arguments are three questions, after a restart too."""
    async with world.stage(THREE, gates(world.effects)) as s:
        ran = await s.run("go")
        ids = [one.id for one in ran.interrupts]
        assert [one["interrupt_id"] for one in ran.told("interrupt_opened")] == ids
    assert ([one.tool_call_id for one in ran.interrupts], len(set(ids))) == (["c0", "c1", "c2"], 3)
    async with world.stage(THREE, gates(world.effects)) as s:
        assert [one.id for one in (await s.runtime.result(ran.run_id)).interrupts] == ids
        assert [one.id for one in (await s.run()).interrupts] == ids
    assert world.effects.lines == []


@pytest.mark.parametrize("bare", [approve(), {}, {"*": approve()}, {"c0": approve()}, {"gated": approve()}])
async def test_an_answer_that_names_no_question_is_refused(world: World, bare):
    """Where several are open, an answer says which one it is for; nothing runs and all stay open."""
    async with world.stage(THREE, gates(world.effects)) as s:
        ran = await s.run("go")
        with pytest.raises((Missing, Invalid)):
            await s.runtime.answer(ran.run_id, bare)
        assert len((await s.runtime.result(ran.run_id)).interrupts) == 3
    assert world.effects.lines == []


@pytest.mark.parametrize("order", list(permutations(["c0", "c1", "c2"])), ids="".join)
async def test_calls_of_one_tool_are_answered_in_any_order(world: World, order):
    """A question belongs to a call, not to a tool."""
    async with world.stage(THREE, gates(world.effects)) as s:
        ran = await s.run("go")
        for left, call_id in enumerate(order, start=1):
            ran = await s.answer(ran, {call_id: approve()})
            assert len(world.effects.lines) == left
        results = [one.payload["call_id"] for one in await s.nodes("tool_result")]
    assert (ran.answer, results) == ("done", ["c0", "c1", "c2"])


async def test_an_answer_given_while_another_runs_leaves_what_is_recorded_alone(world: World):
    """The second answer waits for its turn; the finished call stays finished and the third stays open under its id."""
    going = asyncio.Event()

    @tool(approval="ask")
    async def gated(n: int) -> str:
        """Ends when it is told."""
        world.effects.leave(f"gated {n}")
        await going.wait()
        return f"gated {n}"

    async with world.stage([calls(*[("gated", {"n": n}, f"c{n}") for n in range(3)]), {"text": "done"}], [gated]) as s:
        ran = await s.run("go")
        ids = [one.id for one in ran.interrupts]
        first = await s.runtime.answer(ran.run_id, {ids[0]: approve()})
        await until(lambda: world.effects.lines)
        with pytest.raises(Conflict) as caught:
            await s.runtime.answer(ran.run_id, {ids[0]: approve()})
        assert caught.value.code == "interrupt_closed"
        second = asyncio.create_task(s.runtime.answer(ran.run_id, {ids[1]: approve()}, on_busy="enqueue"))
        going.set()
        half = await end(first)
        ran = await end(await second)
        assert half.status == ran.status == "interrupted"
        assert [one.id for one in ran.interrupts] == [ids[2]]
        assert await states(s.runtime, ran.run_id) == {"c0": "succeeded", "c1": "succeeded", "c2": "awaiting"}
        assert (await s.answer(ran, {"c2": deny()})).answer == "done"
    assert world.effects.lines == ["gated 0", "gated 1"]


# the same question, answered twice


async def test_the_first_answer_is_final(world: World):
    """The same or another word later is a conflict, and so is an old answer to a run that has gone on since."""
    async with world.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(world.effects)) as s:
        ran = await s.run("go")
        done = await s.answer(ran, {"a": approve()})
        for late in (approve(), deny()):
            with pytest.raises(Conflict) as caught:
                await s.runtime.answer(ran.run_id, {only(ran): late})
            assert (caught.value.code, "answered" in caught.value.message) == ("interrupt_closed", True)
        assert (await s.runtime.result(done.run_id)).answer == "done"
        assert len(await s.runtime.runs("s")) == 2
    assert world.effects.lines == ["gated 1"]


async def test_two_answers_at_once_run_the_call_once(world: World):
    """Of two runtimes that approve together one wins, and the other hears that it came too late."""
    script = [calls(("gated", {"n": 1}, "a")), {"text": "done"}]
    agent, _ = playing(script, gates(world.effects))
    async with world.process(agent) as one, world.process(agent) as other:
        ran = await end(await one.start(agent, "go", session="s"))
        given = [runtime.answer(ran.run_id, {only(ran): approve()}) for runtime in (one, other) * 4]
        came = await asyncio.gather(*given, return_exceptions=True)
        won = [one for one in came if not isinstance(one, BaseException)]
        codes = [one.code for one in came if isinstance(one, CauselineError)]
        assert (len(won), codes) == (1, ["interrupt_closed"] * 7)
        assert (await won[0].result()).answer == "done"
    assert world.effects.lines == ["gated 1"]


async def approve_when_told(url: str, effects: str, run: str, interrupt: str) -> None:
    agent, _ = playing([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(Effects(effects)))
    async with causeline.open(url, agents=[agent]) as runtime:
        await waved()
        try:
            tell((await (await runtime.answer(run, {interrupt: approve()})).result()).answer)
        except Conflict as error:
            tell(error.code)


async def test_processes_that_answer_at_once_run_the_call_once(disk: World):
    """The claim on a call is taken in the store, so it holds across processes."""
    async with disk.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(disk.effects)) as s:
        ran = await s.run("go")
    racing = [Process(approve_when_told, disk.url, disk.effects.path, ran.run_id, only(ran)) for _ in range(3)]
    for one in racing:
        one.ready()
    for one in racing:
        one.go()
    assert sorted(line for one in racing for line in one.end()[1]) == ["done", "interrupt_closed", "interrupt_closed"]
    assert disk.effects.lines == ["gated 1"]


async def test_an_old_answer_to_a_cancelled_run_runs_nothing(world: World):
    """What is stored decides, not what a client still shows: a cancelled call is not started again by its old approval."""

    @tool(approval="ask")
    async def gated(n: int) -> str:
        """Does not end by itself."""
        world.effects.leave(f"gated {n}")
        await asyncio.Event().wait()
        return ""

    async with world.stage(Turns([calls(("gated", {"n": 1}, "a"))], [{"text": "fine"}]), [gated]) as s:
        ran = await s.run("go")
        run = await s.runtime.answer(ran.run_id, {only(ran): approve()})
        await until(lambda: world.effects.lines)
        await run.cancel()
        assert (await run.result()).status == "cancelled"
        with pytest.raises(Conflict):
            await s.runtime.answer(ran.run_id, {only(ran): approve()})
        assert (await s.run("and now?")).answer == "fine"
    assert world.effects.lines == ["gated 1"]


async def test_a_question_that_a_new_message_passed_over_cannot_be_answered_any_more(world: World):
    """The message is a message, never taken for the answer; the old question is closed and says why."""
    async with world.stage(AGAIN, gates(world.effects)) as s:
        ran = await s.run("go")
        assert (await s.run("approve")).answer == "as you like"
        with pytest.raises(Conflict, match="superseded"):
            await s.runtime.answer(ran.run_id, {ran.interrupts[0].id: approve()})
        assert [one.text for one in await s.runtime.messages("s") if one.role == "user"] == ["go", "approve"]
    assert world.effects.lines == []


# a pause that outlives its process, its agent, its run id


async def pause_and_die(url: str, effects: str) -> None:
    agent, _ = playing(AGAIN, gates(Effects(effects)))
    async with causeline.open(url, agents=[agent]) as runtime:
        await (await runtime.start(agent, "go", session="s", run_id="r")).result()
        tell("ready")
        await asyncio.Event().wait()


@pytest.mark.parametrize("denied", [0, 1, 3])
async def test_a_pause_survives_its_process_and_never_blocks_the_conversation(disk: World, denied):
    """After a crash any of the calls can be denied, and with some or none of them answered a new message is taken."""
    process = Process(pause_and_die, disk.url, disk.effects.path)
    process.ready()
    process.kill()
    async with disk.stage(AGAIN, gates(disk.effects)) as s:
        ran = await end(await s.runtime.resume("r"))
        assert len(ran.interrupts) == 3
        for call_id in ["c0", "c1", "c2"][:denied]:
            ran = await s.answer(ran, {call_id: deny("not now")})
        assert (await s.run("something else")).answer == "as you like"
        told = [one.text for one in s.model.last.messages if one.role == "tool"]
    assert disk.effects.lines == []
    assert ["not now" in text for text in told] == [True] * denied + [False] * (3 - denied)


async def test_what_is_passed_on_with_the_answer_does_not_change_what_was_decided(world: World):
    """The run's context, another process and an agent given by hand: the approved call runs, and is not asked about again."""
    for session, given in (("plain", False), ("by-hand", True)):
        async with world.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(world.effects)) as s:
            ran = await s.run("go", session=session, context={"user": "x", "approved": False})
        async with world.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(world.effects)) as s:
            done = await end(await s.runtime.answer(ran.run_id, {only(ran): approve()}, agent=s.agent if given else None))
        assert (done.status, done.answer) == ("succeeded", "done")
    assert world.effects.lines == ["gated 1"] * 2


async def test_an_approval_whose_tool_is_gone_is_told_by_name_and_can_still_be_denied(world: World):
    """Nothing is matched by guessing: it cannot be approved, the question stays open, and denying it frees the conversation."""
    script = [calls(("gated", {"n": 1}, "a")), {"text": "done"}]
    async with world.stage(script, gates(world.effects)) as s:
        ran = await s.run("go")

    @tool(approval="ask", name="renamed")
    async def gated(n: int) -> str:
        """The same tool under another name."""
        world.effects.leave("renamed")
        return ""

    async with world.stage(script, [gated]) as s:
        with pytest.raises(Invalid, match="gated"):
            await s.runtime.answer(ran.run_id, {only(ran): approve()}, agent=s.agent)
        assert only(await s.runtime.result(ran.run_id)) == only(ran)
        done = await end(await s.runtime.answer(ran.run_id, {only(ran): deny("gone")}, agent=s.agent))
        assert [one.text for one in s.model.last.messages][-1] == "This call was not approved: gone"
    assert (done.answer, world.effects.lines) == ("done", [])


async def test_an_answer_makes_a_run_of_its_own_and_a_used_run_id_says_so(world: World):
    """The follow-up has a new id in the same session; an id that is taken with other input is a conflict that names it."""
    async with world.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(world.effects)) as s:
        ran = await s.run("go", run_id="mine")
        done = await s.answer(ran, {"a": approve()})
        assert (done.run_id != "mine", done.session) == (True, "s")
        assert (await s.runtime.run(done.run_id)).parent_run == "mine"
        with pytest.raises(Conflict, match="mine") as caught:
            await s.run("go on", run_id="mine")
        assert caught.value.code == "run_conflict"


async def test_a_killed_answer_is_taken_up_again_with_its_decisions(disk: World):
    """An answer that was accepted is durable: whoever takes its run over does not ask a second time."""
    async with disk.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(disk.effects)) as s:
        ran = await s.run("go")
    process = Process(answer_and_wait, disk.url, disk.effects.path, ran.run_id, only(ran))
    process.ready()
    process.kill()
    async with disk.stage([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(disk.effects)) as s:
        run = (await s.runtime.runs("s"))[-1]
        done = await end(await s.runtime.resume(run.id))
    assert (done.answer, disk.effects.lines) == ("done", ["gated 1"])


async def answer_and_wait(url: str, effects: str, run: str, interrupt: str) -> None:
    """Answer, and stand still before the call is started."""
    agent, _ = playing([calls(("gated", {"n": 1}, "a")), {"text": "done"}], gates(Effects(effects)))
    world = World(url, Effects(effects).path.parent)

    class Still(FaultyStore):
        async def commit(self, commit) -> None:
            if any(call.state == "started" for call in commit.calls):
                tell("ready")
                await asyncio.Event().wait()
            await super().commit(commit)

    async with world.process(agent, store=Still(world.store())) as runtime:
        await (await runtime.answer(run, {interrupt: approve()})).result()


def test_a_kill_is_a_kill():
    """The processes of these scenarios end by a signal that nothing can catch."""
    process = Process(stand)
    process.ready()
    process._inner.send_signal(signal.SIGKILL)
    assert process.end()[0] == -signal.SIGKILL


async def stand() -> None:
    await waved()
