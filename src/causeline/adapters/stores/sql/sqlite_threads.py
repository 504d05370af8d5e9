"""The threads that talk to a SQLite file: one that writes, two that read.

Law: the event loop never waits for the disk. A write is one item in one queue; the writer takes all that wait,
runs each inside one transaction under a savepoint of its own, commits once, and wakes each event loop once.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from causeline.adapters.stores.signal import Signal, wake
from causeline.adapters.stores.sql.operation import Many, Operation
from causeline.adapters.stores.sql.statements import resolve
from causeline.adapters.stores.sql.tips import Tips
from causeline.errors import CauselineError, Unavailable

T = TypeVar("T")
GROUP = 512
"""Writes committed together at most."""
WAITING = 10_000
"""Calls that may wait in a queue."""
LOOK_SECONDS = 0.05
"""How often the file is looked at for commits of other processes, while somebody waits for them."""


@dataclass(frozen=True, slots=True)
class Item:
    """One call: how to begin its operation (again, if need be), and where its result goes. None begins nothing."""

    begin: Callable[[], Operation[Any]] | None
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


Outcome = tuple[Item, Any, BaseException | None]


def converse(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    """Run an operation's queries on a connection until it returns."""
    try:
        name, parameters = next(operation)
        while True:
            text = resolve(name, "sqlite")
            if type(parameters) is Many:
                connection.executemany(text, parameters)
                name, parameters = operation.send(())
            else:
                name, parameters = operation.send(connection.execute(text, parameters).fetchall())
    except StopIteration as end:
        return end.value


Connect = Callable[[], sqlite3.Connection]
Explain = Callable[[BaseException], BaseException]
Queue = SimpleQueue[Item | None]
"""None in it wakes who serves it, and is no call."""
Serve = Callable[[sqlite3.Connection, Queue], Item]
"""Serves a queue until an item that begins nothing, and returns that."""


class Line:
    """A thread with a connection of its own, and the queue it serves. Threads may share a queue."""

    def __init__(self, connect: Connect, serve: Serve, explain: Explain, queue: Queue) -> None:
        self._connect = connect
        self._serve = serve
        self._explain = explain
        self._queue = queue
        self._closing = False

    async def open(self) -> None:
        """Start, and return when the connection stands. Raises what `explain` makes of a failure to connect."""
        await _answered(lambda item: threading.Thread(target=self._run, args=(item,), daemon=True, name="causeline-store").start())

    async def close(self) -> None:
        """Do what waits in the queue, then let go of the connection."""
        self._closing = True
        await _answered(self._queue.put)

    def submit(self, begin: Callable[[], Operation[T]]) -> "asyncio.Future[T]":
        """Queue one call. Raises Unavailable when the queue is full or closed."""
        if self._closing:
            raise Unavailable("the store is closed; open it again")
        if self._queue.qsize() >= WAITING:
            raise Unavailable(f"{WAITING} calls wait for the store; slow down", retry_after=1.0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(Item(begin, loop, future))
        return future

    def _run(self, opened: Item) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who opens
            hand_over([(opened, None, self._explain(error))], {})
            return
        hand_over([(opened, None, None)], {})
        last = self._serve(connection, self._queue)
        connection.close()
        hand_over([(last, None, None)], {})


async def _answered(hand_on: Callable[[Item], None]) -> None:
    loop = asyncio.get_running_loop()
    item = Item(None, loop, loop.create_future())
    hand_on(item)
    await item.future


class Committer:
    """Serves the queue of writes."""

    def __init__(self, explain: Explain, signal: Signal, tips: Tips) -> None:
        self._explain = explain
        self._signal = signal
        self._tips = tips
        self._version = 0

    def serve(self, connection: sqlite3.Connection, queue: Queue) -> Item:
        """See `Serve`."""
        self._version = _data_version(connection)
        while True:
            items, last = self._take(connection, queue)
            if items:
                self._commit(connection, items)
            if last is not None:
                return last

    def _take(self, connection: sqlite3.Connection, queue: Queue) -> tuple[list[Item], Item | None]:
        """All that waits now, at least one item; or the item that ends it all, when that is among them."""
        items: list[Item] = []
        while True:
            item = self._next(connection, queue) if not items else queue.get()
            if item is not None:
                if item.begin is None:
                    return items, item
                items.append(item)
            if items and (len(items) == GROUP or queue.empty()):
                return items, None

    def _next(self, connection: sqlite3.Connection, queue: Queue) -> Item | None:
        while True:
            try:
                return queue.get(timeout=LOOK_SECONDS if self._signal.awaited else None)
            except Empty:
                self._look(connection)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Tell who waits if another process has committed. Commits of this connection do not count."""
        version = _data_version(connection)
        if version != self._version:
            self._version = version
            hand_over([], self._signal.grow())

    def _commit(self, connection: sqlite3.Connection, items: list[Item]) -> None:
        try:
            outcomes = self._together(connection, items)
        except BaseException as error:  # noqa: BLE001 - a fault of ours must not leave callers waiting
            self._roll_back(connection)
            outcomes = [_failed(item, error) for item in items]
        done = any(error is None for _, _, error in outcomes)
        hand_over(outcomes, self._signal.grow() if done else {})

    def _together(self, connection: sqlite3.Connection, items: list[Item]) -> list[Outcome]:
        """One transaction for all. Where the database fails it, each gets one of its own, so that only the culprit fails."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            return [_failed(item, self._explain(error)) for item in items]
        try:
            outcomes = [self._one(connection, item, alone=len(items) == 1) for item in items]
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._tips.settle()
        except sqlite3.Error as error:
            self._roll_back(connection)
            if len(items) == 1:
                return [_failed(items[0], self._explain(error))]
            return [outcome for item in items for outcome in self._together(connection, [item])]
        return outcomes

    def _one(self, connection: sqlite3.Connection, item: Item, *, alone: bool) -> Outcome:
        """Run one operation; what it refuses is undone without touching the others."""
        assert item.begin is not None
        if not alone:
            connection.execute("SAVEPOINT one")
        try:
            value = converse(connection, item.begin())
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            self._undo(connection, alone=alone)
            return _failed(item, error if isinstance(error, CauselineError) else self._explain(error))
        if not alone:
            connection.execute("RELEASE one")
        return item, value, None

    def _undo(self, connection: sqlite3.Connection, *, alone: bool) -> None:
        """Take back one operation. What the others of the group have learnt of their runs is read anew by and by."""
        if alone:
            self._roll_back(connection)
            return
        self._tips.undo()
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        self._tips.undo()
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def serve_reads(explain: Explain) -> Serve:
    """Serves a queue of reads, each by itself."""

    def serve(connection: sqlite3.Connection, queue: Queue) -> Item:
        while True:
            item = queue.get()
            if item is None:
                continue
            if item.begin is None:
                return item
            try:
                outcome: Outcome = (item, converse(connection, item.begin()), None)
            except CauselineError as error:
                outcome = _failed(item, error)
            except BaseException as error:  # noqa: BLE001 - a fault of ours must not leave the caller waiting
                outcome = _failed(item, explain(error))
            hand_over([outcome], {})

    return serve


def hand_over(outcomes: Sequence[Outcome], woken: Mapping[asyncio.AbstractEventLoop, set[asyncio.Future[None]]]) -> None:
    """Give each event loop all that is for it in one call."""
    loops: dict[asyncio.AbstractEventLoop, list[Outcome]] = {loop: [] for loop in woken}
    for outcome in outcomes:
        loops.setdefault(outcome[0].loop, []).append(outcome)
    for loop, own in loops.items():
        # A loop that is closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own, woken.get(loop, ()))


def _resolve(outcomes: Sequence[Outcome], woken: Iterable[asyncio.Future[None]]) -> None:
    for item, value, error in outcomes:
        if item.future.done():
            continue
        if error is None:
            item.future.set_result(value)
        else:
            item.future.set_exception(error)
    wake(woken)


def _failed(item: Item, error: BaseException) -> Outcome:
    return item, None, error


def _data_version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA data_version").fetchone()[0]
