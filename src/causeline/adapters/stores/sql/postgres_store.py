"""A store in a PostgreSQL database, for several machines: asyncpg, a commit in one round trip.

Law: each call is one transaction on one connection of a bounded pool. A connection that breaks is Unavailable
for the call that used it, which is then done or not done, never half; the next call gets another connection.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, Unpack
from urllib.parse import parse_qsl, urlencode, urlsplit

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.row_filters import wanted_rows
from causeline.adapters.stores.signal import Signal
from causeline.adapters.stores.sql import encoding, reads, writes
from causeline.adapters.stores.sql.group_commit import Groups
from causeline.adapters.stores.sql.listener import Ear
from causeline.adapters.stores.sql.memory_operations import SqlItems
from causeline.adapters.stores.sql.operation import Many, Operation
from causeline.adapters.stores.sql.postgres_errors import explain, explained
from causeline.adapters.stores.sql.statements import migrations, queries, resolve
from causeline.adapters.stores.sql.writes import Again, Writing
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
        self._groups = Groups(self._write)
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
                if version > len(steps):
                    raise Invalid(
                        f"{self._place} has format {version} in schema {self._schema}, this causeline knows formats up to {len(steps)}; "
                        "use the causeline that wrote it, or a later one", version=version,
                    )  # fmt: skip
                self.applied = [f"{step.version:04} {step.name}" for step in steps[version:]]
                for step in steps[version:]:
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
        given = writes.writing(commit)
        if given.memories:  # few commits have any, and one of these is no single round trip
            await self._transact(partial(writes.write, given))
            return
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

    def memory(self) -> SqlItems:
        return SqlItems(lambda begin: self._read(begin()), self._transact)

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
        await self._transact(partial(writes.delete, owner, session))

    # inside

    async def _transact(self, begin: Begin[T]) -> T:
        async with self._open_for_calls(), self._explained():
            for _ in range(TRIES):
                try:
                    async with self._connection() as connection, connection.transaction():
                        value = await _converse(connection, begin())
                except Again:
                    continue
                except _driver().PostgresError as error:
                    if error.sqlstate[:2] not in _CLASHED:
                        raise
                    continue
                self._changed()
                return value
        raise Unavailable(f"{self._place} is too busy with writes to the same session; try again", retry_after=1.0)

    async def _read(self, operation: Operation[T]) -> T:
        async with self._open_for_calls(), self._explained(), self._connection() as connection:
            return await _converse(connection, operation)

    async def _write(self, group: Sequence[Writing]) -> Sequence[BaseException | None]:
        """Write commits in one transaction; to each, why it was not written."""
        try:
            async with self._explained(), self._connection() as connection:
                if len(group) == 1:
                    ends = [await _write_one(connection, group[0])]
                else:
                    arguments = [tuple(_arguments(given)) for given in group]
                    ends = await connection.fetchval(resolve("write_group", "postgres"), arguments)
                told = [None if end is None else await self._told(connection, given, end) for given, end in zip(group, ends, strict=True)]
        except CauselineError as error:
            return [error] * len(group)
        self._changed()
        return told

    async def _told(self, connection: Connection, given: Writing, end: str) -> BaseException | None:
        state, _, message = end.partition(" ")
        if state[:2] in _CLASHED:
            second = await _write_one(connection, given)
            if second is None:
                return None
            state, _, message = second.partition(" ")
        return await _refusal(connection, given, state, message) or explained(self._place, state, message)

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


async def _write_one(connection: Connection, given: Writing) -> str | None:
    """As one of a group: None, or the SQLSTATE and the message of why it was not written."""
    try:
        await connection.fetchval(resolve("write", "postgres"), *_arguments(given))
    except _driver().PostgresError as error:
        if error.sqlstate[:2] in _BROKEN:
            raise
        return f"{error.sqlstate} {error.message or ''}"
    return None


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


def _arguments(given: Writing) -> Sequence[Any]:
    """A commit as the arguments of `write_1`."""
    commit, step = given.commit, given.step
    count = len(commit.events)
    head = (commit.owner, commit.run, commit.session, commit.epoch, commit.at, given.expect_head, commit.first_event, count, given.events)
    made: Sequence[Any] = (None,) * 7
    if step is not None:
        number, parent, name, appended, frontier, created_at, body = step.columns
        made = (name, number, parent, appended, frontier, created_at, body)
    nodes = _columns(step.nodes if step is not None else (), 6)
    patch = given.patch or (None,) * 7
    rows = (*nodes, *_columns(given.calls, 4), *_columns(given.interrupts, 7), *_columns(given.progress, 3))
    return (*head, *made, *rows, *patch, given.context)


def _columns(rows: Sequence[Sequence[Any]], width: int) -> Sequence[Sequence[Any]]:
    """Rows as one list for each column."""
    return list(zip(*rows, strict=True)) if rows else [()] * width


async def _refusal(connection: Connection, given: Writing, state: str, message: str) -> BaseException | None:
    """What the codes that `write_1` raises mean."""
    checkpoint = given.commit.checkpoint
    match state:
        case "CL001":
            return await _converse(connection, writes.why_refused(given))
        case "CL002" if checkpoint is not None:
            return refusals.twice(checkpoint.id, checkpoint.session)
        case "CL003" if checkpoint is not None:
            return refusals.no_checkpoint(str(checkpoint.parent), checkpoint.session)
        case "CL004":
            return await _converse(connection, writes.why_not_moved(given, int(message) - 1))
        case _:
            return None
