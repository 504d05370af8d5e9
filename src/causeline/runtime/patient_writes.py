"""Commits of one run, written again while the store is away, so that what has happened is not forgotten for want of room on a disk.

Law: a commit is written once. Where an answer was lost it is looked up whether the commit is there before it is called refused.
"""

import asyncio
from collections.abc import Callable

from causeline.errors import Conflict, Unavailable
from causeline.policy import Clock
from causeline.runtime.records import CallRow, Commit, Run
from causeline.runtime.store import Store

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries: twice as long after each, up to the longest."""
Told = Callable[[Unavailable | None, int], None]
"""Told of each try that failed and how many there were, and of None when the store is back."""


def untold(_error: Unavailable | None, _tries: int) -> None:
    """For a run whose waits nobody follows."""


class PatientWrites:
    """See the module. `told` may be set to follow the waits."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._hurried = asyncio.Event()
        self.told: Told = untold

    def hurry(self) -> None:
        """Wait no longer from now on: what is waiting is tried once more, and what cannot be written then fails at once."""
        self._hurried.set()

    async def write(self, commit: Commit) -> None:
        """Return when the commit is durable. Raises what the store refuses it with. Cancelled or hurried while it waits, it tries once
        more, and raises Unavailable where that fails too."""
        tries = 0
        while True:
            try:
                await self._attempt(commit, again=tries > 0)
            except Unavailable as error:
                if self._hurried.is_set():
                    raise
                tries += 1
                self.told(error, tries)
            else:
                break
            try:
                await self._pause(min(FIRST_PAUSE * 2 ** min(tries - 1, 10), LONGEST_PAUSE))
            except asyncio.CancelledError:
                await self._attempt(commit, again=True)
                _cancel_again()
                break
        if tries:
            self.told(None, tries)

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless hurried."""
        sleeping = asyncio.create_task(self._clock.sleep(seconds))
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait((sleeping, hurried), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            hurried.cancel()

    async def _attempt(self, commit: Commit, *, again: bool) -> None:
        try:
            await self._store.commit(commit)
        except Conflict:
            if not again or not await self._is_there(commit):
                raise

    async def _is_there(self, commit: Commit) -> bool:
        """Whether this very commit was written by a try whose answer was lost."""
        if not (commit.events or commit.checkpoint or commit.calls or commit.patch):
            return False
        rows = await self._store.rows(Run, owner=commit.owner, id=commit.run)
        if not rows or rows[0].epoch != commit.epoch:
            return False
        if commit.events and rows[0].last_event != commit.first_event + len(commit.events) - 1:
            return False
        if commit.checkpoint is not None and rows[0].head != commit.checkpoint.id:
            return False
        if commit.patch is not None and commit.patch.status is not None and rows[0].status != commit.patch.status:
            return False
        stored = {row.call.call_id: row.call for row in await self._store.rows(CallRow, owner=commit.owner, run=commit.run)}
        return all(call.call_id in stored and stored[call.call_id].state == call.state for call in commit.calls)


def _cancel_again() -> None:
    """The cancel that was put off for one more try."""
    task = asyncio.current_task()
    if task is not None:
        task.cancel()
