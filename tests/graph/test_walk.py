"""One branch: routes, writes, outcomes, what nodes are handed, who listens."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio
from typing import Any

import pytest

from causeline.errors import Missing, Misuse
from causeline.graph import Graph, Limits, Outcome, node
from tests.graph.walking import Recording, chain, counting, dispatcher, others, run


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


ODD_WRITES: list[Any] = [[1], {1: 2}]


@pytest.mark.parametrize("answer", [None, 7, {"port": "done"}, *(Outcome("done", writes) for writes in ODD_WRITES)])
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


async def test_too_many_visits_fail_with_their_code_and_no_error_route_catches_it():
    graph = Graph("urn:t:v").node("a", lambda ctx: "done", {"done": "a", "error": "end", "out": "end"}).terminal("end")
    result = await run(graph, limits=Limits(visits=10))
    assert (result.status, result.error.code) == ("failed", "limit_visits")


async def test_the_entrypoint_can_be_chosen_and_an_unknown_one_is_refused():
    graph = (
        Graph("urn:t:two-ways")
        .node("a", lambda ctx: Outcome("done", {"by": "a"}), {"done": "end"})
        .node("b", lambda ctx: Outcome("done", {"by": "b"}), {"done": "end"})
        .terminal("end")
        .entry("main", "a")
        .entry("other", "b")
    )
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
