"""The laws themselves. Each test is one promise."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from causeline.errors import Refused, Unavailable
from causeline.models.failures import ModelError
from causeline.models.messages import Message
from causeline.models.model import CONTENT, Attempt, Delta, Finish, Model, Reply, Request, Retracted, TextDelta, Usage
from causeline.models.stream import Fold, collect, fold


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A model and a request it answers with at least three pieces of text.

    `failing` is a request the model fails on, `retracting` one whose first try breaks off in the middle and is made again.
    `repeatable` says that equal requests get equal replies.
    """

    model: Model
    request: Request
    failing: Request | None = None
    retracting: Request | None = None
    repeatable: bool = True


class _Watched(Sequence[Message]):
    """A read-only history that notices being changed: there is no way to."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages: Any = tuple(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        return self._messages[index]


def _said(reply: Reply) -> tuple[object, ...]:
    return reply.text, [(call.name, call.arguments) for call in reply.calls], reply.finish


async def _deltas(case: ModelCase, request: Request | None = None) -> list[Delta]:
    async with aclosing(case.model.stream(request or case.request)) as stream:
        return [delta async for delta in stream]


class ModelLaws:
    """What every Model promises. Subclass it with a fixture `case` that gives a ModelCase."""

    async def test_it_is_a_model_with_a_name(self, case: ModelCase) -> None:
        assert isinstance(case.model, Model)
        assert case.model.name

    async def test_the_last_delta_is_the_only_finish(self, case: ModelCase) -> None:
        deltas = await _deltas(case)
        assert [type(delta) for delta in deltas].count(Finish) == 1
        assert isinstance(deltas[-1], Finish)

    async def test_the_reply_is_what_was_streamed(self, case: ModelCase) -> None:
        deltas = await _deltas(case)
        reply = fold(deltas)
        assert reply.text == "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        assert sum(isinstance(delta, TextDelta) for delta in deltas) >= 3
        assert not reply.empty
        assert reply.model

    async def test_every_prefix_of_the_stream_folds_to_a_prefix_of_the_reply(self, case: ModelCase) -> None:
        deltas = await _deltas(case)
        state, whole = Fold(), fold(deltas)
        for delta in deltas:
            state.add(delta)
            assert whole.text.startswith(state.reply().text)

    async def test_usage_is_reported(self, case: ModelCase) -> None:
        deltas = await _deltas(case)
        assert any(isinstance(delta, Usage) for delta in deltas)
        usage = fold(deltas).usage
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0

    async def test_a_request_is_only_read(self, case: ModelCase) -> None:
        request = Request(
            _Watched(case.request.messages), system=case.request.system, tools=tuple(case.request.tools), max_tokens=case.request.max_tokens
        )
        assert (await collect(case.model.stream(request))).text

    async def test_equal_requests_get_equal_replies(self, case: ModelCase) -> None:
        if not case.repeatable:
            pytest.skip("this model's replies vary")
        assert _said(await collect(case.model.stream(case.request))) == _said(await collect(case.model.stream(case.request)))

    async def test_two_streams_at_once_do_not_mix(self, case: ModelCase) -> None:
        alone = await collect(case.model.stream(case.request))
        both = await asyncio.gather(*(collect(case.model.stream(case.request)) for _ in range(2)))
        if case.repeatable:
            assert [_said(reply) for reply in both] == [_said(alone)] * 2
        assert all(reply.text for reply in both)

    async def test_a_closed_stream_is_over_and_the_model_goes_on(self, case: ModelCase) -> None:
        stream = case.model.stream(case.request)
        async for delta in stream:
            if type(delta) in CONTENT:
                break
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert (await collect(case.model.stream(case.request))).text

    async def test_cancelling_the_reader_ends_the_stream_and_the_model_goes_on(self, case: ModelCase) -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async with aclosing(case.model.stream(case.request)) as stream:
                async for delta in stream:
                    if type(delta) in CONTENT:
                        begun.set()
                        await asyncio.Event().wait()

        reader = asyncio.create_task(read())
        await begun.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (await collect(case.model.stream(case.request))).text

    async def test_a_failure_is_a_model_error_of_a_kind_that_says_who_must_act(self, case: ModelCase) -> None:
        if case.failing is None:
            pytest.skip("the case has no failing request")
        with pytest.raises(ModelError) as caught:
            await collect(case.model.stream(case.failing))
        assert isinstance(caught.value, Unavailable | Refused)
        assert caught.value.code
        assert (await collect(case.model.stream(case.request))).text

    async def test_what_was_retracted_is_not_in_the_reply(self, case: ModelCase) -> None:
        if case.retracting is None:
            pytest.skip("the case has no request that is retracted")
        deltas = await _deltas(case, case.retracting)
        places = [place for place, delta in enumerate(deltas) if isinstance(delta, Retracted)]
        assert places
        void = "".join(delta.text for delta in deltas[: places[-1]] if isinstance(delta, TextDelta))
        reply = fold(deltas)
        assert void
        assert reply.text == "".join(delta.text for delta in deltas[places[-1] :] if isinstance(delta, TextDelta))
        assert list(reply.attempts) == [delta for delta in deltas if isinstance(delta, Attempt)] != []

    async def test_closing_twice_is_closing_once(self, case: ModelCase) -> None:
        await collect(case.model.stream(case.request))
        await case.model.aclose()
        await case.model.aclose()
