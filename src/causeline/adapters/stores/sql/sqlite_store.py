"""A store in a SQLite file: the standard library alone, write-ahead logging, every commit flushed to disk."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Unpack

from causeline.adapters.stores import rules
from causeline.adapters.stores.row_filters import wanted_rows
from causeline.adapters.stores.signal import Signal
from causeline.adapters.stores.sql import encoding, log_writes, reads, schema_version, writes
from causeline.adapters.stores.sql.memory_operations import SqlItems
from causeline.adapters.stores.sql.operation import Operation
from causeline.adapters.stores.sql.sqlite_threads import Committer, Line, Queue, hand_over, serve_reads
from causeline.adapters.stores.sql.tips import Tips
from causeline.causal import CausalNode
from causeline.errors import CauselineError, Conflict, Corrupt, Invalid, Misuse, Unavailable
from causeline.runtime.records import CallRow, Commit, Link, OnBusy, Run, Session, Started
from causeline.runtime.store import Row, RowFilters

READERS = 2
OLDEST = (3, 35)
"""The first SQLite with RETURNING."""


class SqliteStore:
    """See `causeline.runtime.store.Store`. `patience` is how many seconds another process may hold the file."""

    def __init__(self, path: str | Path, *, patience: float = 5.0) -> None:
        self._path = Path(path).absolute()
        self._patience = patience
        self._writes: Queue = SimpleQueue()
        self._reads: Queue = SimpleQueue()
        self._signal = Signal(self._nudge)
        self._tips = Tips(0)
        self._lines: list[Line] = []
        self.applied: Sequence[str] = ()
        """The steps of the schema that opening it has brought."""

    # opening and closing

    async def open(self) -> None:
        """Open the file, and make it where it is missing. Raises Invalid for a file or place that cannot be a store."""
        if self._lines:
            return
        if sqlite3.sqlite_version_info < OLDEST:
            raise Invalid(f"this Python has SQLite {sqlite3.sqlite_version}; causeline needs 3.35 or later")
        opening = partial(explain, self._path, opening=True)
        later = partial(explain, self._path, opening=False)
        writer = Line(self._connect_writer, Committer(later, self._signal, self._tips).serve, opening, self._writes)
        lines = [writer, *(Line(self._connect_reader, serve_reads(later), opening, self._reads) for _ in range(READERS))]
        opened: list[Line] = []
        try:
            for line in lines:
                await line.open()
                opened.append(line)
        except BaseException:
            for line in opened:
                await line.close()
            raise
        self._lines = lines

    async def close(self) -> None:
        """Write what waits, then close the file."""
        lines, self._lines = self._lines, []
        for line in lines:
            await line.close()
        hand_over([], self._signal.grow())

    def _connect_writer(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect()
        try:
            self.applied = schema_version.prepare(connection, str(self._path), self._patience)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=self._patience, isolation_level=None, cached_statements=256)
        connection.execute("PRAGMA cache_size = -8192")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        return connection

    # runs and commits

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        rules.check_start(run)
        body = encoding.run_body(run)
        return await self._writer.submit(partial(writes.start, run, body, on_busy))

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        return await self._writer.submit(partial(writes.claim, owner, run_id, holder, epoch, beat, at))

    async def renew(self, holder: str) -> Sequence[Run]:
        return await self._writer.submit(partial(writes.renew, holder))

    async def commit(self, commit: Commit) -> None:
        await self._writer.submit(partial(log_writes.write, log_writes.writing(commit), self._tips))

    async def cancel(self, owner: str, run_id: str, at: str) -> Run:
        return await self._writer.submit(partial(writes.cancel, owner, run_id, at))

    # reading

    async def rows(self, kind: type[Row], *, owner: str | None, **filters: Unpack[RowFilters]) -> Sequence[Row]:
        return await self._reader.submit(partial(reads.rows, kind, wanted_rows(kind, owner, filters)))

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        return await self._reader.submit(partial(reads.branch, owner, session, head))

    async def node(self, owner: str, node_id: str) -> Sequence[tuple[str, CausalNode]]:
        return await self._reader.submit(partial(reads.node, owner, node_id))

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        return await self._reader.submit(partial(reads.events, owner, run_id, after, limit))

    async def changed(self, seen: int, timeout: float) -> int:
        return await self._signal.wait(seen, timeout)

    def memory(self) -> SqlItems:
        async def read(begin: Callable[[], Operation[Any]]) -> Any:
            return await self._reader.submit(begin)

        async def write(begin: Callable[[], Operation[Any]]) -> Any:
            return await self._writer.submit(begin)

        return SqlItems(read, write)

    # whole sessions

    async def put_session(
        self, owner: str, session: str, at: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        given = encoding.dump_or_none(metadata), encoding.dump_or_none(context)
        return await self._writer.submit(partial(writes.put_session, owner, session, at, *given))

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        ordered = rules.check_session(session, runs, links, calls)
        await self._writer.submit(partial(writes.load, session, runs, ordered, calls))

    async def delete(self, owner: str, session: str) -> None:
        await self._writer.submit(partial(writes.delete, owner, session, self._tips))

    # inside

    @property
    def _writer(self) -> Line:
        if not self._lines:
            raise Misuse(f"the store {self._path} is not open; await open() first")
        return self._lines[0]

    @property
    def _reader(self) -> Line:
        return self._lines[1] if self._lines else self._writer

    def _nudge(self) -> None:
        """The writer sleeps without end while nobody waits; this makes it look at what other processes commit."""
        self._writes.put(None)


def explain(path: Path, error: BaseException, *, opening: bool) -> BaseException:
    """An error of SQLite or of the file system in our words: whose fault it is, and what to do next."""
    if isinstance(error, OverflowError | UnicodeError):
        return Invalid(f"a value cannot be stored in {path}: {error}")
    if isinstance(error, OSError):
        return Invalid(f"{path} cannot be made: {error.strerror}; choose another place")
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _REFUSED_PLACES:
        text = (
            f"{path} cannot be opened for writing ({error}); check the permissions of the file and of its folder, or choose another place"
        )
        return Invalid(text) if opening else Unavailable(text)
    kind, what = _MEANINGS.get(code, (Unavailable, "SQLite failed; nothing of this write was stored"))
    return kind(f"{path}: {what} ({error})")


_REFUSED_PLACES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_BUSY = "another process has held the file for too long; try again, or end the program that holds it"
_MEANINGS: Mapping[int, tuple[type[CauselineError], str]] = {
    sqlite3.SQLITE_BUSY: (Unavailable, _BUSY),
    sqlite3.SQLITE_LOCKED: (Unavailable, _BUSY),
    sqlite3.SQLITE_FULL: (Unavailable, "the disk is full and nothing of this write was stored; make room and try again"),
    sqlite3.SQLITE_IOERR: (
        Unavailable,
        "reading or writing failed and nothing of this write was stored; check the disk and its free space",
    ),
    sqlite3.SQLITE_CORRUPT: (Corrupt, "the file is damaged; restore it from a copy, or save what is left with `sqlite3 FILE .recover`"),
    sqlite3.SQLITE_NOTADB: (Invalid, "this is no SQLite database; choose another file"),
    sqlite3.SQLITE_ERROR: (Corrupt, "the tables are not those its format number promises; restore the file from a copy"),
    sqlite3.SQLITE_TOOBIG: (Invalid, "a value is larger than SQLite can store"),
    sqlite3.SQLITE_CONSTRAINT: (Conflict, "the write contradicts rows that are there"),
}
