"""Wrapper: what a model thinks aloud in its text reaches nobody as text.

Law: the reply's text, its reasoning and its calls are those of the wrapped model, with reasoning told as reasoning. Where
a closing tag shows too late that a text was none, the text is taken back.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from causeline.models.model import CallDelta, Delta, Finish, ReasoningDelta, Request, Retracted, Served, TextDelta, Usage
from causeline.models.reasoning import Piece, ReasoningSplitter
from causeline.models.wrapper_model import WrapperModel

_PASSED_ON = frozenset({Served, ReasoningDelta, CallDelta})
TAKEN_BACK = "reasoning"
"""The reason of a retraction that is no failure: the text was reasoning."""


class ThinkingModel(WrapperModel):
    """`inner`, with `<think>` and its relatives told as reasoning."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        sorter = _Sorter()
        async with aclosing(self.inner.stream(request)) as deltas:
            async for delta in deltas:
                if type(delta) in _PASSED_ON:
                    sorter.others.append(delta)
                    yield delta
                    continue
                for sorted_delta in sorter.sort(delta):
                    yield sorted_delta


class _Sorter:
    """One reply's deltas, sorted anew. `others` are those that would have to be told again."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self._splitter = ReasoningSplitter()
        self.others: list[Delta] = []
        self._usage: Usage | None = None

    def sort(self, delta: Delta) -> list[Delta]:
        match delta:
            case TextDelta(text):
                return self._told(self._splitter.feed(text))
            case Finish():
                return [*self._told(self._splitter.end()), delta]
            case Retracted():
                self._restart()
            case Usage():
                self._usage = delta
            case _:
                pass
        return [delta]

    def _told(self, pieces: list[Piece]) -> list[Delta]:
        splitter = self._splitter
        if not splitter.voided:
            return [_delta(piece) for piece in pieces]
        splitter.voided = False
        again: list[Delta] = [Retracted(TAKEN_BACK), *self.others, ReasoningDelta(splitter.reasoning)]
        if self._usage is not None:  # Nothing was used up in vain: the fold would count it twice.
            again = [Usage(), *again, self._usage]
        return [*again, TextDelta(splitter.text)] if splitter.text else again


def _delta(piece: Piece) -> Delta:
    return ReasoningDelta(piece[1]) if piece[0] else TextDelta(piece[1])
