"""What the Anthropic Messages API answers, as deltas.

Law: events of a stream and a whole message become the same deltas. An error event, an end without a stop reason and an event
of another shape are failures of the model, never half an answer. Events that are not known are passed over, as the API asks.
No network here. Source: the Anthropic API reference, "Streaming Messages".
"""

from typing import Any, cast

from causeline.adapters.models.json_bodies import encode, error_of
from causeline.models.failures import BadReply, StreamCut, failed_finish
from causeline.models.messages import Json
from causeline.models.model import CallDelta, Delta, Finish, ReasoningDelta, Served, TextDelta, Usage
from causeline.models.unicode_text import Mender


class _Block:
    """A content block that is open: what has come of it."""

    __slots__ = ("call", "mender", "pieces", "signature", "start")

    def __init__(self, start: Json, call: int) -> None:
        self.start = start
        self.call = call
        self.mender = Mender()
        self.pieces: list[str] = []
        self.signature = ""


class AnthropicReader:
    """Events to deltas. One reader reads one reply of `model`; thinking is marked as given by `provider`."""

    def __init__(self, model: str, provider: str, request_id: str = "") -> None:
        self._model = model
        self._provider = provider
        self._request_id = request_id
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._said = False
        self._usage: Json = {}
        self._stop: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the stop reason was read."""
        return self._stop is not None

    @property
    def written(self) -> int:
        """Input tokens that were written to the provider's cache."""
        return _tokens(self._usage.get("cache_creation_input_tokens"))

    def read(self, event: Json, name: str = "message") -> list[Delta]:
        """Raises the ModelError of an error event, BadReply for an event of another shape."""
        kind = event.get("type", name)
        match kind:
            case "error":
                raise error_of(event, 200, self._model)
            case "message_start":
                return self._start(self._object(event, "message"))
            case "content_block_start":
                return self._open(self._index(event), self._object(event, "content_block"))
            case "content_block_delta":
                return self._piece(self._index(event), self._object(event, "delta"))
            case "content_block_stop":
                return self._close(self._index(event))
            case "message_delta":
                self._count(event.get("usage"))
                self._stopped(self._object(event, "delta"))
                return []
            case _:
                return []

    def end(self) -> list[Delta]:
        """The last deltas. Raises StreamCut for a reply that has not come to its end."""
        if self._stop is None:
            raise StreamCut(f"The reply of model {self._model} broke off before its end.", model=self._model)
        if (failed := failed_finish(self._stop, self._model)) is not None:
            raise failed
        deltas = [delta for index in list(self._blocks) for delta in self._close(index)]
        return [*deltas, *([self._total()] if self._usage else []), Finish(self._stop)]

    def read_whole(self, body: Json) -> list[Delta]:
        """A message that came in one piece."""
        if body.get("type") == "error" or body.get("error"):
            raise error_of(body, 200, self._model)
        deltas = self._start(body)
        content = body.get("content")
        if not isinstance(content, list):
            raise self._misshapen("content", content)
        for index, block in enumerate(cast(list[Any], content)):
            if not isinstance(block, dict):
                raise self._misshapen("content", block)
            deltas += [*self._open(index, cast(Json, block)), *self._close(index)]
        self._stopped(body)
        return deltas

    def _start(self, message: Json) -> list[Delta]:
        self._count(message.get("usage"))
        return [Served(str(message.get("model") or self._model), self._request_id or str(message.get("id") or ""))]

    def _stopped(self, delta: Json) -> None:
        reason = delta.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop = reason

    def _open(self, index: int, start: Json) -> list[Delta]:
        block = self._blocks[index] = _Block(start, self._calls)
        match start.get("type"):
            case "text":
                return self._text(block, start.get("text"))
            case "tool_use":
                self._calls += 1
                return [CallDelta(block.call, str(start.get("id") or ""), str(start.get("name") or ""))]
            case "thinking":
                block.signature = str(start.get("signature") or "")
                return self._thought(block, start.get("thinking"))
            case _:
                return []

    def _piece(self, index: int, delta: Json) -> list[Delta]:
        block = self._blocks.get(index)
        if block is None:
            raise self._misshapen("index", index)
        match delta.get("type"):
            case "text_delta":
                return self._text(block, delta.get("text"))
            case "input_json_delta":
                piece = block.mender.feed(str(delta.get("partial_json") or ""))
                block.pieces.append(piece)
                return [CallDelta(block.call, arguments=piece)] if piece else []
            case "thinking_delta":
                return self._thought(block, delta.get("thinking"))
            case "signature_delta":
                block.signature += str(delta.get("signature") or "")
                return []
            case _:
                return []

    def _text(self, block: _Block, piece: Any) -> list[Delta]:
        text = block.mender.feed(piece) if isinstance(piece, str) else ""
        self._said = self._said or bool(text.strip())
        return [TextDelta(text)] if text else []

    def _thought(self, block: _Block, piece: Any) -> list[Delta]:
        text = block.mender.feed(piece) if isinstance(piece, str) else ""
        block.pieces.append(text)
        return [ReasoningDelta(text)] if text else []

    def _close(self, index: int) -> list[Delta]:
        block = self._blocks.pop(index, None)
        if block is None:
            return []
        late = block.mender.end()
        match block.start.get("type"):
            case "text":
                return [TextDelta(late)] if late else []
            case "tool_use":
                given = block.start.get("input")
                whole = encode(given).decode() if given and not any(block.pieces) else late
                return [CallDelta(block.call, arguments=whole)] if whole else []
            case "thinking":
                words = "".join(block.pieces) + late
                kept = {"type": "thinking", "thinking": words, "signature": block.signature}
                return [*([ReasoningDelta(late)] if late else []), self._part(block, kept)]
            case "redacted_thinking":
                return [self._part(block, block.start)]
            case _:
                return []

    def _part(self, block: _Block, part: Json) -> Delta:
        return ReasoningDelta(part={"provider": self._provider, **part, "after": {"text": self._said, "calls": block.call}})

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage.update({key: value for key, value in cast(Json, usage).items() if value is not None})

    def _total(self) -> Usage:
        usage = self._usage
        read = _tokens(usage.get("cache_read_input_tokens"))
        details: Any = usage.get("output_tokens_details")
        return Usage(
            input_tokens=_tokens(usage.get("input_tokens")) + read + self.written,
            output_tokens=_tokens(usage.get("output_tokens")),
            cached_tokens=read,
            reasoning_tokens=_tokens(cast(Json, details).get("thinking_tokens")) if isinstance(details, dict) else 0,
        )

    def _index(self, event: Json) -> int:
        index = event.get("index")
        if not isinstance(index, int):
            raise self._misshapen("index", index)
        return index

    def _object(self, event: Json, name: str) -> Json:
        value = event.get(name)
        if not isinstance(value, dict):
            raise self._misshapen(name, value)
        return cast(Json, value)

    def _misshapen(self, place: str, value: Any) -> BadReply:
        return BadReply(f"Model {self._model} sent a reply of another shape: {place} is {str(value)[:100]!r}.", model=self._model)


def _tokens(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
