"""Scatters: every item once, one failing item alone, order of the source, exact resume."""

import asyncio
import gc
import weakref

import pytest
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json

from causeline.graph import Graph, Limits, Outcome, StreamChannel
from causeline.graph.document import DagReference, Reservoir
from causeline.policy import RetryPolicy

ALL = {"all-success": "join", "partial": "join", "all-error": "join", "empty": "join"}


def fan(body=None, *, strategy="append", scatter=None, outputs=None, **gather) -> Graph:
    """`items` through `body` into `out`."""
    if strategy != "discard":
        gather.setdefault("target", "out")
    runs = {} if body is None else {"dag": body} if isinstance(body, str | DagReference) else {"node": body}
    return (Graph("urn:t:fan").scatter("fan", "items", outputs or ALL, **runs, **(scatter or {}))
            .gather("join", ["fan"], strategy, {"success": "end", "error": "bad", "empty": "none"}, **gather)
            .terminal("end").terminal("bad", "failed").terminal("none"))


def double(ctx):
    return Outcome("success", {"twice": ctx.item * 2})


def item_document(work, name="item") -> Graph:
    return (Graph(f"urn:t:{name}").node("work", work, {"success": "end", "error": "bad"}).terminal("end").terminal("bad", "failed"))


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


@pytest.mark.parametrize(("ports", "reducer", "expected"), [
    (["success", "success"], "aggregate", "all-success"), (["success", "other"], "aggregate", "partial"), (["other", "error"], "aggregate", "all-error"),
    (["success", "success"], "all-success", "success"), (["success", "error"], "all-success", "error"),
    (["success", "error"], "any-success", "success"), (["error", "error"], "any-success", "error"),
    (["other", "success"], "terminal", "other"), ([], "aggregate", "empty"), ([], "any-success", "empty"),
])
async def test_the_reducer_chooses_the_port(ports, reducer, expected):
    outputs = {port: "end" for port in {"all-success", "partial", "all-error", "empty", "success", "error", "other"}}
    if reducer == "aggregate":
        outputs = {port: "end" for port in ("all-success", "partial", "all-error", "empty")}
    elif reducer != "terminal":
        outputs = {port: "end" for port in ("success", "error", "empty")}
    from causeline.graph import node

    body = node("urn:t:n:port", ports=("success", "error", "other"))(lambda ctx: ctx.item)
    if reducer == "terminal":
        outputs = {port: "end" for port in ("success", "error", "other", "empty")}
    graph = Graph("urn:t:ports").scatter("fan", "items", outputs, node=body, reducer=reducer).terminal("end")
    journal = Recording()
    result = await run(graph, {"items": ports}, journal=journal)
    assert (result.status, journal.steps[0].port) == ("completed", expected)


async def test_a_reducer_of_ones_own_can_be_registered():
    graph = Graph("urn:t:own").scatter("fan", "items", {"most": "end", "few": "end", "empty": "end"}, node=double, reducer="majority").terminal("end")
    journal = Recording()
    d = dispatcher(graph, outcomes={"majority": lambda tally, first: "most" if tally.get("success", 0) * 2 > sum(tally.values()) else "few"})
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


# -- sources


async def test_a_generator_and_an_async_generator_are_read_item_by_item():
    async def letters():
        for letter in "abc":
            await asyncio.sleep(0)
            yield letter

    echo = fan(lambda ctx: "success", scatter={"concurrency": 2})
    assert (await run(echo, sources={"items": letters()})).state["out"] == ["a", "b", "c"]
    assert (await run(echo, sources={"items": iter("abc")})).state["out"] == ["a", "b", "c"]
    result = await run(echo, {"items": letters()})
    assert (result.state, result.status) == ({"out": ["a", "b", "c"]}, "completed"), "a stream in the state is a source, not a channel"


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_source_is_pulled_no_further_than_items_are_taken(concurrency):
    pulled, finished = 0, 0

    async def numbers():
        nonlocal pulled
        for number in range(100):
            assert pulled - finished < concurrency
            pulled += 1
            yield number

    async def work(ctx):
        nonlocal finished
        await asyncio.sleep(0)
        finished += 1
        return "success"

    result = await run(fan(work, strategy="discard", scatter={"concurrency": concurrency}), sources={"items": numbers()})
    assert (result.status, finished) == ("completed", 100)


async def test_memory_of_an_endless_looking_source_follows_the_concurrency():
    class Item:
        pass

    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0

    async def items():
        nonlocal most
        for _ in range(2000):
            item = Item()
            alive.add(item)
            most = max(most, len(alive))
            yield item
            del item

    async def work(ctx):
        await asyncio.sleep(0)
        return "success"

    gc.collect()
    result = await run(fan(work, strategy="discard", scatter={"concurrency": 8}), sources={"items": items()})
    assert result.status == "completed"
    assert most <= 8 * 2 + 2
    assert result.saved()["position"] == {"visits": 2, "reached": ["end"]}


async def test_when_a_source_breaks_pulled_items_finish_and_then_the_run_fails():
    finished = []

    async def numbers():
        yield 1
        yield 2
        raise ConnectionError("line cut")

    async def work(ctx):
        await asyncio.sleep(0.01)
        finished.append(ctx.item)
        return "success"

    graph = fan(work, scatter={"concurrency": 4})
    d = dispatcher(graph)
    result = await d.execute("urn:t:fan", sources={"items": numbers()})
    assert (result.status, result.error.code, sorted(finished)) == ("failed", "ConnectionError", [1, 2])
    assert "line cut" in result.error.message

    async def whole():
        for number in (1, 2, 3):
            yield number

    again = await d.resume("urn:t:fan", through_json(result.saved()), sources={"items": whole()})
    assert (again.status, again.state["out"], sorted(finished)) == ("completed", [1, 2, 3], [1, 2, 3])


async def test_stopping_early_closes_an_async_source():
    closed = []

    async def endless():
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.append(True)

    async def work(ctx):
        await asyncio.sleep(60 if ctx.item == 5 else 0)
        return "success"

    execution = dispatcher(fan(work, scatter={"concurrency": 1})).execute("urn:t:fan", sources={"items": endless()})
    asyncio.get_running_loop().call_later(0.03, execution.cancel)
    result = await execution
    assert (result.status, closed) == ("cancelled", [True])
    assert result.saved()["position"]["branches"][0]["fan"]["done"] == [[0, 5]]
    assert not others()


async def test_a_channel_feeds_a_scatter_and_its_failure_reaches_the_result():
    channel: StreamChannel[int] = StreamChannel(capacity=2)

    async def feed():
        for number in range(5):
            await channel.push(number)
        channel.fail(RuntimeError("upstream"))

    feeding = asyncio.create_task(feed())
    result = await run(fan(double, field="twice"), sources={"items": channel})
    await feeding
    assert (result.status, result.error.code) == ("failed", "RuntimeError")
    assert result.saved()["position"]["branches"][0]["fan"]["done"] == [[0, 5]]


# -- batches


def batches(capacity, idle_ms=None, concurrency=1, **scatter):
    return {"reservoir": Reservoir("key", capacity, idle_ms), "concurrency": concurrency, **scatter}


async def test_batches_hold_items_of_one_key_and_the_rest_comes_at_the_end():
    def work(ctx):
        return Outcome("success", {"sum": [ctx.index, [item["n"] for item in ctx.item]]})

    items = [{"key": "ab"[number % 2], "n": number} for number in range(7)]
    result = await run(fan(work, field="sum", scatter=batches(2)), {"items": items})
    assert result.state["out"] == [[0, [0, 2]], [1, [1, 3]], [4, [4, 6]], [5, [5]]]


async def test_an_idle_source_releases_what_is_held():
    clock = ManualClock()
    seen = []

    async def slow():
        yield {"key": 1, "n": 0}
        await clock.sleep(10)
        yield {"key": 1, "n": 1}

    def work(ctx):
        seen.append((clock.time - 1000, [item["n"] for item in ctx.item]))
        return "success"

    result = await run(fan(work, strategy="discard", scatter=batches(5, idle_ms=2000)), sources={"items": slow()}, clock=clock)
    assert (result.status, seen) == ("completed", [(2.0, [0]), (10.0, [1])])
    assert not others()


async def test_a_document_may_take_a_batch():
    def work(ctx):
        return Outcome("success", {"sum": sum(item["n"] for item in ctx.state["currentItem"])})

    items = [{"key": 0, "n": number} for number in range(5)]
    result = await run(fan("urn:t:item", field="sum", scatter=batches(2, concurrency=2)), {"items": items}, item_document(work))
    assert result.state["out"] == [1, 5, 4]


# -- resume


@pytest.mark.parametrize("body", ["node", "document"])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_finished_items_never_run_again(body, concurrency):
    ran, hang = [], [True]

    async def work(ctx):
        if ctx.item == 6 and hang:
            await asyncio.sleep(60)
        await asyncio.sleep(0)
        ran.append(ctx.item)
        return Outcome("success", {"twice": ctx.item * 2})

    graphs = [fan(work, field="twice", scatter={"concurrency": concurrency})] if body == "node" else \
        [fan("urn:t:item", field="twice", scatter={"concurrency": concurrency}), item_document(work)]
    d = dispatcher(*graphs, clock=ManualClock())
    result = await d.execute("urn:t:fan", {"items": list(range(10))}, deadline=1)
    assert result.status == "timed_out"
    before = len(ran)
    assert before >= 6
    hang.clear()
    again = await d.resume("urn:t:fan", through_json(result.saved()))
    assert (again.status, again.state["out"]) == ("completed", [number * 2 for number in range(10)])
    assert sorted(ran) == list(range(10))


@pytest.mark.parametrize("body", ["node", "document"])
async def test_journalled_items_are_taken_from_the_journal_after_a_crash(body):
    ran = []

    def work(ctx):
        ran.append(ctx.item)
        if ctx.item == 3:
            raise OSError("odd one")
        return Outcome("success", {"twice": ctx.item * 2})

    policy = {"retry": None}
    graphs = [fan(work, field="twice", scatter=policy)] if body == "node" else [fan("urn:t:item", field="twice"), item_document(work)]
    d = dispatcher(*graphs)
    start = d.execute("urn:t:fan", {"items": list(range(6))}).saved()
    journal = Recording()
    undisturbed = await d.execute("urn:t:fan", {"items": list(range(6))}, journal=journal)
    rows = [through_json(item.to_plain()) for item in journal.items]
    for cut in range(len(rows) + 1):
        ran.clear()
        second = Recording()
        again = await d.resume("urn:t:fan", {**through_json(start), "progress": rows[:cut]}, journal=second)
        assert (again.status, again.state) == (undisturbed.status, undisturbed.state)
        assert [through_json(item.to_plain()) for item in second.items] == rows[cut:]
        assert second.steps[0].position == journal.steps[0].position


async def test_an_item_may_ask_and_the_other_items_finish():
    ran = []

    def work(ctx):
        if ctx.item % 3 == 1 and ctx.answer is None:
            return Outcome.pause({"for": ctx.item})
        ran.append(ctx.item)
        return Outcome("success", {"got": [ctx.item, ctx.answer]})

    for graphs in ([fan(work, field="got", scatter={"concurrency": 2})], [fan("urn:t:item", field="got"), item_document(work)]):
        ran.clear()
        nested = "/work" if len(graphs) > 1 else ""
        d = dispatcher(*graphs)
        journal = Recording()
        result = await d.execute("urn:t:fan", {"items": list(range(6))}, journal=journal)
        assert (result.status, sorted(ran)) == ("interrupted", [0, 2, 3, 5])
        keys = [f"fan/1{nested}", f"fan/4{nested}"]
        assert [pause.key for pause in result.pauses] == keys
        assert [(step.node, step.port, step.next, [pause.key for pause in step.pauses]) for step in journal.steps] == [("fan", "parked", "fan", keys)]
        saved = through_json({**result.saved(), "position": journal.steps[0].position})
        untouched = await d.resume("urn:t:fan", saved, journal=(idle := Recording()))
        assert (untouched.status, len(untouched.pauses), idle.steps) == ("interrupted", 2, [])
        half = await d.resume("urn:t:fan", saved, answers={keys[1]: "yes"})
        assert (half.status, [pause.key for pause in half.pauses], sorted(ran)) == ("interrupted", keys[:1], [0, 2, 3, 4, 5])
        full = await d.resume("urn:t:fan", through_json(half.saved()), answers={keys[0]: "no"})
        assert (full.status, full.state["out"]) == ("completed", [[0, None], [1, "no"], [2, None], [3, None], [4, "yes"], [5, None]])
        assert sorted(ran) == list(range(6))


async def test_a_document_of_an_item_goes_on_where_it_was():
    ran = []

    def first(ctx):
        ran.append(("first", ctx.item))
        return Outcome("done", {"a": ctx.item})

    async def second(ctx):
        if ctx.item == 1 and ("second", 1) not in ran:
            ran.append(("second", 1))
            await asyncio.sleep(60)
        return Outcome("done", {"b": ctx.state["a"] + 1})

    inner = Graph("urn:t:item").node("first", first, {"done": "second"}).node("second", second, {"done": "end"}).terminal("end")
    d = dispatcher(fan("urn:t:item", field="b", scatter={"concurrency": 2}), inner, clock=ManualClock())
    result = await d.execute("urn:t:fan", {"items": [0, 1, 2]}, deadline=1)
    again = await d.resume("urn:t:fan", through_json(result.saved()))
    assert (again.status, again.state["out"]) == ("completed", [1, 2, 3])
    assert [entry for entry in ran if entry[0] == "first"] == [("first", 0), ("first", 1), ("first", 2)]


async def test_a_failing_journal_stops_a_scatter_and_the_item_does_not_count():
    class Failing(Recording):
        async def progress(self, item):
            if item.index == 2:
                raise OSError("disk")
            await super().progress(item)

    for concurrency in (1, 4):
        execution = dispatcher(fan(double, scatter={"concurrency": concurrency})).execute("urn:t:fan", {"items": [1, 2, 3, 4]}, journal=Failing())
        with pytest.raises(OSError, match="disk"):
            await execution
        assert execution.saved()["position"]["branches"][0]["fan"]["done"] == [[0, 2]]
        assert not others()


async def test_a_slow_head_item_does_not_make_the_rest_quadratic():
    """The records behind it wait in order; 20,000 of them cost what they cost elsewhere."""
    head = asyncio.Event()

    async def work(ctx):
        if ctx.index == 0:
            await head.wait()
        if ctx.index == 19_999:
            head.set()
        return "success"

    result = await asyncio.wait_for(run(fan(work, scatter={"concurrency": 16}), {"items": list(range(20_000))}), 20)
    assert result.state["out"] == list(range(20_000))
