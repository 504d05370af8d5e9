"""Recall says what earlier runs did in the words of the log, and nothing where nothing was found."""

import pytest

import causeline
from causeline.adapters.stores.in_memory_store import InMemoryStore
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
