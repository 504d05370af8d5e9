"""The events of one run between being told and being durable: numbered, deltas joined, written soon.

Law: numbers have no gaps and begin where the last process stopped; a call is announced once; the first words of a message
do not wait for what was told before them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.events import DELTAS, ONCE_A_CALL, SPOKEN, RunEvent
from causeline.policy import Clock
from causeline.runtime.times import iso

FLUSH_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSoFar:
    """What a run has told already. `next_number` is that of its next event, `unfinished` are messages that were begun and neither
    finished nor retracted, `retracted` those that were; `below` is the number of the newest event it told of each run below it."""

    next_number: int = 1
    announced: frozenset[tuple[str, str]] = frozenset()
    unfinished: Sequence[str] = ()
    retracted: frozenset[str] = frozenset()
    below: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class _Reading:
    speaking: dict[str, None] = field(default_factory=dict[str, None])
    announced: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    retracted: set[str] = field(default_factory=set[str])
    below: dict[str, int] = field(default_factory=dict[str, int])


def told_so_far(events: Sequence[Mapping[str, Any]]) -> ToldSoFar:
    """What these durable events of a run, all of them, say of it."""
    reading = _Reading()
    for event in events:
        kind = event["type"]
        if kind in SPOKEN:
            reading.speaking[event["message_id"]] = None
        elif kind == "message_retracted":
            reading.speaking.pop(event["message_id"], None)
            reading.retracted.add(event["message_id"])
        elif kind == "step_finished":
            reading.speaking.clear()
        elif kind in ONCE_A_CALL:
            reading.announced.add((kind, event["tool_call_id"]))
        elif kind == "sub_run_event":
            reading.below[event["run_id"]] = event["number"]
    return ToldSoFar(
        next_number=events[-1]["seq"] + 1 if events else 1,
        announced=frozenset(reading.announced),
        unfinished=tuple(reading.speaking),
        retracted=frozenset(reading.retracted),
        below=reading.below,
    )


class EventBuffer:
    """Events that wait to become durable. `flush` is called when they have waited long enough, and writes what `take` gives."""

    def __init__(self, told: ToldSoFar, clock: Clock, flush: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._flush = flush
        self._next = told.next_number
        self._announced = set(told.announced)
        self._below = dict(told.below)
        self._events: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._timer: asyncio.Handle | None = None
        self._hurry: asyncio.Handle | None = None
        self._now, self._time = -1, ""
        self._flushing: asyncio.Task[None] | None = None
        for message in told.unfinished:
            self.add(RunEvent(type="message_retracted", message_id=message))

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(self, event: RunEvent) -> None:
        """Keep an event until it is durable. Deltas of one message that follow each other become one."""
        kind = event["type"]
        if kind in ONCE_A_CALL:
            key = (kind, event["tool_call_id"])
            if key in self._announced:
                return
            self._announced.add(key)
        if kind == "sub_run_event":
            if event["number"] <= self._below.get(event["run_id"], 0):
                return
            self._below[event["run_id"]] = event["number"]
        first = False
        if kind in DELTAS:
            if self._goes_on(event):
                self._pieces.append(event["delta"])
                return
            first = self._first_of(event["message_id"])
        if self._pieces:
            self._join()
        now = int(self._clock.now() * 1000)
        if now != self._now:
            self._now, self._time = now, iso(now / 1000)
        self._events.append({**event, "ts": self._time})
        if first or self._timer is None:
            self._soon(first=first)

    def take(self) -> tuple[int, list[dict[str, Any]]]:
        """All that waits, and the number of the first; whoever takes it writes it."""
        if self._pieces:
            self._join()
        if self._hurry is not None:  # what was in a hurry goes along; what comes next is not
            self._hurry.cancel()
            self._hurry = None
        events, self._events = self._events, []
        first = self._next
        self._next += len(events)
        return first, events

    async def close(self) -> None:
        """Let a flush under way end; none begins after."""
        for waiting in (self._timer, self._hurry):
            if waiting is not None:
                waiting.cancel()
        self._timer = self._hurry = None
        if self._flushing is not None:
            await asyncio.gather(self._flushing, return_exceptions=True)

    def _goes_on(self, event: Mapping[str, Any]) -> bool:
        last = self._events[-1] if self._events else None
        return (
            last is not None
            and last["type"] == event["type"]
            and last["message_id"] == event["message_id"]
            and last.get("index") == event.get("index")
        )

    def _join(self) -> None:
        """Give the newest event the pieces that came after it, all at once: adding each one alone copies the text every time."""
        self._events[-1]["delta"] += "".join(self._pieces)
        self._pieces.clear()

    def _first_of(self, message: str) -> bool:
        key = ("first", message)
        if key in self._announced:
            return False
        self._announced.add(key)
        return True

    def _soon(self, *, first: bool) -> None:
        loop = asyncio.get_running_loop()
        if not first:
            self._timer = loop.call_later(FLUSH_SECONDS, self._later)
        elif self._hurry is None:
            self._hurry = loop.call_soon(self._due)

    def _later(self) -> None:
        self._timer = None
        self._due()

    def _due(self) -> None:
        self._hurry = None
        if self._events:
            self._flushing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            await self._flush()
        except Exception:  # noqa: BLE001 - the recorder has kept it, and whoever writes next is told
            return
