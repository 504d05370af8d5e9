"""What a journal gets, what counts when it fails, and going on from what was saved."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.errors import Invalid
from causeline.graph import Channels, Graph, Outcome, PositionMismatch, Reducer, replay
from causeline.graph.engine.channels import as_reducer
from tests.graph.walking import ManualClock, Recording, chain, counting, dispatcher, run, through_json


async def test_deltas_replayed_in_order_give_the_final_state():
    def one(ctx):
        return Outcome("done", {"log": [ctx.step], "seen": {str(ctx.step): True}, "total": ctx.step})

    reducers = {"log": "append", "seen": "merge", "total": Reducer("sum", lambda old, new: (old or 0) + new)}
    journal = Recording()
    result = await run(chain(one, one, one), {"log": []}, reducers=reducers, journal=journal, first_step=5)
    assert [step.delta["total"] for step in journal.steps] == [{"op": "sum", "value": number} for number in (5, 6, 7)]
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
        0,
        "urn:t:count/node/count",
        "count",
        "again",
        "count",
        {"n": 1},
    )
    assert first.position == {"visits": 1, "branches": [{"at": "count"}]}
    assert (second.index, second.port, second.next) == (1, "done", None)
    assert second.position == {"visits": 2, "reached": ["end"]}


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
            return (
                made.node("c", lambda ctx: asyncio.sleep(60), {"done": "end"}).terminal("end").node("b", lambda ctx: "done", {"done": "c"})
            )
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


@pytest.mark.parametrize(
    "damage",
    [
        {"position": {}},
        {"position": {"visits": 1, "branches": [{}]}},
        {"position": []},
        {"position": {"visits": "x"}},
        {"position": {"visits": 0, "post": None}},
        {"channels": None},
        {"channels": []},
        {"progress": [{}]},
        {"progress": 5},
        {"progress": [{"step": 0, "path": ["count"], "index": 0, "port": "done", "writes": {}}]},
    ],
)
async def test_what_was_damaged_is_refused_with_a_reason(damage):
    d = dispatcher(counting(1))
    saved = d.execute("urn:t:count").saved()
    with pytest.raises(PositionMismatch):
        d.resume("urn:t:count", {**saved, **damage})


@pytest.mark.parametrize("part", ["document", "position", "channels"])
async def test_saved_state_with_a_part_missing_is_refused_by_name(part):
    d = dispatcher(counting(1))
    saved = d.execute("urn:t:count").saved()
    del saved[part]
    with pytest.raises(PositionMismatch, match=part):
        d.resume("urn:t:count", saved)


async def test_saved_names_the_channel_that_is_not_plain_json():
    result = await run(chain(lambda ctx: Outcome("done", {"deep": {"list": [1, {2}]}})))
    with pytest.raises(Invalid, match=r"deep\.list\[1\] holds a set"):
        result.saved()


async def test_saved_state_does_not_change_with_what_runs_on():
    d = dispatcher(
        counting_list := Graph("urn:t:l")
        .node("a", lambda ctx: Outcome("done" if len(ctx.state["l"]) > 3 else "again", {"l": [1]}), {"again": "a", "done": "end"})
        .terminal("end"),
        reducers={"l": "append"},
    )
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


@pytest.mark.parametrize("journal", [None, Recording()])
async def test_a_reducer_that_raises_takes_nothing_and_journals_nothing(journal):
    trouble = [True]

    def touchy(old, write):
        if trouble:
            raise ValueError("not this")
        return (old or 0) + write

    graph = chain(lambda ctx: Outcome("done", {"seen": ["x"], "sum": 2, "plain": 1}))
    d = dispatcher(graph, reducers={"seen": "append", "sum": touchy})
    result = await d.execute(graph.iri, journal=journal)
    assert (result.status, result.error.message, dict(result.state)) == ("failed", "not this", {})
    assert journal is None or journal.steps == []
    trouble.clear()
    again = await d.resume(graph.iri, through_json(result.saved()))
    assert (again.status, again.state) == ("completed", {"seen": ["x"], "sum": 2, "plain": 1})
