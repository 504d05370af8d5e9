"""Vectors in PostgreSQL: compared by pgvector where the database has it, in Python elsewhere, with the same outcome."""

import random

import pytest

from causeline.adapters.stores import open_store
from causeline.adapters.stores.sql import pgvector, statements
from causeline.adapters.stores.sql.pgvector import PgItems
from causeline.memory.long_term import LongTermMemory
from tests.adapters.postgres_server import postgres_url, schema_url

__all__ = ["postgres_url", "schema_url"]


async def by_text(texts):
    """A vector that depends on the text alone."""
    return [[random.Random(text).uniform(-1, 1) for _ in range(24)] for text in texts]


async def filled(items, count=120):
    memory = LongTermMemory(items, embedder=by_text)
    for number in range(count):
        await memory.put(("n", str(number % 3)), str(number), f"text {number}")
    return memory


async def found(memory):
    return [
        [(item.key, item.score) for item in await memory.search(place, query, k=4)]
        for place in ((), ("n", "1"), ("m",))
        for query in ("text 7", "another", "text 99")
    ]


@pytest.fixture
async def store(schema_url):
    store = open_store(schema_url)
    await store.open()
    yield store
    await store.close()


async def embeddings(store):
    async with store._pool.acquire() as connection:
        return await connection.fetchval("SELECT count(*) FROM memory_embedding")


async def test_the_extension_finds_what_python_finds(store):
    memory = await filled(store.memory())
    assert await embeddings(store) == 120, "the wheel brings pgvector along"
    by_extension = await found(memory)
    plain = LongTermMemory(PgItems(store.memory()._read, store.memory()._write), embedder=by_text)
    plain._backend._looked = True  # as where the extension is not there
    assert by_extension == await found(plain)
    assert by_extension[0][0][0] == "7"
    await memory.delete(("n", "1"), "7")
    assert await embeddings(store) == 119
    assert "7" not in [key for key, _ in (await found(memory))[0]]


async def test_vectors_of_other_sizes_have_nothing_in_common(store):
    async def sized(texts):
        return [[1.0] * len(text) for text in texts]

    memory = LongTermMemory(store.memory(), embedder=sized)
    await memory.put(("n",), "two", "ab")
    await memory.put(("n",), "three", "abc")
    assert [item.key for item in await memory.search((), "xy")] == ["two"]


async def test_vectors_from_before_the_extension_are_brought_to_it(store, monkeypatch):
    monkeypatch.setattr(pgvector, "BATCH", 7)
    before = PgItems(store.memory()._read, store.memory()._write)
    before._looked = True
    await filled(before, 20)
    assert (await found(LongTermMemory(store.memory(), embedder=by_text)))[0][0][0] == "7"
    assert await embeddings(store) == 20


async def test_a_database_without_the_extension_says_so_once_and_works(store, monkeypatch, caplog):
    without = {**statements.queries("postgres"), "vector_make": "CREATE EXTENSION IF NOT EXISTS there_is_no_such_extension"}
    monkeypatch.setattr(statements, "queries", lambda _dialect: without)
    statements.resolve.cache_clear()
    try:
        with caplog.at_level("INFO", "causeline.memory"):
            memory = await filled(store.memory(), 10)
            assert (await memory.search((), "text 7"))[0].key == "7"
    finally:
        statements.resolve.cache_clear()
    assert [record.message[:24] for record in caplog.records] == ["pgvector is not used, ve"]
