"""SPARQL in a process of its own, which is begun when somebody asks and killed when it answers too late.

Law: one query runs at a time, and none runs longer than it may. What is written to the process is bounded by what it holds.
"""

import asyncio
import json
import struct
import sys
from collections import OrderedDict
from typing import Any

from causeline.errors import Invalid, Misuse, Unavailable
from causeline.memory.provenance import Answer, Dataset, QueryTooLong

LENGTH = struct.Struct(">I")
"""How long the message is that follows."""
HELD = 512 * 1024**2
"""Characters of statements that are held at once; the owner who asked longest ago goes first."""
ADD_SECONDS = 120.0


class QueryProcess:
    """See `causeline.memory.provenance.QueryEngine`."""

    def __init__(self) -> None:
        self.generation = 0
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._held: OrderedDict[str, int] = OrderedDict()
        self._closed = False

    async def add(self, owner: str, statements: str) -> None:
        async with self._lock:
            while self._held and self._full(statements) and next(iter(self._held)) != owner:
                gone, _ = self._held.popitem(last=False)
                await self._ask("forget", [gone], ADD_SECONDS)
            if self._full(statements):
                raise _too_long(f"there are more than {HELD:,} characters of statements; name a session")
            self._held[owner] = self._held.get(owner, 0) + len(statements)
            await self._ask("add", [owner, statements], ADD_SECONDS)

    def _full(self, statements: str) -> bool:
        return sum(self._held.values()) + len(statements) > HELD

    def holds(self, owner: str) -> bool:
        """Whether what was added for an owner is still there."""
        return owner in self._held

    async def remove(self, owner: str, graph: str) -> None:
        async with self._lock:
            await self._ask("remove", [owner, graph], ADD_SECONDS)

    async def query(self, owner: str, sparql: str, dataset: Dataset | None, timeout: float) -> Answer:
        async with self._lock:
            if owner in self._held:
                self._held.move_to_end(owner)
            graphs = None if dataset is None else [list(dataset.default), list(dataset.named)]
            return Answer(*await self._ask("query", [owner, sparql, graphs], timeout))

    async def dump(self, owner: str, graph: str | None, format: str, timeout: float) -> str:
        async with self._lock:
            return await self._ask("dump", [owner, graph, format], timeout)

    async def close(self) -> None:
        self._closed = True
        async with self._lock:
            await self._end()

    async def _ask(self, verb: str, arguments: list[Any], timeout: float) -> Any:
        process = self._process or await self._begin()
        assert process.stdin is not None
        assert process.stdout is not None
        body = json.dumps([verb, arguments], ensure_ascii=False).encode("utf-8", "replace")
        done = False
        try:
            async with asyncio.timeout(timeout):
                process.stdin.write(LENGTH.pack(len(body)) + body)
                await process.stdin.drain()
                size = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))[0]
                reply = json.loads(await process.stdout.readexactly(size))
            done = True
        except TimeoutError:
            raise _too_long(f"the query took longer than {timeout:g} seconds and was stopped; ask for less, or name a session") from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _too_long("the query ended the process that answered it, likely for want of memory; ask for less") from error
        finally:
            if not done:  # also when whoever asked was cancelled: the answer would be taken for the next one's
                await self._end()
        if "error" in reply:
            raise Invalid(reply["message"], code=reply["error"]) if reply["kind"] == "Invalid" else _too_long(reply["message"])
        return reply["value"]

    async def _begin(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise Misuse("this runtime is closed")
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "causeline.adapters.memory.query_child", stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise Unavailable(f"the process that answers queries cannot be started: {error}") from error
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        self._held.clear()
        self.generation += 1
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _too_long(message: str) -> QueryTooLong:
    return QueryTooLong(message, limit="query")
