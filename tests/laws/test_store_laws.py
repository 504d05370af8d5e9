import pytest

from causeline.adapters.stores import open_store
from causeline.testing.store_laws import Backend, StoreLaws


class TestMemory(StoreLaws):
    @pytest.fixture
    def backend(self) -> Backend:
        store = open_store("memory://")
        return Backend(connect=lambda: store, durable=False)


class TestSqlite(StoreLaws):
    @pytest.fixture
    def backend(self, tmp_path) -> Backend:
        url = f"sqlite:///{tmp_path}/store.db"
        return Backend(connect=lambda: open_store(url), process=("causeline.adapters.stores:open_store", url))


class TestPostgres(StoreLaws):
    @pytest.fixture
    def backend(self, schema_url) -> Backend:
        return Backend(connect=lambda: open_store(schema_url), process=("causeline.adapters.stores:open_store", schema_url))
