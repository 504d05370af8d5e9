"""Searching: what fits is found and comes first, what does not is not found, and nobody else's data changes that."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from causeline.errors import Invalid
from causeline.memory.backend import CANDIDATES, MemoryBackend
from causeline.memory.items import Item
from causeline.memory.long_term import LongTermMemory
from causeline.testing.memory_laws.memory_promises import Hands, LawsOnMemory

NOTES = {
    "tea": "Ada likes green tea in the morning",
    "cat": "Ada's cat is called Babbage and sleeps all day",
    "trip": "The trip to Lisbon starts on the fifth of May",
    "report": "The quarterly report is due every third Friday",
    "code": "Functions in this repository are tested with pytest",
}
CONCEPTS = ("drink beverage tea coffee", "animal cat pet dog", "travel trip journey lisbon", "work report quarterly job")


async def by_concept(texts: Sequence[str]) -> list[list[float]]:
    """Stands in for an embedding: one dimension for each thing that may be spoken of."""
    return [[sum(word in text.lower() for word in concept.split()) + 0.001 for concept in CONCEPTS] for text in texts]


async def broken(_texts: Sequence[str]) -> list[list[float]]:
    """An embedder without a server."""
    raise OSError("no such server")


def scores(items: Sequence[Item]) -> list[float]:
    """All of them are found for a question, so each has one."""
    return [item.score for item in items if item.score is not None]


def keys(items: Sequence[Item]) -> list[str]:
    return [item.key for item in items]


class SearchLaws(LawsOnMemory):
    """See the module."""

    @pytest.fixture
    async def notes(self, memory: LongTermMemory) -> LongTermMemory:
        """The memory with NOTES in it."""
        for key, text in NOTES.items():
            await memory.put(("notes",), key, {"text": text})
        return memory

    @pytest.mark.parametrize(
        "query, key",
        [
            ("Which tea does she like?", "tea"),
            ("what is the name of the CAT", "cat"),
            ("when do we travel to lisbon", "trip"),
            ("quarterly reports", "report"),
            ("how do I test a function", "code"),
        ],
    )
    async def test_what_fits_comes_first(self, notes: LongTermMemory, query: str, key: Any) -> None:
        found = await notes.search(("notes",), query)
        assert found[0].key == key
        assert 0.05 <= scores(found)[0] < 1
        assert scores(found) == sorted(scores(found), reverse=True)

    @pytest.mark.parametrize("query", ["What is the weather like in Paris?", "and the of it", "?!", "zzz", "\N{SNOWMAN}"])
    async def test_nothing_is_found_where_nothing_fits(self, notes: LongTermMemory, query: str) -> None:
        assert await notes.search((), query) == []

    async def test_without_a_query_the_newest_come_first(self, notes: LongTermMemory) -> None:
        assert keys(await notes.search((), k=2)) == ["code", "report"]
        await notes.put(("notes",), "tea", NOTES["tea"])
        assert [(item.key, item.score) for item in await notes.search((), "  ", k=1)] == [("tea", None)]

    async def test_a_namespace_has_what_is_below_it_and_nothing_beside_it(self, memory: LongTermMemory) -> None:
        for namespace in [("user",), ("user", "ada"), ("users",), ("use",), ("user", "ada", "x"), ("other", "user")]:
            await memory.put(namespace, "/".join(namespace), "green tea")
        assert sorted(keys(await memory.search(("user",), "tea"))) == ["user", "user/ada", "user/ada/x"]
        assert keys(await memory.search(("user", "ada", "x"))) == ["user/ada/x"]
        assert len(await memory.search((), "tea", k=10)) == 6

    async def test_a_filter_is_applied_before_the_best_are_chosen(self, memory: LongTermMemory) -> None:
        await memory.put(("n",), "old", {"topic": "tea", "tags": {"year": 2020}, "flag": True}, text="green tea")
        for number in range(CANDIDATES + 20):
            await memory.put(("n",), str(number), {"topic": "coffee", "flag": 1}, text="green tea tea")
        either, both = {"$or": [{"topic": "milk"}, {"topic": "tea"}]}, {"$and": [{"topic": "tea"}, {"flag": True}]}
        filters: list[dict[str, Any]] = [{"topic": "tea"}, {"topic": ["tea", "milk"]}, {"tags.year": 2020}, {"flag": True}, either, both]
        for wanted in filters:
            assert keys(await memory.search(("n",), "tea", filter=wanted)) == ["old"]
            assert keys(await memory.search(("n",), filter=wanted)) == ["old"]
        assert await memory.search(("n",), "tea", filter={"topic": "milk"}) == []

    async def test_what_has_expired_takes_no_place(self, memory: LongTermMemory, clock: Hands) -> None:
        for number in range(30):
            await memory.put(("n",), f"gone {number}", "green tea tea", ttl=5)
        await memory.put(("n",), "here", "we have green tea and other things that people drink")
        clock.time += 6
        assert keys(await memory.search(("n",), "tea", k=3)) == ["here"]

    async def test_k_and_the_floor_bound_what_is_found(self, notes: LongTermMemory) -> None:
        assert len(await notes.search((), "Ada", k=1)) == 1
        _, second = scores(await notes.search((), "Ada likes green tea"))
        assert len(await notes.search((), "Ada likes green tea", min_score=second + 0.001)) == 1
        assert await notes.search((), "Ada likes green tea", min_score=1.0) == []

    async def test_vectors_find_what_words_do_not(self, backend: MemoryBackend, clock: Hands) -> None:
        memory = LongTermMemory(backend, embedder=by_concept, clock=clock)
        for key, text in NOTES.items():
            await memory.put(("notes",), key, {"text": text})
        assert keys(await memory.search((), "a beverage", k=1)) == ["tea"]
        assert keys(await memory.search((), "pets", k=1, filter={"text": NOTES["cat"]})) == ["cat"]
        assert keys(await memory.search((), "journey to Lisbon", k=1)) == ["trip"]
        await memory.delete(("notes",), "tea")
        assert "tea" not in keys(await memory.search((), "a beverage"))

    async def test_an_embedder_that_fails_costs_no_call(self, backend: MemoryBackend, clock: Hands) -> None:
        memory = LongTermMemory(backend, embedder=broken, clock=clock)
        await memory.put(("n",), "tea", "green tea")
        assert keys(await memory.search((), "tea")) == ["tea"]

    @pytest.mark.parametrize(
        "query",
        [
            '" OR "',
            "'",
            "tea) OR (1=1",
            "tea*",
            "NEAR(tea, 2)",
            "words:tea",
            "-tea",
            "tea \x00",
            "t'; DROP TABLE memory; --",
            "1_tea",
            "tea:*",
        ],
    )
    async def test_a_query_is_words_and_no_language(self, memory: LongTermMemory, query: str) -> None:
        await memory.put(("n",), "tea", "tea")
        assert keys(await memory.search((), query)) in (["tea"], [])
        assert keys(await memory.search((), "tea")) == ["tea"]

    @pytest.mark.parametrize(
        "text, query", [("我喜欢绿茶", "绿茶"), ("Größe: straße", "STRASSE"), ("чай по утрам", "утрам"), ("緑茶が好き", "緑茶")]
    )
    async def test_every_script_has_words(self, memory: LongTermMemory, text: str, query: str) -> None:
        await memory.put(("n",), "k", text)
        await memory.put(("n",), "other", "something else 其他")
        assert keys(await memory.search((), query)) == ["k"]

    @pytest.mark.parametrize("seed", range(8))
    async def test_what_one_owner_finds_does_not_depend_on_another(self, backend: MemoryBackend, clock: Hands, seed: int) -> None:
        """Down to the scores: how rare a word is, is counted among one's own items."""
        dice = Random(seed)
        mine, theirs, alone = (LongTermMemory(backend, owner=name, clock=clock) for name in ("ada", "bob", "alone"))
        for _ in range(dice.randrange(25)):
            own, gone = dice.random() < 0.5, dice.random() < 0.2
            key, text = dice.choice("abc"), dice.choice(list(NOTES.values()))
            for memory in (mine, alone) if own else (theirs,):
                await (memory.delete(("n",), key) if gone else memory.put(("n",), key, text))
        for query in ["Ada likes tea", "report tests trip", ""]:
            assert await mine.search((), query) == await alone.search((), query)

    async def test_what_is_no_question_is_refused(self, memory: LongTermMemory) -> None:
        refused: list[dict[str, Any]] = [
            {"k": 0},
            {"k": 2_000},
            {"filter": {"$not": []}},
            {"filter": []},
            {"filter": {"$or": {}}},
            {"query": 3},
        ]
        for arguments in refused:
            with pytest.raises(Invalid):
                await memory.search((), **arguments)
        with pytest.raises(Invalid):
            await memory.search("users", "tea")
