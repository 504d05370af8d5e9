"""Stores and models that fail on purpose, at a chosen write or call: faults by wrapping, so that production code has no hook.

store = FaultyStore(open_store(url), Kill(7, "after"))       # SIGKILL once the seventh durable write is done
store = FaultyStore(open_store(url), Fail(3), Delay(5, seconds=0.2))
model = FaultyModel(model, Fail(2, deltas=4))                # the second call breaks off after four deltas
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Unpack

from causeline.causal import CausalNode
from causeline.errors import Unavailable
from causeline.memory.backend import MemoryBackend
from causeline.models.failures import StreamCut
from causeline.models.model import Delta, Model, Request
from causeline.models.wrapper_model import WrapperModel
from causeline.runtime.records import CallRow, Commit, Link, OnBusy, Run, Session, Started
from causeline.runtime.store import Row, RowFilters, Store

T = TypeVar("T")
When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Kill:
    """End this process with SIGKILL, which nothing can catch. `number` counts writes, or calls of a model, from 1."""

    number: int
    when: When = "before"
    deltas: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise `error`. Failing after a write means that it is durable and the caller does not know. `deltas` is how many a
    model gives before it fails."""

    number: int
    when: When = "before"
    error: BaseException | None = None
    deltas: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait so many seconds."""

    number: int
    when: When = "before"
    seconds: float = field(default=0.1, kw_only=True)
    deltas: int = 0


Fault = Kill | Fail | Delay


async def strike(fault: Fault, error: BaseException) -> None:
    """Do what the fault says; `error` is what a Fail without one raises."""
    if isinstance(fault, Kill):
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(fault, Delay):
        await asyncio.sleep(fault.seconds)
    if isinstance(fault, Fail):
        raise fault.error or error


class FaultyStore:
    """A Store that passes everything on and fails where its faults say.

    Durable writes are numbered from 1 in the order in which they were asked for: start, claim, commit, cancel,
    put_session, load, delete. A heartbeat is none. `kinds` are their names, `writes` is how many there were.
    """

    def __init__(self, inner: Store, *faults: Fault | None) -> None:
        self.inner = inner
        self.faults = [fault for fault in faults if fault is not None]
        self.kinds: list[str] = []

    @property
    def writes(self) -> int:
        """How many durable writes were asked for."""
        return len(self.kinds)

    async def _write(self, kind: str, write: Awaitable[T]) -> T:
        self.kinds.append(kind)
        number = self.writes
        try:
            await self._strike(number, "before")
        except BaseException:
            close = getattr(write, "close", None)
            if close is not None:
                close()  # a coroutine that nobody awaits would warn
            raise
        result = await write
        await self._strike(number, "after")
        return result

    async def _strike(self, number: int, when: When) -> None:
        for fault in self.faults:
            if (fault.number, fault.when) == (number, when):
                await strike(fault, Unavailable(f"failed on purpose {when} write {number}, a {self.kinds[number - 1]}"))

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        return await self._write("start", self.inner.start(run, on_busy))

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        return await self._write("claim", self.inner.claim(owner, run_id, holder, epoch=epoch, beat=beat, at=at))

    async def renew(self, holder: str) -> Sequence[Run]:
        return await self.inner.renew(holder)

    async def commit(self, commit: Commit) -> None:
        await self._write("commit", self.inner.commit(commit))

    async def cancel(self, owner: str, run_id: str, at: str) -> Run:
        return await self._write("cancel", self.inner.cancel(owner, run_id, at))

    async def rows(self, kind: type[Row], *, owner: str | None, **filters: Unpack[RowFilters]) -> Sequence[Row]:
        return await self.inner.rows(kind, owner=owner, **filters)

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        return await self.inner.branch(owner, session, head)

    async def node(self, owner: str, node_id: str) -> Sequence[tuple[str, CausalNode]]:
        return await self.inner.node(owner, node_id)

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        return await self.inner.events(owner, run_id, after, limit)

    async def changed(self, seen: int, timeout: float) -> int:
        return await self.inner.changed(seen, timeout)

    def memory(self) -> MemoryBackend:
        """The memories behind the store; their writes do not count."""
        return self.inner.memory()

    async def put_session(
        self, owner: str, session: str, at: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        return await self._write("put_session", self.inner.put_session(owner, session, at, metadata=metadata, context=context))

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        await self._write("load", self.inner.load(session, runs, links, calls))

    async def delete(self, owner: str, session: str) -> None:
        await self._write("delete", self.inner.delete(owner, session))


class FaultyModel(WrapperModel):
    """A Model that passes everything on and fails where its faults say. Calls are numbered from 1.

    A fault `before` strikes once the call has given `deltas` pieces (0: at once), a fault `after` when the reply
    is whole. A Fail without an error is a StreamCut, which may be tried again; the next try is the next call.
    """

    def __init__(self, inner: Model, *faults: Fault | None) -> None:
        super().__init__(inner)
        self.faults = [fault for fault in faults if fault is not None]
        self.calls = 0

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        number, given = self.calls, 0
        stream = self.inner.stream(request)
        try:
            await self._strike(number, "before", 0)
            async for delta in stream:
                yield delta
                given += 1
                await self._strike(number, "before", given)
            await self._strike(number, "after", None)
        finally:
            await stream.aclose()

    async def _strike(self, number: int, when: When, given: int | None) -> None:
        for fault in self.faults:
            if (fault.number, fault.when) == (number, when) and given in (None, fault.deltas):
                await strike(fault, StreamCut(f"failed on purpose in call {number}"))
