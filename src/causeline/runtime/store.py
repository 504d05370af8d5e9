"""The Store protocol: all a backend must do, and what it promises.

Promises, checked by `causeline.testing.store_laws` on every backend:
- a call that returned is durable: it survives the death of the process (and of the machine, where the
  backend flushes to disk);
- each call is one transaction: all of it is seen, or nothing; one refused commit never fails another;
- writers are fenced: a commit with an old epoch, or from another head than expected, changes nothing;
- one session has at most one running run;
- events of a run are read in order, without gaps, and only once durable;
- rows of another owner do not exist;
- text is kept exactly, NUL included; times are stored as given and never compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from causeline.causal import CausalNode
from causeline.memory.backend import MemoryBackend
from causeline.runtime.records import CallRow, Checkpoint, Commit, Interrupt, Link, OnBusy, Progress, Run, Session, Started

Row = TypeVar("Row", Session, Run, Checkpoint, CallRow, Interrupt, Progress)


class RowFilters(TypedDict, total=False):
    """Which rows `Store.rows` gives. A filter that is left out or None lets every row pass."""

    session: str | None
    run: str | None
    id: str | None
    """The row's own id; a call's `call_id`."""
    status: Sequence[str]
    """Any of these, in `status` or `state`."""
    parent: str | None
    """Runs whose `parent_run` this is."""
    turn: bool
    """With True: of each session only the run whose turn it is, the running one, else the first that is queued. Costs the
    number of busy sessions, however many runs wait in them."""
    limit: int | None
    after: str | None
    """Only what follows the row with this id, in the order asked for. It must name one row there is, whatever its status:
    calls need `run` beside it, other kinds an owner. Else Missing."""
    newest: bool
    """With True: newest first."""


class Store(Protocol):
    """Storage for sessions. All methods raise Unavailable when the backend does not answer in time."""

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises Invalid for a store of a later format."""
        ...

    async def close(self) -> None:
        """Finish what was queued, then let go of files and connections. Calling it twice is harmless."""
        ...

    async def start(self, run: Run, on_busy: OnBusy) -> Started:
        """Insert a run (its `status` is `running` with a `holder`, or `queued`), and its session if new.

        Known run id: the stored run with `known=True` if session, agent, input, at, answers, tools and context
        are the same, else Conflict(code="run_conflict"). Busy session (another run is queued or running):
        `reject` raises Conflict(code="session_busy"), `enqueue` stores the run as queued, `cancel` asks the
        active ones to stop, as `cancel` does, and stores it as queued. A running run gets epoch 1, `started_at`
        (`created_at` if it has none) and its `base`: `at`, else the session's head. `at` must be a checkpoint of the
        session, else Missing.
        With `answers`: each interrupt must be open (else Conflict(code="interrupt_closed"), also in a busy session,
        unknown: Missing) and becomes answered by this run. With a user message in `input`, interrupts open at the run's base become
        superseded, in every session of the owner that holds them open. Both in this same transaction.
        """
        ...

    async def claim(self, owner: str, run_id: str, holder: str, *, epoch: int, beat: int, at: str) -> Run | None:
        """Take a run whose lease still reads (`epoch`, `beat`): a queued one that is first in its session while none
        runs, or a running one, which its holder evidently left. Raises the epoch by one and sets `holder`. A run
        that begins now (`started_at` is None) gets `started_at` and its `base`, and with a user message in its
        input the interrupts open there become superseded. None if somebody was quicker, the run has ended or is
        not there."""
        ...

    async def renew(self, holder: str) -> Sequence[Run]:
        """Heartbeat: add one to `beat` of every running run of this holder; return those runs."""
        ...

    async def commit(self, commit: Commit) -> None:
        """Apply one commit (see `Commit`). With a checkpoint it becomes the run's and the session's head.

        Raises Missing for an unknown run or parent checkpoint, Misuse for a commit that contradicts itself, and
        Conflict with one of these codes: `lost_lease` (the run is not running under this epoch), `stale_head`,
        `event_gap` (`first_event` does not follow the last stored event), `call_moved` (a call may not move from
        where it is), `run_ended` (the patch's status may not follow).
        """
        ...

    async def cancel(self, owner: str, run_id: str, at: str) -> Run:
        """A queued run becomes cancelled at once, a running one gets `cancel_requested`, an ended one is left alone.
        Returns the run as it is then. Raises Missing."""
        ...

    async def put_session(
        self, owner: str, session: str, at: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        """Set the metadata or the next context of a session, which is made if it is new. None leaves a thing as it is."""
        ...

    async def rows(self, kind: type[Row], *, owner: str | None, **filters: Unpack[RowFilters]) -> Sequence[Row]:
        """Rows of one kind, oldest first, filtered by what is given. `owner=None` sees all owners (workers).

        Misuse for a filter that the kind does not have. Rows hold JSON arrays as lists.
        """
        ...

    async def branch(self, owner: str, session: str, head: str | None) -> Sequence[Link]:
        """The checkpoints from the root to `head` with their nodes. Raises Missing for an unknown head."""
        ...

    async def node(self, owner: str, node_id: str) -> Sequence[tuple[str, CausalNode]]:
        """Every (session, node) with this id."""
        ...

    async def events(self, owner: str, run_id: str, after: int, limit: int = 1000) -> Sequence[Mapping[str, Any]]:
        """Events with numbers above `after`, in order; each carries its `seq`. Raises Missing."""
        ...

    async def changed(self, seen: int, timeout: float) -> int:
        """Wait until something was committed, by any process, since the token `seen` was returned, or `timeout`
        seconds passed; return the new token. Pass 0 first. What a process committed just before it died may go
        unannounced, so wait with a timeout and then look."""
        ...

    def memory(self) -> MemoryBackend:
        """What keeps memories in this same store; it works while the store is open."""
        ...

    async def load(self, session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> None:
        """Insert a whole verified session at once (import). Raises Conflict if the session exists."""
        ...

    async def delete(self, owner: str, session: str) -> None:
        """Remove the session and every row of it. Raises Missing, or Conflict while a run is active."""
        ...
