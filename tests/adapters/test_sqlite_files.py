"""The SQLite store and its file: strange files, damage, locks, full disks."""

import asyncio
import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from causeline.adapters.stores import open_store
from causeline.adapters.stores.sql import schema_version
from causeline.adapters.stores.sql.sqlite_store import SqliteStore
from causeline.adapters.stores.sql.statements import migrations
from causeline.causal import VerifyError
from causeline.errors import Corrupt, Invalid, Misuse, Refused, Unavailable
from causeline.runtime.records import Run
from causeline.testing.store_laws.sample import OWNER, Writer, begin, everything, new_call, new_run, run_row
from tests.adapters.sqlite_file import forge, opened, size


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "store.db"


@contextlib.contextmanager
def mounted(folder: Path, options: str):
    """A file system of its own, where this machine lets us make one."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def launch(program: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(process: subprocess.Popen, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def heard(process: subprocess.Popen) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


class TestOpening:
    async def test_missing_folders_are_made_and_paths_are_relative_to_here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        store = open_store("sqlite:///.causeline/deep/store.db")
        await store.open()
        await begin(store)
        await store.close()
        assert size(tmp_path / ".causeline/deep/store.db") > 0
        assert not list(tmp_path.glob("**/*-wal"))

    async def test_a_commit_is_flushed_to_disk(self, path, monkeypatch):
        seen = []

        def prepare(connection, place, patience):
            migrate_prepare(connection, place, patience)
            seen.extend(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))

        migrate_prepare = schema_version.prepare
        monkeypatch.setattr(schema_version, "prepare", prepare)
        async with opened(path):
            assert seen == ["wal", 2]

    async def test_opening_twice_and_closing_twice_is_harmless(self, path):
        store = SqliteStore(path)
        await store.open()
        await store.open()
        assert sum(thread.name == "causeline-store" for thread in threading.enumerate()) == 3
        await store.close()
        await store.close()
        await store.open()
        await begin(store)
        await store.close()

    async def test_a_store_that_is_not_open_says_so(self, path):
        store = SqliteStore(path)
        for attempt in (store.rows(Run, owner=OWNER), store.start(new_run(), "reject"), store.renew("h")):
            with pytest.raises(Misuse, match="await open"):
                await attempt
        assert not path.exists()

    @pytest.mark.parametrize("content", [b"hello, this is no database at all\n" * 200, b"x" * 4096])
    async def test_what_is_no_database_is_left_alone(self, path, content):
        path.write_bytes(content)
        with pytest.raises(Invalid, match=r"store\.db.*no SQLite database"):
            await SqliteStore(path).open()
        assert path.read_bytes() == content
        assert [entry.name for entry in path.parent.iterdir()] == ["store.db"]

    async def test_the_database_of_another_program_is_left_alone(self, path):
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE session (mine TEXT)")
            other.commit()
        before = path.read_bytes()
        with pytest.raises(Invalid, match=r"store\.db is a database of another program"):
            await SqliteStore(path).open()
        assert path.read_bytes() == before

    async def test_a_file_of_a_later_format_is_left_alone(self, path):
        async with opened(path) as store:
            await begin(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as later:
            later.execute("PRAGMA user_version = 99")
        with pytest.raises(Invalid, match=r"format 99.*formats up to 4"):
            await SqliteStore(path).open()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as later:
            assert later.execute("PRAGMA user_version").fetchone() == (99,)
            later.execute("PRAGMA user_version = 4")
        async with opened(path) as store:
            assert (await run_row(store)).id == "r1"

    async def test_a_file_of_a_format_from_before_the_first_release_is_left_alone(self, path):
        async with opened(path) as store:
            await begin(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as earlier:
            earlier.execute("PRAGMA user_version = 1")
        before = path.read_bytes()
        with pytest.raises(Invalid, match=r"format 1, which no released causeline wrote.*Export its sessions"):
            await SqliteStore(path).open()
        assert path.read_bytes() == before

    async def test_a_migration_that_fails_leaves_the_file_as_it_was(self, path, monkeypatch):
        steps = migrations("sqlite")
        broken = [*steps, type(steps[0])(5, "broken", ["CREATE TABLE extra (n)", "CREATE TABLE run (n)"])]
        async with opened(path) as store:
            await begin(store)
        with monkeypatch.context() as patch:
            patch.setattr(schema_version, "migrations", lambda dialect: broken)
            patch.setattr(schema_version, "newest_format", lambda dialect: 5)
            with pytest.raises(Corrupt):
                await SqliteStore(path).open()
        async with opened(path) as store:
            assert (await run_row(store)).id == "r1"

    async def test_a_place_that_cannot_hold_a_file_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        for place in (tmp_path / "file" / "store.db", tmp_path):
            with pytest.raises(Invalid, match=str(place.name)):
                await SqliteStore(place).open()

    async def test_a_read_only_place_is_named_and_what_is_in_it_stays(self, tmp_path):
        with mounted(tmp_path / "disk", "size=4m") as disk:
            async with opened(disk / "old.db") as store:
                await begin(store)
            remount(disk, "ro")
            with pytest.raises(Invalid, match=r"new\.db cannot be opened for writing.*another place"):
                await SqliteStore(disk / "new.db").open()
            assert sorted(entry.name for entry in disk.iterdir()) == ["old.db"]

    @pytest.mark.parametrize("left_open", [False, True])
    async def test_a_store_that_cannot_be_written_can_be_read(self, tmp_path, left_open):
        with mounted(tmp_path / "disk", "size=4m") as disk:
            async with opened(disk / "old.db") as store:
                head = await (await begin(store)).go(3)
                before = await everything(store)
                if left_open:  # as a process leaves it that is killed: with a log
                    for name in ("old.db", "old.db-wal", "old.db-shm"):
                        shutil.copy(disk / name, disk / f"left-{name}")
            name = "left-old.db" if left_open else "old.db"
            remount(disk, "ro")
            async with opened(disk / name) as store:
                assert await everything(store) == before
                assert len(await store.branch(OWNER, "s1", head)) == 3
                for write in (store.renew("h1"), store.start(new_run("r2"), "enqueue"), store.delete(OWNER, "s1")):
                    with pytest.raises(Refused, match=r"old\.db can only be read here") as refusal:
                        await write
                    assert refusal.value.code == "read_only"

    @pytest.mark.parametrize(
        "url", ["sqlite://", "sqlite:///", "sqlite://x.db", "sqlite:///:memory:", "memory://x", "mysql://x", "store.db", ""]
    )
    def test_a_url_that_names_no_store_is_refused(self, url):
        with pytest.raises(Invalid, match=r"memory://|sqlite:///"):
            open_store(url)

    async def test_many_processes_may_open_a_fresh_file_at_once(self, tmp_path, sweep_all):
        """Eight processes, fifty files in the sweep. Each opens, starts a run, and closes again."""
        files = 50 if sweep_all else 12
        program = (
            "import asyncio, sys\n"
            "from causeline.adapters.stores import open_store\n"
            "from causeline.testing.store_laws.sample import begin\n"
            "async def once(path):\n"
            "    store = open_store('sqlite:///' + path)\n"
            "    await store.open()\n"
            "    await begin(store, f'r{sys.argv[1]}', session=f's{sys.argv[1]}')\n"
            "    await store.close()\n"
            "print('ready', flush=True)\n"
            "for line in sys.stdin:\n"
            "    asyncio.run(once(line.strip()))\n"
            "    print('done', flush=True)\n"
        )
        processes = [launch(program, str(n)) for n in range(8)]
        try:
            assert [heard(process) for process in processes] == ["ready"] * 8
            for number in range(files):
                for process in processes:
                    say(process, f"{tmp_path}/{number}.db")
                assert [heard(process) for process in processes] == ["done"] * 8
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        async with opened(tmp_path / f"{files - 1}.db") as store:
            assert len(await store.rows(Run, owner=OWNER)) == 8


class TestDamage:
    async def _filled(self, path: Path) -> str:
        async with opened(path) as store:
            writer = await begin(store)
            for number in range(60):
                await writer.write(writer.next([f"{number} " + "word " * 100], events=3, calls=[new_call(f"c{number}")]))
            assert writer.head is not None
            return writer.head

    async def test_a_damaged_page_is_corrupt_and_wedges_nothing(self, path):
        head = await self._filled(path)
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            for page in range(1, size // 4096):
                file.seek(page * 4096)
                if b"CREATE " in file.read(4096):
                    continue  # without its schema no connection gets as far as a row
                file.seek(page * 4096)
                file.write(b"\xa5" * 4096)
        async with opened(path) as store:
            with pytest.raises(Corrupt, match=r"store\.db.*damaged.*restore"):
                await store.branch(OWNER, "s1", head)
            with pytest.raises(Corrupt):
                await store.start(new_run("r2", session="s2"), "reject")
            with pytest.raises(Corrupt):
                await store.rows(Run, owner=OWNER)

    async def test_a_changed_payload_is_found_by_its_id(self, path):
        head = await self._filled(path)
        with contextlib.closing(sqlite3.connect(path)) as other:
            number, body = other.execute("SELECT no, body FROM log ORDER BY no DESC LIMIT 1").fetchone()
            other.execute("UPDATE log SET body = ? WHERE no = ?", (forge(body, b'"forged"'), number))
            other.commit()
        async with opened(path) as store:
            with pytest.raises(VerifyError, match="cw_"):
                await store.branch(OWNER, "s1", head)

    async def test_a_missing_node_is_named(self, path):
        head = await self._filled(path)
        with contextlib.closing(sqlite3.connect(path)) as other:
            number, body = other.execute("SELECT no, body FROM log ORDER BY no DESC LIMIT 1").fetchone()
            other.execute("UPDATE log SET body = ? WHERE no = ?", (forge(body, None), number))
            other.commit()
        async with opened(path) as store:
            with pytest.raises(Corrupt, match=f"{head} lists node cw_"):
                await store.branch(OWNER, "s1", head)

    async def test_a_missing_table_is_corrupt(self, path):
        await self._filled(path)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE log")
            other.commit()
        async with opened(path) as store:
            with pytest.raises(Corrupt, match="no such table"):
                await store.events(OWNER, "r1", 0)
            assert (await run_row(store)).id == "r1"


class TestLocksAndSpace:
    async def test_a_file_that_is_held_is_unavailable_and_then_goes_on(self, path):
        async with opened(path, patience=0.1) as store:
            writer = await begin(store)
            before = await everything(store)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                commits = [store.commit(writer.next([str(n)])) for n in range(3)]
                for end in await asyncio.gather(*commits, return_exceptions=True):
                    assert isinstance(end, Unavailable)
                    assert "store.db: another process" in str(end)
                assert await everything(store) == before
                other.execute("COMMIT")
            writer = Writer(store, writer.run)
            await writer.go()

    async def test_a_reader_in_another_process_does_not_hold_up_writes(self, path):
        async with opened(path, patience=0.1) as store:
            writer = await begin(store)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN")
                assert other.execute("SELECT count(*) FROM log").fetchone() == (0,)
                await writer.go(5)
                assert other.execute("SELECT count(*) FROM log").fetchone() == (0,)
                other.execute("COMMIT")

    async def test_only_the_write_that_does_not_fit_fails(self, path, monkeypatch):
        def prepare(connection, place, patience):
            migrate_prepare(connection, place, patience)
            connection.execute("PRAGMA max_page_count = 120")

        migrate_prepare = schema_version.prepare
        monkeypatch.setattr(schema_version, "prepare", prepare)
        async with opened(path) as store:
            writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(5)]
            commits = [writer.next(["x"]) for writer in writers[:4]]
            commits.insert(2, writers[4].next([os.urandom(500_000).hex()]))
            before = await run_row(store, "r4")
            ends = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
            assert [end is None for end in ends] == [True, True, False, True, True]
            assert isinstance(ends[2], Unavailable)
            assert "disk is full" in str(ends[2])
            assert await run_row(store, "r4") == before
            assert [(await run_row(store, f"r{n}")).head is not None for n in range(5)] == [True] * 4 + [False]
            await Writer(store, before).go()

    async def test_a_full_disk_is_unavailable_and_leaves_nothing_half_written(self, tmp_path):
        with mounted(tmp_path / "disk", "size=1m") as disk:
            async with opened(disk / "store.db") as store:
                writer = await begin(store)
                heads: list[str | None] = [None]
                text = os.urandom(20_000).hex()
                refusal = None
                while refusal is None:
                    try:
                        heads.append(await writer.go(extra={"facts": {"text": text}}))
                    except Unavailable as error:
                        refusal = error
                assert re.search(r"store\.db: (the disk is full|reading or writing failed)", str(refusal))
                assert (await run_row(store)).head == heads[-1]
                with pytest.raises(Unavailable):
                    await writer.go(extra={"facts": {"text": text}})
                links = await store.branch(OWNER, "s1", heads[-1])
                assert [link.checkpoint.id for link in links] == heads[1:]
            remount(disk, "size=8m")
            async with opened(disk / "store.db") as store:
                heir = Writer(store, await run_row(store), head=heads[-1])
                await heir.go()
                assert len(await store.branch(OWNER, "s1", heir.head)) == len(heads)
