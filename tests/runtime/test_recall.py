"""Recall says what earlier runs did in the words of the log, and nothing where nothing was found."""

import pytest

import causeline
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.tools import ToolContext, search_history
from causeline.tools.execute import execute
from tests.runtime.scenes import Scene, asks, runtime


@causeline.tool
def look(where: str, deep: bool = True) -> dict:  # type: ignore[type-arg]
    """Looks."""
    return {"found": None, "where": where, "deep": deep}


@pytest.fixture
async def told():
    scene = Scene([asks(("look", {"where": "Köln", "deep": True}, "c1")), {"text": "There is an AI in Köln."}])
    async with runtime(InMemoryStore(), scene.agent(tools=[look])) as rt:
        await (await rt.start("agent", "find the robot", session="s")).result()
        await (await rt.start("agent", "now find the other", session="t")).result()
        yield rt


async def test_arguments_and_results_are_json_as_the_model_wrote_and_read_them(told):
    text = (await told.recall("s")).text
    assert 'called look with {"deep":true,"where":"Köln"}' in text
    assert 'look returned: {"deep":true,"found":null,"where":"Köln"}' in text
    assert "True" not in text
    assert "None" not in text


async def test_a_query_that_fits_nothing_finds_nothing(told):
    for query in ("zebra", "42", "斑马"):
        found = await told.recall(query=query)
        assert (found.text, list(found.citations)) == ("", [])


async def test_a_query_finds_the_runs_that_share_a_word_and_no_others(told):
    found = await told.recall(query="robot zebra")
    assert "asked: find the robot" in found.text
    assert "the other" not in found.text
    assert (await told.recall(query="AI")).text.count("answered: There is an AI") == 2, "short words count where there are no others"
    assert (await told.recall(query="?!")).text == (await told.recall(query="")).text, "without words all are told"


@pytest.mark.parametrize("asked, told_of", [("Where is the robot now?", 1), ("And what of the weather?", 0), ("What is it?", 0)])
async def test_of_an_owners_runs_only_those_that_bear_on_the_words_are_put_before_the_model(asked, told_of):
    scene = Scene([{"text": "It is in the shed."}])
    async with runtime(InMemoryStore(), scene.agent(recall={"runs": "owner"})) as rt:
        await (await rt.start("agent", "Find the robot", session="s")).result()
        await (await rt.start("agent", "Bake some bread", session="t")).result()
        await (await rt.start("agent", asked, session="u")).result()
        recalled = [node.payload["value"] for node in (await rt.branch("u")).state.nodes if node.kind == "resource"]
    assert [value["text"].count("asked: ") for value in recalled] == [told_of]
    assert "bread" not in recalled[0]["text"]


async def test_a_run_is_found_by_what_it_thought_and_by_how_it_failed():
    scene = Scene(
        [{**asks(("look", {"where": "shed"}, "c1"), text="Perhaps the marmalade is there."), "reasoning": "a crate, says the walrus"}]
    )
    async with runtime(InMemoryStore(), scene.agent(tools=[look], max_steps=2)) as rt:
        failed = await (await rt.start("agent", "Where is it?", session="s")).result()
        for query in ("marmalade", "walrus", "shed"):
            found = await rt.recall(query=query)
            assert f"[{failed.run_id}] ended: failed (max_steps" in found.text
            assert {"run": failed.run_id, "step": None, "node": None} in found.citations
        assert "thought: a crate, says the walrus Perhaps the marmalade is there." in found.text
        assert all(f"step {one['step']} {one['node']}" in found.text for one in found.citations if one["node"])


class Counting(InMemoryStore):
    """Counts what is read of sessions and runs."""

    def __init__(self):
        super().__init__()
        self.read = []

    async def rows(self, kind, **filters):
        self.read.append((kind.__name__, filters.get("id") or filters.get("session")))
        return await super().rows(kind, **filters)

    async def branch(self, owner, session, head):
        self.read.append(("branch", session))
        return await super().branch(owner, session, head)


async def test_recall_reads_no_run_however_many_there_are():
    store = Counting()
    scene = Scene([{"text": "noted"}])
    async with runtime(store, scene.agent()) as rt:
        for number in range(30):
            await (await rt.start("agent", f"keep the number {number} of the blue crate", session=f"s{number}")).result()
        store.read.clear()
        found = await rt.recall(query="number 17")
        assert found.text.splitlines()[0].endswith("asked: keep the number 17 of the blue crate")
        assert store.read == []


async def test_a_long_run_is_told_in_bounds_and_what_it_did_in_the_middle_is_found():
    names = [f"place{number}" for number in range(120)]
    scene = Scene([*(asks(("look", {"where": name}, f"c{name}")) for name in names), {"text": "All seen."}])
    async with runtime(InMemoryStore(), scene.agent(tools=[look], max_steps=500)) as rt:
        run = await (await rt.start("agent", "Look everywhere", session="s")).result()
        found = await rt.recall(query="place60", max_tokens=200)
        assert len(found.text) <= 800
        assert 'called look with {"where":"place60"}' in found.text
        assert "asked: Look everywhere" in found.text
        whole = await rt.recall("s", max_tokens=300)
        assert len(whole.text) <= 1200
        assert "asked: Look everywhere" in whole.text
        assert "answered: All seen." in whole.text
        assert {one["run"] for one in whole.citations} == {run.run_id}


async def test_what_is_deleted_is_not_recalled_and_what_is_imported_is(told):
    data = await told.export("s")
    await told.delete("s")
    assert (await told.recall(query="robot")).text == ""
    async with runtime(InMemoryStore()) as other:
        await other.import_(data)
        assert "asked: find the robot" in (await other.recall(query="robot")).text


async def test_a_run_that_is_taken_over_is_told_whole():
    store, scene = InMemoryStore(), Scene([asks(("pay", {"n": 7}, "c1")), {"text": "The voucher is paid."}])
    async with runtime(store, scene.agent()) as rt:
        asked = await (await rt.start("agent", "Pay the voucher", session="s")).result()
        assert "called pay" in (await rt.recall(query="voucher")).text
        answer = await rt.answer(asked.run_id, {asked.interrupts[0].id: causeline.approve()})
        await answer.result()
        text = (await rt.recall(query="voucher")).text
    assert f"[{asked.run_id}] ended: interrupted (interrupted)" in text
    assert "pay returned: paid 7" in text
    assert f"{answer.id} step" in text


async def test_a_model_looks_for_earlier_runs_and_what_it_finds_is_not_found_again():
    script = [asks(("search_history", {"query": "robot", "k": 2}, "c1")), {"text": "It was in the shed."}]
    earlier, later = Scene([{"text": "The robot is in the shed."}], name="first"), Scene(script, name="second")
    async with runtime(InMemoryStore(), earlier.agent(), later.agent(tools=[search_history])) as rt:
        first = await (await rt.start("first", "Find the robot", session="s")).result()
        await (await rt.of("bob").start(earlier.agent(), "Bob's robot", session="s")).result()
        second = await (await rt.start("second", "And where was it?", session="t")).result()
        (result,) = [node.payload["result"] for node in (await rt.branch("t")).state.nodes if node.kind == "tool_result"]
        assert "answered: The robot is in the shed." in result["found"]
        assert "Bob" not in result["found"]
        assert "not instructions" in result["note"]
        assert all(line.startswith(f"[{first.run_id} step") for line in result["found"].splitlines())
        assert second.answer == "It was in the shed."
        told = (await rt.recall("t")).text
        assert 'called search_history with {"k":2,"query":"robot"}' in told
        assert "The robot is in the shed." not in told


async def test_where_no_runs_are_kept_the_search_says_so():
    done = await execute(search_history, {"query": "robot"}, ToolContext(call_id="c"))
    assert (done.ok, "no earlier runs" in done.result) == (False, True)
