"""What a step may know about the run it belongs to.

The runtime fills it in, nodes read it; neither side imports the other. Law: everything here is fixed when
the run starts and stored with it, except `facts`, which are never hashed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from causeline.causal import CausalNode
from causeline.events import RunEvent
from causeline.models.messages import Message
from causeline.run.ledger import Call, derive, idempotency_key


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class RunScope:
    """One run as its nodes see it.

    `input` are the caller's messages, which the entry step turns into goals and results. `client_tools` are
    definitions `{name, description, parameters}` only the client can execute. `context` is what the caller gave
    with the run, `before` the context object of the branch as the run found it. `answers` maps call ids to
    decisions `{decision, value?, reason?, by?}`, `answers_below` maps interrupts of runs below this one to theirs. `path` names the agents
    from the top one to this run's. `asked_by` maps calls to the id of the message that asks for them, `asked_in` open calls of an earlier
    run to that run. `settled` are open calls that had a result before this run began. `retracted` are ids of messages that a process
    before this one began and did not finish. What is to be known of the steps under way stands in `facts`, by placement (`facts_at`); the
    recorder takes it with the step's commit. `used` is what the run has used so far. `deps` is an object of the caller's for tools and
    nodes; it is never stored. `metadata` is the session's; `next_context` is the context object that was put for the session's
    next run, which takes it in place of `before`. `memo` keeps what is derived from the log alone for
    the next run that goes on from this one's head here.
    """

    run_id: str
    session_id: str
    owner: str
    started_at: str
    input: Sequence[Message] = ()
    client_tools: Sequence[Mapping[str, Any]] = ()
    context: Mapping[str, Any] | None = None
    before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    answers_below: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    path: Sequence[str] = ()
    asked_by: dict[str, str] = field(default_factory=dict[str, str])
    asked_in: dict[str, str] = field(default_factory=dict[str, str])
    settled: frozenset[str] = frozenset()
    retracted: set[str] = field(default_factory=set[str])
    facts: dict[str | int, dict[str, Any]] = field(default_factory=dict[str | int, dict[str, Any]])
    used: Mapping[str, Any] = field(default_factory=dict[str, Any])
    deps: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    next_context: Mapping[str, Any] | None = None
    memo: dict[str, Any] = field(default_factory=dict[str, Any])

    def facts_at(self, placement: str | int) -> dict[str, Any]:
        """The facts of the step under way at a top-level placement."""
        return self.facts.setdefault(placement, {})

    def idempotency_key(self, call_id: str) -> str:
        """The key of a call whose row this run opens."""
        return idempotency_key(self.owner, self.session_id, self.run_id, call_id)

    def result_message_id(self, call_id: str) -> str:
        """The id of the message that a call's result becomes."""
        return result_message_id(self.asked_in.get(call_id, self.run_id), call_id)


def merged(context: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A context object after changes, key by key; None deletes a key."""
    return {key: value for key, value in {**context, **changes}.items() if value is not None}


def message_id(run: str, step: int, index: int, attempt: int = 0) -> str:
    """The id of the message number `index` of a step. A retried reply has an `attempt` and thereby another id."""
    return derive("msg_", run, step, index, attempt) if attempt else derive("msg_", run, step, index)


def result_message_id(run: str, call_id: str) -> str:
    """The id of the message with the result of a call that `run` asked for; the same whichever run brings the result."""
    return derive("msg_", run, call_id)


SAID_AS = "said_as"
"""The fact of a step that names its messages by their place, where that does not follow from the step."""
SEARCH_HISTORY = "search_history"
"""The tool by which a model looks for earlier runs; what it finds is not recalled again."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Text of earlier runs, untrusted, and where each piece is from: `{run, step, node}`."""

    text: str
    citations: Sequence[Mapping[str, Any]] = ()


@runtime_checkable
class Notes(Protocol):
    """Where what a run notes is kept beyond its log."""

    def kept(self, nodes: Sequence[CausalNode], step: int, at: float) -> Sequence[Any]:
        """What of a step's nodes is committed with the step, as `Commit.memories`; `at` is the time, in seconds."""
        ...

    async def put(self, nodes: Sequence[CausalNode], step: int, at: float, own: Any = None) -> None:
        """Keep what of a step's nodes is kept elsewhere, after the step's commit and perhaps more than once. `own` is the memory in the
        store of the runs, where there is one."""
        ...


class Recall(Protocol):
    """Finds what earlier runs have to say. `wanted` is the agent's `recall` option, `query` the user's words."""

    async def recall(self, scope: RunScope, wanted: Mapping[str, Any], query: str) -> Recalled: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRun:
    """How a run below another one ended. `status` is succeeded, failed, cancelled or interrupted; queued where this process hands its
    runs back and it goes on elsewhere. `interrupts` are the questions that are
    open then, `usage` what each of the runs used that carried out the call in this run: `{run, usage}`."""

    run_id: str
    session: str
    status: str
    stop_reason: str | None = None
    answer: Any = None
    error: Mapping[str, Any] | None = None
    interrupts: Sequence[Mapping[str, Any]] = ()
    usage: Sequence[Mapping[str, Any]] = ()


class SubRuns(Protocol):
    """Carries out a call by a run of its own. `program` is whatever the runtime can run, such as an agent."""

    async def run(self, scope: RunScope, call: Call, program: Any, prompt: str, tell: Callable[[RunEvent], object]) -> SubRun:
        """Start the run of this call, or find it again, and wait for its end; where it waits for a person, hand down the answers that came
        with the run of `scope`. `tell` is given the events that say so, and those of that run. Cancelled, it cancels that run."""
        ...


class Patience(Protocol):
    """Waits that outlive the process that waits."""

    async def waiting(self, step: int, seconds: float) -> None:
        """Put on record, before it begins, that step `step` waits this long for somebody who asked for it."""
        ...

    def is_waiting(self) -> bool:
        """Whether such a wait is not over."""
        ...

    async def wait_out(self) -> None:
        """Wait for the rest of what a process before this one was waiting for in this step."""
        ...
