"""The PostgreSQL store beyond the laws: a server that goes away, migrations, limits, and what it tells others."""

import asyncio
import contextlib
import subprocess
from typing import Any

import pytest

from causeline.adapters.stores import open_store
from causeline.causal import VerifyError
from causeline.errors import Conflict, Corrupt, Invalid, Misuse, Unavailable
from causeline.runtime.records import Run
from causeline.testing.store_laws.sample import OWNER, Writer, begin, new_run, queue, run_row, take
from tests.adapters.postgres_server import private_server
from tests.adapters.sqlite_file import forge

asyncpg = pytest.importorskip("asyncpg", reason="no asyncpg: install causeline[postgres]")


@contextlib.asynccontextmanager
async def opened(url, **options):
    from causeline.adapters.stores.sql.postgres_store import PostgresStore

    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def connected(url):
    """A bare connection to the schema of a store URL."""
    address, _, schema = url.rpartition("schema=")
    connection = await asyncpg.connect(address.rstrip("?&"), server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


async def test_stores_may_open_a_fresh_schema_at_once(schema_url):
    stores = [open_store(schema_url) for _ in range(6)]
    await asyncio.gather(*[store.open() for store in stores])
    await begin(stores[0])
    assert [len(await store.rows(Run, owner=OWNER)) for store in stores] == [1] * 6
    await asyncio.gather(*[store.close() for store in stores])


async def test_a_schema_of_a_later_format_is_left_alone(schema_url):
    async with opened(schema_url) as store:
        await begin(store)
    async with connected(schema_url) as connection:
        await connection.execute("INSERT INTO format VALUES (99, 'later')")
        with pytest.raises(Invalid, match=r"format 99.*formats up to 4"):
            await open_store(schema_url).open()
        await connection.execute("DELETE FROM format WHERE version > 3")
        await connection.execute("UPDATE format SET version = 1")
        with pytest.raises(Invalid, match=r"format 1, which no released causeline wrote"):
            await open_store(schema_url).open()
        await connection.execute("UPDATE format SET version = 3")
        await connection.execute("INSERT INTO format VALUES (4, 'open_questions')")
    async with opened(schema_url) as store:
        assert (await run_row(store)).id == "r1"


@pytest.mark.parametrize("schema", ["", "Causeline", "a;b", 'a"b', "1a", "x" * 60])
def test_a_schema_is_a_plain_word(schema):
    with pytest.raises(Invalid, match="schema"):
        open_store(f"postgresql://localhost/db?schema={schema}")


async def test_a_database_that_is_not_there_is_invalid_and_a_server_that_is_not_is_unavailable(postgres_url):
    with pytest.raises(Invalid, match=r"the database nowhere.*createdb"):
        await open_store(postgres_url.replace("/postgres?", "/nowhere?")).open()
    with pytest.raises(Unavailable, match=r"the database db on 127\.0\.0\.1 does not answer.*server runs") as refusal:
        await open_store("postgresql://someone:secret@127.0.0.1:1/db").open()
    assert refusal.value.retry_after == 1.0
    assert "secret" not in str(refusal.value)


async def test_a_store_that_is_not_open_says_so(schema_url):
    store = open_store(schema_url)
    with pytest.raises(Misuse, match="await open"):
        await store.renew("h")
    await store.open()
    await store.open()
    await store.close()
    await store.close()
    with pytest.raises(Misuse):
        await store.rows(Run, owner=OWNER)


async def test_an_id_with_nul_is_invalid(schema_url):
    async with opened(schema_url) as store:
        with pytest.raises(Invalid, match="cannot hold a value"):
            await store.start(new_run("a\x00b"), "reject")
        assert await store.rows(Run, owner=OWNER) == []


async def test_a_changed_payload_is_found_by_its_id(schema_url):
    async with opened(schema_url) as store:
        head = await (await begin(store)).go(3)
        async with connected(schema_url) as connection:
            body = await connection.fetchval("SELECT body FROM log ORDER BY no DESC LIMIT 1")
            await connection.execute("UPDATE log SET body = $1 WHERE no = (SELECT max(no) FROM log)", forge(body, b'"forged"'))
        with pytest.raises(VerifyError, match="cw_"):
            await store.branch(OWNER, "s1", head)
        async with connected(schema_url) as connection:
            await connection.execute("DROP TABLE log")
        with pytest.raises(Corrupt, match="log"):
            await store.events(OWNER, "r1", 0)
        assert (await run_row(store)).head == head


class TestConnections:
    async def test_connections_are_bounded_and_all_calls_are_served(self, schema_url):
        async with opened(schema_url, connections=3) as store, connected(schema_url) as connection:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(40)]
            await asyncio.gather(*[writer.go(2) for writer in writers])
            count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'causeline'"
            assert await connection.fetchval(count) <= 4
            assert len(await store.renew("h1")) == 40

    async def test_the_calls_that_wait_are_bounded(self, schema_url, monkeypatch):
        async with opened(schema_url) as store:
            monkeypatch.setattr("causeline.adapters.stores.sql.postgres_store.WAITING", 5)
            ends = await asyncio.gather(*[queue(store, f"r{n}", session=f"s{n}") for n in range(9)], return_exceptions=True)
            refusals = [end for end in ends if isinstance(end, BaseException)]
            assert len(refusals) == 4
            assert all(isinstance(refusal, Unavailable) and refusal.retry_after == 1.0 for refusal in refusals)
            assert len(await store.rows(Run, owner=OWNER)) == 5

    async def test_a_fault_of_ours_is_raised_and_holds_nobody_up(self, schema_url, monkeypatch):
        async with opened(schema_url) as store:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(3)]
            with monkeypatch.context() as patch:
                patch.setattr("causeline.adapters.stores.sql.log_writes.prepared", lambda *given: 1 // 0)
                ends = await asyncio.gather(*[writer.go() for writer in writers], return_exceptions=True)
            assert [type(end) for end in ends] == [ZeroDivisionError] * 3
            assert (await run_row(store)).head is None
            await Writer(store, await run_row(store)).go()

    async def test_a_call_that_cannot_get_a_connection_in_time_is_unavailable(self, schema_url):
        async with opened(schema_url, connections=1, patience=0.3) as store, connected(schema_url) as connection:
            writer = await begin(store)
            async with connection.transaction():
                await connection.execute("SELECT * FROM session, run FOR UPDATE")
                with pytest.raises(Unavailable) as refusal:
                    await writer.go()
                assert refusal.value.retry_after == 1.0
            assert (await run_row(store)).head is None
            await Writer(store, await run_row(store)).go()

    async def test_who_stops_waiting_disturbs_nobody(self, schema_url):
        async with opened(schema_url, connections=3) as store, connected(schema_url) as connection:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(6)]
            async with connection.transaction():
                await connection.execute("SELECT * FROM session, run FOR UPDATE")
                tasks: list[asyncio.Task[Any]] = [asyncio.create_task(writer.go()) for writer in writers]
                tasks += [asyncio.create_task(store.start(new_run(f"q{n}", session=f"s{n}"), "enqueue")) for n in range(6)]
                await asyncio.sleep(0.1)
                for task in tasks[::2]:
                    task.cancel()
                await asyncio.sleep(0.05)
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(end, BaseException) for end in ends] == [True, False] * 6
            for writer in writers[1::2]:
                assert (await run_row(store, writer.run.id)).head == writer.head
            assert len(await store.renew("h1")) == 6

    async def test_a_connection_that_is_cut_fails_its_call_and_no_other(self, schema_url):
        async with opened(schema_url, connections=2) as store, connected(schema_url) as connection:
            writer = await begin(store)
            async with connection.transaction():
                await connection.execute("SELECT * FROM session, run FOR UPDATE")
                commit = asyncio.create_task(writer.go())
                await asyncio.sleep(0.1)
                waiting = "application_name = 'causeline' AND wait_event_type = 'Lock'"
                assert await connection.fetch(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waiting}")
                with pytest.raises(Unavailable, match="nothing is half written"):
                    await commit
            assert (await run_row(store)).head is None
            await Writer(store, writer.run).go()

    async def test_a_server_that_restarts_is_unavailable_and_then_there_again(self):
        with private_server() as server:
            async with opened(server.get_uri(), patience=5.0) as store, opened(server.get_uri()) as other:
                writer = await begin(store)
                await writer.go(3)
                failures: list[BaseException] = []
                restart = asyncio.create_task(asyncio.to_thread(_restart, server))
                while not restart.done():
                    commits = [writer.commit(events=[{"type": "t"}], first_event=writer.next_event + place) for place in range(3)]
                    ends = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
                    failures.extend(end for end in ends if isinstance(end, BaseException) and not isinstance(end, Conflict))
                    # A commit whose answer was lost is done or not done; what is stored has no gap.
                    events = await _again(failures, store.events, OWNER, "r1", 0, 100_000)
                    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
                    writer.next_event = len(events) + 1
                await restart
                assert failures
                assert all(isinstance(failure, Unavailable) and failure.retry_after == 1.0 for failure in failures), failures
                assert len(await store.branch(OWNER, "s1", await writer.go())) == 4
                await _hears(other, writer)


def _restart(server) -> None:
    control = [str(server.bin_path / "pg_ctl"), "-D", str(server.pgdata), "-m", "fast", "-w", "-l", str(server.log), "restart"]
    # The server inherits what pg_ctl writes to, so a pipe would never end.
    subprocess.run(control, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=server.system_user)


async def _hears(store, writer) -> None:
    """The store connects to LISTEN again, by and by."""
    waiting = asyncio.create_task(store.changed(await store.changed(0, 0), 20.0))
    while not waiting.done():
        await writer.go()
        await asyncio.sleep(0.05)
    token = await waiting
    waiting = asyncio.create_task(store.changed(await store.changed(token, 0.3), 20.0))
    await writer.go()
    await asyncio.wait_for(waiting, 20)


async def _again(failures, call, *arguments):
    """A read, tried until the server answers."""
    for _ in range(400):
        try:
            return await call(*arguments)
        except Unavailable as error:
            failures.append(error)
            await asyncio.sleep(0.05)
    raise AssertionError("the server did not come back")


async def test_other_processes_are_told_once_for_many_commits(schema_url):
    schema = schema_url.rpartition("schema=")[2]
    async with opened(schema_url) as store, connected(schema_url) as connection:
        heard = []
        await connection.add_listener(schema, lambda *message: heard.append(message))
        writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(30)]
        await asyncio.gather(*[writer.go(3) for writer in writers])
        async with asyncio.timeout(30):
            while not heard:  # noqa: ASYNC110 - a list tells no event
                await asyncio.sleep(0.01)
        assert len(heard) < 60


async def test_starts_and_claims_that_clash_are_tried_again(schema_url):
    """Cancelling starts and commits lock a session and its run in one order, and what clashes all the same begins anew."""
    async with opened(schema_url) as store:
        writer = await begin(store)
        for turn in range(10):
            ends = await asyncio.gather(
                writer.go(),
                store.start(new_run(f"c{turn}"), "cancel"),
                store.cancel(OWNER, "r1", "2026-11-30T10:00:00.000Z"),
                store.renew("h1"),
                return_exceptions=True,
            )
            assert [end for end in ends if isinstance(end, BaseException)] == []
        await writer.end()
        waiting = list(await store.rows(Run, owner=OWNER, status=("queued",)))
        claims = await asyncio.gather(*[take(store, run, f"h{n}") for n, run in enumerate(waiting * 3)])
        assert len([claim for claim in claims if claim is not None]) == 1
        await queue(store, "last")
