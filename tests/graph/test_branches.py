"""Several entrypoints: really at once, deterministic where they meet, nothing lost when one stops."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.graph import Graph, Outcome
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json


def meeting(a, b, policy=None, quorum=None, **gather) -> Graph:
    """Two branches, `a` and `b`, that meet at a gather."""
    rule = {"target": "got", **gather}
    return (
        Graph("urn:t:meet")
        .node("a", a, {"done": "join"})
        .node("b", b, {"done": "join"})
        .gather(
            "join",
            ["a", "b"],
            rule.pop("strategy", "append"),
            {"success": "end", "error": "bad", "empty": "end"},
            policy=policy,
            quorum=quorum,
            **rule,
        )
        .terminal("end")
        .terminal("bad", "failed")
        .entry("main", "a")
        .entry("second", "b")
    )


def writing(value, seconds=0.0):
    async def write(ctx):
        await asyncio.sleep(seconds)
        return Outcome("done", {"x": value})

    return write


async def test_branches_run_at_the_same_time():
    both = asyncio.Barrier(2)

    async def meet(ctx):
        await both.wait()
        return Outcome("done", {ctx.placement: True})

    result = await run(meeting(meet, meet, strategy="discard", target=None))
    assert (result.status, result.state) == ("completed", {"a": True, "b": True})
    assert not others()


@pytest.mark.parametrize("delays", [(0.0, 0.02), (0.02, 0.0)])
async def test_a_gather_takes_records_in_declared_order_whoever_finishes_first(delays):
    result = await run(meeting(writing(1, delays[0]), writing(2, delays[1]), field="x"))
    assert result.state["got"] == [1, 2]
    swapped = meeting(writing(1, delays[0]), writing(2, delays[1]), field="x")
    swapped._placements[2]["sources"] = dict(reversed(swapped._placements[2]["sources"].items()))
    assert (await run(swapped)).state["got"] == [2, 1]


@pytest.mark.parametrize("delays", [(0.0, 0.02), (0.02, 0.0)])
async def test_writes_to_one_channel_count_in_declared_order_whoever_finishes_first(delays):
    journal = Recording()
    d = dispatcher(meeting(writing("a", delays[0]), writing("b", delays[1]), strategy="discard", target=None))
    result = await d.execute("urn:t:meet", {}, journal=journal)
    assert result.state["x"] == "b", "b is declared after a"
    from causeline.graph import Channels, replay

    channels = Channels()
    for step in journal.steps:
        replay(channels, step.delta)
    assert channels.values == result.state, "deltas hold what counted"


@pytest.mark.parametrize("order", ["aab", "aba", "baa"])
async def test_the_last_writes_of_branches_are_compared_not_the_loudest(order):
    """a writes late in the document, then early; b in between: b counts, in every order of finishing."""
    turns = [asyncio.Event() for _ in range(4)]
    turns[0].set()
    taken = iter(range(3))
    slots = {"a": [number for number, name in enumerate(order) if name == "a"], "b": [order.index("b")]}

    def in_turn(value, branch, nth):
        async def write(ctx):
            number = slots[branch][nth]
            await turns[number].wait()
            next(taken)
            asyncio.get_running_loop().call_later(0.01, turns[number + 1].set)
            return Outcome("done", {"x": value})

        return write

    graph = (
        Graph("urn:t:race")
        .node("a2", in_turn("a2", "a", 1), {"done": "end"})
        .node("b1", in_turn("b1", "b", 0), {"done": "end"})
        .node("a1", in_turn("a1", "a", 0), {"done": "a2"})
        .terminal("end")
        .entry("main", "a1")
        .entry("second", "b1")
    )
    result = await run(graph)
    assert result.state["x"] == "b1"


async def test_a_write_after_the_meeting_counts_over_both():
    graph = meeting(writing("a"), writing("b"), strategy="discard", target=None)
    graph._placements[2]["outputs"]["success"] = graph.place("after")
    graph.node("after", lambda ctx: Outcome("done", {"x": "after", "saw": ctx.state["x"]}), {"done": "end"})
    graph._placements.insert(0, graph._placements.pop())
    result = await run(graph)
    assert (result.state["x"], result.state["saw"]) == ("after", "b")


async def test_a_barrier_that_waits_for_a_branch_that_never_comes_stalls():
    result = await run(meeting(lambda ctx: "done", lambda ctx: "done"), entry="main")
    assert (result.status, result.error.code, result.error.placement) == ("stalled", "stalled", "join")
    assert "join" in result.error.message
    position = result.saved()["position"]
    assert list(position["barriers"]) == ["join"]


async def test_any_fires_once_and_a_late_branch_changes_nothing():
    first = asyncio.Event()

    async def late(ctx):
        await first.wait()
        return Outcome("done", {"x": "late"})

    graph = meeting(lambda ctx: Outcome("done", {"x": "early"}), late, policy="any", field="x")
    graph._placements[2]["outputs"]["success"] = graph.place("after")
    graph.node("after", lambda ctx: first.set() or "done", {"done": "end"})
    journal = Recording()
    result = await run(graph, journal=journal)
    assert (result.status, result.state["got"]) == ("completed", ["early"])
    assert [step.node for step in journal.steps].count("join") == 1


async def test_any_joins_alternative_ways_round_after_round():
    def choose(ctx):
        number = ctx.state.get("n", 0) + 1
        return Outcome("stop" if number > 4 else "left" if number % 2 else "right", {"n": number})

    graph = (
        Graph("urn:t:xor")
        .node("choose", choose, {"left": "l", "right": "r", "stop": "end"})
        .node("l", lambda ctx: "done", {"done": "join"})
        .node("r", lambda ctx: "done", {"done": "join"})
        .gather("join", ["l", "r"], "collect", {"success": "choose", "error": "end", "empty": "end"}, policy="any", target="got")
        .terminal("end")
    )
    result = await run(graph)
    assert (result.status, result.state["got"]) == ("completed", ["done"] * 4)


async def test_quorum_fires_with_that_many_and_drops_the_rest():
    graph = Graph("urn:t:q")
    gates = [asyncio.Event() for _ in range(3)]

    def gated(number):
        async def work(ctx):
            await gates[number].wait()
            return Outcome("done", {f"x{number}": number})

        return work

    for number in range(3):
        graph.node(f"n{number}", gated(number), {"done": "join"}).entry(f"e{number}", f"n{number}")
    graph.gather(
        "join", ["n0", "n1", "n2"], "collect", {"success": "open", "error": "end", "empty": "end"}, policy="quorum", quorum=2, target="got"
    )
    graph.node("open", lambda ctx: gates[1].set() or "done", {"done": "end"}).terminal("end")
    gates[2].set()
    asyncio.get_running_loop().call_later(0.01, gates[0].set)
    result = await run(graph)
    assert (result.status, result.state["got"]) == ("completed", ["done", "done"])


async def test_a_branch_that_fails_ends_the_run_promptly_and_resume_runs_what_was_cut():
    calls = []

    async def first(ctx):
        calls.append("a")
        await asyncio.sleep(0)
        if calls.count("a") == 1:
            raise ValueError("once")
        return "done"

    async def second(ctx):
        calls.append("b")
        if calls.count("b") == 1:
            await asyncio.Event().wait()
        return Outcome("done", {"b": True})

    d = dispatcher(meeting(first, second, strategy="discard", target=None))
    result = await d.execute("urn:t:meet")
    assert (result.status, result.error.code, result.state) == ("failed", "ValueError", {})
    assert not others()
    again = await d.resume("urn:t:meet", through_json(result.saved()))
    assert (again.status, again.state, calls) == ("completed", {"b": True}, ["a", "b", "a", "b"])


async def test_what_had_finished_when_a_branch_failed_is_kept():
    failed = asyncio.Event()

    async def first(ctx):
        await failed.wait()
        raise ValueError("always")

    class Slow(Recording):
        async def step(self, step):
            failed.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await super().step(step)

    journal = Slow()
    execution = dispatcher(meeting(first, writing(2), strategy="discard", target=None)).execute("urn:t:meet", journal=journal)
    result = await execution
    assert (result.status, result.state, [step.node for step in journal.steps]) == ("failed", {"x": 2}, ["b"])


async def test_a_scatter_in_a_branch_beside_one_that_fails_stops_too():
    async def item(ctx):
        await asyncio.Event().wait()

    graph = (
        Graph("urn:t:wide")
        .scatter("fan", "items", dict.fromkeys(("all-success", "partial", "all-error", "empty"), "end"), node=item, concurrency=3)
        .node("boom", lambda ctx: 1 / 0, {"done": "end"})
        .terminal("end")
        .entry("main", "fan")
        .entry("second", "boom")
    )
    result = await run(graph, {"items": [1, 2, 3, 4]})
    assert (result.status, result.error.code) == ("failed", "ZeroDivisionError")
    assert not others()


async def test_a_branch_that_waits_for_an_answer_lets_the_others_run_to_their_end():
    ran = []

    def ask(ctx):
        return Outcome.pause("may I?") if ctx.answer is None else Outcome("done", {"answer": ctx.answer})

    graph = (
        Graph("urn:t:ask")
        .node("ask", ask, {"done": "end"})
        .node("w1", lambda ctx: ran.append(1) or "done", {"done": "w2"})
        .node("w2", lambda ctx: ran.append(2) or "done", {"done": "end"})
        .terminal("end")
        .entry("main", "ask")
        .entry("work", "w1")
    )
    d = dispatcher(graph)
    result = await d.execute("urn:t:ask")
    assert (result.status, ran) == ("interrupted", [1, 2])
    assert [(pause.key, pause.node, pause.question) for pause in result.pauses] == [("ask", "ask", "may I?")]
    again = await d.resume("urn:t:ask", through_json(result.saved()), answers={"ask": "yes"})
    assert (again.status, again.state, ran) == ("completed", {"answer": "yes"}, [1, 2])


async def test_two_branches_that_ask_at_the_same_placement_can_be_answered_apart():
    def ask(ctx):
        return Outcome.pause("which?") if ctx.answer is None else Outcome("done", {"got": [ctx.answer]})

    graph = Graph("urn:t:same").node("ask", ask, {"done": "end"}).terminal("end").entry("one", "ask").entry("two", "ask")
    d = dispatcher(graph, reducers={"got": "append"})
    result = await d.execute("urn:t:same")
    assert [pause.key for pause in result.pauses] == ["ask@one", "ask@two"]
    half = await d.resume("urn:t:same", through_json(result.saved()), answers={"ask@two": 2})
    assert (half.status, [pause.key for pause in half.pauses]) == ("interrupted", ["ask@one"])
    full = await d.resume("urn:t:same", through_json(half.saved()), answers={"ask@one": 1})
    assert (full.status, full.state) == ("completed", {"got": [2, 1]})


async def test_cancelling_stops_every_branch_and_saves_both_places():
    async def forever(ctx):
        await asyncio.sleep(60)

    d = dispatcher(meeting(forever, forever, strategy="discard", target=None), clock=ManualClock())
    result = await d.execute("urn:t:meet", deadline=1)
    assert result.status == "timed_out"
    assert [branch["at"] for branch in result.saved()["position"]["branches"]] == ["a", "b"]
    assert not others()


async def test_steps_of_branches_are_numbered_and_journalled_one_at_a_time():
    class Strict(Recording):
        inside = False

        async def step(self, step):
            assert not self.inside
            self.inside = True
            await asyncio.sleep(0.001)
            self.inside = False
            await super().step(step)

    async def work(ctx):
        await asyncio.sleep(0)
        return "done"

    graph = Graph("urn:t:many").terminal("end")
    for name in "abcd":
        graph.node(f"{name}1", work, {"done": f"{name}2"}).node(f"{name}2", work, {"done": "end"}).entry(name, f"{name}1")
    journal = Strict()
    result = await run(graph, journal=journal)
    assert result.status == "completed"
    assert [step.index for step in journal.steps] == list(range(8))
    assert [step.position["visits"] for step in journal.steps] == list(range(1, 9))


async def test_a_failing_journal_stops_the_other_branches_without_counting_them():
    async def quick(ctx):
        return Outcome("done", {"a": 1})

    async def slow(ctx):
        await asyncio.sleep(0.01)
        return Outcome("done", {"b": 1})

    execution = dispatcher(meeting(quick, slow, strategy="discard", target=None)).execute("urn:t:meet", journal=Recording(fail_at=0))
    with pytest.raises(OSError, match="disk"):
        await execution
    assert execution.saved()["channels"] == {}
    assert [branch["at"] for branch in execution.saved()["position"]["branches"]] == ["a", "b"]


async def test_one_failed_terminal_makes_the_whole_outcome_failed():
    graph = (
        Graph("urn:t:ends")
        .node("a", lambda ctx: "done", {"done": "good"})
        .node("b", lambda ctx: "done", {"done": "bad"})
        .terminal("good")
        .terminal("bad", "failed")
        .entry("main", "a")
        .entry("second", "b")
    )
    result = await run(graph)
    assert (result.status, result.error.code, result.error.placement) == ("failed", "failed_terminal", "bad")


async def test_entrypoints_straight_into_a_gather_leave_the_state_there():
    graph = Graph("urn:t:open")
    graph.gather(
        "join",
        [graph.entrypoint("one"), graph.entrypoint("two")],
        "append",
        {"success": "end", "error": "end", "empty": "end"},
        target="got",
        field="x",
    ).terminal("end").entry("one", "join").entry("two", "join")
    result = await run(graph, {"x": 7})
    assert (result.status, result.state["got"]) == ("completed", [7, 7])
