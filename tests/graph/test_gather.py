"""Gathers: every strategy, in source order, with its route."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import pytest

from causeline.graph import Graph, Outcome
from causeline.graph.engine.gather import STRATEGIES
from tests.graph.walking import Recording, dispatcher, run

ALL = {"all-success": "join", "partial": "join", "all-error": "join", "empty": "join"}
ENDS = {"success": "end", "error": "bad", "empty": "none"}


def work(ctx):
    if ctx.item == 13:
        raise ValueError("unlucky")
    return Outcome("success", {"output": {"value": ctx.item, "square": ctx.item * ctx.item}})


def fan(strategy, **gather) -> Graph:
    return (
        Graph("urn:t:g")
        .scatter("fan", "items", ALL, node=work, concurrency=3)
        .gather("join", ["fan"], strategy, ENDS, **gather)
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )


async def gathered(strategy, items, state=None, **gather):
    journal = Recording()
    result = await run(fan(strategy, **gather), {"items": items, **(state or {})}, journal=journal)
    return {key: value for key, value in result.state.items() if key not in ("items", "error")}, journal.steps[-1]


@pytest.mark.parametrize(
    "strategy, options, items, expected, port",
    [
        ("append", {"target": "out"}, [1, 2], {"out": [1, 2]}, "success"),
        ("append", {"target": "out", "field": "output.square"}, [3, 13, 2], {"out": [9, 4]}, "error"),
        ("append", {"target": "out"}, [3, 13], {"out": [3, 13]}, "error"),
        ("append", {"target": "out", "include_errors": False}, [3, 13], {"out": [3]}, "success"),
        ("append", {"target": "out", "include_errors": False}, [13], {"out": []}, "empty"),
        ("append", {"target": "out", "field": "nothing"}, [3], {"out": [None]}, "success"),
        ("append", {"target": "deep.er"}, [3], {"deep": {"er": [3]}}, "success"),
        ("collect", {"target": "out"}, [1, 13], {"out": ["success", "error"]}, "error"),
        ("collect", {"target": "out", "field": "output.value"}, [1, 13, 2], {"out": [1, 2]}, "error"),
        (
            "map",
            {"mapping": {"output.value": "values", "output.square": "deep.squares"}},
            [2],
            {"values": [2], "deep": {"squares": [4]}},
            "success",
        ),
        (
            "map",
            {"mapping": {"output.value": "values", "error.code": "codes"}},
            [2, 13],
            {"values": [2, None], "codes": [None, "ValueError"]},
            "error",
        ),
        ("partition", {"partitions": {"success": "good", "error": "bad"}}, [1, 13, 2], {"good": [1, 2], "bad": [13]}, "error"),
        ("partition", {"partitions": {"success": "all", "error": "all"}}, [1, 13, 2], {"all": [1, 2, 13]}, "error"),
        ("partition", {"partitions": {"other": "rest"}}, [1], {"rest": []}, "success"),
        ("partition", {"partitions": {"success": "good"}, "field": "output.square"}, [3, 13], {"good": [9]}, "error"),
        ("discard", {}, [1, 13], {}, "error"),
        ("discard", {}, [], {}, "empty"),
    ],
)
async def test_what_a_strategy_writes_and_where_it_goes(strategy, options, items, expected, port):
    written, step = await gathered(strategy, items, **options)
    assert (written, step.port) == (expected, port)


async def test_append_extends_a_list_that_is_there_and_the_delta_says_only_what_is_new():
    written, step = await gathered("append", [3], {"out": [1, 2]}, target="out")
    assert written == {"out": [1, 2, 3]}
    assert step.delta == {"out": {"op": "append", "value": [3]}}
    written, step = await gathered("append", [3], {"deep": {"out": [1], "other": True}}, target="deep.out")
    assert written == {"deep": {"out": [1, 3], "other": True}}
    assert step.delta == {"deep": {"op": "place", "value": [["out", "append", [3]]]}}


async def test_map_holds_this_rounds_values_only():
    """A second tool turn must not see the first turn's results."""

    def plan(ctx):
        turn = ctx.state.get("turn", 0)
        return Outcome("go" if turn < 2 else "stop", {"turn": turn + 1, "items": [turn * 10 + 1, turn * 10 + 2]})

    def read(ctx):
        return Outcome("done", {"seen": [*ctx.state.get("seen", []), ctx.state["outputs"]]})

    graph = (
        Graph("urn:t:turns")
        .node("plan", plan, {"go": "fan", "stop": "end"})
        .scatter("fan", "items", ALL, node=work, concurrency=2)
        .gather("join", ["fan"], "map", {"success": "read", "error": "end", "empty": "end"}, mapping={"output.value": "outputs"})
        .node("read", read, {"done": "plan"})
        .terminal("end")
    )
    result = await run(graph)
    assert result.state["seen"] == [[1, 2], [11, 12]]


async def test_a_custom_gather_runs_its_node_on_all_records():
    def summarise(ctx):
        assert ctx.item == ctx.state["gatherResults"]
        return Outcome(
            "success",
            {
                "report": [
                    (record["index"], record["item"], record["output"], record["terminalOutcome"], record["result"]) for record in ctx.item
                ]
            },
        )

    graph = (
        Graph("urn:t:c")
        .scatter("fan", "items", ALL, node=work)
        .gather("join", {"fan": "output.square"}, "custom", ENDS, custom_node=summarise)
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )
    result = await run(graph, {"items": [2, 13]})
    assert result.state["report"] == [(0, 2, "success", "completed", 4), (1, 13, "error", "failed", None)]
    assert "gatherResults" not in result.state
    assert (result.error.code, result.error.placement) == ("ValueError", "fan"), "the reason is the item's, not the terminal's"


async def test_a_custom_node_may_choose_a_route_of_the_gather():
    graph = (
        Graph("urn:t:c")
        .scatter("fan", "items", ALL, node=work)
        .gather("join", ["fan"], "custom", ENDS, custom_node=lambda ctx: "error")
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )
    assert (await run(graph, {"items": [2]})).status == "failed"


async def test_a_strategy_of_ones_own_folds_while_items_finish():
    class Total:
        extends = False
        most = 0

        def pick(self, gather, record):
            return record.item

        def start(self, gather):
            return 0

        def add(self, gather, total, port, value):
            return total + value

        def finish(self, gather, total):
            return {gather.target: total}

    graph = (
        Graph("urn:t:t")
        .scatter("fan", "items", ALL, node=work)
        .gather("join", ["fan"], "total", ENDS, target="sum")
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )
    journal = Recording()
    d = dispatcher(graph, strategies={"total": Total()})
    result = await d.execute("urn:t:t", {"items": list(range(5))}, journal=journal)
    assert result.state["sum"] == 10
    arrived = journal.steps[0].position["branches"][0]["arrived"]
    assert arrived == [[0, {"count": 5, "errors": 0, "fold": 10}]], "the total, not the records, waits for the gather"


async def test_records_of_several_producers_keep_the_order_of_the_sources():
    def two(ctx):
        return Outcome("done", {"output": {"value": 100}})

    graph = (
        Graph("urn:t:m")
        .scatter("fan", "items", ALL, node=work, concurrency=2)
        .node("two", two, {"done": "join"})
        .gather("join", {"two": None, "fan": None}, "append", ENDS, target="out", field="output.value")
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
        .entry("a", "fan")
        .entry("b", "two")
    )
    assert (await run(graph, {"items": [1, 2]})).state["out"] == [100, 1, 2]


async def test_a_scatter_may_lead_to_one_gather_or_another():
    graph = (
        Graph("urn:t:two")
        .scatter("fan", "items", {"all-success": "good", "partial": "some", "all-error": "some", "empty": "end"}, node=work)
        .gather("good", ["fan"], "append", {"success": "end", "error": "end", "empty": "end"}, target="out", field="output.value")
        .gather("some", ["fan"], "collect", {"success": "end", "error": "end", "empty": "end"}, target="ports")
        .terminal("end")
    )
    assert {key: value for key, value in (await run(graph, {"items": [1, 2]})).state.items() if key != "items"} == {"out": [1, 2]}
    assert (await run(graph, {"items": [1, 13]})).state["ports"] == ["success", "error"]


async def test_a_single_producer_leaves_what_it_wrote():
    graph = (
        Graph("urn:t:s")
        .node("one", lambda ctx: Outcome("done", {"x": 1}), {"done": "join"})
        .gather("join", ["one"], "append", ENDS, target="out")
        .terminal("end")
        .terminal("bad", "failed")
        .terminal("none")
    )
    assert (await run(graph)).state["out"] == [{"x": 1}]


def test_every_known_strategy_is_there():
    assert set(STRATEGIES) == {"map", "append", "collect", "partition", "custom", "discard"}


async def test_a_gather_after_a_gather_sees_the_whole_list_that_was_added_to():
    def more(ctx):
        number = ctx.state.get("n", 0) + 1
        return Outcome("again" if number < 3 else "done", {"n": number})

    graph = Graph("urn:t:twice").node("one", lambda ctx: Outcome("done", {"x": ctx.state.get("n", 0)}), {"done": "first"})
    graph.gather("first", ["one"], "append", {"success": "second", "error": "bad"}, target="out", field="x")
    graph.gather("second", ["first"], "map", {"success": "more", "error": "bad"}, mapping={"out": "seen"})
    graph.node("more", more, {"again": "one", "done": "end"}).terminal("end").terminal("bad", "failed")
    result = await run(graph)
    assert result.state["out"] == [0, 1, 2]
    assert result.state["seen"] == [[0, 1, 2]]
