"""What people look at says what the log says, and costs what is looked at."""

from dataclasses import replace

import causeline
from causeline.models import ScriptedModel
from causeline.view_models.branch_tree import branch_tree, common
from causeline.view_models.comparison import compare
from causeline.view_models.entries import conversation
from causeline.view_models.figures import age, count, duration, money
from causeline.view_models.graph_picture import graph_picture
from causeline.view_models.live_tail import LiveTail
from causeline.view_models.session_rows import session_rows
from causeline.view_models.waterfall import call_times, waterfall
from tests.view_models.told import LOOK, clerk, told


async def test_a_conversation_has_calls_with_their_results_and_marks_the_answer():
    async with told(clerk({"text": "Let me see.", "calls": [LOOK]}, {"text": "It is x."}, system="Be brief.")) as (runtime, _):
        entries = conversation(await runtime.links("s1"))
    assert [(entry.kind, entry.text, entry.place, entry.final) for entry in entries] == [
        ("system", "Be brief.", 0, False), ("person", "hello", 0, False),
        ("model", "Let me see.", 1, False), ("model", "It is x.", 3, True),
    ]  # fmt: skip
    [call] = entries[2].calls
    assert (call.name, call.arguments, call.state, call.result) == ("look", {"q": "x"}, "ok", "found x")


async def test_a_stretch_of_a_conversation_finds_results_behind_its_end():
    async with told(clerk({"calls": [LOOK]}, {"text": "x"})) as (runtime, _):
        links = await runtime.links("s1")
    [entry] = conversation(links[1:2], 1)
    assert entry.calls[0].state == "open"
    [entry] = conversation(links[1:2], 1, links[2:])
    assert (entry.place, entry.calls[0].result) == (1, "found x")


async def test_what_a_person_decided_stands_at_the_call():
    async with told(clerk({"calls": [{"name": "pay", "arguments": {"amount": 30}}]}, {"text": "done"})) as (runtime, run):
        assert conversation(await runtime.links("s1"))[-1].calls[0].state == "waiting"
        [question] = await runtime.interrupts("s1")
        await (await runtime.answer(run.id, {question.id: causeline.edit({"amount": 20}, by="ada")})).result()
        [call] = conversation(await runtime.links("s1"))[-2].calls
    assert (call.state, call.result, call.decisions) == ("ok", "paid 20", ['edited to {"amount": 20} (by ada)'])


async def test_a_structured_answer_is_a_value():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = causeline.Agent(ScriptedModel([{"text": '{"n": 3}'}]), response_format=schema)
    async with told(agent) as (runtime, _):
        assert conversation(await runtime.links("s1"))[-1].value == {"n": 3}


async def test_a_waterfall_has_calls_below_their_step_and_everything_on_the_axis():
    async with told(clerk({"calls": [LOOK, {"name": "look", "arguments": {"q": "y"}}]}, {"text": "x"})) as (runtime, run):
        links, times = await runtime.links("s1"), call_times([event async for event in run.events()])
    bars = waterfall(links, 0, times)
    assert [(bar.kind, bar.depth, bar.place) for bar in bars] == [
        ("step", 0, 0), ("model", 0, 1), ("step", 0, 2), ("tool", 1, 2), ("tool", 1, 2), ("model", 0, 3), ("step", 0, 4),
    ]  # fmt: skip
    assert len(times) == 2
    assert all(0 <= bar.left <= 1 and bar.left + bar.width <= 1 + 1e-9 for bar in bars)
    assert bars[1].tokens > 0


async def test_a_long_wait_does_not_squeeze_the_work():
    async with told(clerk({"calls": [{"name": "pay", "arguments": {"amount": 1}}]}, {"text": "done"})) as (runtime, run):
        [question] = await runtime.interrupts("s1")
        await (await runtime.answer(run.id, {question.id: causeline.approve()})).result()
        links = list(await runtime.links("s1"))
    later = [
        replace(link, checkpoint=replace(link.checkpoint, facts={"ms": 1000.0}, created_at=f"2030-01-01T0{hour}:00:{second:02}.000Z"))
        for second, (link, hour) in enumerate(zip(links, [1, 1, 1, *[9] * len(links)], strict=False), 1)
    ]
    bars = waterfall(later)
    [wait] = [bar for bar in bars if bar.kind == "wait"]
    assert wait.ms is not None
    assert wait.ms > 7 * 3_600_000
    assert all(bar.width > 0.05 for bar in bars if bar.kind in ("step", "model"))


async def test_forks_are_stretches_and_two_sides_part_at_their_ancestor():
    async with told(clerk({"text": "one"}, {"text": "two"})) as (runtime, run):
        first = await runtime.checkpoints("s1")
        fork = await runtime.start(clerk({"text": "three"}, {"text": "four"}), "another", session="s1", at=first[1].id)
        await fork.result()
        again = await runtime.start(clerk({"text": "five"}, {"text": "six"}), "a third", session="s1", at=first[1].id)
        await again.result()
        session, runs = await runtime.session("s1"), {row.id: row for row in await runtime.runs("s1")}
        tree = branch_tree(await runtime.checkpoints("s1"), session.head)
        left, right = await runtime.links("s1", (await runtime.run(run.id)).head), await runtime.links("s1", session.head)
    assert tree[0].run == run.id
    assert {row.run for row in tree} == {run.id, fork.id, again.id}
    assert {row.run for row in tree if row.current} >= {again.id}
    found = compare(left, right, runs)
    assert found.shared == common(left, right) == 2
    assert found.ancestor is not None
    assert found.ancestor.id == first[1].id
    assert [side.run for side in found.sides] == [run.id, again.id]
    assert "a third" in [entry.text for entry in found.entries[1]]


async def test_a_graph_counts_visits_and_says_where_the_run_stands():
    agent = clerk({"calls": [{"name": "pay", "arguments": {"amount": 1}}]}, {"text": "done"})
    async with told(agent) as (runtime, _):
        checkpoints = await runtime.checkpoints("s1")
    for document in (agent.document, None):
        picture = graph_picture(document, checkpoints)
        assert {place.name: place.visits for place in picture.places if place.visits} == {"entrypoint": 1, "call_model": 1, "call_tools": 1}
        assert [place.name for place in picture.places if place.stands] == ["call_tools"]
        assert [route.taken for route in picture.routes if route.source == "call_model" and route.port == "tools"] == [1]


async def test_sessions_have_their_last_words_and_are_found_by_them():
    async with told(clerk({"text": "The lamp is lit."})) as (runtime, _):
        [row] = session_rows(await runtime.sessions(), await runtime.runs())
    assert (row.id, row.status, row.agent, row.words, row.runs) == ("s1", "succeeded", "clerk", "The lamp is lit.", 1)
    assert row.matches("LAMP clerk", "succeeded")
    assert not row.matches("lamp", "failed")
    assert not row.matches("other")


def test_a_tail_shows_what_streams_and_forgets_what_is_committed():
    tail = LiveTail()
    base = {"run_id": "r", "session_id": "s", "ts": "2030-01-01T00:00:00.000Z"}
    told_events = [
        {"type": "text_message_content", "message_id": "m1", "delta": "Hel"},
        {"type": "text_message_content", "message_id": "m1", "delta": "lo"},
        {"type": "message_retracted", "message_id": "m1"},
        {"type": "text_message_content", "message_id": "m2", "delta": "Hi"},
    ]
    assert not any(tail.add({**base, **event, "seq": number}) for number, event in enumerate(told_events, 1))
    assert [(row.text, row.retracted) for row in tail.sayings.values()] == [("Hello", True), ("Hi", False)]
    assert tail.add({**base, "type": "step_finished", "step": 1, "node": "n", "checkpoint_id": "ck", "seq": 5})
    assert [row.text for row in tail.sayings.values()] == ["Hello"]
    assert tail.seen == 5


def test_figures_are_short():
    assert [duration(ms) for ms in (0.44, 12, 3100, 250_000, 7_500_000)] == ["0.4 ms", "12 ms", "3.1 s", "4 min 10 s", "2 h 5 min"]
    assert [age(ms) for ms in (500, 12_000, 300_000, 10_800_000, 345_600_000)] == ["now", "12 s", "5 min", "3 h", "4 d"]
    assert [count(number) for number in (812, 9104, 12_345, 4_100_000)] == ["812", "9,104", "12.3k", "4.1M"]
    assert [money(dollars) for dollars in (None, 0.0123, 12.5)] == ["", "$0.0123", "$12.50"]
