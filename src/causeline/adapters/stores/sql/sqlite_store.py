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
from causeline.adapters.stores.sql import encoding, log_writes, reads, writes
from causeline.adapters.stores.sql.memory_operations import SqlItems
from causeline.adapters.stores.sql.operation import Operation
from causeline.adapters.stores.sql.sqlite_place import READ_ONLY, SqlitePlace
from causeline.adapters.stores.sql.sqlite_threads import Committer, Line, Queue, hand_over, serve_reads
from causeline.adapters.stores.sql.tips import Tips
from causeline.causal import CausalNode
from causeline.errors import Invalid, Misuse, Refused
from causeline.runtime.records import CallRow, Commit, Link, OnBusy, Run, Session, Started
from causeline.runtime.store import Row, RowFilters

READERS = 2
OLDEST = (3, 35)
"""The first SQLite with RETURNING."""


class SqliteStore:
    """See `causeline.runtime.store.Store`. `patience` is how many seconds another process may hold the file."""

    def __init__(self, path: str | Path, *, patience: float = 5.0) -> None:
        self._place = SqlitePlace(Path(path).absolute(), patience)
        self._writes: Queue = SimpleQueue()
        self._reads: Queue = SimpleQueue()
        self._signal = Signal(self._nudge)
        self._tips = Tips(0)
        self._writing: Line | None = None
        self._reading: list[Line] = []
        self._refusal: Invalid | None = None

    @property
    def applied(self) -> Sequence[str]:
        """The steps of the schema that opening it has brought."""
        return self._place.applied

    # opening and closing

    async def open(self) -> None:
        """Open the file, and make it where it is missing. One that cannot be written is opened for reading alone. Raises Invalid for a
        file or place that cannot be a store."""
        if self._reading:
            return
        if sqlite3.sqlite_version_info < OLDEST:
            raise Invalid(f"this Python has SQLite {sqlite3.sqlite_version}; causeline needs 3.35 or later")
        place, opened = self._place, list[Line]()
        committer = Committer(place.explain, self._signal, self._tips)
        writing: Line | None = Line(place.writer, committer.serve, place.explain_opening, self._writes)
        try:
            try:
                await writing.open()
                opened.append(writing)
            except Invalid as refusal:
                if refusal.code != READ_ONLY or not place.path.is_file():
                    raise
                writing, self._refusal = None, refusal
            connect = place.reader if writing is not None else place.reader_alone
            for _ in range(READERS):
                line = Line(connect, serve_reads(place.explain), place.explain_opening, self._reads)
                await line.open()
                opened.append(line)
        except BaseException:
            for line in opened:
                await line.close()
            raise
        self._writing, self._reading = writing, opened[-READERS:]

    async def close(self) -> None:
        """Write what waits, then close the file."""
        lines = [*([self._writing] if self._writing is not None else []), *self._reading]
        self._writing, self._reading, self._refusal = None, [], None
        for line in lines:
            await line.close()
        hand_over([], self._signal.grow())

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
        if self._writing is None:
            if self._refusal is not None:
                raise Refused(f"{self._place.path} can only be read here: {self._refusal.message}", code=READ_ONLY) from self._refusal
            raise Misuse(f"the store {self._place.path} is not open; await open() first")
        return self._writing

    @property
    def _reader(self) -> Line:
        return self._reading[0] if self._reading else self._writer

    def _nudge(self) -> None:
        """The writer sleeps without end while nobody waits; this makes it look at what other processes commit."""
        self._writes.put(None)
