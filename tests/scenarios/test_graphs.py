"""Graphs of one's own on a durable runtime: what has run does not run again, at any depth, and nothing unreadable is stored."""

import dataclasses
import datetime as dt
import json
import os
import signal

import pytest

from causeline import answer
from causeline.errors import CauselineError
from causeline.graph import Dispatcher, Graph, Outcome, node
from causeline.graph.dispatcher import UnknownAnswer
from causeline.runtime.program import GraphProgram
from tests.scenarios.world import Effects, Process, World, end, only

ASKS = "urn:example:node:asks"


@node(ASKS, ports=("done",), writes=("said",), reducers={"said": "append"})
def asks(ctx) -> Outcome:
    """Pauses until somebody answers."""
    return (
        Outcome.pause(f"Go on with {ctx.placement.rpartition('/')[2]}?") if ctx.answer is None else Outcome("done", {"said": [ctx.answer]})
    )


def leaving(effects: Effects, name: str, *, fail: bool = False):
    @node(f"urn:example:node:{name}", ports=("done", "error") if fail else ("done",))
    async def leave(ctx) -> Outcome:
        effects.leave(name)
        if fail:
            raise ValueError("broken on purpose")
        return Outcome("done", {name: True})

    return leave


def program(graph: Graph, *children: Graph) -> GraphProgram:
    nodes = {one.iri: one for part in (graph, *children) for one in part.nodes}
    return GraphProgram(graph.build(), nodes.values(), documents=[one.build() for one in children], name="graph")


def handled(effects: Effects) -> GraphProgram:
    """One branch breaks and is handled; beside it another one asks."""
    graph = Graph("urn:example:handled")
    graph.node("breaks", leaving(effects, "breaks", fail=True), {"done": "end", "error": "handler"})
    graph.node("handler", leaving(effects, "handler"), {"done": "end"}).node("asks", asks, {"done": "end"}).terminal("end")
    return program(graph.entry("main", "breaks").entry("other", "asks"))


async def test_a_handler_that_has_run_is_not_run_again_because_its_sibling_paused(world: World):
    """Handling a failure is a step like any other: durable once, whatever else is still open."""
    async with world.process(handled(world.effects)) as runtime:
        ran = await end(await runtime.start("graph", session="s"))
        assert (ran.status, sorted(world.effects.lines)) == ("interrupted", ["breaks", "handler"])
    async with world.process(handled(world.effects)) as runtime:
        done = await end(await runtime.answer(ran.run_id, {only(ran): answer("yes")}))
    assert (done.status, sorted(world.effects.lines)) == ("succeeded", ["breaks", "handler"])


def nested() -> GraphProgram:
    """Two branches of an embedded graph that both ask."""
    child = Graph("urn:example:child").node("first", asks, {"done": "end"}).node("second", asks, {"done": "end"}).terminal("end")
    child.entry("main", "first").entry("other", "second")
    graph = Graph("urn:example:parent").embed("inner", child.build(), {"success": "end", "error": "bad"})
    return program(graph.terminal("end").terminal("bad", "failed").entry("main", "inner"), child)


async def test_two_questions_inside_an_embedded_graph_are_two_questions(world: World):
    """Both are listed, each is answered on its own, and the answered one is not asked again."""
    async with world.process(nested()) as runtime:
        ran = await end(await runtime.start("graph", session="s"))
        assert len({one.id for one in ran.interrupts}) == len(ran.interrupts) == 2
        with pytest.raises(CauselineError):
            await runtime.answer(ran.run_id, answer("yes"))
        half = await end(await runtime.answer(ran.run_id, {ran.interrupts[1].id: answer("yes")}))
        assert [one.id for one in half.interrupts] == [ran.interrupts[0].id]
    async with world.process(nested()) as runtime:
        done = await end(await runtime.answer(half.run_id, {only(half): answer("no")}))
    assert (done.status, list(done.interrupts)) == ("succeeded", [])


async def test_one_bare_answer_for_two_questions_is_refused_by_the_engine():
    """Which of two it is for cannot be guessed; with their keys both are answered."""
    parts = nested()
    dispatcher = Dispatcher()
    dispatcher.register_all([*parts.documents, parts.document], parts.nodes)
    paused = await dispatcher.execute("urn:example:parent", {})
    saved = json.loads(json.dumps(paused.saved()))
    with pytest.raises(UnknownAnswer, match="2 questions"):
        dispatcher.resume("urn:example:parent", saved, answers="yes")
    done = await dispatcher.resume("urn:example:parent", saved, answers={one.key: "yes" for one in paused.pauses})
    assert done.status == "completed"


def abc(effects: Effects) -> GraphProgram:
    @node("urn:example:node:b", ports=("done",))
    async def b(ctx) -> Outcome:
        effects.leave("b")
        if effects.lines.count("b") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome("done", {"b": True})

    child = Graph("urn:example:abc").node("a", leaving(effects, "a"), {"done": "b"}).node("b", b, {"done": "c"})
    child.node("c", leaving(effects, "c"), {"done": "end"}).terminal("end").entry("main", "a")
    graph = Graph("urn:example:around").node("before", leaving(effects, "before"), {"done": "inner"})
    graph.embed("inner", child.build(), {"success": "end", "error": "bad"}).terminal("end").terminal("bad", "failed")
    return program(graph.entry("main", "before"), child)


async def die_inside(url: str, effects: str) -> None:
    world = World(url, Effects(effects).path.parent)
    async with world.process(abc(Effects(effects))) as runtime:
        await (await runtime.start("graph", session="s", run_id="r")).result()


async def test_a_crash_inside_an_embedded_graph_goes_on_inside_it(disk: World):
    """What finished in the inner graph is kept: only the node that was cut off and those after it run."""
    assert Process(die_inside, disk.url, disk.effects.path).end()[0] == -signal.SIGKILL
    assert disk.effects.lines == ["before", "a", "b"]
    async with disk.process(abc(disk.effects)) as runtime:
        done = await end(await runtime.resume("r"))
    assert (done.status, disk.effects.lines) == ("succeeded", ["before", "a", "b", "b", "c"])


# values and documents that changed


@dataclasses.dataclass
class Own:
    """A type of somebody's own."""

    value: int = 1


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), Own(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), float("nan"), "\ud83d", {1: 2}],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_that_cannot_be_stored_fails_the_step_and_harms_nothing(world: World, value):
    """It is refused before the commit, with its place; the history stays readable and the session can go on."""

    @node("urn:example:node:write", ports=("done",))
    async def write(ctx) -> Outcome:
        return Outcome("done", {"kept": value if world.effects.lines else "fine"})

    graph = Graph("urn:example:wrong").node("write", write, {"done": "more"}).node("more", write, {"done": "end"}).terminal("end")
    async with world.process(program(graph.entry("main", "write"))) as runtime:
        good = await end(await runtime.start("graph", session="s"))
        world.effects.leave("from now on")
        bad = await end(await runtime.start("graph", session="s"))
        steps = await runtime.checkpoints("s")
        assert (good.status, bad.status) == ("succeeded", "failed")
        assert "kept" in bad.error["message"]
        assert (await runtime.sessions())[0].head == steps[-1].id == good.head
        assert [dict(one.delta).get("kept", {}).get("value") for one in steps if one.node == "write"] == ["fine"]
        world.effects.path.unlink()
        assert (await end(await runtime.start("graph", session="s"))).status == "succeeded"


def one_question(name: str) -> GraphProgram:
    graph = Graph("urn:example:question").node(name, asks, {"done": "end"}).terminal("end")
    return program(graph.entry("main", name))


async def test_a_pause_in_a_document_that_has_changed_since_is_not_answered_by_guess(world: World):
    """The answer is refused with a reason and nothing runs; with the document that asked it is still good."""
    async with world.process(one_question("asking")) as runtime:
        ran = await end(await runtime.start("graph", session="s"))
    async with world.process(one_question("renamed")) as runtime:
        with pytest.raises(CauselineError, match="has changed since"):
            await runtime.answer(ran.run_id, {only(ran): answer("yes")})
        assert len(await runtime.runs("s")) == 1
    async with world.process(one_question("asking")) as runtime:
        assert (await end(await runtime.answer(ran.run_id, {only(ran): answer("yes")}))).status == "succeeded"
