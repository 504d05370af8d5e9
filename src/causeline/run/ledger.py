"""The call ledger's words: what a tool call may be and which way it may move.

A call is one tool invocation asked for by the model. Its row is written before the tool runs and
changed once for each thing that becomes true of it, so that after a crash everybody can tell a call
that never began from one that finished and from one nobody knows about. This file has the rules and
the protocol; who stores the rows is not its business.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from causeline.causal import canonical

CallState = Literal["pending", "awaiting", "started", "succeeded", "failed", "denied", "unknown", "superseded"]
CALL_STATES: tuple[CallState, ...] = get_args(CallState)

MOVES: Mapping[CallState, frozenset[CallState]] = {
    "pending": frozenset({"awaiting", "started", "succeeded", "failed", "denied", "superseded"}),
    "awaiting": frozenset({"started", "succeeded", "failed", "denied", "superseded"}),
    "started": frozenset({"succeeded", "failed", "unknown"}),
    "unknown": frozenset({"started", "succeeded", "failed", "unknown", "superseded"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "denied": frozenset(),
    "superseded": frozenset(),
}
"""From each state, the states a call may move to. `pending` goes straight to a result for tools without
effects, which need no `started`; `awaiting` does so for client tools, whose result is a message."""

FINISHED: frozenset[CallState] = frozenset({"succeeded", "failed", "denied", "superseded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One row of the ledger. `arguments` is the object the tool gets, or the raw text that did not parse.

    `index` is the place in the reply that asked for it, `result` the JSON the tool returned (`ok`) or the error text (`not ok`),
    `attempts` how often it was started. `opened_in` is the run in which the row was opened, `idempotency_key` the same for every attempt,
    whoever makes it. `decisions` are what people decided on it, oldest first: `{decision, by, args?, result?, reason?}`. `reported` is
    what else the tool reported with its result (`resources`, `verification`, `context_patch`), so that nothing of it is lost when another
    process goes on.
    """

    call_id: str
    name: str
    arguments: Any
    args_hash: str
    state: CallState
    index: int
    step: int
    client: bool = False
    ok: bool | None = None
    result: Any = None
    reason: str | None = None
    attempts: int = 0
    reported: Mapping[str, Any] | None = None
    opened_in: str = ""
    idempotency_key: str = ""
    decisions: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])


class Ledger(Protocol):
    """What the step that runs tools needs from whoever keeps the rows."""

    def open_calls(self) -> Sequence[Call]:
        """The calls of the latest reply that asked for tools, in call order, as the ledger knows them."""
        ...

    def begin(self, calls: Sequence[Call]) -> None:
        """These calls begin now. Raises HandBack where nothing new begins any more; what has been told as `started` still does."""
        ...

    async def move(self, calls: Sequence[Call]) -> None:
        """Write these rows in one durable write. Raises Conflict if a row is not where a move may start."""
        ...

    async def finish(self, call: Call) -> None:
        """Record a result when it arrives. The last open call of a step is written with the step itself."""
        ...


def arguments_hash(arguments: Any) -> str:
    """64 hex of SHA-256 over the canonical form: what an approval is bound to."""
    return hashlib.sha256(canonical(arguments)).hexdigest()


def idempotency_key(owner: str, session: str, run: str, call_id: str) -> str:
    """The name under which a service knows a call: `run` is the one in which the call's row was opened. The same in every attempt,
    takeover, answer and retry of the call; another one in a fork, in another session and for another owner."""
    return derive("ik_", owner, session, run, call_id)


def derive(prefix: str, *parts: str | int | list[str | int]) -> str:
    """An id made inside a run: `prefix` and 24 hex of SHA-256 over the parts, so that it is the same after a crash."""
    return prefix + hashlib.sha256(canonical(list(parts))).hexdigest()[:24]
