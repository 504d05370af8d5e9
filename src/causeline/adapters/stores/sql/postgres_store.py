"""A store in a PostgreSQL database, for several machines: asyncpg, a commit in one round trip.

Law: each call is one transaction on one connection of a bounded pool. A connection that breaks is Unavailable
for the call that used it, which is then done or not done, never half; the next call gets another connection.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, Unpack
from urllib.parse import parse_qsl, urlencode, urlsplit

from causeline.adapters.stores import rules
from causeline.adapters.stores.row_filters import wanted_rows
from causeline.adapters.stores.signal import Signal
from causeline.adapters.stores.sql import encoding, log_writes, reads, writes
from causeline.adapters.stores.sql.group_commit import Groups
from causeline.adapters.stores.sql.listener import Ear
from causeline.adapters.stores.sql.log_writes import Writing
from causeline.adapters.stores.sql.operation import Again, Many, Operation
from causeline.adapters.stores.sql.pgvector import PgItems
from causeline.adapters.stores.sql.postgres_errors import explain
from causeline.adapters.stores.sql.statements import FIRST_FORMAT, migrations, queries, resolve, too_new, too_old
from causeline.adapters.stores.sql.tips import Tip, Tips
from causeline.causal import CausalNode
from causeline.errors import CauselineError, Invalid, Misuse, Unavailable
from causeline.runtime.records import CallRow, Commit, Link, OnBusy, Run, Session, Started
from causeline.runtime.store import Row, RowFilters

T = TypeVar("T")
Connection = Any
Begin = Callable[[], Operation[T]]
SCHEMA = "causeline"
CONNECTIONS = 10
WAITING = 10_000
"""Calls that may be under way or wait for a connection."""
TRIES = 5
"""How often a transaction begins anew when another one came in between."""
_CLASHED = frozenset({"23", "40"})
_BROKEN = frozenset({"08", "57"})
"""Classes of SQLSTATE: another transaction came in between; the connection or the server goes away."""


def _driver() -> Any:
    """asyncpg, imported when a store is opened."""
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]

    return asyncpg


class PostgresStore:
    """See `causeline.runtime.store.Store`. Belongs to the event loop that opened it.

    `url` is a PostgreSQL URL; its parameter `schema` names the schema the tables are in. `patience` is how many
    seconds a call may take, waiting for a connection included.
    """

    def __init__(self, url: str, *, connections: int = CONNECTIONS, patience: float = 10.0) -> None:
        parts = urlsplit(url)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._schema = parameters.pop("schema", SCHEMA)
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", self._schema):
            raise Invalid(f"{self._schema!r} cannot be a schema; use small letters, digits and underscores")
        self._url = parts._replace(query=urlencode(parameters)).geturl()
        self._place = f"the database {parts.path.lstrip('/')} on {parts.hostname or parameters.get('host', 'this machine')}"
        self._connections = connections
        self._patience = patience
        self._signal = Signal()
        self._pool: Any = None
        self._ear: Ear | None = None
        self._tips = Tips(None)
        self._groups = Groups(self._write)
        self._items = PgItems(lambda begin: self._read(begin()), self._transact)
        self.applied: Sequence[str] = ()
        """The steps of the schema that opening it has brought."""
        self._opened = False
        self._busy = 0
        self._idle = asyncio.Event()

    # opening and closing

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises Unavailable, and Invalid for a schema of a later format."""
        if self._opened:
            return
        async with self._explained(opening=True):
            await self._migrate()
            limits = {"min_size": 0, "max_size": self._connections, "max_inactive_connection_lifetime": 0}
            pool = await _driver().create_pool(self._url, reset=_as_it_is, **limits, **self._settings())
            ear = Ear(self._connect, self._schema, self._signal)
            try:
                await ear.open()
            except BaseException:
                await pool.close()
                raise
        self._pool, self._ear, self._opened = pool, ear, True

    async def close(self) -> None:
        """Finish the calls that are under way or wait for a connection, then disconnect."""
        if not self._opened:
            return
        self._opened = False
        while self._busy:
            self._idle.clear()
            await self._idle.wait()
        pool, ear = self._pool, self._ear
        self._pool = self._ear = None
        if ear is not None:
            await pool.close()
            await ear.close()

    def _settings(self) -> Mapping[str, Any]:
        return {
            "timeout": self._patience, "command_timeout": self._patience,
            "server_settings": {"search_path": self._schema, "application_name": "causeline"},
        }  # fmt: skip

    async def _connect(self) -> Connection:
        connection = await _driver().connect(self._url, **self._settings())
        # What is told to other processes need not survive anything.
        await connection.execute("SET synchronous_commit = off")
        return connection

    async def _migrate(self) -> None:
        texts, steps = queries("postgres"), migrations("postgres")
        connection: Connection = await _driver().connect(self._url, **self._settings())
        try:
            async with connection.transaction():
                await connection.execute(texts["migration_lock"])
                await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
                await connection.execute(texts["format_table"])
                version = await connection.fetchval(texts["format_version"])
                place = f"schema {self._schema} of {self._place}"
                if 0 < version < FIRST_FORMAT:
                    raise too_old(place, version)
                if version > steps[-1].version:
                    raise too_new(place, version, steps[-1].version)
                missing = [step for step in steps if step.version > version]
                self.applied = [f"{step.version:04} {step.name}" for step in missing]
                for step in missing:
                    for statement in step.statements:
                        await connection.execute(statement)
                    await connection.execute(texts["format_add"], step.version, step.name)
        finally:
            await connection.close(timeout=self._patience)

    # runs and commits

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        rules.check_start(run)
        return await self._transact(partial(writes.start, run, encoding.run_body(run), on_busy))

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        return await self._transact(partial(writes.claim, owner, run_id, holder, epoch, beat, at))

    async def renew(self, holder: str) -> Sequence[Run]:
        return await self._transact(partial(writes.renew, holder))

    async def commit(self, commit: Commit) -> None:
        given = log_writes.writing(commit)
        async with self._open_for_calls():
            await self._groups.write(given)

    async def cancel(self, owner: str, run_id: str, at: str) -> Run:
        return await self._transact(partial(writes.cancel, owner, run_id, at))

    # reading

    async def rows(self, kind: type[Row], *, owner: str | None, **filters: Unpack[RowFilters]) -> Sequence[Row]:
        return await self._read(reads.rows(kind, wanted_rows(kind, owner, filters)))

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        return await self._read(reads.branch(owner, session, head))

    async def node(self, owner: str, node_id: str) -> Sequence[tuple[str, CausalNode]]:
        return await self._read(reads.node(owner, node_id))

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        return await self._read(reads.events(owner, run_id, after, limit))

    async def changed(self, seen: int, timeout: float) -> int:
        return await self._signal.wait(seen, timeout)

    def memory(self) -> PgItems:
        return self._items

    # whole sessions

    async def put_session(
        self, owner: str, session: str, at: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        given = encoding.dump_or_none(metadata), encoding.dump_or_none(context)
        return await self._transact(partial(writes.put_session, owner, session, at, *given))

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        ordered = rules.check_session(session, runs, links, calls)
        await self._transact(partial(writes.load, session, runs, ordered, calls))

    async def delete(self, owner: str, session: str) -> None:
        await self._transact(partial(writes.delete, owner, session, self._tips))

    # inside

    async def _transact(self, begin: Begin[T]) -> T:
        async with self._open_for_calls(), self._explained(), self._connection() as connection:
            value = await self._try(connection, begin)
        self._changed()
        return value

    async def _try(self, connection: Connection, begin: Begin[T]) -> T:
        """Run an operation in a transaction, and anew where another transaction came in between."""
        for _ in range(TRIES):
            try:
                async with connection.transaction():
                    return await _converse(connection, begin())
            except Again:
                continue
            except _driver().PostgresError as error:
                if error.sqlstate[:2] not in _CLASHED:
                    raise
        raise Unavailable(f"{self._place} is too busy with writes to the same session; try again", retry_after=1.0)

    async def _read(self, operation: Operation[T]) -> T:
        async with self._open_for_calls(), self._explained(), self._connection() as connection:
            return await _converse(connection, operation)

    async def _write(self, group: Sequence[Writing]) -> Sequence[BaseException | None]:
        """Write commits of different runs; to each, why it was not written. What is one row of the log goes together in one statement."""
        try:
            async with self._explained(), self._connection() as connection:
                written = await self._append(connection, group)
                ends = [None if place in written else await self._alone(connection, given) for place, given in enumerate(group)]
        except CauselineError as error:
            return [error] * len(group)
        self._changed()
        return ends

    async def _append(self, connection: Connection, group: Sequence[Writing]) -> Collection[int]:
        """The places of those that could be written together."""
        ready: dict[int, tuple[int, Tip]] = {}
        columns: list[Sequence[Any]] = []
        for place, given in enumerate(group):
            if not given.plain:
                continue
            with suppress(CauselineError):  # it goes alone and is told why
                tip, row = await self._prepared(connection, given)
                if row.plain:
                    ready[tip.run] = place, tip
                    run, *rest = row.columns
                    columns.append((run, tip.epoch, tip.commits, given.commit.at, *rest))
        written: list[int] = []
        if columns:
            for run, number in await connection.fetch(resolve("append", "postgres"), *map(list, zip(*columns, strict=True))):
                place, tip = ready[run]
                tip.moved(group[place].row, len(group[place].commit.events), number)
                written.append(place)
        return written

    async def _prepared(self, connection: Connection, given: Writing) -> tuple[Tip, log_writes.Ready]:
        tip = self._tips.get(given.key)
        if tip is None:
            tip = await _converse(connection, log_writes.read_tip(given))
            tip.check(given.commit)
            self._tips.keep(given.key, tip)
        return tip, await _converse(connection, log_writes.prepared(given, tip))

    async def _alone(self, connection: Connection, given: Writing) -> BaseException | None:
        try:
            await self._try(connection, partial(log_writes.write, given, self._tips))
        except Exception as error:
            self._tips.drop(given.key)
            if isinstance(error, CauselineError):
                return error
            state: Any = getattr(error, "sqlstate", None)
            if state is not None and state[:2] not in _BROKEN:
                return explain(self._place, error)
            raise
        return None

    @asynccontextmanager
    async def _open_for_calls(self) -> AsyncGenerator[None]:
        """Around every call, so that closing can wait for them."""
        if not self._opened:
            raise Misuse(f"the store in {self._place} is not open; await open() first")
        if self._busy >= WAITING:
            raise Unavailable(f"{WAITING} calls wait for {self._place}; slow down", retry_after=1.0)
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._idle.set()

    def _connection(self) -> Any:
        return self._pool.acquire(timeout=self._patience)

    @asynccontextmanager
    async def _explained(self, *, opening: bool = False) -> AsyncGenerator[None]:
        try:
            yield
        except (CauselineError, asyncio.CancelledError, Again):
            raise
        except Exception as error:
            if not isinstance(error, OSError | _driver().PostgresError | _driver().InterfaceError | _driver().InternalClientError):
                raise
            raise explain(self._place, error, opening=opening) from error

    def _changed(self) -> None:
        if self._ear is not None:
            self._ear.changed()


async def _as_it_is(_connection: Connection) -> None:
    """Instead of asyncpg's reset: nothing here changes a connection's state, and a reset would be a round trip."""


async def _converse(connection: Connection, operation: Operation[T]) -> T:
    """Run an operation's queries on a connection until it returns."""
    try:
        name, parameters = next(operation)
        while True:
            text = resolve(name, "postgres")
            if type(parameters) is Many:
                await connection.executemany(text, parameters)
                name, parameters = operation.send(())
            else:
                name, parameters = operation.send(await connection.fetch(text, *parameters))
    except StopIteration as end:
        return end.value
