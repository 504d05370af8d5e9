"""What an OpenAI-compatible server answers, as deltas.

Law: read leniently where servers differ, and refused where a reply is not what it claims to be: a chunk of another shape,
an error in the middle, an end without a finish reason are failures of the model, never half an answer. No network here.
Source: the OpenAI API reference, "Chat Completions", and the documentation of the servers in `chat_servers`.
"""

from collections.abc import Sequence
from typing import Any, cast

from causeline.adapters.models.json_bodies import encode, error_of
from causeline.models.failures import BadReply, StreamCut, failed_finish
from causeline.models.messages import Json
from causeline.models.model import CallDelta, Delta, Finish, ReasoningDelta, Served, TextDelta, Usage
from causeline.models.unicode_text import Mender

_REASONING = ("reasoning_content", "reasoning")
"""The fields that servers put the words of reasoning in."""


class ChatReader:
    """Chunks of a streamed completion, or a whole one, to deltas. One reader reads one reply of `model`; reasoning is marked
    as given by `provider`."""

    def __init__(self, model: str, provider: str = "", request_id: str = "") -> None:
        self._model = model
        self._request_id = request_id
        self._served = False
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._said: list[str] = []
        self._choices = False
        self._whole = False
        self._text = Mender()
        self._thought = Mender()
        self._arguments: dict[int, Mender] = {}
        self._kept = _Kept(provider)

    @property
    def finished(self) -> bool:
        """Whether the finish reason was read: what is still to come can only be the usage."""
        return self._finish is not None

    def read(self, event: Json, name: str = "message") -> list[Delta]:
        """Raises the ModelError of a chunk that holds an error, BadReply for one of another shape."""
        if event.get("error") or "error" in (event.get("object"), event.get("type"), name):
            raise error_of(event, 200, self._model)
        deltas: list[Delta] = []
        if not self._served:
            self._served = True
            deltas.append(Served(str(event.get("model") or self._model), self._request_id or str(event.get("id") or "")))
        self._count(event)
        for choice in self._objects(event.get("choices"), "choices"):
            self._count(choice)
            if not choice.get("index"):
                self._choice(choice, deltas)
        return deltas

    def read_whole(self, body: Json) -> list[Delta]:
        """A completion that came in one piece, which cannot have been cut off."""
        self._whole = True
        return self.read(body)

    def end(self) -> list[Delta]:
        """The last deltas. Raises StreamCut for a reply that has not come to its end, BadReply for one with nothing in it."""
        if self._finish is None and not self._whole:
            raise StreamCut(f"The reply of model {self._model} broke off before its end.", model=self._model)
        if not self._choices:
            raise BadReply(f"Model {self._model} answered without a reply in it.", model=self._model)
        if (failed := failed_finish(self._finish or "", self._model)) is not None:
            raise failed
        deltas: list[Delta] = []
        if late := self._thought.end():
            deltas.append(ReasoningDelta(late))
        if late := self._text.end():
            deltas.append(TextDelta(late))
        deltas += [CallDelta(index, arguments=late) for index, mender in self._arguments.items() if (late := mender.end())]
        deltas += [ReasoningDelta(part=part) for part in self._kept.parts(list(self._arguments))]
        if self._usage is not None:
            deltas.append(self._usage)
        deltas.append(Finish(self._finish or ("tool_calls" if self._arguments else "stop")))
        return deltas

    def _count(self, record: Json) -> None:
        usage = record.get("usage")
        if isinstance(usage, dict) and usage:
            self._usage = usage_of(cast(Json, usage))

    def _choice(self, choice: Json, out: list[Delta]) -> None:
        if choice.get("error"):
            raise error_of(choice, 200, self._model)
        self._choices = True
        delta = self._object(choice.get("delta"), "delta")
        message = self._object(choice.get("message"), "message")
        if delta:
            self._delta(delta, out)
        elif message:
            self._delta(self._unsaid(message), out)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish = reason

    def _unsaid(self, message: Json) -> Json:
        """What a whole message adds to what was streamed: some servers close a stream with one."""
        said, whole = "".join(self._said), _plain(message.get("content"))
        rest = {**message}
        if said:
            rest["content"] = whole[len(said) :] if whole.startswith(said) else ""
            rest.pop("refusal", None)
        if self._arguments:
            rest.pop("tool_calls", None)
            rest.pop("function_call", None)
        if self._kept.any_words:
            rest = {key: value for key, value in rest.items() if key not in _REASONING}
        return rest

    def _delta(self, delta: Json, out: list[Delta]) -> None:
        content = delta.get("content")
        if isinstance(content, list):
            content = self._content_parts(cast(list[Any], content), out)
        words = self._kept.words(delta)
        if reasoning := self._thought.feed(words):
            out.append(ReasoningDelta(reasoning))
        if text := self._text.feed(_plain(content) or _plain(delta.get("refusal"))):
            self._said.append(text)
            out.append(TextDelta(text))
        calls = self._objects(delta.get("tool_calls"), "tool_calls")
        if not calls and isinstance(delta.get("function_call"), dict):
            calls = [{"index": 0, "function": delta["function_call"]}]
        out += [self._call(call, position) for position, call in enumerate(calls)]

    def _content_parts(self, parts: list[Any], out: list[Delta]) -> str:
        """The text of a content that is a list; parts of thinking (Mistral) are told as reasoning and kept."""
        for part in self._objects(parts, "content"):
            if part.get("type") == "thinking":
                self._kept.thinking_part(_plain(part.get("thinking")))
                if words := self._thought.feed(_plain(part.get("thinking"))):
                    out.append(ReasoningDelta(words))
        return _plain([part for part in parts if part.get("type") != "thinking"])

    def _call(self, call: Json, position: int) -> CallDelta:
        index = call.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else position
        function = self._object(call.get("function"), "function")
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else encode(arguments).decode()
        mender = self._arguments.setdefault(index, Mender())
        self._kept.beside_call(index, call)
        return CallDelta(index, _word(call.get("id")), _word(function.get("name")), mender.feed(text))

    def _objects(self, value: Any, place: str) -> list[Json]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._misshapen(place, value)
        for item in cast(list[Any], value):
            if not isinstance(item, dict):
                raise self._misshapen(place, value)
        return cast(list[Json], value)

    def _object(self, value: Any, place: str) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._misshapen(place, value)
        return cast(Json, value)

    def _misshapen(self, place: str, value: Any) -> BadReply:
        return BadReply(f"Model {self._model} sent a reply of another shape: {place} is {str(value)[:100]!r}.", model=self._model)


class _Kept:
    """What goes back to its server with the message: the words of reasoning, and whatever hangs on message and calls."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._field = ""
        self._words: list[str] = []
        self._thinking: list[str] = []
        self._details: list[Json] = []
        self._extra: dict[int | None, Any] = {}

    @property
    def any_words(self) -> bool:
        return bool(self._words)

    def words(self, delta: Json) -> str:
        """The words of reasoning in a delta. Details that belong to them are kept."""
        details = delta.get("reasoning_details")
        for detail in cast(list[Any], details) if isinstance(details, list) else ():
            if isinstance(detail, dict):
                _merge_detail(self._details, cast(Json, detail))
        if delta.get("extra_content"):
            self._extra[None] = delta["extra_content"]
        for name in _REASONING:
            if text := _plain(delta.get(name)):
                self._field = self._field or name
                self._words.append(text)
                return text
        return ""

    def thinking_part(self, words: str) -> None:
        self._thinking.append(words)

    def beside_call(self, index: int, call: Json) -> None:
        if call.get("extra_content"):
            self._extra[index] = call["extra_content"]

    def parts(self, calls: Sequence[int]) -> list[Json]:
        """As parts of a reply whose calls have these indexes."""
        parts: list[Json] = []
        if self._thinking:
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "".join(self._thinking)}]}
            parts.append({"field": "content", "value": thinking})
        if self._words:
            parts.append({"field": self._field, "value": "".join(self._words)})
        if self._details:
            parts.append({"field": "reasoning_details", "value": self._details})
        order = {index: place for place, index in enumerate(sorted(calls))}
        for index, extra in self._extra.items():
            parts.append({"field": "extra_content", **({} if index is None else {"call": order[index]}), "value": extra})
        return [{"provider": self._provider, **part} for part in parts]


def _merge_detail(details: list[Json], new: Json) -> None:
    """Pieces of one detail come one after another: texts are joined, the rest is replaced."""
    last = details[-1] if details else {}
    if not last or (last.get("type"), last.get("index")) != (new.get("type"), new.get("index")) or new.get("type") == "reasoning.encrypted":
        details.append({**new})
        return
    for key, value in new.items():
        if key in ("text", "summary") and isinstance(value, str) and isinstance(last.get(key), str):
            last[key] += value
        elif value is not None:
            last[key] = value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _plain(content: Any) -> str:
    """Text, or the text of parts."""
    if isinstance(content, list):
        return "".join(_plain(cast(Json, part).get("text")) for part in cast(list[Any], content) if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def usage_of(usage: Json) -> Usage:
    """Tokens and, where the server says, their cost."""
    cost = usage.get("cost")
    read, written = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = cast(Json, read).get("cached_tokens") if isinstance(read, dict) else None
    return Usage(
        input_tokens=_tokens(usage.get("prompt_tokens")),
        output_tokens=_tokens(usage.get("completion_tokens")),
        cached_tokens=_tokens(cached or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens")),
        reasoning_tokens=_tokens(cast(Json, written).get("reasoning_tokens")) if isinstance(written, dict) else 0,
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _tokens(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
