"""Who drives runs: the four things a runtime asks of a dispatcher.

Law: a run is stored before it is handed on, and the store decides who may write it. A dispatcher may deliver a run any number of times and
to any number of processes: a claim is a compare-and-set in the store, so one of them drives it.

`local` (`causeline.runtime.local_dispatch`) drives runs in this process. Another one would hand their ids to machines of its own, and on
each of them a local one would drive what it is given.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from causeline.runtime.program import Program
from causeline.runtime.records import Run


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller of this process handed in with a run and no store can keep: its program, and its own `deps`."""

    program: Program | None = None
    deps: Any = None


class Dispatch(Protocol):
    """Sees to it that stored runs go on and end."""

    @property
    def holder(self) -> str | None:
        """The name under which a run may be stored as running at once, to be accepted in the next moment; None where runs are
        stored as queued, for whoever claims them."""
        ...

    async def accept(self, run: Run, given: Given | None = None, *, take_over: bool = False) -> None:
        """See to it that a stored run goes on: now, or when its session has its turn for it. A run of a process that is evidently gone is
        taken over, an ended one left alone. Returns at once, unless `take_over` says that the run is to be had from whoever holds it:
        then it waits until that holder proves to be alive, and raises Conflict (`run_held`)."""
        ...

    async def cancel(self, owner: str, run_id: str) -> Run:
        """Stop a run wherever it is, and what it has started below itself; return it as it then is. Waits for its end where it is driven
        here, and where its holder is gone. Raises Missing."""
        ...

    async def ended(self, owner: str, run_id: str) -> Run:
        """Wait for the end of a run, wherever it is driven, and return it. Raises Missing, Misuse when this is closed before, and what kept
        the run from being recorded."""
        ...

    async def close(self, grace: float) -> None:
        """Take nothing new, let calls that have begun finish for at most `grace` seconds, then give every run back, so that another
        process may go on at once."""
        ...
