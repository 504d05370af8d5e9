"""The events of a run: every kind once, as a type.

Law: what is told in a run's stream is one of these and has these fields; docs/reference/events.md has the same list in words.
An event is a plain dict with `type`, so a follower can write

    match event:
        case {"type": "text_message_content", "delta": delta}: ...
        case {"type": "run_finished" | "run_error", "status": status}: ...

and a type checker knows the fields. Whoever tells an event makes a `RunEvent`; the rest of the stamp (`run_id`, `session_id`, `seq`, `ts`)
is added where it is recorded.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, get_args


class RunEvent(dict[str, Any]):
    """An event of one of the kinds below, as a run tells it: `RunEvent(type="tool_call_end", tool_call_id="call_1")`.

    What a node of a user's own graph hands to `ctx.emit` is no RunEvent, whatever it holds, and is told as a `node_event`.
    """

    __slots__ = ()


class Stamp(TypedDict):
    """What every event has: whose it is, its number in the run (from 1), and when it was told (UTC, ISO 8601, milliseconds)."""

    run_id: str
    session_id: str
    seq: int
    ts: str


class RunStarted(Stamp):
    """The first event. `checkpoint_id` is where the run starts from. `parent_run_id`: the run whose questions it answers, the run it
    forks from, or the run whose call it carries out."""

    type: Literal["run_started"]
    agent: str
    checkpoint_id: str | None
    parent_run_id: NotRequired[str]


class RunTakenOver(Stamp):
    """Another process goes on with the run. `holder` says which, `epoch` how often the run has been claimed."""

    type: Literal["run_taken_over"]
    epoch: int
    holder: str


class StateSnapshot(Stamp):
    """The context object at the start."""

    type: Literal["state_snapshot"]
    context: Mapping[str, Any]


class StepStarted(Stamp):
    """A step begins. After a crash the same step begins again, and what it told before is void."""

    type: Literal["step_started"]
    step: int
    node: str


class StepFinished(Stamp):
    """A step is committed."""

    type: Literal["step_finished"]
    step: int
    node: str
    checkpoint_id: str


class TextMessageStart(Stamp):
    """The model begins to speak."""

    type: Literal["text_message_start"]
    message_id: str
    role: Literal["assistant"]


class TextMessageContent(Stamp):
    """A piece of the text."""

    type: Literal["text_message_content"]
    message_id: str
    delta: str


class TextMessageEnd(Stamp):
    """The text is whole."""

    type: Literal["text_message_end"]
    message_id: str


class ReasoningStart(Stamp):
    """The model begins to think, where it shows that."""

    type: Literal["reasoning_start"]
    message_id: str


class ReasoningContent(Stamp):
    """A piece of the reasoning."""

    type: Literal["reasoning_content"]
    message_id: str
    delta: str


class ReasoningEnd(Stamp):
    """The reasoning is whole."""

    type: Literal["reasoning_end"]
    message_id: str


class ToolCallDelta(Stamp):
    """Arguments as the model writes them; the first piece has the tool's `name`."""

    type: Literal["tool_call_delta"]
    message_id: str
    index: int
    delta: str
    name: NotRequired[str]


class MessageRetracted(Stamp):
    """The reply broke off and does not count; another one follows under another id."""

    type: Literal["message_retracted"]
    message_id: str


class ModelRetry(Stamp):
    """Attempt number `attempt` of a model call failed with `code`; the next one begins in `wait` seconds."""

    type: Literal["model_retry"]
    attempt: int
    wait: float
    code: str


class ToolCallStart(Stamp):
    """A call, whole: start, args and end follow each other. `client`: the caller carries it out."""

    type: Literal["tool_call_start"]
    tool_call_id: str
    name: str
    client: bool
    message_id: NotRequired[str]


class ToolCallArgs(Stamp):
    """`delta` is the whole arguments as JSON text."""

    type: Literal["tool_call_args"]
    tool_call_id: str
    delta: str


class ToolCallEnd(Stamp):
    """The call is told. It has not run yet."""

    type: Literal["tool_call_end"]
    tool_call_id: str


class ToolProgress(Stamp):
    """What a running tool shows with `context.emit_progress`."""

    type: Literal["tool_progress"]
    tool_call_id: str
    progress: Mapping[str, Any]


class ToolRetry(Stamp):
    """Attempt number `attempt` of a call failed with `code`; the next one begins in `wait` seconds."""

    type: Literal["tool_retry"]
    tool_call_id: str
    attempt: int
    wait: float
    code: str


class ToolCallResult(Stamp):
    """A call has ended. `message_id` is the message that the result is in the history; `content` is its text."""

    type: Literal["tool_call_result"]
    tool_call_id: str
    message_id: str
    content: str
    is_error: bool


class ContextChanged(Stamp):
    """A tool changed the context object."""

    type: Literal["context_changed"]
    context: Mapping[str, Any]


class MemoryRecalled(Stamp):
    """Earlier runs (`recall`) or long-term memories (`memory`) were put before the model: run, step and node of each piece, namespace,
    key and score of each memory. `error` {code, message}: the memory could not be asked, or what was noted could not be kept there; the
    run went on."""

    type: Literal["memory_recalled"]
    kind: Literal["recall", "memory"]
    citations: Sequence[Mapping[str, Any]]
    error: NotRequired[Mapping[str, str]]


class InterruptOpened(Stamp):
    """A question to a person. `run` is the run that asks, which may be one below this one; `path` names the agents from the top one to
    the one that asks."""

    type: Literal["interrupt_opened"]
    interrupt_id: str
    kind: Literal["approval", "question", "unknown_outcome"]
    tool_call_id: str
    name: str
    arguments: Any
    question: str | None
    reason: str | None
    run: str
    path: Sequence[str]


class InterruptSuperseded(Stamp):
    """A question that stood open where this run began is void: the user went on without answering it."""

    type: Literal["interrupt_superseded"]
    interrupt_id: str
    kind: Literal["approval", "question", "unknown_outcome"]
    tool_call_id: str
    name: str
    question: str | None


class NodeRetry(Stamp):
    """Attempt number `attempt` of a node failed with `code`; the next one begins in `wait` seconds. `path` leads to the visit, with the
    index of a scatter's item."""

    type: Literal["node_retry"]
    step: int
    node: str
    path: Sequence[str | int]
    attempt: int
    wait: float
    code: str


class NodeEvent(Stamp):
    """What a node of the user's own handed to `ctx.emit`."""

    type: Literal["node_event"]
    step: int
    node: str
    path: Sequence[str | int]
    data: Any


class ItemFinished(Stamp):
    """How far a scatter is: items `done` of `total`, where that is known, how many of them `failed` and were `retried`."""

    type: Literal["item_finished"]
    placement: str
    index: int
    done: int
    failed: int
    retried: int
    total: NotRequired[int]


class SubRunStarted(Stamp):
    """A tool that is an agent began a run."""

    type: Literal["sub_run_started"]
    tool_call_id: str
    sub_run_id: str
    sub_session_id: str
    agent: str


class SubRunEvent(Stamp):
    """An event of a run below this one: here `run_id` is the id of that run."""

    type: Literal["sub_run_event"]
    event: "Event"


class SubRunFinished(Stamp):
    """That run has ended, with this status."""

    type: Literal["sub_run_finished"]
    tool_call_id: str
    sub_run_id: str
    sub_session_id: str
    status: str
    stop_reason: str | None


class MessagesSnapshot(Stamp):
    """The whole conversation, before the end."""

    type: Literal["messages_snapshot"]
    messages: Sequence[Mapping[str, Any]]


class RunFinished(Stamp):
    """The last event, unless the run failed. `interrupts` are the ids of the questions that are open."""

    type: Literal["run_finished"]
    status: Literal["succeeded", "interrupted", "cancelled"]
    stop_reason: str
    answer: Any
    pending_tool_call_ids: Sequence[str]
    interrupts: Sequence[str]
    usage: Mapping[str, Any]


class RunError(Stamp):
    """The last event of a run that failed. `placement` is where, in a user's own graph."""

    type: Literal["run_error"]
    status: Literal["failed"]
    stop_reason: str | None
    code: str
    message: str
    usage: Mapping[str, Any]
    placement: NotRequired[str]


Event = (
    RunStarted
    | RunTakenOver
    | StateSnapshot
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ReasoningStart
    | ReasoningContent
    | ReasoningEnd
    | ToolCallDelta
    | MessageRetracted
    | ModelRetry
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolProgress
    | ToolRetry
    | ToolCallResult
    | ContextChanged
    | MemoryRecalled
    | InterruptOpened
    | InterruptSuperseded
    | NodeRetry
    | NodeEvent
    | ItemFinished
    | SubRunStarted
    | SubRunEvent
    | SubRunFinished
    | MessagesSnapshot
    | RunFinished
    | RunError
)
"""Any event, as a follower gets it."""

KINDS: Mapping[str, type] = {get_args(kind.__annotations__["type"])[0]: kind for kind in get_args(Event)}
"""Every value of `type` with its class."""
LAST = frozenset({"run_finished", "run_error"})
"""One of these ends a run's stream."""
DELTAS = frozenset({"text_message_content", "reasoning_content", "tool_call_delta"})
"""Pieces of one message, which may be joined when they follow each other."""
SPOKEN = frozenset({"text_message_start", "reasoning_start", "tool_call_delta"})
"""With these the model begins a message; until its step is committed the message may be retracted."""
ONCE_A_CALL = frozenset({"tool_call_start", "tool_call_args", "tool_call_end", "tool_call_result", "sub_run_started", "sub_run_finished"})
"""Told at most once for a call of a run."""
MADE_WHOLE_WHEN_READ: Mapping[str, tuple[frozenset[str], str]] = {
    "messages_snapshot": (frozenset(), "messages"),
    "sub_run_event": (frozenset({"number"}), "event"),
}
"""Kinds of which one field is long and is stored elsewhere: what stands in its place in the store, and the field."""
