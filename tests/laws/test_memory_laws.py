from contextlib import asynccontextmanager

import pytest

from causeline.adapters.stores import open_store
from causeline.testing.memory_laws import MemoryCase, MemoryLaws


def case_of(connect, *, durable=True) -> MemoryCase:
    @asynccontextmanager
    async def opened():
        store = connect()
        await store.open()
        yield store.memory()
        await store.close()

    return MemoryCase(opened, durable)


class TestMemory(MemoryLaws):
    @pytest.fixture
    def case(self) -> MemoryCase:
        store = open_store("memory://")
        return case_of(lambda: store, durable=False)


class TestSqlite(MemoryLaws):
    @pytest.fixture
    def case(self, tmp_path) -> MemoryCase:
        return case_of(lambda: open_store(f"sqlite:///{tmp_path}/store.db"))


class TestPostgres(MemoryLaws):
    @pytest.fixture
    def case(self, schema_url) -> MemoryCase:
        return case_of(lambda: open_store(schema_url))
