"""Phases: around a document at every level, on every way out."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio

import pytest

from causeline.graph import Graph, Outcome
from tests.graph.embedding import CHILD, ask, boom, forever, parent
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json


def phased(iri, *, pre=None, post=None, main=None) -> Graph:
    graph = Graph(iri).node("main", main or (lambda ctx: "done"), {"done": "stop"}).terminal("stop")
    if pre is not None:
        graph.phase("open", pre, "pre")
    if post is not None:
        graph.phase("close", post, "post")
    return graph


def noting(into, name, port="done"):
    def note(ctx):
        into.append((name, dict(ctx.state)))
        return Outcome(port, {name: True})

    return note


async def test_phases_run_around_a_document_at_every_level():
    seen = []
    inner = phased(CHILD, pre=noting(seen, "pre"), post=noting(seen, "post"), main=noting(seen, "main"))
    outer = (
        parent(state_output={"child.pre": "pre", "child.post": "post"})
        .phase("open", noting(seen, "outer-pre"), "pre")
        .phase("close", noting(seen, "outer-post"), "post")
    )
    journal = Recording()
    result = await run(outer, {}, inner, journal=journal)
    assert [name for name, _ in seen] == ["outer-pre", "pre", "main", "post", "outer-post"]
    assert seen[3][1] == {"pre": True, "main": True}
    assert result.state == {"outer-pre": True, "child": {"pre": True, "post": True}, "after": True, "outer-post": True}
    assert [(step.node, step.next) for step in journal.steps] == [("open", "inner"), ("inner", "after"), ("after", None), ("close", None)]


@pytest.mark.parametrize("ending", ["failed", "cancelled", "interrupted", "timed_out"])
async def test_post_phases_run_on_every_way_out(ending):
    seen = []
    main = {"failed": boom, "cancelled": forever, "timed_out": forever, "interrupted": ask}[ending]
    d = dispatcher(phased("urn:t:p", post=noting(seen, "post"), main=main), clock=ManualClock() if ending == "timed_out" else None)
    execution = d.execute("urn:t:p", deadline=1 if ending == "timed_out" else None)
    if ending == "cancelled":
        asyncio.get_running_loop().call_later(0.02, execution.cancel)
    result = await execution
    assert (result.status, len(seen)) == (ending, 1)
    assert "post" not in result.saved()["channels"], "where the walk can go on, a post phase changes nothing"
    assert not others()


async def test_a_pre_phase_runs_once_however_often_the_walk_is_resumed():
    seen = []
    d = dispatcher(phased("urn:t:p", pre=noting(seen, "pre"), post=noting(seen, "post"), main=ask))
    result = await d.execute("urn:t:p")
    final = await d.resume("urn:t:p", through_json(result.saved()), answers={"main": 1})
    assert (final.status, final.state) == ("completed", {"pre": True, "answer": 1, "post": True})
    assert [name for name, _ in seen] == ["pre", "post", "post"]


async def test_a_pre_phase_that_raises_fails_before_anything_runs():
    ran = []
    result = await run(phased("urn:t:p", pre=boom, main=lambda ctx: ran.append(1) or "done"))
    assert (result.status, result.error.placement, ran) == ("failed", "open", [])


async def test_a_post_phase_that_raises_is_a_warning():
    result = await run(phased("urn:t:p", post=boom))
    assert result.status == "completed"
    assert [(warning.code, warning.placement, warning.message) for warning in result.warnings] == [
        ("post_phase_failed", "close", "inner trouble")
    ]


async def test_phases_of_a_child_are_not_repeated_after_a_crash():
    seen = []
    inner = phased(CHILD, pre=noting(seen, "pre"), post=noting(seen, "post"), main=noting(seen, "main"))
    d = dispatcher(parent(state_output={"post": "post", "pre": "pre"}), inner)
    start = d.execute("urn:t:parent").saved()
    journal = Recording()
    undisturbed = await d.execute("urn:t:parent", journal=journal)
    rows = [through_json(item.to_plain()) for item in journal.items]
    assert [row["path"][-1] for row in rows] == ["open", "main", "close"]
    for cut in range(4):
        seen.clear()
        again = await d.resume("urn:t:parent", {**through_json(start), "progress": rows[:cut]})
        assert again.state == undisturbed.state
        assert [name for name, _ in seen] == ["pre", "main", "post"][cut:]


async def test_a_post_phase_that_raised_is_past_and_the_next_one_is_not_repeated():
    seen = []
    graph = Graph("urn:t:p").node("main", noting(seen, "main"), {"done": "end"}).terminal("end")
    d = dispatcher(graph.phase("broken", boom, "post").phase("whole", noting(seen, "whole"), "post"))
    journal = Recording()
    result = await d.execute("urn:t:p", journal=journal)
    assert [name for name, _ in seen] == ["main", "whole"]
    for position in (result.saved()["position"], journal.steps[-1].position):
        again = await d.resume("urn:t:p", through_json({**result.saved(), "position": position}))
        assert (again.status, again.state) == (result.status, result.state)
    assert [name for name, _ in seen] == ["main", "whole"]
