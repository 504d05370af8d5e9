"""A SQLite store for one test."""

import contextlib
from pathlib import Path

from causeline.adapters.stores.sql.sqlite_store import SqliteStore


@contextlib.asynccontextmanager
async def opened(path, **options):
    store = SqliteStore(path, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def size(path) -> int:
    return Path(path).stat().st_size
