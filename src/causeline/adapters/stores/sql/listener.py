"""Hears of commits of other processes on a PostgreSQL server, and tells of ours: LISTEN and NOTIFY.

Law: NOTIFY is no part of a commit, because PostgreSQL lets transactions that notify commit one after the other.
It follows soon after, once for all commits of a moment. Who waits for changes therefore waits with a timeout.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

from causeline.adapters.stores.signal import Signal, wake

MOMENT = 0.01
"""Seconds for which our commits are gathered before the others are told."""
PAUSES = (0.1, 0.5, 2.0)
"""Seconds between tries to connect again; the last one repeats."""
Connection = Any


class Ear:
    """One connection that listens and notifies. It connects again when the server comes back."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], channel: str, signal: Signal) -> None:
        self._connect = connect
        self._channel = channel
        self._signal = signal
        self._name = secrets.token_hex(8)
        self._committed = asyncio.Event()
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: Connection = None

    async def open(self) -> None:
        """Connect, and go on by itself. Raises what connecting raises."""
        await self._listen()
        self._tasks = [asyncio.create_task(self._tell()), asyncio.create_task(self._stay())]

    async def close(self) -> None:
        """Tell what is left to tell, then disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._committed.is_set():
            await self._notify()
        with suppress(Exception):
            await self._connection.close(timeout=2)

    def changed(self) -> None:
        """Something of ours was committed."""
        self._grow()
        self._committed.set()

    def _grow(self) -> None:
        for futures in self._signal.grow().values():
            wake(futures)

    def _heard(self, _connection: Connection, _process: int, _channel: str, name: str) -> None:
        if name != self._name:
            self._grow()

    async def _listen(self) -> None:
        self._lost.clear()
        self._connection = await self._connect()
        self._connection.add_termination_listener(self._gone)
        await self._connection.add_listener(self._channel, self._heard)

    def _gone(self, _connection: Connection) -> None:
        self._lost.set()

    async def _tell(self) -> None:
        while True:
            await self._committed.wait()
            await asyncio.sleep(MOMENT)
            self._committed.clear()
            await self._notify()

    async def _notify(self) -> None:
        # A lost connection is made again by `_stay`, which has the others told once more.
        with suppress(Exception):
            await self._connection.execute("SELECT pg_notify($1, $2)", self._channel, self._name)

    async def _stay(self) -> None:
        while True:
            await self._lost.wait()
            for pause in chain(PAUSES, repeat(PAUSES[-1])):
                await asyncio.sleep(pause)
                with suppress(Exception):
                    await self._listen()
                    break
            self.changed()
