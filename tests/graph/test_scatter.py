"""Scatters: every item once, one failing item alone, order of the source."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.graph import Graph, Limits, Outcome, node
from causeline.graph.documents.document import DagReference
from causeline.policy import RetryPolicy
from tests.graph.fanning import ALL, double, fan, item_document
from tests.graph.walking import ManualClock, Recording, dispatcher, run


@pytest.mark.parametrize("concurrency", [1, 3, 100])
async def test_every_item_runs_once_and_results_are_in_source_order(concurrency):
    async def slow_first(ctx):
        await asyncio.sleep(0.002 * (5 - ctx.item) if ctx.item < 5 else 0)
        return Outcome("success", {"twice": ctx.item * 2, "at": ctx.index})

    result = await run(fan(slow_first, field="twice", scatter={"concurrency": concurrency}), {"items": list(range(8))})
    assert (result.status, result.state["out"]) == ("completed", [0, 2, 4, 6, 8, 10, 12, 14])
    assert "twice" not in result.state, "an item's writes stay its own"


async def test_no_more_items_run_at_once_than_allowed():
    running, most = 0, 0

    async def count(ctx):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return "success"

    await run(fan(count, scatter={"concurrency": 10, "throttle": 4}), {"items": list(range(30))})
    assert most == 4


async def test_an_item_sees_its_item_index_and_what_was_mapped_and_nothing_else():
    def look(ctx):
        return Outcome("success", {"seen": {"item": ctx.item, "index": ctx.index, "state": dict(ctx.state), "path": list(ctx.path)}})

    graph = fan(look, field="seen", scatter={"item_key": "call", "state_input": {"base": "settings.base"}})
    result = await run(graph, {"items": ["x"], "settings": {"base": 10}, "secret": 1})
    assert result.state["out"] == [{"item": "x", "index": 0, "path": ["fan", 0], "state": {"base": 10, "call": "x", "itemIndex": 0}}]


@pytest.mark.parametrize("source", [[], None, "missing"])
async def test_no_items_leave_by_empty_and_the_gather_goes_on_as_empty(source):
    result = await run(fan(double), {} if source == "missing" else {"items": source})
    assert (result.status, result.saved()["position"]["reached"]) == ("completed", ["none"])


@pytest.mark.parametrize("source", ["text", {"a": 1}, 7])
async def test_a_source_that_is_no_list_fails_with_its_name(source):
    result = await run(fan(double), {"items": source})
    assert (result.status, result.error.code, result.error.placement) == ("failed", "bad_source", "fan")


async def test_one_failing_item_fails_alone_and_the_gather_says_error():
    def odd(ctx):
        if ctx.item == 2:
            raise ValueError("no two")
        return Outcome("success", {"twice": ctx.item * 2})

    journal = Recording()
    result = await run(fan(odd, field="twice"), {"items": [1, 2, 3]}, journal=journal)
    assert [(step.node, step.port) for step in journal.steps] == [("fan", "partial"), ("join", "error")]
    assert result.state["out"] == [2, 6], "with a field, failed items are left out"
    kept = await run(fan(odd), {"items": [1, 2, 3]})
    assert kept.state["out"] == [1, 2, 3], "without a field they are kept"
    assert [item.port for item in journal.items] == ["success", "error", "success"]


@pytest.mark.parametrize(
    "ports, reducer, expected",
    [
        (["success", "success"], "aggregate", "all-success"),
        (["success", "other"], "aggregate", "partial"),
        (["other", "error"], "aggregate", "all-error"),
        (["success", "success"], "all-success", "success"),
        (["success", "error"], "all-success", "error"),
        (["success", "error"], "any-success", "success"),
        (["error", "error"], "any-success", "error"),
        (["other", "success"], "terminal", "other"),
        ([], "aggregate", "empty"),
        ([], "any-success", "empty"),
    ],
)
async def test_the_reducer_chooses_the_port(ports, reducer, expected):
    wired = {"aggregate": ["all-success", "partial", "all-error"], "terminal": ["success", "error", "other"]}
    outputs: dict[str, str] = dict.fromkeys([*wired.get(reducer, ["success", "error"]), "empty"], "end")
    body = node("urn:t:n:port", ports=("success", "error", "other"))(lambda ctx: ctx.item)
    graph = Graph("urn:t:ports").scatter("fan", "items", outputs, node=body, reducer=reducer).terminal("end")
    journal = Recording()
    result = await run(graph, {"items": ports}, journal=journal)
    assert (result.status, journal.steps[0].port) == ("completed", expected)


async def test_a_reducer_of_ones_own_can_be_registered():
    graph = (
        Graph("urn:t:own")
        .scatter("fan", "items", {"most": "end", "few": "end", "empty": "end"}, node=double, reducer="majority")
        .terminal("end")
    )
    journal = Recording()
    d = dispatcher(
        graph, outcomes={"majority": lambda tally, first: "most" if tally.get("success", 0) * 2 > sum(tally.values()) else "few"}
    )
    await d.execute("urn:t:own", {"items": [1, 2]}, journal=journal)
    assert journal.steps[0].port == "most"


async def test_an_item_is_tried_again_alone():
    tries = []

    def flaky(ctx):
        tries.append((ctx.item, ctx.attempt))
        if ctx.item == 1 and ctx.attempt < 3:
            raise OSError("later")
        return Outcome("success", {"twice": ctx.item})

    policy = RetryPolicy(max_attempts=3, base_delay=1.0, jitter_factor=0.0)
    clock = ManualClock()
    result = await run(fan(flaky, field="twice", scatter={"retry": policy}), {"items": [0, 1, 2]}, clock=clock)
    assert (result.state["out"], tries, clock.slept) == ([0, 1, 2], [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)], [1.0, 2.0])


async def test_a_failing_item_document_is_tried_again_from_its_start():
    tries = []

    def flaky(ctx):
        tries.append((ctx.item, dict(ctx.state)))
        if len(tries) == 1:
            raise OSError("later")
        return Outcome("success", {"done": True})

    policy = RetryPolicy(max_attempts=2, base_delay=0.0, retry_on=("OSError",))
    result = await run(fan("urn:t:item", field="done", scatter={"retry": policy}), {"items": ["x"]}, item_document(flaky))
    assert (result.status, result.state["out"], len(tries)) == ("completed", [True], 2)


async def test_a_document_per_item_runs_on_its_own_channels():
    result = await run(fan("urn:t:item", field="twice", scatter={"concurrency": 2}), {"items": [1, 2, 3]}, item_document(double))
    assert (result.status, result.state["out"]) == ("completed", [2, 4, 6])


async def test_an_item_document_that_raises_or_stalls_is_an_error_never_a_success():
    def boom(ctx):
        raise ValueError("inner")

    raising = Graph("urn:t:item").node("boom", boom, {"success": "end"}).terminal("end")
    journal = Recording()
    result = await run(fan("urn:t:item", field="x"), {"items": [1]}, raising, journal=journal)
    assert [step.port for step in journal.steps] == ["all-error", "error"]
    assert (result.status, result.state["error"]) == ("failed", {"code": "ValueError", "message": "inner", "placement": "boom"})


async def test_the_document_is_chosen_by_the_item_and_a_wrong_choice_is_that_items_error():
    one = item_document(lambda ctx: Outcome("success", {"by": "one"}), "one")
    two = item_document(lambda ctx: Outcome("success", {"by": "two"}), "two")
    choice = DagReference("item", "dag.iri", ("urn:t:one", "urn:t:two"))
    items = [{"dag": {"iri": "urn:t:two"}}, {"dag": {"iri": "urn:t:elsewhere"}}, {}, {"dag": {"iri": "urn:t:one"}}]
    journal = Recording()
    result = await run(fan(choice, field="by"), {"items": items}, one, two, journal=journal)
    assert (result.state["out"], journal.steps[0].port) == (["two", "one"], "partial")
    assert [item.port for item in journal.items if len(item.path) == 2] == ["success", "error", "error", "success"]


async def test_more_items_than_the_width_fail_before_any_runs():
    ran = []
    graph = fan(lambda ctx: ran.append(1) or "success", outputs={**ALL})
    result = await run(graph, {"items": [1, 2, 3]}, limits=Limits(width=2))
    assert (result.status, result.error.code, ran) == ("failed", "limit_width", [])


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_strategy_that_raises_is_told_as_it_is_however_many_workers_there_are(concurrency):
    class Picky:
        extends = False

        def pick(self, gather, record):
            raise LookupError("not mine")

        def start(self, gather):
            return []

        def add(self, gather, total, port, value):
            return total

        def finish(self, gather, total):
            return {}

    graph = fan(double, strategy="picky", scatter={"concurrency": concurrency})
    d = dispatcher(graph, strategies={"picky": Picky()})
    result = await d.execute(graph.iri, {"items": [1, 2, 3]})
    assert (result.status, result.error.code) == ("failed", "LookupError")


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("port", [None, ["success"], 1])
async def test_a_port_that_is_no_text_fails_its_item(port, concurrency):
    result = await run(fan(lambda ctx: Outcome(port), scatter={"concurrency": concurrency}), {"items": [1, 2]})
    assert (result.status, result.error.code) == ("failed", "bad_outcome")
