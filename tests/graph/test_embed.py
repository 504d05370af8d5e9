"""Embedded documents: their own channels, truthful outcomes at every depth, pauses, phases, exact resume."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio
from typing import Any

import pytest

from causeline.graph import Graph, Limits, Outcome, PositionMismatch, UnknownAnswer
from causeline.graph.documents.document import DagReference
from tests.graph.embedding import CHILD, ask, boom, child, parent
from tests.graph.walking import ManualClock, Recording, dispatcher, others, run, through_json


async def test_only_what_is_mapped_crosses_the_border():
    seen = []

    def look(ctx):
        seen.append((dict(ctx.state), ctx.path))
        return Outcome("done", {"y": ctx.state["x"] + 1, "private": 1})

    result = await run(
        parent(state_input={"x": "deep.x"}, state_output={"out.y": "y", "none": "missing"}), {"deep": {"x": 1}, "secret": 2}, child(look)
    )
    assert seen == [({"x": 1}, ("inner", "c0"))]
    assert result.state == {"deep": {"x": 1}, "secret": 2, "out": {"y": 2}, "after": True}


async def test_a_childs_appends_do_not_touch_the_parents_list():
    result = await run(
        parent(state_input={"list": "list"}, state_output={"seen": "list"}),
        {"list": [1]},
        child(lambda ctx: Outcome("done", {"list": [2]}), lambda ctx: Outcome("done", {"list": [3]})),
        reducers={"list": "append"},
    )
    assert (result.state["list"], result.state["seen"]) == ([1], [1, 2, 3])


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_child_that_raises_leaves_by_error_with_its_reason(depth):
    graphs = (
        [parent(), child(boom)]
        if depth == 1
        else [
            parent(child="urn:t:mid"),
            Graph("urn:t:mid").embed("m", CHILD, {"success": "ok", "error": "no"}).terminal("ok").terminal("no", "failed"),
            child(boom),
        ]
    )
    result = await run(graphs[0], {}, *graphs[1:])
    assert result.status == "failed"
    assert result.state["error"] == {"code": "ValueError", "message": "inner trouble", "placement": "c0"}
    assert "after" not in result.state


async def test_without_an_error_route_the_parent_fails_with_the_childs_reason():
    graph = Graph("urn:t:parent").node("a", lambda ctx: "done", {"done": "inner"})
    graph.embed("inner", CHILD, {"success": "end", "error": "bad"}).terminal("end").terminal("bad", "failed")
    d = dispatcher(graph, child(boom))
    program = d._registered["urn:t:parent"]
    site: Any = next(one for one in program.sites if one.name == "inner")
    del site.routes["error"]
    result = await d.execute("urn:t:parent")
    assert (result.status, result.error.code, result.error.placement, result.error.path) == ("failed", "ValueError", "c0", ("inner",))
    assert result.saved()["position"]["branches"][0]["child"]["position"]["branches"] == [{"at": "c0"}]


async def test_a_child_that_ends_at_a_failed_terminal_leaves_by_error_and_its_outputs_come_back():
    failing = (
        Graph(CHILD)
        .node("c", lambda ctx: Outcome("no", {"why": "rain"}), {"no": "bad", "ok": "good"})
        .terminal("good")
        .terminal("bad", "failed")
    )
    result = await run(parent(state_output={"why": "why"}), {}, failing)
    assert (result.status, result.state["why"], result.state["error"]["code"]) == ("failed", "rain", "failed_terminal")


async def test_a_child_that_stalls_leaves_by_error():
    stalling = (
        Graph(CHILD)
        .node("a", lambda ctx: "done", {"done": "join"})
        .node("b", lambda ctx: "done", {"done": "join"})
        .gather("join", ["a", "b"], "discard", {"success": "good", "error": "good", "empty": "good"})
        .terminal("good")
        .entry("x", "a")
        .entry("y", "b")
    )
    d = dispatcher(parent(), stalling)
    program: Any = d._registered[CHILD]
    site = next(one for one in program.sites if one.name == "b")
    site.routes["done"] = program.plan.index[f"{CHILD}/node/b"]
    result = await d.execute("urn:t:parent", limits=Limits(visits=50))
    assert result.error.code == "limit_visits", "a loop in a child counts in the run's budget"
    loose = dict(program.plan.feeds[site.number])
    program.plan.feeds[site.number].clear()
    site.routes["done"] = program.plan.index[f"{CHILD}/node/join"]
    result = await d.execute("urn:t:parent")
    program.plan.feeds[site.number].update(loose)
    assert (result.status, result.state["error"]["code"]) == ("failed", "stalled")


async def test_cancel_and_deadline_pass_through_and_resume_goes_on_inside():
    ran = []
    hang = [True]
    begun = asyncio.Event()

    def first(ctx):
        ran.append("c0")
        return Outcome("done", {"a": 1})

    async def second(ctx):
        ran.append("c1")
        begun.set()
        if hang:
            await asyncio.Event().wait()
        return Outcome("done", {"b": ctx.state["a"] + 1})

    for why in ("cancelled", "timed_out"):
        ran.clear()
        hang[:] = [True]
        d = dispatcher(parent(state_output={"b": "b"}), child(first, second), clock=ManualClock() if why == "timed_out" else None)
        execution = d.execute("urn:t:parent", deadline=5 if why == "timed_out" else None)
        begun.clear()
        async with asyncio.TaskGroup() as tasks:
            walk = tasks.create_task(execution._outcome())
            await begun.wait()
            if why == "cancelled":
                execution.cancel()
        result = walk.result()
        assert (result.status, result.pauses, "after" in result.state) == (why, (), False)
        hang.clear()
        again = await d.resume("urn:t:parent", through_json(result.saved()))
        assert (again.status, again.state["b"], ran) == ("completed", 2, ["c0", "c1", "c1"])
        assert not others()


async def test_a_pause_inside_comes_out_with_its_path_and_the_answer_goes_back_in():
    ran = []
    d = dispatcher(parent(state_output={"answer": "answer"}), child(lambda ctx: ran.append(1) or "done", ask))
    journal = Recording()
    result = await d.execute("urn:t:parent", journal=journal)
    assert result.status == "interrupted"
    assert [(pause.key, pause.path, pause.node, pause.question) for pause in result.pauses] == [
        ("inner/c1", ("inner", "c1"), "c1", {"ask": "c1"})
    ]
    assert [(step.node, step.port, step.next) for step in journal.steps] == [("inner", "parked", "inner")]
    again = await d.resume(
        "urn:t:parent", through_json({**result.saved(), "position": journal.steps[0].position}), answers={"inner/c1": "go"}
    )
    assert (again.status, again.state["answer"], again.state["after"], ran) == ("completed", "go", True, [1])


async def test_answers_are_checked_against_what_is_open():
    d = dispatcher(parent(), child(ask))
    saved = through_json((await d.execute("urn:t:parent")).saved())
    with pytest.raises(UnknownAnswer, match="inner/c0") as caught:
        d.resume("urn:t:parent", saved, answers={"inner/c9": 1})
    assert caught.value.facts["open"] == ["inner/c0"]
    assert (await d.resume("urn:t:parent", saved, answers="bare")).status == "completed"
    two = (
        Graph("urn:t:parent")
        .node("a", ask, {"done": "end"})
        .node("b", ask, {"done": "end"})
        .terminal("end")
        .entry("x", "a")
        .entry("y", "b")
    )
    d2 = dispatcher(two)
    both = (await d2.execute("urn:t:parent")).saved()
    with pytest.raises(UnknownAnswer, match="2 questions"):
        d2.resume("urn:t:parent", both, answers="bare")
    finished = await d2.resume("urn:t:parent", both, answers={"a": 1, "b": 2})
    with pytest.raises(UnknownAnswer, match="none"):
        d2.resume("urn:t:parent", finished.saved(), answers={"a": 1})


async def test_an_answered_visit_may_ask_again():
    def twice(ctx):
        asked = ctx.state.get("asked", 0)
        return Outcome.pause(f"question {asked}", {"asked": asked + 1}) if asked < 2 else Outcome("done", {"last": ctx.answer})

    d = dispatcher(child(twice, iri="urn:t:twice"))
    result = await d.execute("urn:t:twice")
    assert result.pauses[0].question == "question 0"
    result = await d.resume("urn:t:twice", through_json(result.saved()), answers={"c0": "one"})
    assert (result.status, result.pauses[0].question) == ("interrupted", "question 1")
    result = await d.resume("urn:t:twice", through_json(result.saved()), answers={"c0": "two"})
    assert (result.status, result.state["last"]) == ("completed", "two")


async def test_a_crash_after_an_answer_leaves_the_question_open():
    def fragile(ctx):
        if ctx.answer is None:
            return Outcome.pause("?")
        if ctx.answer == "crash":
            raise OSError("power cut")
        return "done"

    d = dispatcher(child(fragile, iri="urn:t:f"))
    result = await d.execute("urn:t:f")
    crashed = await d.resume("urn:t:f", through_json(result.saved()), answers={"c0": "crash"})
    assert crashed.status == "failed"
    again = await d.resume("urn:t:f", through_json(crashed.saved()), answers={"c0": "fine"})
    assert again.status == "completed"


async def test_journalled_placements_of_a_child_never_run_again():
    ran = []

    def note(ctx):
        ran.append(ctx.path)
        return Outcome("done", {"log": [ctx.placement]})

    mid = (
        Graph("urn:t:mid")
        .node("m0", note, {"done": "deep"})
        .embed("deep", CHILD, {"success": "m1", "error": "m1"}, state_output={"log": "log"})
    )
    mid.node("m1", note, {"done": "stop"}).terminal("stop")
    d = dispatcher(parent(child="urn:t:mid", state_output={"log": "log"}), mid, child(note, note), reducers={"log": "append"})
    start = d.execute("urn:t:parent").saved()
    journal = Recording()
    undisturbed = await d.execute("urn:t:parent", journal=journal)
    assert undisturbed.state["log"] == ["m0", "c0", "c1", "m1"]
    rows = [through_json(item.to_plain()) for item in journal.items]
    assert [row["path"] for row in rows] == [
        ["inner", "m0"],
        ["inner", "deep", "c0"],
        ["inner", "deep", "c1"],
        ["inner", "deep"],
        ["inner", "m1"],
    ]
    for cut in range(len(rows) + 1):
        ran.clear()
        second = Recording()
        again = await d.resume("urn:t:parent", {**through_json(start), "progress": rows[:cut]}, journal=second)
        assert again.state == undisturbed.state
        assert [through_json(item.to_plain()) for item in second.items] == rows[cut:]
        assert [step.position for step in second.steps] == [step.position for step in journal.steps]


async def test_a_row_about_a_step_that_is_over_is_passed_over():
    d = dispatcher(parent(), child(lambda ctx: "done"))
    journal = Recording()
    result = await d.execute("urn:t:parent", journal=journal)
    late = {**through_json(result.saved()), "progress": [item.to_plain() for item in journal.items]}
    assert (await d.resume("urn:t:parent", late)).status == "completed"


async def test_the_child_is_chosen_by_the_state_and_a_wrong_choice_leaves_by_error():
    one, two = (
        child(lambda ctx: Outcome("done", {"by": 1}), iri="urn:t:one"),
        child(lambda ctx: Outcome("done", {"by": 2}), iri="urn:t:two"),
    )
    choice = DagReference("state", "pick", ("urn:t:one", "urn:t:two"))
    graph = parent(child=choice, state_output={"by": "by"})
    assert (await run(graph, {"pick": "urn:t:two"}, one, two)).state["by"] == 2
    for wrong in ({"pick": "urn:t:three"}, {}, {"pick": ["urn:t:one"]}):
        result = await run(graph, wrong, one, two)
        assert (result.status, result.state["error"]["code"]) == ("failed", "not_a_candidate")


async def test_a_changed_child_is_refused_on_resume():
    d = dispatcher(parent(), child(ask))
    saved = through_json((await d.execute("urn:t:parent")).saved())
    changed = dispatcher(parent(), child(ask, lambda ctx: "done"))
    with pytest.raises(PositionMismatch, match="urn:t:child"):
        changed.resume("urn:t:parent", saved, answers={"inner/c0": 1})
    assert (await changed.resume("urn:t:parent", saved, answers={"inner/c0": 1}, adopt=True)).status == "completed"


async def test_recursion_ends_at_the_depth_limit_and_no_error_route_catches_it():
    endless = (
        Graph(CHILD)
        .node("c", lambda ctx: "deeper", {"deeper": "again", "out": "stop"})
        .embed("again", CHILD, {"success": "stop", "error": "stop"})
        .terminal("stop")
    )
    result = await run(parent(), {}, endless, limits=Limits(depth=5))
    assert (result.status, result.error.code) == ("failed", "limit_depth")


async def test_an_answer_already_used_before_a_crash_is_accepted_again():
    ran = []

    def note(ctx):
        ran.append(ctx.answer)
        return Outcome.pause("?") if ctx.answer is None else Outcome("done", {"answer": ctx.answer})

    d = dispatcher(parent(state_output={"answer": "answer"}), child(note, lambda ctx: "done"))
    saved = through_json((await d.execute("urn:t:parent")).saved())
    journal = Recording()
    await d.resume("urn:t:parent", saved, answers={"inner/c0": "yes"}, journal=journal)
    rows = [through_json(item.to_plain()) for item in journal.items]
    again = await d.resume("urn:t:parent", {**saved, "progress": rows[:1]}, answers={"inner/c0": "yes"})
    assert (again.status, again.state["answer"], ran) == ("completed", "yes", [None, "yes"])


@pytest.mark.parametrize("scattered", [False, True])
async def test_a_pause_at_the_greatest_depth_is_saved_and_answered(scattered):
    def turn(ctx):
        return Outcome("down" if ctx.state["n"] > 0 else "bottom", {"n": ctx.state["n"] - 1, "items": [1]})

    graph = Graph("urn:t:deep").node("turn", turn, {"down": "in", "bottom": "ask"}).node("ask", ask, {"done": "end"})
    if scattered:
        ports: dict[str, str] = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")
        graph.scatter("in", "items", ports, dag="urn:t:deep", state_input={"n": "n", "kept": "kept"})
        graph.gather("join", ["in"], "discard", {"success": "end", "error": "bad", "empty": "bad"}).terminal("bad", "failed")
    else:
        graph.embed("in", "urn:t:deep", {"success": "end"}, state_input={"n": "n", "kept": "kept"})
    deep = dispatcher(graph.terminal("end"))
    result = await deep.execute("urn:t:deep", {"n": Limits().depth - 1, "kept": [[[["value"]]]]})
    assert result.status == "interrupted"
    result = await deep.resume("urn:t:deep", through_json(result.saved()), answers="yes")
    assert result.status == "completed"
