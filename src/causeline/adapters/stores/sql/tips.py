"""Where the runs of this process stand, kept in memory, so that a commit need not look anything up.

Law: a tip is only believed. The statement that writes names the run's epoch and the number of its commits; where it finds no such
row, the tip is read anew and the reason told. Every refusal comes from a tip that was read in the same transaction.
"""

from dataclasses import dataclass, field

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.sql.encoding import STATES, unpack_checkpoint
from causeline.adapters.stores.sql.log_rows import ORIGINS, PackedCommit, ids
from causeline.runtime.records import Commit

MOST = 10_000
"""Tips kept at most."""
Key = tuple[str, str]
"""Owner and run id."""


@dataclass(slots=True)
class Tip:
    """A run as of its last commit.

    `run` and `session` are the numbers of their rows, `commits` and `events` count. `head` is the run's own last checkpoint and
    `tail` the row that tells of it; `session_head` and `session_tail` are those of the session while no commit of this run has moved
    it. `forked` says that the session has more than one branch, `pieces` is the last step with progress, -1 for none. `states` are
    the codes of the run's calls, and `specs` what was said of those that are not over; `nodes` the rows of the nodes of a forked
    session. None stands for what was not read yet.
    """

    run: int
    session: int
    session_id: str
    status: str
    epoch: int
    commits: int
    events: int
    head: bytes | None
    tail: int | None
    session_head: bytes | None
    session_tail: int | None
    forked: bool
    pieces: int
    states: dict[str, int] | None
    specs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    nodes: dict[bytes, int] | None = None

    def check(self, commit: Commit) -> None:
        """Raises Conflict where the commit may not follow. Whether its parent is there and its calls may move is asked apart."""
        head = None if commit.checkpoint is None else unpack_checkpoint(self.head or self.session_head)
        rules.check_fence(commit, status=self.status, epoch=self.epoch, last_event=self.events, head=head)

    def check_calls(self, commit: Commit, row: PackedCommit) -> None:
        """Raises Conflict for a call that may not become what the commit says."""
        states = self.states or {}
        for call, packed in zip(commit.calls, row.calls, strict=True):
            there = states.get(packed.id)
            if there is not None and there not in ORIGINS[packed.code]:
                raise refusals.call_moved(commit.run, call, STATES[there])

    def last(self) -> tuple[bytes | None, int | None]:
        """The session's head, and the row that tells of it."""
        return (self.session_head, self.session_tail) if self.head is None else (self.head, self.tail)

    def moved(self, row: PackedCommit, events: int, number: int) -> None:
        """The row with this number is written."""
        self.commits += 1
        self.events += events
        for call in row.calls:
            if self.states is not None:
                self.states[call.id] = call.code
            if call.finished:
                self.specs.pop(call.id, None)
            else:
                self.specs[call.id] = call.spec
        if row.keys is not None:
            self.head, self.tail = row.head, number
            if self.nodes is not None:
                for name in ids(row.keys):
                    self.nodes.setdefault(name, number)


class Tips:
    """The tips of a store, the last used ones. `placed` is up to which row ids are indexed, as far as this process knows; None where
    the database does that by itself."""

    def __init__(self, placed: int | None) -> None:
        self.placed = self._settled = placed
        self._tips: dict[Key, Tip] = {}
        self._touched: set[Key] = set()

    def __len__(self) -> int:
        return len(self._tips)

    def get(self, key: Key) -> Tip | None:
        """The tip of a run, if it is known."""
        return self._tips.get(key)

    def keep(self, key: Key, tip: Tip) -> None:
        """Know a run from now on, until its transaction fails or it stops."""
        if len(self._tips) >= MOST:
            self._tips.pop(next(iter(self._tips)))
        self._tips[key] = tip

    def drop(self, key: Key) -> None:
        """The run stopped, or stands elsewhere than was believed."""
        self._tips.pop(key, None)

    def touch(self, key: Key) -> None:
        """What is known of the run holds only if the transaction under way succeeds."""
        self._touched.add(key)

    def settle(self) -> None:
        """The transaction succeeded."""
        self._touched.clear()
        self._settled = self.placed

    def undo(self) -> None:
        """The transaction failed, so that nothing is known of the runs it wrote."""
        for key in self._touched:
            self._tips.pop(key, None)
        self._touched.clear()
        self.placed = self._settled
