"""Scatters stopped half way: finished items never run again."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.graph import Graph, Outcome
from causeline.graph.documents.document import Reservoir
from tests.graph.fanning import double, fan, item_document
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json


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

    graphs = (
        [fan(work, field="twice", scatter={"concurrency": concurrency})]
        if body == "node"
        else [fan("urn:t:item", field="twice", scatter={"concurrency": concurrency}), item_document(work)]
    )
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
        assert [(step.node, step.port, step.next, [pause.key for pause in step.pauses]) for step in journal.steps] == [
            ("fan", "parked", "fan", keys)
        ]
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
        execution = dispatcher(fan(double, scatter={"concurrency": concurrency})).execute(
            "urn:t:fan", {"items": [1, 2, 3, 4]}, journal=Failing()
        )
        with pytest.raises(OSError, match="disk"):
            await execution
        assert execution.saved()["position"]["branches"][0]["scatter"]["done"] == [[0, 2]]
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


async def test_an_unfinished_scatter_without_its_source_fails_and_can_be_resumed_with_it():
    async def numbers():
        for number in range(6):
            yield number

    gate = [True]

    def work(ctx):
        return Outcome.pause("go on?") if gate and ctx.index == 3 else Outcome("success", {"twice": ctx.item * 2})

    d = dispatcher(fan(work, field="twice"))
    paused = await d.execute("urn:t:fan", sources={"items": numbers()})
    assert paused.status == "interrupted"
    gate.clear()
    lost = await d.resume("urn:t:fan", through_json(paused.saved()), answers=True)
    assert (lost.status, lost.error.code) == ("failed", "source_missing")
    found = await d.resume("urn:t:fan", through_json(lost.saved()), sources={"items": numbers()}, answers=True)
    assert (found.status, found.state["out"]) == ("completed", [0, 2, 4, 6, 8, 10])


async def test_batches_that_form_otherwise_after_a_pause_leave_no_question_behind():
    async def slow(seconds):
        for number in range(2):
            yield {"k": 0, "n": number}
            await asyncio.sleep(seconds)

    def work(ctx):
        return Outcome.pause("go on?") if ctx.answer is None else Outcome("success", {"twice": [one["n"] for one in ctx.item]})

    d = dispatcher(fan(work, field="twice", scatter={"reservoir": Reservoir("k", 9, idle_ms=5)}))
    paused = await d.execute("urn:t:fan", sources={"items": slow(0.1)})
    assert [pause.key for pause in paused.pauses] == ["fan/0", "fan/1"]
    final = await d.resume("urn:t:fan", through_json(paused.saved()), sources={"items": slow(0)}, answers={"fan/0": True})
    assert (final.status, final.state["out"]) == ("completed", [[0, 1]])
