"""The SQLite store at work: writes in groups, and what they cost."""

import asyncio
import contextlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from causeline.adapters.stores.row_filters import Wanted
from causeline.adapters.stores.sql import reads, schema_version, sqlite_threads
from causeline.adapters.stores.sql.sqlite_store import SqliteStore
from causeline.adapters.stores.sql.statements import queries, resolve
from causeline.errors import Conflict, Misuse, Unavailable
from causeline.runtime.records import Run, Session
from causeline.testing.store_laws.sample import KINDS, OWNER, begin, new_run, queue, run_row, session_row
from tests.adapters.sqlite_file import opened, size


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "store.db"


class TestGroups:
    async def test_writes_that_wait_are_committed_together_and_told_in_one_call(self, path, monkeypatch):
        async with opened(path) as store:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(60)]
            sizes = []
            together = sqlite_threads.Committer._together

            def counted(self, connection, items):
                sizes.append(len(items))
                return together(self, connection, items)

            monkeypatch.setattr(sqlite_threads.Committer, "_together", counted)
            calls = []
            loop = asyncio.get_running_loop()
            call = loop.call_soon_threadsafe
            monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (calls.append(args), call(*args))[1])
            await asyncio.gather(*[writer.go() for writer in writers])
            assert sum(sizes) == 60
            assert len(sizes) < 30
            assert len(calls) == len(sizes)

    async def test_a_refusal_in_a_group_is_undone_alone(self, path):
        """The refused start has already entered its session when it is refused."""
        async with opened(path) as store:
            await begin(store)
            updated = await session_row(store)
            starts = [
                store.start(new_run("a", session="s2"), "reject"),
                store.start(new_run("b", created_at="2026-12-24T00:00:00.000Z"), "reject"),
                store.start(new_run("c", session="s3", answers={"int_1": {}}), "reject"),
                store.start(new_run("d", session="s4"), "reject"),
            ]
            ends = await asyncio.gather(*starts, return_exceptions=True)
            assert [type(end).__name__ for end in ends] == ["Started", "Conflict", "Missing", "Started"]
            assert await session_row(store) == updated
            assert [run.id for run in await store.rows(Run, owner=OWNER)] == ["r1", "a", "d"]

    async def test_a_fault_of_ours_is_raised_and_wedges_nothing(self, path, monkeypatch):
        async with opened(path) as store:
            await begin(store)

            def broken(*args):
                raise ZeroDivisionError
                yield

            with monkeypatch.context() as patch:
                patch.setattr("causeline.adapters.stores.sql.writes.renew", broken)
                with pytest.raises(ZeroDivisionError):
                    await store.renew("h1")
            assert len(await store.renew("h1")) == 1

    async def test_who_stops_waiting_disturbs_nobody(self, path):
        async with opened(path) as store:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(6)]
            tasks = [asyncio.create_task(writer.go()) for writer in writers]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(end, asyncio.CancelledError) for end in ends] == [True, False] * 3
            for writer in writers[1::2]:
                assert (await run_row(store, writer.run.id)).head == writer.head
            assert len(await store.renew("h1")) == 6

    async def test_the_queue_is_bounded(self, path, monkeypatch):
        monkeypatch.setattr(sqlite_threads, "WAITING", 5)
        async with opened(path) as store:
            writers = [await queue(store, f"r{n}", session=f"s{n}") for n in range(20)]
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                tasks = [asyncio.create_task(store.cancel(OWNER, run.id, "2026-11-30T10:00:00.000Z")) for run in writers]
                await asyncio.sleep(0.05)
                refusals = [task.exception() for task in tasks if task.done()]
                other.execute("COMMIT")
            assert len(refusals) >= 14
            assert all(isinstance(refusal, Unavailable) and refusal.retry_after for refusal in refusals)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def test_two_event_loops_may_share_a_store(self, path):
        async with opened(path) as store:

            def elsewhere() -> None:
                async def write() -> None:
                    await (await begin(store, "theirs", session="theirs")).go(20)

                asyncio.run(write())

            thread = asyncio.create_task(asyncio.to_thread(elsewhere))
            await (await begin(store, "ours", session="ours")).go(20)
            await thread
            for name in ("ours", "theirs"):
                assert len(await store.branch(OWNER, name, (await session_row(store, name)).head)) == 20

    async def test_a_call_on_a_closing_store_is_refused(self, path):
        store = SqliteStore(path)
        await store.open()
        writer = await begin(store)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        with pytest.raises((Unavailable, Misuse)):
            await writer.go()
        await closing


# Rows of a part of the query, and rows that an index of words has found.
IGNORED = re.compile(r"SCAN (chain|CONSTANT|held|\w+ VIRTUAL TABLE INDEX \d+:M)")


class TestCost:
    async def _size(self, path: Path, rounds: int) -> int:
        from bench.stores import one_session

        async with opened(path) as store:
            await one_session(store, rounds)
        return size(path)

    async def test_a_round_takes_less_than_two_and_a_half_kilobytes_however_long_the_run(self, tmp_path):
        sizes = [await self._size(tmp_path / f"{rounds}.db", rounds) for rounds in (100, 200, 400)]
        first, second = (sizes[1] - sizes[0]) / 100, (sizes[2] - sizes[1]) / 200
        assert first < 2500
        assert second < 2500
        assert second < first * 1.1

    async def test_a_step_does_not_write_the_body_of_its_run_again(self, path):
        text = "".join(map(str, range(40_000)))
        async with opened(path) as store:
            writer = await begin(store, manifest={"text": text})
            before = size(f"{path}-wal")
            await writer.go(4)
            assert size(f"{path}-wal") - before < 4 * 10 * 4120

    @staticmethod
    def _scans(connection, text, parameters) -> list[str]:
        """Tables and indices that a query reads from end to end."""
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall()
        return [row[3] for row in plan if row[3].startswith("SCAN") and not IGNORED.match(row[3])]

    def test_no_query_reads_a_whole_table(self, path):
        """Every query finds its rows through a key."""
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            schema_version.prepare(connection, str(path), 1.0)
            for name, text in queries("sqlite").items():
                if not name.startswith(("rows_", "place_")):
                    count = max(map(int, re.findall(r"\?(\d+)", text)), default=0)
                    assert self._scans(connection, text, [1] * count) == [], name

    @pytest.mark.parametrize("kind", KINDS)
    def test_rows_are_found_through_a_key(self, path, kind):
        filters: list[dict[str, Any]] = [{"owner": "o"}, {"owner": "o", "session": "s"}]
        if kind is not Session:
            filters += [{"owner": "o", "run": "r"}, {"owner": "o", "session": "s", "run": "r"}]
        if kind is Run:
            filters += [
                {"owner": "o", "id": "r"},
                {"owner": "o", "parent": "r"},
                {"owner": "o", "session": "s", "turn": True},
                {"status": ("queued", "running")},
                {"owner": "o", "status": ("running",), "session": "s"},
            ]
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            schema_version.prepare(connection, str(path), 1.0)
            for given in filters:
                name, parameters = next(reads.rows(kind, Wanted(**({"owner": None} | given))))
                scans = self._scans(connection, resolve(name, "sqlite"), parameters)
                assert [scan for scan in scans if "run_active" not in scan] == [], given


async def test_the_database_itself_guards_one_running_run_a_session(path):
    columns = "owner, id, session, status, beat, epoch, cancel_requested, events"
    async with opened(path) as store:
        await begin(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other, pytest.raises(sqlite3.IntegrityError):
            other.execute(f"INSERT INTO run ({columns}) VALUES ('x', 'x', 1, 'running', 0, 1, 0, 0)")
        with pytest.raises(Conflict):
            await store.start(new_run("r2"), "reject")
