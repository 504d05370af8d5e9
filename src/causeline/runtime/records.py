"""What the runtime stores: frozen rows, plain JSON inside, no clock and no storage.

Times are ISO 8601 UTC text with milliseconds; order never comes from them but from sequence numbers.
Every row belongs to an owner, and another owner's row does not exist for the asker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from causeline.causal import CausalNode
from causeline.memory.backend import Collection
from causeline.memory.items import StoredItem
from causeline.run.ledger import Call, CallState

RunStatus = Literal["queued", "running", "interrupted", "succeeded", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
ACTIVE: frozenset[RunStatus] = frozenset({"queued", "running"})
OnBusy = Literal["reject", "enqueue", "cancel"]
InterruptKind = Literal["approval", "question", "unknown_outcome"]
InterruptState = Literal["open", "answered", "superseded"]

STATUS_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    "queued": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"queued", "interrupted", "succeeded", "failed", "cancelled"}),
    "interrupted": frozenset(),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation. `head` is the checkpoint its next run starts from, None before the first commit.

    `metadata` is the caller's. `next_context` is what the entrypoint of the next run takes in place of its branch's context,
    None where nobody has put one since a run took the last.
    """

    id: str
    owner: str
    head: str | None
    created_at: str
    updated_at: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    next_context: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution in a session.

    `at` is the checkpoint the caller asked to start from, `base` the one it did start from, `head` its last
    commit. `input` are the caller's messages, kept from the start on. `answers` maps interrupt ids to
    decisions, for a run that continues interrupted ones. `holder`, `beat` and `epoch` are the lease: who may
    write, the counter that proves life, the number that fences older writers. `queue` orders runs of a store.
    `last_event` is the number of its last durable event, 0 before the first.
    """

    id: str
    session: str
    owner: str
    status: RunStatus
    agent: str
    created_at: str
    input: Sequence[Mapping[str, Any]] = ()
    manifest: Mapping[str, Any] | None = None
    at: str | None = None
    base: str | None = None
    head: str | None = None
    parent_run: str | None = None
    parent_call: str | None = None
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: Sequence[Mapping[str, Any]] = ()
    context: Mapping[str, Any] | None = None
    started_at: str | None = None
    finished_at: str | None = None
    stop_reason: str | None = None
    answer: Any = None
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    pending_tool_call_ids: Sequence[str] = ()
    cancel_requested: bool = False
    holder: str | None = None
    beat: int = 0
    epoch: int = 0
    queue: int = 0
    last_event: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What is unique in a store."""
        return self.owner, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The commit of one step. `id` covers everything but session, step, created_at and facts (see
    `causeline.causal.checkpoint_id`). `facts` are times, usage, attempts: true of the step, never hashed."""

    id: str
    session: str
    run: str
    step: int
    parent: str | None
    path: Sequence[str | int]
    node: str
    port: str
    next: str | None
    appended: Sequence[str]
    frontier: Sequence[str]
    delta: Mapping[str, Any]
    position: Any
    created_at: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A finished piece of an unfinished step: a scatter item, a placement of an embedded graph, a wait."""

    run: str
    step: int
    path: Sequence[str | int]
    index: int
    port: str
    writes: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """An open question to a person, bound to a call, the hash of its arguments and the session's owner.

    `run` is the run that asks, and `path` names the agents from the top one to the one that asks. `checkpoint` is where the
    question is open in this session. A session whose run waits for a run below it has a row of its own with the same id;
    `parent_call` is then its call that waits.
    """

    id: str
    session: str
    run: str
    checkpoint: str
    kind: InterruptKind
    tool_call_id: str
    name: str
    args_hash: str
    arguments: Any = None
    question: str | None = None
    reason: str | None = None
    path: Sequence[str] = field(default_factory=list[str])
    parent_call: str | None = None
    state: InterruptState = "open"
    decision: Mapping[str, Any] | None = None
    answered_by: str | None = None

    @property
    def waiting_call(self) -> str:
        """The call of this session that waits for the answer."""
        return self.parent_call if self.parent_call is not None else self.tool_call_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """A ledger row of one run. Keyed (run, call id), so a fork opens rows of its own."""

    run: str
    call: Call

    @property
    def run_id(self) -> str:
        return self.run

    @property
    def call_id(self) -> str:
        return self.call.call_id

    @property
    def step(self) -> int:
        return self.call.step

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def state(self) -> CallState:
        return self.call.state

    @property
    def args_hash(self) -> str:
        return self.call.args_hash

    @property
    def client(self) -> bool:
        return self.call.client

    @property
    def attempts(self) -> int:
        return self.call.attempts

    @property
    def idempotency_key(self) -> str:
        return self.call.idempotency_key


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPatch:
    """What a commit changes about its run. None leaves a field alone; a status other than `running` releases the lease."""

    status: RunStatus | None = None
    stop_reason: str | None = None
    answer: Any = None
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    pending_tool_call_ids: Sequence[str] | None = None
    finished_at: str | None = None


@dataclass(slots=True, kw_only=True)
class Commit:
    """One transaction of a run: all of it becomes durable, or nothing. It is no row and nobody keeps it, so it is not frozen, which
    makes it cheaper.

    It is refused with Conflict when `epoch` is not the run's, and, where a checkpoint is given, when the
    session's head is not `expect_head`. `events` are consecutive: the first has number `first_event`.
    They carry no `seq`; reading adds it. `nodes` are what the checkpoint lists as `appended`, in that order.
    `calls` are upserts whose move is checked against the row that is there. `interrupts` are upserts; one that
    was answered or superseded meanwhile keeps its state, decision and `answered_by`. `progress` replaces what is
    there for the same piece; a checkpoint removes its run's progress up to its step. `took_context` is the session's
    `next_context` as this run took it over: the session has none after it, unless somebody has put another one. `memories` are
    kept as `MemoryBackend.put` keeps them.
    """

    run: str
    session: str
    owner: str
    epoch: int
    at: str
    expect_head: str | None = None
    checkpoint: Checkpoint | None = None
    nodes: Sequence[CausalNode] = ()
    calls: Sequence[Call] = ()
    interrupts: Sequence[Interrupt] = ()
    progress: Sequence[Progress] = ()
    first_event: int = 0
    events: Sequence[Mapping[str, Any]] = ()
    patch: RunPatch | None = None
    took_context: Mapping[str, Any] | None = None
    memories: Sequence[tuple[Collection, StoredItem]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What starting a run came to: the run as stored, and whether it was known already (same id, same body)."""

    run: Run
    known: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """One checkpoint of a branch with the nodes it appended, in commit order."""

    checkpoint: Checkpoint
    nodes: Sequence[CausalNode]
