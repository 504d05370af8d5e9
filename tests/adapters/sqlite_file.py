"""A SQLite store for one test."""

import contextlib
from pathlib import Path

from causeline.adapters.stores.sql.compression import expand
from causeline.adapters.stores.sql.sqlite_store import SqliteStore


@contextlib.asynccontextmanager
async def opened(path, **options):
    store = SqliteStore(path, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def forge(body: bytes, payload: bytes | None) -> bytes:
    """A row of the log with another payload, or without one."""
    lines = expand(body).split(b"\n")
    return b"\n".join([lines[0], *([] if payload is None else [payload]), lines[-1]])


def size(path) -> int:
    return Path(path).stat().st_size
