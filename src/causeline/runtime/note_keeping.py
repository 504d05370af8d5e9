"""What a run leaves in memory: its notes, with the step's commit where the store of sessions keeps them, after it elsewhere; and, with
its end, the digest that it is recalled by.

Law: whatever a memory does wrong is told, and the run goes on.
"""

from collections.abc import Callable, Sequence
from typing import Any

from causeline.causal import CausalNode
from causeline.errors import CauselineError, fault_of
from causeline.events import RunEvent
from causeline.memory.long_term import Memories
from causeline.policy import Clock
from causeline.run.scope import Notes
from causeline.runtime.records import ACTIVE, Link, Run, RunPatch
from causeline.runtime.run_digests import RunDigest
from causeline.runtime.store import Store
from causeline.runtime.times import iso


class NoteKeeping:
    """One run's way to memory; `notes` is None for a run that keeps none."""

    def __init__(self, run: Run, notes: Notes | None, store: Store, clock: Clock, emit: Callable[[RunEvent], None]) -> None:
        self.digest = RunDigest(run)
        self._own = Memories(store.memory(), clock) if notes is not None else None
        self._notes = notes
        self._clock = clock
        self._emit = emit

    def with_step(self, nodes: Sequence[CausalNode], step: int) -> Sequence[Any]:
        """What is committed with a step, as `Commit.memories`."""
        self.digest.add(step, nodes)
        if self._notes is None or not nodes or not _noted(nodes):
            return ()
        try:
            return self._notes.kept(nodes, step, self._clock.now())
        except CauselineError as error:
            self._not_kept(error)
            return ()

    def with_end(self, end: RunPatch | None) -> Sequence[Any]:
        """What is committed with the end of the run, as `Commit.memories`."""
        return () if end is None or end.status in (None, *ACTIVE) else self.digest.rows(end, iso(self._clock.now()))

    async def after_step(self, nodes: Sequence[CausalNode], step: int) -> None:
        """Keep elsewhere what a committed step noted. A process that takes the run over does it again."""
        if self._notes is None or not nodes or not _noted(nodes):
            return
        try:
            await self._notes.put(nodes, step, self._clock.now(), self._own)
        except Exception as error:  # noqa: BLE001 - whatever a memory does wrong, the run goes on
            self._not_kept(error)

    async def take_over(self, links: Sequence[Link]) -> None:
        """Go on where another process was. It may have died before it had kept what its last step noted."""
        self.digest.take_over(links)
        await self.after_step(links[-1].nodes, links[-1].checkpoint.step)

    def _not_kept(self, error: Exception) -> None:
        self._emit(RunEvent(type="memory_recalled", kind="memory", citations=[], error=fault_of(error)))


def _noted(nodes: Sequence[CausalNode]) -> bool:
    return "semantic" in [node.kind for node in nodes]
