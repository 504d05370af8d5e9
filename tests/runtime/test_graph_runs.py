"""A graph of one's own as a run: its nodes pause, go on, try again and stand where they stood, durably."""

import asyncio

import pytest

from causeline import answer, deny
from causeline.causal import Append
from causeline.errors import Invalid, Missing
from causeline.graph import Graph, Outcome, node
from causeline.run.scope import RunScope
from causeline.runtime import GraphProgram
from tests.runtime.scenes import URLS, runtime, store_at

RAN: list[str] = []


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    RAN.clear()
    return store_at(request.param, tmp_path)


@node("urn:test:hear", ("done",))
def hear(ctx):
    said = [one.text for one in ctx.use(RunScope).input]
    return Outcome("done", {"heard": said, "log": [Append("goal", {"text": text}) for text in said]})


@node("urn:test:ask", ("done", "refused"))
def ask(ctx):
    RAN.append(f"{'/'.join(map(str, ctx.path))}")
    if ctx.answer is None:
        return Outcome.pause(f"{ctx.placement}?" if ctx.item is None else {"for": ctx.item})
    if isinstance(ctx.answer, dict) and ctx.answer.get("decision") == "deny":
        return Outcome("refused", {"result": {"answer": ctx.answer["reason"]}})
    return Outcome("done", {f"said_{ctx.placement}": ctx.answer, "answer": ctx.answer})


@node("urn:test:tell", ("done",))
def tell(ctx):
    RAN.append("tell")
    return Outcome("done", {"result": {"answer": {key: value for key, value in ctx.state.items() if key.startswith("said_")}}})


@node("urn:test:work", ("done",))
async def work(ctx):
    RAN.append(f"work {ctx.item}")
    return Outcome("done", {"answer": f"did {ctx.item}"})


def plain():
    return (
        Graph("urn:test:dag:plain")
        .node("hear", hear.iri, {"done": "first"})
        .node("first", ask.iri, {"done": "second", "refused": "end"})
        .node("second", ask.iri, {"done": "tell", "refused": "end"})
        .node("tell", tell.iri, {"done": "end"})
        .terminal("end")
        .entry("main", "hear")
        .build()
    )


def program(document, *documents, **more):
    return GraphProgram(document, (hear, ask, tell, work), documents=documents, **more)


async def test_a_node_that_pauses_goes_on_with_the_answer_and_pauses_again(store):
    graph = program(plain())
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, "hello", session="s")).result()
        assert first.status == "interrupted"
        assert [(one.kind, one.name, one.question) for one in first.interrupts] == [("question", "first", "first?")]
        second = await (await rt.answer(first.run_id, {first.interrupts[0].id: answer(1)})).result()
        assert [one.question for one in second.interrupts] == ["second?"]
        done = await (await rt.answer(first.run_id, {second.interrupts[0].id: answer({"x": [2]})})).result()
        assert (done.status, done.answer) == ("succeeded", {"said_first": 1, "said_second": {"x": [2]}})
        assert RAN == ["first", "first", "second", "second", "tell"]
        assert [one.text for one in await rt.messages("s")] == ["hello"]
        assert (await rt.branch("s")).channels["heard"] == ["hello"]


async def test_a_denied_question_of_a_node_reaches_it_with_the_reason(store):
    graph = program(plain())
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, session="s")).result()
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: deny("not now")})).result()
        assert (done.status, done.answer, RAN) == ("succeeded", "not now", ["first", "first"])


def branches():
    return (
        Graph("urn:test:dag:branches")
        .node("left", ask.iri, {"done": "both", "refused": "both"})
        .node("right", ask.iri, {"done": "both", "refused": "both"})
        .gather("both", ["left", "right"], "custom", custom_node=tell.iri, outputs={"success": "end", "error": "end", "empty": "end"})
        .terminal("end")
        .entry("l", "left")
        .entry("r", "right")
        .build()
    )


@pytest.mark.parametrize("order", [["left", "right"], ["right", "left"], None])
async def test_questions_of_two_branches_are_open_together_and_answered_in_any_order(store, order):
    graph = program(branches())
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, session="s")).result()
        open_ = {one.name: one for one in first.interrupts}
        assert (first.status, sorted(open_)) == ("interrupted", ["left", "right"])
        assert len({one.checkpoint for one in first.interrupts}) == 1
        if order is None:
            done = await (await rt.answer(first.run_id, {one.id: answer(one.name) for one in first.interrupts})).result()
        else:
            second = await (await rt.answer(first.run_id, {open_[order[0]].id: answer(order[0])})).result()
            assert (second.status, [one.id for one in second.interrupts]) == ("interrupted", [open_[order[1]].id])
            done = await (await rt.answer(first.run_id, {open_[order[1]].id: answer(order[1])})).result()
        assert (done.status, done.answer) == ("succeeded", {"said_left": "left", "said_right": "right"})
        assert sorted(RAN) == ["left", "left", "right", "right", "tell"]


async def test_scatter_items_that_pause_are_answered_one_by_one(store):
    @node("urn:test:fill", ("done",))
    def fill(ctx):
        return Outcome("done", {"items": ["x", "y", "z"]})

    @node("urn:test:ask-item", ("success",))
    def ask_item(ctx):
        RAN.append(ctx.item)
        if ctx.item == "y":
            return Outcome("success", {"answer": "free"})
        return Outcome.pause({"for": ctx.item}) if ctx.answer is None else Outcome("success", {"answer": ctx.answer})

    document = (
        Graph("urn:test:dag:items")
        .node("fill", fill.iri, {"done": "each"})
        .scatter(
            "each",
            "items",
            {"all-success": "joined", "partial": "joined", "all-error": "joined", "empty": "joined"},
            node=ask_item.iri,
            reducer="aggregate",
        )
        .gather("joined", ["each"], "map", mapping={"answer": "answers"}, outputs={"success": "end", "error": "end", "empty": "end"})
        .terminal("end")
        .entry("main", "fill")
        .build()
    )
    graph = GraphProgram(document, (fill, ask_item))
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, session="s")).result()
        open_ = {one.arguments["for"]: one for one in first.interrupts}
        assert (first.status, sorted(open_), RAN) == ("interrupted", ["x", "z"], ["x", "y", "z"])
        second = await (await rt.answer(first.run_id, {open_["z"].id: answer("Z")})).result()
        assert [one.id for one in second.interrupts] == [open_["x"].id]
        done = await (await rt.answer(first.run_id, {open_["x"].id: answer("X")})).result()
        assert (done.status, (await rt.branch("s")).channels["answers"]) == ("succeeded", ["X", "free", "Z"])
        assert RAN == ["x", "y", "z", "z", "x"]


async def test_a_pause_inside_an_embedded_graph_keeps_what_had_run_there(store):
    inner = (
        Graph("urn:test:dag:inner")
        .node("w", work.iri, {"done": "q"})
        .node("q", ask.iri, {"done": "end", "refused": "end"})
        .terminal("end")
        .entry("main", "w")
        .build()
    )
    outer = (
        Graph("urn:test:dag:outer")
        .embed("inside", "urn:test:dag:inner", {"success": "tell", "error": "bad"}, state_output={"said_q": "said_q"})
        .node("tell", tell.iri, {"done": "end"})
        .terminal("end")
        .terminal("bad", "failed")
        .entry("main", "inside")
        .build()
    )
    graph = program(outer, inner)
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, session="s")).result()
        assert (first.status, len(first.interrupts)) == ("interrupted", 1)
        done = await (await rt.answer(first.run_id, {first.interrupts[0].id: answer(5)})).result()
        assert (done.status, done.answer) == ("succeeded", {"said_q": 5})
        assert RAN == ["work None", "inside/q", "inside/q", "tell"]


async def test_a_changed_graph_refuses_the_answer_and_leaves_the_question_open(store):
    async with runtime(store) as rt:
        first = await (await rt.start(program(plain(), name="g"), session="s")).result()
        changed = (
            Graph("urn:test:dag:plain")
            .node("first", ask.iri, {"done": "end", "refused": "end"})
            .terminal("end")
            .entry("main", "first")
            .build()
        )
        with pytest.raises(Invalid) as caught:
            await rt.answer(first.run_id, {first.interrupts[0].id: answer(1)}, agent=program(changed, name="g"))
        assert caught.value.code == "document_changed"
        second = await (await rt.answer(first.run_id, {first.interrupts[0].id: answer(1)}, agent=program(plain(), name="g"))).result()
        assert [one.question for one in second.interrupts] == ["second?"]


async def test_a_fork_of_a_graph_starts_where_its_checkpoint_stands(store):
    graph = program(plain())
    async with runtime(store, graph) as rt:
        first = await (await rt.start(graph, "hello", session="s")).result()
        hear_step = (await rt.checkpoints("s"))[0]
        fork = await (await rt.start(graph, session="s", at=hear_step.id)).result()
        assert (fork.status, [one.question for one in fork.interrupts], RAN) == ("interrupted", ["first?"], ["first", "first"])
        assert fork.interrupts[0].id != first.interrupts[0].id


async def test_a_failing_graph_ends_as_failed_and_says_where(store):
    @node("urn:test:break", ("done",))
    def broken(ctx):
        raise ValueError("no such thing")

    document = Graph("urn:test:dag:broken").node("b", broken.iri, {"done": "end"}).terminal("end").entry("main", "b").build()
    graph = GraphProgram(document, (broken,))
    async with runtime(store, graph) as rt:
        run = await rt.start(graph, session="s")
        result = await asyncio.wait_for(run.result(), 30)
        error = result.error or {}
        assert (result.status, error["message"], error["placement"]) == ("failed", "no such thing", "b")
        with pytest.raises(Missing):
            await rt.answer(run.id, {"int_none": answer(1)})


async def test_a_graph_that_cannot_run_is_refused_before_anything_is_stored(store):
    document = Graph("urn:test:dag:lost").node("b", "urn:test:nowhere", {"done": "end"}).terminal("end").entry("main", "b").build()
    async with runtime(store) as rt:
        with pytest.raises(Invalid, match="urn:test:nowhere"):
            await rt.start(GraphProgram(document, ()), session="s")
        assert await rt.sessions() == []
