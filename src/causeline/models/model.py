"""What a model is: something that turns a Request into a stream of deltas.

Law: a model keeps nothing between two calls that could change an answer. Folding the deltas
(`causeline.models.stream.Fold`) gives the Reply; closing the stream stops the work behind it;
every failure is a ModelError. The shipped promises are `causeline.testing.model_laws`.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from causeline.models.messages import Json, Message, ToolCall, ToolSpec

ToolMode = Literal["native", "text", "schema"]
"""How tools reach a model: its own tool calling, described in text, or a reply constrained by JSON Schema."""


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: a view that is built for the call and never stored.

    `messages` is a live read-only sequence. It may be thousands long and nobody copies it for a call;
    a Message in it never changes, so what was rendered from it may be kept.
    `memory` and `recall` are untrusted data, from long-term memory and from earlier runs; each is rendered as a system message of its
    own behind the system prompt, marked as data.
    `response_schema` is `{"name", "schema", "strict"?}`, or a provider's own response format (`{"type": ...}`), passed on as it is.
    `round` counts the model's replies already given in this user turn; None counts them in `messages`.
    `attempt` counts earlier tries of this same request; the retry wrapper sets it.
    """

    messages: Sequence[Message]
    system: str | None = None
    memory: str | None = None
    recall: str | None = None
    tools: Sequence[ToolSpec] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    response_schema: Json | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    round: int | None = None
    attempt: int = 0

    def rounds(self) -> int:
        """`round`, or the assistant messages after the last user message. Costs at most the length of the turn."""
        if self.round is not None:
            return self.round
        count = 0
        for message in reversed(self.messages):
            if message.role == "user":
                break
            count += message.role == "assistant"
        return count


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model shows of its thinking. Not part of the answer.

    `part` is a whole piece of it as the provider gave it, signatures included, and with the key `provider`: it is kept in the
    log, and given back with the history to that provider alone. Its words were told before, in deltas with `text`.
    """

    text: str = ""
    part: Json | None = None


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call. A call begins with its name. `id` and `name` are "" where the provider did not repeat them;
    `arguments` is the next piece of text."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt so far (a later one replaces it), and its cost in US dollars where the provider says."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
        )

    def to_json(self) -> Json:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True)
class Served:
    """Who answers: the model by its own name, and the provider's id of the request ("" where it gives none)."""

    model: str
    request_id: str = ""


UNREADABLE = "unreadable"
"""How a reply ends that had to be a reply object and is none (see `Finish`)."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the reply ended: `stop`, `tool_calls`, `length`, `content_filter`, or the provider's own word. A word that says
    that the provider failed is no Finish: the model raises a ModelError."""

    reason: str


@dataclass(frozen=True, slots=True)
class Retracted:
    """Everything streamed so far for this reply is void; it starts again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that failed. `wait` is the seconds until the next try of the same model, None when another model is next or none."""

    model: str
    code: str
    message: str
    wait: float | None = None

    def to_json(self) -> Json:
        return {"model": self.model, "code": self.code, "message": self.message, "wait": self.wait}


Delta = TextDelta | ReasoningDelta | CallDelta | Usage | Served | Finish | Retracted | Attempt

CONTENT = frozenset({TextDelta, ReasoningDelta, CallDelta})
"""Deltas that a reader may have shown to somebody, so that a new try has to take them back."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. Ids of `calls` are the provider's, or "" where it gave none or gave one twice;
    `provider_ids` holds them as they came. `usage` covers retracted tries too, `attempts` the ones that failed.
    `reasoning` is what was shown of the thinking, `parts` the same as it is kept."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    usage: Usage = Usage()
    reasoning: str = ""
    parts: tuple[Json, ...] = ()
    provider_ids: tuple[str, ...] = ()
    model: str = ""
    request_id: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def empty(self) -> bool:
        """Neither text nor calls."""
        return not self.calls and not self.text.strip()


@runtime_checkable
class Model(Protocol):
    """Something that answers a Request.

    `stream` yields deltas and ends after Finish, or raises a ModelError. Closing it (`aclose`) or
    cancelling its reader stops the provider. `aclose` gives back what the model holds open; it may be called twice.
    A model that cannot call tools itself says `prefers = "schema"` (or "text"); without the attribute it is "native".
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]: ...

    async def aclose(self) -> None: ...


def preferred_mode(model: Any) -> ToolMode:
    """How this model wants its tools: its `prefers` attribute, else native."""
    return getattr(model, "prefers", "native")
