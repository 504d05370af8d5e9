"""A reply while it streams: what is told of it before it is whole.

Law: every message that was begun is ended or retracted, whatever becomes of the model call. What is told has a
UTF-8 form, however the provider cut its text. Nobody who listens can break the reply.
"""

import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from causeline.agent.react.conversation import Conversation
from causeline.errors import words_of
from causeline.events import RunEvent
from causeline.graph.engine.containment import from_outside
from causeline.graph.node import Context
from causeline.models.model import Attempt, CallDelta, Delta, Finish, ReasoningDelta, Reply, Retracted, Served, TextDelta, Usage
from causeline.models.stream import Fold
from causeline.models.unicode_text import Mender, mend
from causeline.run.scope import Patience

_UNTOLD = frozenset({Served, Usage, Finish})


class ReplyStream:
    """One model call's reply. `fold` holds what has come of it, `id` is the id of the message it becomes."""

    def __init__(self, ctx: Context, talk: Conversation) -> None:
        self.fold = Fold()
        self._ctx = ctx
        self._talk = talk
        self._scope = talk.scope
        self._patience = ctx.find(Patience)
        self._on_token = talk.options.on_token
        self._attempt = -1
        self._failed = 0
        self._waits = False
        self.id = ""
        self._text: Mender | None = None
        self._reasoning: Mender | None = None
        self._calls: dict[int, Mender] = {}
        self._told = False
        self._again()

    async def listen(self, deltas: AsyncGenerator[Delta, None]) -> Reply:
        """Tell of every delta, and return the whole reply. Closes the stream; raises what the model raises. A provider that asked
        for time gets the rest of it, also from a process that takes the run over."""
        if self._patience is not None:
            with self._ctx.giving_way(self._patience.is_waiting):
                await self._patience.wait_out()
        try:
            async with aclosing(deltas):
                while (delta := await (self._next(deltas) if self._waits else anext(deltas, None))) is not None:
                    self.fold.add(delta)
                    if isinstance(delta, CallDelta):
                        self._call(delta.index, delta.name, delta.arguments)
                    elif type(delta) not in _UNTOLD:
                        await self._tell(delta)
        except BaseException:
            self._retract()
            raise
        if self._text is not None:
            await self._end_text()
        self._end_reasoning()
        for index, mender in self._calls.items():
            self._say_late(mender, "tool_call_delta", index=index)
        if self._attempt:
            self._talk.begun_anew(self._ctx.path[0], self._attempt)
        return self.fold.reply()

    async def _next(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """The next delta after a wait, None at the end. Raises HandBack where the model only waits to try again, and none may begin."""
        self._waits = False
        if self._patience is None:
            return await anext(deltas, None)
        with self._ctx.giving_way(self._patience.is_waiting):
            return await anext(deltas, None)

    async def _tell(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                await self._speak(text)
            case ReasoningDelta(text):
                self._think(text)
            case Retracted():
                self._retract()
                self._again()
            case Attempt(code=code, wait=wait):
                self._failed += 1
                self._ctx.emit(RunEvent(type="model_retry", attempt=self._failed, wait=wait or 0.0, code=code))
                self._waits = bool(wait)
                if wait and self._patience is not None:
                    await self._patience.waiting(self._ctx.step, wait)
            case _:
                pass

    async def _speak(self, text: str) -> None:
        if not text:
            return
        self._end_reasoning()
        if self._text is None:
            self._text = Mender()
            self._say("text_message_start", role="assistant")
        text = self._text.feed(text)
        if text:
            self._say("text_message_content", delta=text)
            await self._token(text)

    async def _end_text(self) -> None:
        if self._text is None:
            return
        late = self._text.end()
        if late:
            self._say("text_message_content", delta=late)
            await self._token(late)
        self._say("text_message_end")
        self._text = None

    def _think(self, text: str) -> None:
        if not text:
            return
        if self._reasoning is None:
            self._reasoning = Mender()
            self._say("reasoning_start")
        text = self._reasoning.feed(text)
        if text:
            self._say("reasoning_content", delta=text)

    def _end_reasoning(self) -> None:
        if self._reasoning is None:
            return
        self._say_late(self._reasoning, "reasoning_content")
        self._say("reasoning_end")
        self._reasoning = None

    def _call(self, index: int, name: str, arguments: str) -> None:
        known = self._calls.get(index)
        mender = self._calls[index] = known or Mender()
        piece = mender.feed(arguments)
        if piece or known is None:
            self._say("tool_call_delta", index=index, delta=piece, **({} if known else {"name": mend(name)}))

    def _say_late(self, mender: Mender, kind: str, **fields: Any) -> None:
        late = mender.end()
        if late:
            self._say(kind, delta=late, **fields)

    def _say(self, kind: str, **fields: Any) -> None:
        self._told = True
        self._ctx.emit(RunEvent(type=kind, message_id=self.id, **fields))

    def _retract(self) -> None:
        """Nothing told so far counts."""
        if self._told:
            self._say("message_retracted")

    def _again(self) -> None:
        """Speak under an id that was not used before."""
        self.id, used = "", self._scope.retracted
        while not self.id or self.id in used:
            self._attempt += 1
            self.id = self._talk.reply_id(self._ctx.step, self._attempt)
        self._text = self._reasoning = None
        self._calls.clear()
        self._told = False

    async def _token(self, text: str) -> None:
        if self._on_token is None:
            return
        try:
            said = self._on_token(text)
            if inspect.isawaitable(said):
                await said
        except BaseException as error:
            if from_outside(error):
                raise
            self._scope.facts_at(self._ctx.path[0])["on_token_error"] = f"{type(error).__name__}: {words_of(error)}"[
                :200
            ]  # it has no say in the run
