"""One branch: routes, writes, outcomes, failures, limits, deadlines, cancelling."""

import asyncio
import time

import pytest
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json

from causeline.errors import Invalid, Misuse, Missing
from causeline.graph import Graph, Limits, Outcome, PositionMismatch, Reducer, node
from causeline.policy import RetryPolicy


def counting(to: int) -> Graph:
    def count(ctx):
        number = ctx.state.get("n", 0) + 1
        return Outcome("again" if number < to else "done", {"n": number})

    return Graph("urn:t:count").node("count", count, {"again": "count", "done": "end"}).terminal("end")


def chain(*functions, name="chain") -> Graph:
    graph = Graph(f"urn:t:{name}")
    for number, function in enumerate(functions):
        follower = f"n{number + 1}" if number + 1 < len(functions) else "end"
        graph.node(f"n{number}", function, {"done": follower})
    return graph.terminal("end")


async def test_a_loop_runs_until_it_leaves_and_the_state_holds_its_writes():
    result = await run(counting(50))
    assert (result.status, dict(result.state), result.error) == ("completed", {"n": 50}, None)


async def test_writes_meet_what_is_there_by_the_channels_reducer():
    def one(ctx):
        return Outcome("done", {"list": [1], "map": {"a": 1}, "first": "x", "sum": 2, "last": "x"})

    def two(ctx):
        return Outcome("done", {"list": [2, 3], "map": {"b": 2}, "first": "y", "sum": 3, "last": "y"})

    given = {"list": [0], "map": {"z": 0}}
    reducers = {"list": "append", "map": "merge", "first": "keep", "sum": lambda old, new: (old or 0) + new}
    result = await run(chain(one, two), given, reducers=reducers)
    assert result.state == {"list": [0, 1, 2, 3], "map": {"z": 0, "a": 1, "b": 2}, "first": "x", "sum": 5, "last": "y"}
    assert given == {"list": [0], "map": {"z": 0}}, "what the caller gave must not change"


async def test_a_node_cannot_change_the_state_except_by_its_writes():
    def meddle(ctx):
        ctx.state["x"] = 1
        return "done"

    result = await run(chain(meddle), {"x": 0})
    assert (result.status, result.error.code, result.state) == ("failed", "TypeError", {"x": 0})


async def test_deltas_replayed_in_order_give_the_final_state():
    from causeline.graph import Channels, replay

    def one(ctx):
        return Outcome("done", {"log": [ctx.step], "seen": {str(ctx.step): True}, "total": ctx.step})

    reducers = {"log": "append", "seen": "merge", "total": Reducer("sum", lambda old, new: (old or 0) + new)}
    journal = Recording()
    result = await run(chain(one, one, one), {"log": []}, reducers=reducers, journal=journal, first_step=5)
    assert [step.delta["total"] for step in journal.steps] == [{"op": "sum", "value": number} for number in (5, 6, 7)]
    channels = Channels({"log": []}, {name: Reducer(name, one) if callable(one) else one for name, one in {}.items()})
    from causeline.graph.state import as_reducer

    channels = Channels({"log": []}, {name: as_reducer(name, one) for name, one in reducers.items()})
    for step in journal.steps:
        replay(channels, through_json(step.delta))
    assert channels.values == result.state == {"log": [5, 6, 7], "seen": {"5": True, "6": True, "7": True}, "total": 18}


async def test_a_channel_that_is_not_stored_is_in_no_delta_and_no_saved_state():
    def one(ctx):
        return Outcome("done", {"log": object(), "x": 1})

    journal = Recording()
    d = dispatcher(chain(one), reducers={"log": Reducer("log", lambda old, new: new, stored=False)})
    result = await d.execute("urn:t:chain", {}, journal=journal)
    assert journal.steps[0].delta == {"x": {"op": "override", "value": 1}}
    assert result.saved()["channels"] == {"x": 1}
    assert set(result.state) == {"log", "x"}


async def test_each_step_says_what_happened_and_where_the_branch_goes():
    journal = Recording()
    await run(counting(2), journal=journal)
    first, second = journal.steps
    assert (first.index, first.placement, first.node, first.port, first.next, first.writes) == (
        0, "urn:t:count/node/count", "count", "again", "count", {"n": 1})
    assert first.position == {"visits": 1, "branches": [{"at": "count"}]}
    assert (second.index, second.port, second.next) == (1, "done", None)
    assert second.position == {"visits": 2, "reached": ["end"]}


async def test_iterating_gives_the_steps_in_order_and_drives_the_walk():
    ran = []

    def note(ctx):
        ran.append(ctx.placement)
        return "done"

    execution = dispatcher(chain(note, note, note)).execute("urn:t:chain")
    assert execution.status == "pending"
    seen = []
    async for step in execution:
        seen.append(step.node)
        assert ran == seen, "nothing may run ahead of whoever iterates"
    assert seen == ["n0", "n1", "n2"]
    assert (await execution).status == execution.status == "completed"


async def test_leaving_an_iteration_cancels_and_leaves_no_task():
    ran = []

    async def note(ctx):
        ran.append(ctx.placement)
        await asyncio.sleep(0)
        return "done"

    execution = dispatcher(chain(note, note, note)).execute("urn:t:chain")
    async for step in execution:
        assert step.node == "n0"
        break
    result = await execution
    assert (result.status, ran) == ("cancelled", ["n0"])
    assert not others()


async def test_the_body_runs_once_however_often_it_is_awaited_or_iterated():
    ran = []
    execution = dispatcher(chain(lambda ctx: ran.append(1) or "done")).execute("urn:t:chain")
    first, second = await asyncio.gather(execution, execution)
    assert first is second
    assert [step async for step in execution] == []
    assert ran == [1]


async def test_a_node_that_raises_fails_the_execution_and_resuming_tries_it_again():
    broken = [True]

    def flaky(ctx):
        if broken:
            raise ValueError("no luck")
        return Outcome("done", {"x": 1})

    d = dispatcher(chain(lambda ctx: "done", flaky))
    result = await d.execute("urn:t:chain")
    assert (result.status, result.error.code, result.error.message, result.error.placement) == ("failed", "ValueError", "no luck", "n1")
    assert isinstance(result.error.cause, ValueError)
    assert result.saved()["position"] == {"visits": 1, "branches": [{"at": "n1"}]}
    broken.clear()
    again = await d.resume("urn:t:chain", through_json(result.saved()))
    assert (again.status, again.state) == ("completed", {"x": 1})


async def test_a_node_that_raises_leaves_by_error_where_that_has_a_route():
    def boom(ctx):
        raise Missing("no such row", code="row_missing")

    graph = Graph("urn:t:e").node("boom", boom, {"done": "end", "error": "bad"}).terminal("end").terminal("bad", "failed")
    journal = Recording()
    result = await run(graph, journal=journal)
    assert journal.steps[0].port == "error"
    assert result.state["error"] == {"code": "row_missing", "message": "no such row", "placement": "boom"}
    assert (result.status, result.error.code, result.error.placement) == ("failed", "row_missing", "boom")


async def test_a_port_without_a_route_fails_and_names_the_routes():
    @node("urn:t:n:stray", ports=("done",))
    def stray(ctx):
        return "elsewhere"

    result = await run(Graph("urn:t:p").node("stray", stray, {"done": "end"}).terminal("end"))
    assert (result.status, result.error.code) == ("failed", "no_route")
    assert "'elsewhere'" in result.error.message
    assert "done" in result.error.message


@pytest.mark.parametrize("answer", [None, 7, {"port": "done"}, Outcome("done", writes=[1])])
async def test_what_is_no_outcome_fails_and_says_what_to_return(answer):
    @node("urn:t:n:odd", ports=("done",))
    def odd(ctx):
        return answer

    result = await run(Graph("urn:t:o").node("odd", odd, {"done": "end"}).terminal("end"))
    assert (result.status, result.error.code, result.error.placement) == ("failed", "bad_outcome", "odd")


async def test_a_write_that_does_not_fit_its_reducer_fails_at_its_placement():
    result = await run(chain(lambda ctx: Outcome("done", {"list": "abc"})), {"list": []}, reducers={"list": "append"})
    assert (result.status, result.error.code, result.error.placement) == ("failed", "bad_write", "n0")
    assert result.state == {"list": []}


async def test_an_unknown_document_is_an_error_at_once():
    with pytest.raises(Missing, match="urn:t:none"):
        dispatcher(counting(1)).execute("urn:t:none")


async def test_two_documents_may_use_the_same_placement_iris():
    shared = "urn:t:shared/node/work"
    one = Graph("urn:t:one").node("work", lambda ctx: Outcome("done", {"by": "one"}), {"done": "end"}).terminal("end")
    two = Graph("urn:t:two").node("work", lambda ctx: Outcome("done", {"by": "two"}), {"done": "end"}).terminal("end")
    for graph in (one, two):
        graph._placements[0]["@id"] = shared
        graph._entries = {"main": shared}
    d = dispatcher(one, two)
    assert (await d.execute("urn:t:one")).state == {"by": "one"}
    assert (await d.execute("urn:t:two")).state == {"by": "two"}


async def test_one_state_can_be_executed_twice_at_once():
    state = {"n": 0}
    d = dispatcher(counting(3))
    first, second = await asyncio.gather(d.execute("urn:t:count", state), d.execute("urn:t:count", state))
    assert first.state == second.state == {"n": 3}
    assert state == {"n": 0}


async def test_a_loop_that_never_waits_meets_its_deadline():
    begun = time.monotonic()
    result = await run(counting(10**9), limits=Limits(visits=10**9), deadline=0.3)
    assert result.status == "timed_out"
    assert time.monotonic() - begun < 5, "not honoured at all would be minutes"
    assert result.saved()["position"]["branches"] == [{"at": "count"}]


async def test_a_loop_that_never_waits_can_be_cancelled():
    execution = dispatcher(counting(10**9), limits=Limits(visits=10**9)).execute("urn:t:count")
    asyncio.get_running_loop().call_later(0.05, execution.cancel)
    result = await execution
    assert result.status == "cancelled"
    assert result.state["n"] > 10
    assert not others()


async def test_wall_is_a_deadline_of_the_limits():
    result = await run(chain(lambda ctx: asyncio.sleep(60)), limits=Limits(wall=5), clock=ManualClock())
    assert result.status == "timed_out"


async def test_a_deadline_interrupts_a_waiting_node_and_what_finished_is_kept():
    cleaned = []

    async def slow(ctx):
        assert ctx.deadline == 1030.0 + 30 * len(cleaned)
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    d = dispatcher(chain(lambda ctx: Outcome("done", {"x": 1}), slow), clock=ManualClock())
    result = await d.execute("urn:t:chain", deadline=30)
    assert (result.status, result.state, cleaned) == ("timed_out", {"x": 1}, [True])
    assert not others(), "an interrupted node does not run on"
    assert (await d.resume("urn:t:chain", result.saved(), deadline=30)).status == "timed_out"


async def test_cancelling_whoever_awaits_cancels_the_execution():
    execution = dispatcher(chain(lambda ctx: asyncio.sleep(60))).execute("urn:t:chain")

    async def wait():
        return await execution

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert execution.status == "cancelled"
    assert not others()


async def test_too_many_visits_fail_with_their_code_and_no_error_route_catches_it():
    graph = Graph("urn:t:v").node("a", lambda ctx: "done", {"done": "a", "error": "end", "out": "end"}).terminal("end")
    result = await run(graph, limits=Limits(visits=10))
    assert (result.status, result.error.code) == ("failed", "limit_visits")


async def test_the_entrypoint_can_be_chosen_and_an_unknown_one_is_refused():
    graph = (Graph("urn:t:two-ways").node("a", lambda ctx: Outcome("done", {"by": "a"}), {"done": "end"})
             .node("b", lambda ctx: Outcome("done", {"by": "b"}), {"done": "end"}).terminal("end").entry("main", "a").entry("other", "b"))
    d = dispatcher(graph)
    assert (await d.execute("urn:t:two-ways", entry="other")).state == {"by": "b"}
    with pytest.raises(Missing, match="main, other"):
        d.execute("urn:t:two-ways", entry="third")


async def test_edges_with_conditions_decide_by_the_state_after_the_visit():
    graph = Graph("urn:t:edges").node("agent", lambda ctx: Outcome("done", {"_tool": "" if ctx.state.get("rounds") else "lookup"}))
    graph.node("tool", lambda ctx: Outcome("done", {"rounds": 1})).edge("agent", "tool", when="_tool!=").edge("tool", "agent")
    journal = Recording()
    result = await run(graph, journal=journal)
    assert result.status == "completed"
    assert [(step.node, step.port) for step in journal.steps] == [("agent", "_tool!="), ("tool", "otherwise"), ("agent", "otherwise")]


async def test_services_are_handed_to_nodes_and_a_missing_one_is_named():
    class Books:
        title = "Emma"

    graph = chain(lambda ctx: Outcome("done", {"title": ctx.use(Books).title}))
    assert (await run(graph, services={Books: Books()})).state == {"title": "Emma"}
    result = await run(graph)
    assert (result.error.code, "Books" in result.error.message) == ("service_missing", True)
    assert isinstance(result.error.cause, Misuse)


async def test_what_a_node_emits_reaches_iterators_and_the_journal_at_once():
    heard = []

    class Listening(Recording):
        def on_emit(self, event):
            heard.append((event.path, event.data, len(self.steps)))

        def on_start(self, index, name):
            heard.append((index, name))

    def speak(ctx):
        ctx.emit({"text": "a"})
        ctx.emit({"text": "b"})
        return "done"

    execution = dispatcher(chain(speak)).execute("urn:t:chain", journal=Listening())
    events = [(type(event).__name__, event.node) async for event in execution]
    assert events == [("Emitted", "n0"), ("Emitted", "n0"), ("Step", "n0")]
    assert heard == [(0, "n0"), (("n0",), {"text": "a"}, 0), (("n0",), {"text": "b"}, 0)]


async def test_an_observer_that_raises_leaves_a_warning_and_changes_nothing():
    class Bad:
        def on_step(self, step):
            raise RuntimeError("broken observer")

    class Good:
        def __init__(self):
            self.seen = []

        def on_step(self, step):
            self.seen.append(step.node)

        def on_end(self, result):
            self.seen.append(result.status)

    good = Good()
    result = await run(chain(lambda ctx: "done"), observers=[Bad(), good])
    assert (result.status, good.seen) == ("completed", ["n0", "completed"])
    assert [(warning.code, warning.message) for warning in result.warnings] == [("observer_failed", "broken observer")]


async def test_a_step_counts_only_when_the_journal_has_it():
    journal = Recording(fail_at=1)
    ran = []

    def note(ctx):
        ran.append(ctx.placement)
        return Outcome("done", {ctx.placement: True})

    d = dispatcher(chain(note, note, note))
    execution = d.execute("urn:t:chain", journal=journal)
    with pytest.raises(OSError, match="disk is full"):
        await execution
    assert ran == ["n0", "n1"], "nothing that depends on an unwritten step may run"
    saved = through_json(execution.saved())
    assert (saved["position"], saved["channels"]) == (journal.steps[0].position, {"n0": True})
    again = await d.resume("urn:t:chain", saved, journal=Recording(), first_step=1)
    assert (again.status, ran) == ("completed", ["n0", "n1", "n1", "n2"])


async def test_a_cancel_never_tears_a_commit():
    class Slow(Recording):
        async def step(self, step):
            execution.cancel()
            await asyncio.sleep(0.01)
            await super().step(step)

    journal = Slow()
    execution = dispatcher(chain(lambda ctx: Outcome("done", {"x": 1}), lambda ctx: "done")).execute("urn:t:chain", journal=journal)
    result = await execution
    assert (result.status, result.state, len(journal.steps)) == ("cancelled", {"x": 1}, 1)
    assert result.saved()["position"] == journal.steps[0].position


async def test_a_changed_document_is_refused_on_resume_unless_adopted():
    def graph(version, extra=False):
        made = Graph("urn:t:doc", version=version).node("a", lambda ctx: "done", {"done": "b"})
        if extra:
            return made.node("c", lambda ctx: asyncio.sleep(60), {"done": "end"}).terminal("end").node("b", lambda ctx: "done", {"done": "c"})
        return made.node("b", lambda ctx: asyncio.sleep(60), {"done": "end"}).terminal("end")

    result = await dispatcher(graph("1"), clock=ManualClock()).execute("urn:t:doc", deadline=1)
    saved = through_json(result.saved())
    newer = dispatcher(graph("2", extra=True), clock=ManualClock())
    with pytest.raises(PositionMismatch, match="adopt=True"):
        newer.resume("urn:t:doc", saved)
    adopted = await newer.resume("urn:t:doc", saved, adopt=True, deadline=1)
    assert adopted.saved()["position"]["branches"] == [{"at": "c"}]
    gone = dispatcher(Graph("urn:t:doc", version="3").node("a", lambda ctx: "done", {"done": "end"}).terminal("end"))
    with pytest.raises(PositionMismatch, match="'b'"):
        gone.resume("urn:t:doc", saved, adopt=True)


@pytest.mark.parametrize("damage", [{"position": {}}, {"position": {"visits": 1, "branches": [{}]}}, {"position": []}])
async def test_a_damaged_position_is_refused_with_a_reason(damage):
    d = dispatcher(counting(1))
    saved = (await d.execute("urn:t:count")).saved()
    with pytest.raises(PositionMismatch):
        d.resume("urn:t:count", {**saved, **damage})


async def test_saved_names_the_channel_that_is_not_plain_json():
    result = await run(chain(lambda ctx: Outcome("done", {"deep": {"list": [1, {2}]}})))
    with pytest.raises(Invalid, match=r"deep\.list\[1\] holds a set"):
        result.saved()


async def test_saved_state_does_not_change_with_what_runs_on():
    d = dispatcher(counting_list := Graph("urn:t:l").node("a", lambda ctx: Outcome("done" if len(ctx.state["l"]) > 3 else "again", {"l": [1]}),
                                                          {"again": "a", "done": "end"}).terminal("end"), reducers={"l": "append"})
    snapshots = []

    class Snap(Recording):
        async def step(self, step):
            snapshots.append(execution.saved())

    execution = d.execute(counting_list.iri, {"l": []}, journal=Snap())
    await execution
    assert [len(one["channels"]["l"]) for one in snapshots] == [0, 1, 2, 3, 4]
    resumed = d.resume(counting_list.iri, snapshots[2])
    assert (await resumed).state["l"] == [1] * 5
    assert len(snapshots[2]["channels"]["l"]) == 2


async def test_a_node_runs_again_as_its_policy_says_and_waits_on_the_clock():
    tries = []

    class Weak(RuntimeError):
        pass

    def flaky(ctx):
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise Weak("not yet")
        return "done"

    clock, journal = ManualClock(), Recording()
    policy = RetryPolicy(max_attempts=4, strategy="linear", base_delay=2.0, jitter_factor=0.0)
    graph = Graph("urn:t:r").node("flaky", flaky, {"done": "end"}, retry=policy).terminal("end")
    result = await run(graph, clock=clock, journal=journal)
    assert (result.status, tries, clock.slept, journal.steps[0].attempt) == ("completed", [1, 2, 3], [2.0, 4.0], 3)


@pytest.mark.parametrize(("filters", "expected"), [
    ({"retry_on": ("ValueError",)}, 1), ({"retry_on": ("OSError",)}, 3), ({"abort_on": ("ConnectionError",)}, 1),
    ({"retry_on": ("OSError",), "abort_on": ("ConnectionResetError",)}, 1), ({}, 3),
])
async def test_retry_filters_by_class_name_and_abort_wins(filters, expected):
    tries = []

    def broken(ctx):
        tries.append(1)
        raise ConnectionResetError("gone")

    policy = RetryPolicy(max_attempts=3, base_delay=0.0, **filters)
    result = await run(Graph("urn:t:f").node("broken", broken, {"done": "end"}, retry=policy).terminal("end"))
    assert (result.status, result.error.code, len(tries)) == ("failed", "ConnectionResetError", expected)


async def test_waiting_to_try_again_is_given_up_at_once_on_cancel():
    def broken(ctx):
        raise OSError("down")

    policy = RetryPolicy(max_attempts=9, base_delay=3600.0, max_delay=3600.0)
    execution = dispatcher(Graph("urn:t:w").node("broken", broken, {"done": "end"}, retry=policy).terminal("end")).execute("urn:t:w")
    asyncio.get_running_loop().call_later(0.02, execution.cancel)
    assert (await asyncio.wait_for(execution._outcome(), 5)).status == "cancelled"


async def test_a_node_that_takes_too_long_leaves_by_error_and_its_timeout_is_per_try():
    async def slow(ctx):
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return Outcome("done", {"attempt": ctx.attempt})

    graph = Graph("urn:t:slow").node("slow", slow, {"done": "end", "error": "bad"}, timeout=2.0).terminal("end").terminal("bad", "failed")
    result = await run(graph, clock=ManualClock())
    assert (result.status, result.state["error"]["code"]) == ("failed", "node_timeout")
    again = Graph("urn:t:slow").node("slow", slow, {"done": "end"}, timeout=2.0, retry=RetryPolicy(base_delay=0.0)).terminal("end")
    assert (await run(again, clock=ManualClock())).state == {"attempt": 2}
    assert not others()
