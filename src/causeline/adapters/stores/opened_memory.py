"""Long-term memory at an address: the stores of sessions keep memories too, in the same file or database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from causeline.adapters.stores import open_store
from causeline.memory.long_term import Embed, Embedder, LongTermMemory
from causeline.policy import Clock


class MemoryStore(LongTermMemory):
    """Long-term memory of one owner. `async with MemoryStore.open(url)` gives one on a store of its own; `runtime.memory()` one on
    the store of a runtime."""

    @staticmethod
    @asynccontextmanager
    async def open(
        url: str, *, owner: str = "default", embedder: Embedder | Embed | None = None, clock: Clock | None = None
    ) -> AsyncGenerator["MemoryStore"]:
        """The memory at a URL: `memory://`, `sqlite:///path` or `postgresql://...`; a store of sessions may be there too.

        `embedder` turns texts into vectors: a coroutine function of a list of texts, or an object with one named `embed`. With one,
        what has the same meaning is found too. Raises Invalid for a URL that names no store.
        """
        store = open_store(url)
        await store.open()
        try:
            yield MemoryStore(store.memory(), owner=owner, embedder=embedder, clock=clock)
        finally:
            await store.close()
