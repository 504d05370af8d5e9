"""From deltas to a Reply: the same law for every provider.

Law: pure, and blind to how the reply was cut into pieces. Cutting a text or an argument anywhere, or
interleaving the pieces of several calls, gives the same Reply.

A call begins with a name, and a name that comes again begins no other one: another call at the same index needs
another name, another id, or arguments of its own after a call that is whole. A piece without a name belongs to the
call with its id, else to the latest one at its index, whatever id it has. Equal ids at two indexes are two calls.
Ids are reported as they came in `provider_ids`; in `calls` a repeated one is "".
"""

import json
from collections.abc import AsyncIterable, Iterable
from typing import Any, NoReturn, cast

from causeline.causal import InvalidValue, canonical
from causeline.models.messages import Json, ToolCall
from causeline.models.model import Attempt, CallDelta, Delta, Finish, ReasoningDelta, Reply, Retracted, Served, TextDelta, Usage
from causeline.models.reasoning import split_reasoning
from causeline.models.unicode_text import is_clean, mend, mend_value

_NOTHING = Usage()
_NOBODY = Served("")
_FINISH = {
    "": "stop", "end_turn": "stop", "stop_sequence": "stop", "eos": "stop", "eos_token": "stop", "completed": "stop", "done": "stop",
    "function_call": "tool_calls", "tool_use": "tool_calls", "tool_call": "tool_calls",
    "max_tokens": "length", "max_output_tokens": "length", "model_length": "length", "model_context_window_exceeded": "length",
    "refusal": "content_filter", "safety": "content_filter", "recitation": "content_filter", "prohibited_content": "content_filter",
    "blocklist": "content_filter", "spii": "content_filter", "sensitive": "content_filter",
}  # fmt: skip
FINISHES = frozenset({"stop", "tool_calls", "length", "content_filter"})
"""The words a reply may end with; any other one is the provider's own, and nobody knows whether the reply is whole."""


def _not_json(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise ValueError(f"{text} is too big for a number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_not_json, parse_float=_finite)


def read_json(text: str) -> Any:
    """The JSON value `text` is, by the strict rules: no NaN, no infinite numbers, no lone surrogates.

    Raises ValueError, whatever is wrong with the text (too deep a nesting too).
    """
    try:
        value = _DECODER.decode(text.strip())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    escaped = "\\ud" in text or "\\uD" in text
    if not is_clean(json.dumps(value, ensure_ascii=False) if escaped else text):
        raise ValueError("holds a lone surrogate")
    return value


def parse_arguments(text: str) -> Json | str:
    """The arguments object `text` is, or `text` itself where it is not exactly one JSON object.

    No text at all is the empty object: that is how several providers write a call without arguments.
    """
    if not text.strip():
        return {}
    try:
        value = read_json(text)
    except ValueError:
        return text
    return cast(Json, value) if isinstance(value, dict) else text


def finish_word(reason: str) -> str:
    """One of FINISHES for a provider's word, or else that word."""
    known = reason.lower()
    return known if known in FINISHES else _FINISH.get(known, reason)


class _Partial:
    __slots__ = ("id", "index", "name", "pieces")

    def __init__(self, index: int, id: str) -> None:
        self.index, self.id, self.name = index, id, ""
        self.pieces: list[str] = []

    def complete(self) -> bool:
        """Whether the arguments so far are one whole JSON object."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return isinstance(parse_arguments("".join(self.pieces)), dict)


class Fold:
    """Collects one reply. `add` every delta, then `reply()`; calling it early gives what there is so far."""

    def __init__(self) -> None:
        self._lost = _NOTHING
        self._attempts: list[Attempt] = []
        self._clear()

    def _clear(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._parts: list[Json] = []
        self._calls: list[_Partial] = []
        self._at_index: dict[int, _Partial] = {}
        self._by_key: dict[tuple[int, str], _Partial] = {}
        self._repeated: dict[int, CallDelta] = {}
        self._usage = _NOTHING
        self._served = _NOBODY
        self._finish: str | None = None

    def add(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
        elif isinstance(delta, CallDelta):
            self._call(delta)
        elif isinstance(delta, Usage):
            self._usage = delta
        elif isinstance(delta, Finish):
            self._finish = delta.reason
        elif isinstance(delta, Served):
            self._served = delta
        elif isinstance(delta, ReasoningDelta):
            self._reasoning.append(delta.text)
            if delta.part is not None:
                self._parts.append(delta.part)
        elif isinstance(delta, Attempt):
            self._attempts.append(delta)
        elif type(delta) is Retracted:
            self._lost += self._usage
            self._clear()

    def _call(self, piece: CallDelta) -> None:
        call = self._by_key.get((piece.index, piece.id)) if piece.id else None
        if call is None:
            call = self._at_index.get(piece.index)
            if call is None or (piece.name and self._begins_another(call, piece)):
                call = self._open(piece)
            elif not piece.name and piece.index in self._repeated and piece.arguments.strip():
                call = self._open(self._repeated[piece.index])
        self._at_index[piece.index] = call
        if piece.id and self._repeated.get(piece.index) is not piece:
            self._by_key[piece.index, piece.id] = call
        if piece.name and piece.name != call.name:
            call.name += piece.name
        if piece.id and not call.id:
            call.id = piece.id
        if piece.arguments:
            call.pieces.append(piece.arguments)

    def _open(self, piece: CallDelta) -> _Partial:
        self._repeated.pop(piece.index, None)
        call = _Partial(piece.index, piece.id)
        call.name = piece.name
        self._calls.append(call)
        return call

    def _begins_another(self, call: _Partial, piece: CallDelta) -> bool:
        """Whether a piece with a name is a call of its own, beside the one that is open at its index."""
        other_id = bool(piece.id and call.id and piece.id != call.id)
        if piece.name != call.name:
            return bool(call.name) and (other_id or call.complete() or not (piece.id or call.id))
        if not call.pieces or not (other_id or (call.complete() and not call.id)):
            return False
        if not piece.arguments.strip():
            # The name once more at the end, or the beginning of another call: arguments will tell, or their absence.
            self._repeated[piece.index] = piece
            return False
        return True

    @property
    def started(self) -> bool:
        """Whether anything of this reply was streamed that a retraction would have to take back."""
        return bool(self._text or self._calls or self._reasoning)

    def reply(self) -> Reply:
        partials = [call for call in self._calls if call.name or call.pieces]
        finish = finish_word(self._finish or "")
        calls: tuple[ToolCall, ...] = ()
        if partials:
            partials.sort(key=_index)
            calls = _finished(partials, cut=finish not in ("stop", "tool_calls"))
            finish = "tool_calls" if finish == "stop" else finish
        thought, text = split_reasoning(mend("".join(self._text))) if self._text else ("", "")
        reasoning = "\n\n".join([said for said in (mend("".join(self._reasoning)), thought) if said]) if self._reasoning else thought
        return Reply(
            text=text,
            calls=calls,
            finish=finish,
            usage=self._usage if self._lost is _NOTHING else self._lost + self._usage,
            reasoning=reasoning,
            parts=_kept(self._parts, reasoning),
            provider_ids=tuple([mend(call.id) for call in partials]) if partials else (),
            model=self._served.model,
            request_id=self._served.request_id,
            attempts=tuple(self._attempts),
        )


def _index(call: _Partial) -> int:
    return call.index


def _kept(parts: list[Json], reasoning: str) -> tuple[Json, ...]:
    """Reasoning as the log keeps it: the parts the provider gave, or else the words."""
    if not parts:
        return ({"type": "text", "text": reasoning},) if reasoning else ()
    return tuple(part for part in map(_plain, parts) if part is not None)


def _plain(part: Json) -> Json | None:
    """The part with its texts mended; None if the log could not hold it."""
    mended: Json = mend_value(part)
    try:
        canonical(mended)
    except InvalidValue:
        return None
    return mended


def _finished(partials: list[_Partial], *, cut: bool) -> tuple[ToolCall, ...]:
    """The calls, whole. After a cut, a last call without arguments is not a call without arguments."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for call in partials:
        text = mend("".join(call.pieces))
        arguments = text if cut and call is partials[-1] and not text.strip() else parse_arguments(text)
        calls.append(ToolCall("" if call.id in seen else mend(call.id), mend(call.name), arguments))
        seen.add(call.id)
    return tuple(calls)


def fold(deltas: Iterable[Delta]) -> Reply:
    """The Reply these deltas make."""
    state = Fold()
    for delta in deltas:
        state.add(delta)
    return state.reply()


async def collect(deltas: AsyncIterable[Delta]) -> Reply:
    """The Reply a stream makes, read to its end."""
    state = Fold()
    async for delta in deltas:
        state.add(delta)
    return state.reply()
