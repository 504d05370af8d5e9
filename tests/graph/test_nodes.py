"""What a node may count on: threads for what blocks, a state it cannot change by accident, and words for what went wrong."""

# An error that is not there fails a test just as well as a wrong one.
# pyright: reportOptionalMemberAccess=false

import asyncio
import threading

import pytest

from causeline.errors import Misuse
from causeline.graph import Graph, Outcome, UnknownAnswer, check, node
from causeline.policy import RetryPolicy
from tests.graph.walking import ManualClock, Recording, chain, dispatcher, run, through_json

FOUR = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")
THREE = dict.fromkeys(("success", "error", "empty"), "end")


def fan(body, **scatter) -> Graph:
    return (
        Graph("urn:t:fan")
        .scatter("fan", "items", FOUR, node=body, **scatter)
        .gather("join", ["fan"], "append", THREE, target="out", field="v")
        .terminal("end")
    )


async def test_sync_nodes_run_in_threads_beside_each_other_and_inline_ones_do_not():
    both = threading.Barrier(2)

    def block(ctx):
        both.wait(timeout=10)
        return Outcome("success", {"v": threading.current_thread() is threading.main_thread()})

    result = await run(fan(block, concurrency=2), {"items": [1, 2]})
    assert (result.status, result.state["out"]) == ("completed", [False, False])

    @node("urn:t:n:inline", ("success",), inline=True)
    def inline(ctx):
        return Outcome("success", {"v": threading.current_thread() is threading.main_thread()})

    assert (await run(fan(inline), {"items": [1]})).state["out"] == [True]


@pytest.mark.parametrize("error", [StopIteration("x"), asyncio.CancelledError(), SystemError("y")])
async def test_whatever_a_function_raises_in_its_thread_is_a_failure_of_its_node(error):
    def boom(ctx):
        raise error

    result = await run(chain(boom))
    assert result.status == "failed"
    assert result.error.placement == "n0"


async def test_what_a_thread_emits_comes_in_order_and_before_its_step():
    def speak(ctx):
        for number in range(5):
            ctx.emit({"number": number})
        return "done"

    events = [event async for event in dispatcher(chain(speak)).execute("urn:t:chain")]
    assert [getattr(event, "data", "step") for event in events] == [*({"number": number} for number in range(5)), "step"]


async def test_what_a_journal_refuses_to_hear_is_raised_where_a_thread_emits_it():
    class Deaf(Recording):
        def on_emit(self, event):
            raise ValueError("not this")

    result = await run(chain(lambda ctx: ctx.emit({}) or "done"), journal=Deaf())
    assert (result.status, result.error.message) == ("failed", "not this")


async def test_deps_are_handed_to_nodes_also_on_resume():
    def ask(ctx):
        return Outcome("done", {"seen": ctx.deps["name"]}) if ctx.answer else Outcome.pause(ctx.deps["name"])

    d = dispatcher(chain(ask))
    result = await d.execute("urn:t:chain", deps={"name": "one"})
    assert result.pauses[0].question == "one"
    assert (await d.resume("urn:t:chain", result.saved(), answers=True, deps={"name": "two"})).state == {"seen": "two"}


@pytest.mark.parametrize("change", [lambda items: items.append(4), lambda items: items[0].update(x=1), lambda items: items.clear()])
async def test_a_node_that_changes_its_state_in_place_is_found_in_debug_mode(change):
    def sneak(ctx):
        change(ctx.state["items"])
        return "done"

    graph = chain(sneak)
    result = await dispatcher(graph, debug=True).execute(graph.iri, {"items": [{}, 2]})
    assert (result.status, result.error.code) == ("failed", "state_changed")
    assert "'items'" in result.error.message


async def test_debug_mode_follows_asyncios_own(request):
    asyncio.get_running_loop().set_debug(True)
    request.addfinalizer(lambda: None)
    result = await run(chain(lambda ctx: ctx.state["items"].append(1) or "done"), {"items": []})
    asyncio.get_running_loop().set_debug(False)
    assert result.error.code == "state_changed"


async def test_the_body_of_a_scatter_that_leaves_by_an_undeclared_port_is_a_failed_item_that_says_so():
    @node("urn:t:n:typo", ("success", "error"))
    def typo(ctx):
        return "sucess" if ctx.item == 2 else Outcome("success", {"v": ctx.item})

    result = await run(fan(typo), {"items": [1, 2, 3]})
    assert (result.status, result.state["out"]) == ("completed", [1, 3])
    failed = await run(fan(typo), {"items": [2]})
    assert failed.state["error"]["code"] == "undeclared_port"
    assert "'sucess'" in failed.state["error"]["message"]


async def test_what_a_body_wrote_when_it_asked_is_there_when_it_is_answered():
    def ask(ctx):
        if ctx.answer is None:
            return Outcome.pause("?", {"draft": "half a letter"})
        if ctx.answer == "once more":
            return Outcome.pause("!", {"second": True})
        return Outcome("success", {"v": [ctx.state["draft"], ctx.state.get("second"), ctx.answer]})

    d = dispatcher(fan(ask))
    result = await d.execute("urn:t:fan", {"items": [1]})
    result = await d.resume("urn:t:fan", through_json(result.saved()), answers="once more")
    result = await d.resume("urn:t:fan", through_json(result.saved()), answers="yes")
    assert result.state["out"] == [["half a letter", True, "yes"]]


async def test_null_is_refused_as_an_answer_because_the_node_could_not_tell_it_from_none():
    d = dispatcher(chain(lambda ctx: Outcome.pause("?") if ctx.answer is None else "done"))
    result = await d.execute("urn:t:chain")
    with pytest.raises(UnknownAnswer, match="null"):
        d.resume("urn:t:chain", result.saved(), answers={"n0": None})
    assert (await d.resume("urn:t:chain", result.saved(), answers={"n0": False})).status == "completed"


class Limited(Exception):
    def __init__(self, wish):
        super().__init__("slow down")
        self.retry_after = wish


@pytest.mark.parametrize("wish", ["5", None, float("nan"), float("inf"), -3, True, [1]])
async def test_a_wish_to_wait_that_makes_no_sense_does_not_count(wish):
    tries = []

    def limited(ctx):
        tries.append(ctx.attempt)
        if len(tries) < 3:
            raise Limited(wish)
        return "done"

    clock = ManualClock()
    graph = Graph("urn:t:r").node("n", limited, {"done": "end"}, retry=RetryPolicy(max_attempts=5, base_delay=1, jitter_factor=0))
    result = await run(graph.terminal("end"), clock=clock)
    assert (result.status, tries, clock.slept) == ("completed", [1, 2, 3], [1, 2])


async def test_an_error_that_cannot_say_what_it_is_fails_its_placement_by_its_name():
    class Mute(Exception):
        def __str__(self):
            raise ValueError("no words")

    def mute(ctx):
        raise Mute

    result = await run(chain(mute))
    assert (result.status, result.error.code, result.error.message) == ("failed", "Mute", "Mute")


async def test_tries_are_recorded_and_told_as_they_happen():
    told = []

    class Listening(Recording):
        def on_retry(self, retry):
            told.append((retry.path, retry.attempt, retry.code, retry.wait))

    def flaky(ctx):
        if ctx.attempt < 3:
            raise ConnectionError("not yet")
        return Outcome("done" if ctx.item is None else "success", {"v": ctx.item})

    policy = RetryPolicy(max_attempts=3, base_delay=1, jitter_factor=0)
    tries = ({"n": 1, "code": "ConnectionError", "wait": 1.0}, {"n": 2, "code": "ConnectionError", "wait": 2.0})
    journal = Listening()
    single = Graph("urn:t:s").node("n", flaky, {"done": "end"}, retry=policy).terminal("end")
    await run(single, journal=journal, clock=ManualClock())
    assert (journal.steps[0].attempts, journal.steps[0].attempt) == (tries, 3)
    assert told == [(("n",), 1, "ConnectionError", 1.0), (("n",), 2, "ConnectionError", 2.0)]
    journal = Listening()
    await run(fan(flaky, retry=policy), {"items": ["a"]}, journal=journal, clock=ManualClock())
    assert journal.items[0].writes["attempts"] == list(tries)
    assert (journal.items[0].tally.retried, journal.items[0].tally.total) == (1, 1)
    assert told[-1] == (("fan", 0), 2, "ConnectionError", 2.0)


async def test_a_failed_visit_says_how_often_it_was_tried():
    policy = RetryPolicy(max_attempts=2, base_delay=0, jitter_factor=0)
    graph = Graph("urn:t:f").node("n", lambda ctx: 1 / 0, {"done": "end", "error": "end"}, retry=policy).terminal("end")
    journal = Recording()
    await run(graph, journal=journal)
    assert [one["code"] for one in journal.steps[0].attempts] == ["ZeroDivisionError"]


async def test_steps_carry_roles_and_the_state_after_them():
    @node("urn:t:n:think", ("done",), roles=("thought",))
    async def think(ctx):
        return Outcome("done", {"n": ctx.state.get("n", 0) + 1})

    graph = Graph("urn:t:roles").node("a", think, {"done": "b"}).node("b", think, {"done": "end"}, role="final").terminal("end")
    seen = [(step.roles, dict(step.state)) async for step in dispatcher(graph).execute("urn:t:roles")]
    assert seen == [(("thought",), {"n": 1}), (("final",), {"n": 2})]


def test_schemas_of_both_ends_of_a_route_must_be_able_to_meet():
    @node(
        "urn:t:n:left", ("ok",), output_schema={"ok": {"type": "object", "properties": {"n": {"type": "string"}, "m": {"type": "number"}}}}
    )
    def left(ctx):
        return "ok"

    @node("urn:t:n:right", ("ok",), input_schema={"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}})
    def right(ctx):
        return "ok"

    document = Graph("urn:t:schemas").node("l", left, {"ok": "r"}).node("r", right, {"ok": "end"}).terminal("end").build()
    assert [(one.code, one.path) for one in check(document, [left, right])] == [("schema_mismatch", "nodes[0].outputs.ok")]
    with pytest.raises(Misuse, match="output_schema"):
        node("urn:t:n:wrong", ("ok",), output_schema={"no": {}})
