"""Whatever stands in a damaged file, reading it is Corrupt or tells what is still there: never an error of the code that reads."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from causeline.adapters.stores.sql.compression import expand
from causeline.adapters.stores.sql.sqlite_store import SqliteStore
from causeline.errors import CauselineError, Corrupt
from causeline.runtime.records import CallRow, Checkpoint, Progress, Run
from causeline.runtime.store_check import verify_store
from causeline.testing.store_laws.committing import full
from causeline.testing.store_laws.sample import KINDS, OWNER, begin
from tests.adapters.sqlite_file import opened

TABLES = ("session", "run", "run_body", "log", "interrupt", "progress")
JUNK: list[Any] = [None, b"\xff\xfe", b"\x01\x00\x00", b"[1,2]", b'{"a":1}', b"[" * 2_000, 10**18, -1, "x"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    import asyncio

    path = tmp_path_factory.mktemp("damaged") / "whole.db"

    async def fill() -> None:
        async with opened(path) as store:
            writer = await begin(store, context={"k": 1}, tools=[{"name": "t"}])
            await store.put_session(OWNER, "s1", "2026-11-30T10:00:00.000Z", metadata={"m": 1}, context={"c": 2})
            await writer.write(full(writer))
            await writer.write(full(writer, 1))
            await writer.end("failed", answer={"n": 1}, error={"code": "x"}, pending_tool_call_ids=["c"])

    asyncio.run(fill())
    return path


async def _read_all(path: Path, head: str) -> list[CauselineError]:
    """Read everything; the errors, all ours."""
    store = SqliteStore(path)
    await store.open()
    errors: list[CauselineError] = []
    reads = [store.rows(kind, owner=OWNER) for kind in KINDS]
    reads += [
        store.rows(CallRow, owner=OWNER, run="r1", newest=True), store.rows(Checkpoint, owner=OWNER, id=head),
        store.events(OWNER, "r1", 0), store.branch(OWNER, "s1", head),
    ]  # fmt: skip
    try:
        for read in reads:
            try:
                await read
            except CauselineError as error:
                errors.append(error)
    finally:
        await store.close()
    return errors


@pytest.mark.parametrize("table", TABLES)
async def test_any_column_may_hold_anything(filled, tmp_path, table):
    async with opened(filled) as store:
        head = (await store.rows(Run, owner=OWNER))[0].head
    assert head is not None
    with contextlib.closing(sqlite3.connect(filled)) as whole:
        columns = [row[1] for row in whole.execute(f"PRAGMA table_info({table})")]
    assert columns
    told = 0
    for column in columns:
        for place, junk in enumerate(JUNK):
            path = tmp_path / f"{column}-{place}.db"
            path.write_bytes(filled.read_bytes())
            with contextlib.closing(sqlite3.connect(path)) as other:
                try:
                    other.execute(f"UPDATE {table} SET {column} = ?", (junk,))
                except sqlite3.IntegrityError:
                    continue
                other.commit()
            told += len(await _read_all(path, head))
            path.unlink()
    assert told > 5


@pytest.mark.parametrize("line", range(4))
async def test_any_line_of_a_row_may_hold_anything(filled, tmp_path, line):
    """The lines of a row, in text that can be expanded."""
    async with opened(filled) as store:
        head = (await store.rows(Run, owner=OWNER))[0].head
    assert head is not None
    path = tmp_path / "store.db"
    for junk in (
        b"",
        b"null",
        b"[]",
        b"{}",
        b"[1,[],[]]",
        b"[[0,1,2,3,4,5,6,7,8,9],[[],[]],[]]",
        b"[0,[],[[1,2,3,4]]]",
        b'["a","b"]',
        b"[{}]",
    ):
        path.write_bytes(filled.read_bytes())
        with contextlib.closing(sqlite3.connect(path)) as other:
            number, body = other.execute("SELECT no, body FROM log WHERE keys IS NOT NULL ORDER BY no LIMIT 1").fetchone()
            lines = expand(body).split(b"\n")
            lines[line] = junk
            other.execute("UPDATE log SET body = ? WHERE no = ?", (b"\n".join(lines), number))
            other.commit()
        errors = await _read_all(path, head)
        assert errors, junk
        assert all(isinstance(error, Corrupt) for error in errors), errors


async def test_a_whole_store_is_verified_and_each_fault_named(filled, tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(filled.read_bytes())
    async with opened(path) as store:
        await (await begin(store, "r2", session="s2")).go(2, events=2)
        report = await verify_store(store)
        assert (report.ok, report.sessions, report.runs, report.checkpoints, report.nodes, report.events) == (True, 2, 2, 4, 6, 10)
    with contextlib.closing(sqlite3.connect(path)) as other:
        number, body = other.execute("SELECT no, body FROM log WHERE keys IS NOT NULL ORDER BY no LIMIT 1").fetchone()
        lines = expand(body).split(b"\n")
        step = lines[0].replace(b'"call_tools"', b'"call_other"')
        assert step != lines[0]
        other.execute("UPDATE log SET body = ? WHERE no = ?", (b"\n".join([step, *lines[1:]]), number))
        other.execute("DELETE FROM log WHERE no = (SELECT MAX(no) FROM log)")
        other.commit()
    async with opened(path) as store:
        report = await verify_store(store)
        assert {fault.session for fault in report.faults} == {"s1", "s2"}
        assert any("events of run r2 end with number 2; its row says 4" in fault.message for fault in report.faults)
        assert any(fault.session == "s1" and "ck_" in fault.message for fault in report.faults)


async def test_a_row_of_another_shape_says_which_field_and_what_to_do(filled, tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(filled.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE run SET status = 'done'")
        other.commit()
    async with opened(path) as store:
        with pytest.raises(Corrupt, match=r"Run cannot be read.*status is 'done'.*restore the store from a copy"):
            await store.rows(Run, owner=OWNER)
        assert len(await store.rows(Progress, owner=OWNER)) == 1
