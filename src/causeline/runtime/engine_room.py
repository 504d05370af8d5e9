"""The engine room: what one process needs once, however many owners it serves. A store, a feed, leases, a dispatcher, programs.

Law: it is opened once and closed once; whoever looks at it through an owner's view neither opens nor closes it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from causeline.errors import Misuse
from causeline.memory.long_term import Memories
from causeline.memory.provenance import QueryEngine
from causeline.policy import Clock
from causeline.run.scope import Recall, SubRuns
from causeline.runtime.feed import Feed
from causeline.runtime.local_dispatch import LocalDispatch
from causeline.runtime.program import Program
from causeline.runtime.programs import Build, Programs
from causeline.runtime.provenance_view import Provenance
from causeline.runtime.run_recall import LogRecall
from causeline.runtime.store import Store
from causeline.runtime.sub_runs import RunsBelow

GRACE_SECONDS = 30.0
"""How long calls that have begun may take to finish when a process stops in good order."""


class EngineRoom:
    """See the module. `adopts` says that runs which other processes left, of agents given here, go on as soon as this is open."""

    def __init__(
        self,
        store: Store,
        *,
        programs: Sequence[Program],
        build: Build | None,
        clock: Clock,
        deps: Any,
        heart_store: Callable[[], Store] | None,
        adopts: bool,
        grace: float,
        lease_seconds: float,
        beat_seconds: float,
        queries: QueryEngine | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.feed = Feed(store)
        self.programs = Programs(programs, build)
        self.grace = grace
        self.provenance = Provenance(store, queries)
        self._adopts = adopts
        self._adopting: asyncio.Task[None] | None = None
        self._open = self._closed = False
        services: dict[type, object] = {Recall: LogRecall(store), Memories: Memories(store.memory(), clock)}
        self.dispatch = LocalDispatch(
            store,
            self.feed,
            clock,
            self.programs,
            services,
            lease_seconds=lease_seconds,
            beat_seconds=beat_seconds,
            heart_store=heart_store,
            deps=deps,
        )
        services[SubRuns] = RunsBelow(self.dispatch)

    async def open(self) -> None:
        """Open the store and begin. Raises Misuse if this was closed before."""
        if self._closed:
            self.check_open()
        await self.store.open()
        self._open = True
        self.dispatch.open()
        if self._adopts:
            self._adopting = asyncio.create_task(self.dispatch.adopt(self.programs.given_names()))

    async def drain(self) -> None:
        """Take nothing new, let what has begun finish, hand the runs back. The store stays open until `close`. Cancelling this leaves out
        the rest of the grace."""
        self._closed = True
        await self.dispatch.close(self.grace)

    async def close(self) -> None:
        """Bring the runs of this process to a stop, hand them back, and close the store last."""
        self._closed = True
        if self._adopting is not None:
            self._adopting.cancel()
            await asyncio.gather(self._adopting, return_exceptions=True)
        try:
            await self.drain()
        finally:
            await self.provenance.close()
            await self.store.close()
            await self.programs.close()

    def check_open(self) -> None:
        """Raises Misuse unless this is open."""
        if self._closed:
            raise Misuse("this runtime is closed; open another one with `async with causeline.open(...)`")
        if not self._open:
            raise Misuse("this runtime is not open yet; use `async with causeline.open(...) as runtime:`")
