"""A memory at an address that several runs use at once: opened for the first of them, closed after the last.

Law: one that cannot be opened raises when it is asked, not before, so that nobody fails who does not ask.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from causeline.errors import CauselineError, Misuse
from causeline.memory.long_term import LongTermMemory

OpenMemory = Callable[[str], AbstractAsyncContextManager[LongTermMemory]]


class SharedMemory:
    """See the module."""

    def __init__(self, url: str, open_memory: OpenMemory) -> None:
        self._url = url
        self._open = open_memory
        self._users = 0
        self._opened = AsyncExitStack()
        self._memory: LongTermMemory | None = None
        self._fault: CauselineError | None = None
        self._lock: asyncio.Lock | None = None

    async def enter(self) -> None:
        """One user more."""
        self._users += 1
        if self._users > 1:
            if self._lock is not None:
                async with self._lock:
                    return
            return
        self._lock = asyncio.Lock()
        async with self._lock:
            try:
                self._memory, self._fault = await self._opened.enter_async_context(self._open(self._url)), None
            except CauselineError as error:
                self._fault = error

    async def leave(self) -> None:
        """One user less."""
        self._users -= 1
        if not self._users:
            self._memory = None
            await self._opened.aclose()

    @asynccontextmanager
    async def used(self, owner: str) -> AsyncGenerator[LongTermMemory, None]:
        """The memory of an owner, open for as long as this is used. Raises what keeps it from being opened."""
        await self.enter()
        try:
            yield self.of(owner)
        finally:
            await self.leave()

    def of(self, owner: str) -> LongTermMemory:
        """The memory of an owner. Raises what kept it from being opened, and Misuse outside of a use."""
        if self._fault is not None:
            raise self._fault
        if self._memory is None:
            raise Misuse("this memory is not open")
        return self._memory.of(owner)
