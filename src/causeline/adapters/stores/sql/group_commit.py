"""Commits that come at the same time go to the database together, where a round trip and a flush are dear.

Law: a commit that comes alone is sent at once and alone. Of each run one commit is under way at a time, the others follow in the
order in which they came.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from causeline.adapters.stores.sql.log_writes import Writing
from causeline.adapters.stores.sql.tips import Key

LINES = 2
"""Groups under way at once: while one is flushed, the next one is worked on."""
GROUP = 32
BYTES = 4_000_000
"""A group's size, about; one commit may be larger."""
Send = Callable[[Sequence[Writing]], Awaitable[Sequence[BaseException | None]]]


class Groups:
    """The commits that wait. `send` writes a group and says of each why it was not written."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[tuple[Writing, asyncio.Future[None]]] = deque()
        self._lines: set[asyncio.Task[None]] = set()
        self._under_way: set[Key] = set()

    async def write(self, given: Writing) -> None:
        """Return when it is written. Raises what it was refused with."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if len(self._lines) < LINES:
            line = asyncio.create_task(self._work())
            self._lines.add(line)
            line.add_done_callback(self._lines.discard)
        await future

    async def _work(self) -> None:
        while group := self._take():
            ends: Sequence[BaseException | None] = ()
            try:
                ends = await self._send([given for given, _ in group])
            except asyncio.CancelledError as error:
                ends = [error] * len(group)
                raise
            except Exception as error:  # noqa: BLE001 - a fault of ours belongs to those who wait
                ends = [error] * len(group)
            finally:
                self._under_way.difference_update([given.key for given, _ in group])
                _resolve(group, ends)

    def _take(self) -> list[tuple[Writing, "asyncio.Future[None]"]]:
        """The next commits, at most one of each run. Those left behind are taken by the line that has their run under way."""
        group: list[tuple[Writing, asyncio.Future[None]]] = []
        later: list[tuple[Writing, asyncio.Future[None]]] = []
        size = 0
        while self._waiting and len(group) < GROUP and size < BYTES:
            waiting = self._waiting.popleft()
            if waiting[0].key in self._under_way:
                later.append(waiting)
                continue
            self._under_way.add(waiting[0].key)
            group.append(waiting)
            size += waiting[0].row.size
        self._waiting.extendleft(reversed(later))
        return group


def _resolve(group: Sequence[tuple[Writing, "asyncio.Future[None]"]], ends: Sequence[BaseException | None]) -> None:
    for (_, future), end in zip(group, ends, strict=True):
        if future.done():
            continue
        if end is None:
            future.set_result(None)
        else:
            future.set_exception(end)
