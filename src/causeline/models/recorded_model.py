"""A model that answers from a log: the same request gets the reply it got then, another one is refused with what differs.

Law: a request is what a model reads: its system prompt and its messages. What is of one run alone (times and dates in the system
prompt, ids of calls, runs and nodes) is no difference; what was recalled from a store is not compared.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from causeline.causal import CausalNode, canonical
from causeline.causal.payload import fields
from causeline.models.failures import ModelRefused
from causeline.models.messages import Json, Message
from causeline.models.model import CallDelta, Delta, Finish, ReasoningDelta, Request, Served, TextDelta, Usage
from causeline.models.transcript import Shorten, Transcript

MAX_DIFF = 80
"""Lines of a difference that are told."""
_IDS = re.compile(r"\b(?:cw|ck|run|ses|ik|msg|int|call)_[0-9a-z]{24,}\b")
_TIMES = re.compile(r"\b\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?")
_USAGE = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost")


class Unrecorded(ModelRefused):
    """A request that is not in the recording. The message is the difference to the one that is most like it."""

    code = "unrecorded"
    retryable = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a model was asked, as lines, and what it said."""

    asked: tuple[str, ...]
    said: tuple[Delta, ...]


def exchanges(
    nodes: Iterable[CausalNode], facts: Mapping[str, Mapping[str, Any]], shorten: Shorten | None = None, *, session: str = ""
) -> list[Exchange]:
    """Every request of a branch and its reply, in order. `nodes` are those of the branch, `facts` the facts of the step by the ids of the
    nodes it added, `session` is the session's id."""
    transcript = Transcript(shorten)
    found: list[Exchange] = []
    for node in nodes:
        if node.kind == "inference":
            shown = [*transcript.view, *transcript.stand_ins()] if transcript.open else transcript.view
            found.append(Exchange(request_lines(transcript.system, shown, session), _reply(fields(node.payload), facts.get(node.id, {}))))
        transcript.add(node)
    return found


class RecordedModel:
    """Answers from exchanges. A request that was made more than once then gets its replies in turn, and the last one from there on."""

    name = "recorded"

    def __init__(self, recording: Sequence[Exchange], *, session: str = "") -> None:
        self.misses: list[str] = []
        self._session = session
        self._recording = tuple(recording)
        self._replies: dict[tuple[str, ...], list[Exchange]] = {}
        self._times: Counter[tuple[str, ...]] = Counter()
        for exchange in recording:
            self._replies.setdefault(exchange.asked, []).append(exchange)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Raises Unrecorded."""
        asked = request_lines(request.system, request.messages, self._session)
        replies = self._replies.get(asked)
        if replies is None:
            self.misses.append(self._difference(asked))
            raise Unrecorded(self.misses[-1])
        reply = replies[min(self._times[asked], len(replies) - 1)]
        self._times[asked] += 1
        for delta in reply.said:
            yield delta

    async def aclose(self) -> None:
        """Nothing is held open."""

    @property
    def unused(self) -> int:
        """How many recorded replies nobody has asked for."""
        return sum(max(0, len(replies) - self._times[asked]) for asked, replies in self._replies.items())

    def _difference(self, asked: tuple[str, ...]) -> str:
        if not self._recording:
            return "This request is not recorded: the recording holds no request at all."
        near = max(self._recording, key=lambda exchange: _likeness(exchange.asked, asked))
        lines = [line for line in unified_diff(near.asked, asked, "recorded", "asked now", lineterm="", n=2) if not line.startswith("@@")]
        more = [f"... and {len(lines) - MAX_DIFF} lines more"] if len(lines) > MAX_DIFF else []
        number = self._recording.index(near) + 1
        head = f"This request is not recorded. Beside request {number} of {len(self._recording)}, which is most like it:"
        return "\n".join([head, *lines[:MAX_DIFF], *more])


def _likeness(recorded: tuple[str, ...], asked: tuple[str, ...]) -> tuple[int, int]:
    """Requests of as many lines are most alike; among them those with the most lines in common."""
    return -abs(len(recorded) - len(asked)), sum((Counter(recorded) & Counter(asked)).values())


def request_lines(system: str | None, messages: Sequence[Message], session: str = "") -> tuple[str, ...]:
    """A request as lines to compare and to show. The id of the recorded session is an id like any other in a system prompt, unless it
    could as well be a word."""
    prompt = _TIMES.sub("<time>", _IDS.sub("<id>", system or ""))
    if re.search(r"\d", session):
        prompt = re.sub(rf"\b{re.escape(session)}\b", "<id>", prompt)
    lines = [f"system: {line}" for line in prompt.splitlines()]
    calls: dict[str, str] = {}
    for message in messages:
        answered = f" {calls.get(message.tool_call_id, '?')}" if message.tool_call_id else ""
        speaker = f"{message.role}{answered}{' (failed)' if message.is_error else ''}"
        lines += [f"{speaker}: {line}" for line in _content_lines(message)]
        for call in message.tool_calls:
            calls[call.id] = str(len(calls) + 1)
            arguments = call.arguments if isinstance(call.arguments, str) else canonical(call.arguments).decode()
            lines.append(f"{message.role} calls {calls[call.id]}: {call.name} {arguments}")
    return tuple(lines)


def _content_lines(message: Message) -> list[str]:
    if isinstance(message.content, str):
        text = message.content
    else:
        text = "\n".join(part["text"] if isinstance(part.get("text"), str) else canonical(part).decode() for part in message.content)
    lines = _IDS.sub("<id>", text).splitlines()
    return lines or ([] if message.tool_calls else [""])


def _reply(payload: Json, facts: Mapping[str, Any]) -> tuple[Delta, ...]:
    """The reply of an inference as deltas."""
    calls: list[Any] = payload.get("calls", [])
    deltas: list[Delta] = [Served(str(facts.get("model") or "recorded"))]
    deltas += [ReasoningDelta(part=part) for part in payload.get("reasoning", ())]
    if payload.get("text"):
        deltas.append(TextDelta(payload["text"]))
    for index, call in enumerate(calls):
        arguments: Any = call["arguments"]
        text = arguments if isinstance(arguments, str) else canonical(arguments).decode()
        deltas += [CallDelta(index, call["id"], call["name"]), CallDelta(index, arguments=text)]
    usage = fields(facts.get("usage"))
    if usage:
        deltas.append(Usage(**{name: usage[name] for name in _USAGE if usage.get(name) is not None}))
    return (*deltas, Finish(str(payload.get("finish") or "stop")))
