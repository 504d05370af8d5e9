"""Following a run's events from any number on, while it runs or later, from any process.

Law: followers pull. A slow one falls back to reading the store and never holds up the run; each gets every
event once, in order.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from causeline.errors import CauselineError, Missing
from causeline.events import LAST, RunEvent
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.store import Store

Key = tuple[str, str]
"""Owner and run id: ids are chosen by clients, and unique for each owner only."""
TAIL = 1024


class _Live:
    """The newest events of a run that this process executes, and who waits for more."""

    __slots__ = ("last", "tail", "waiting")

    def __init__(self) -> None:
        self.tail: deque[Mapping[str, Any]] = deque(maxlen=TAIL)
        self.last = 0
        self.waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def after(self, number: int) -> Sequence[Mapping[str, Any]] | None:
        """Events above `number`, or None if the tail does not reach back that far."""
        if not self.tail or self.last - len(self.tail) > number:
            return None
        return [{**self.tail[place - self.last - 1], "seq": place} for place in range(number + 1, self.last + 1)]


class Feed:
    """Events of the runs of one store. `fault` says why a run will tell nothing more, where that is so, `trouble` why one that is
    executed here tells nothing at the moment; `watch` is called when this process begins (True) and stops (False) to execute a run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[Key, _Live] = {}
        self.fault: Callable[[Key], Exception | None] = lambda _key: None
        self.trouble: Callable[[Key], Exception | None] = lambda _key: None
        self.watch: Callable[[Key, bool], object] = lambda _key, _begins: None

    def begin(self, key: Key) -> None:
        """This process executes the run from now on."""
        self._live[key] = _Live()
        self.watch(key, True)

    def end(self, key: Key) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            live.wake()
            self.watch(key, False)

    def stir(self, key: Key) -> None:
        """Whoever waits for events of a run looks again, for its `trouble`."""
        live = self._live.get(key)
        if live is not None:
            live.wake()

    def publish(self, key: Key, first: int, events: Sequence[Mapping[str, Any]]) -> None:
        """These events are durable now."""
        live = self._live.get(key)
        if live is not None:
            live.tail.extend(events)
            live.last = first + len(events) - 1
            if live.waiting:
                live.wake()

    async def follow(self, owner: str, run_id: str, after: int = 0) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
        """Events above `after` as stored, with `seq`, in batches as they became durable; ends after the run's last one. Raises Missing,
        the `fault` of a run that tells nothing more and has not ended, and the `trouble` of one that cannot at the moment."""
        cursor, token = after, 0
        while True:
            live = self._live.get((owner, run_id))
            ticket = self._ticket(live)
            batch = live.after(cursor) if live is not None else None
            if batch is None:
                batch = await self._stored(owner, run_id, cursor)
            if batch:
                cursor = batch[-1]["seq"]
                yield batch
                if batch[-1]["type"] in LAST:
                    return
                continue
            if ticket is not None:
                trouble = self.trouble((owner, run_id))
                if trouble is not None:
                    raise trouble
                await ticket
                continue
            if (await self._row(owner, run_id)).status not in ACTIVE:
                if await self._stored(owner, run_id, cursor, 1):
                    continue
                return
            fault = self.fault((owner, run_id))
            if fault is not None:
                raise fault
            token = await self._store.changed(token, 1.0)

    async def read(self, owner: str, run_id: str, after: int, limit: int) -> Sequence[Mapping[str, Any]]:
        """The durable events above `after`, at most `limit`. Raises Missing."""
        live = self._live.get((owner, run_id))
        batch = live.after(after) if live is not None else None
        return batch[:limit] if batch is not None else await self._store.events(owner, run_id, after, limit)

    @staticmethod
    def _ticket(live: _Live | None) -> asyncio.Future[None] | None:
        """Taken before reading, so that nothing published in between is missed."""
        if live is None:
            return None
        ticket = asyncio.get_running_loop().create_future()
        live.waiting.add(ticket)
        return ticket

    async def _stored(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        found = await self._read(owner, run_id, after, limit)
        if found or after > 0:
            return found
        run = await self._row(owner, run_id)
        if run.status in ACTIVE:
            return ()
        # Read again: all of a quick run may lie between the two looks.
        return await self._read(owner, run_id, after, limit) or [_never_began(run)]

    async def _read(self, owner: str, run_id: str, after: int, limit: int) -> Sequence[Mapping[str, Any]]:
        try:
            return await self._store.events(owner, run_id, after, limit)
        except CauselineError as error:
            raise (self.fault((owner, run_id)) or error) from error

    async def _row(self, owner: str, run_id: str) -> Run:
        try:
            runs = await self._store.rows(Run, owner=owner, id=run_id)
        except CauselineError as error:
            raise (self.fault((owner, run_id)) or error) from error
        if not runs:
            raise Missing(f"no run {run_id}", run=run_id)
        return runs[0]


def _never_began(run: Run) -> Mapping[str, Any]:
    """The one event of a run that ended while it waited for its turn, and so had nobody to tell any: its end, as its row says it."""
    ended = RunEvent(
        type="run_finished",
        status=run.status,
        stop_reason=run.stop_reason or run.status,
        answer=None,
        pending_tool_call_ids=[],
        interrupts=[],
        usage=run.usage or {},
    )
    return {**ended, "seq": 1, "ts": run.finished_at or run.created_at}
