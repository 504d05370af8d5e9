"""Wrapper: try the same model again.

Law: what to do is decided by the failure's kind and the policy; what was already streamed is taken back
before the next try; the last error lists every try in `facts["attempts"]`.
"""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from causeline.models.failures import ModelError
from causeline.models.model import CONTENT, Attempt, Delta, Model, Request, Retracted
from causeline.models.wrapper_model import WrapperModel
from causeline.policy import Clock, GiveUp, RetryPolicy, error_names

MAX_WAIT = 120.0
"""Seconds. A provider may ask for an hour; it is waited for so long at most, and the Attempt says what was asked for."""


class RetryModel(WrapperModel):
    """`model`, tried again as `policy` says. Before each wait an Attempt says how long it is, in seconds."""

    def __init__(self, model: Model, policy: RetryPolicy, *, clock: Clock, random: Callable[[], float] = random.random) -> None:
        super().__init__(model)
        self._policy = policy
        self._clock = clock
        self._random = random

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        attempts: list[Attempt] = []
        wait = 0.0
        while True:
            attempt = replace(request, attempt=request.attempt + len(attempts)) if attempts else request
            streamed = False
            try:
                async with aclosing(self.inner.stream(attempt)) as deltas:
                    async for delta in deltas:
                        kind = type(delta)
                        streamed = (streamed or kind in CONTENT) and kind is not Retracted
                        yield delta
                return
            except ModelError as error:
                decision = self._policy.decide(
                    error_names(error), len(attempts) + 1, retryable=error.retryable,
                    retry_after=getattr(error, "retry_after", None), previous=wait, random=self._random,
                )  # fmt: skip
                if isinstance(decision, GiveUp):
                    error.facts["attempts"] = [*(entry.to_json() for entry in attempts), *tries_of(error, self.name)]
                    raise
                wait = decision.seconds
                attempts.append(Attempt(self.name, error.code, _told(error, wait), wait))
            if streamed:
                yield Retracted(attempts[-1].code)
            yield attempts[-1]
            await self._clock.sleep(wait)


def _told(error: ModelError, wait: float) -> str:
    asked = getattr(error, "retry_after", None)
    return error.message if asked is None or asked <= wait else f"{error.message} (asked to wait {asked:g} s, waits {wait:g} s)"


def tries_of(error: ModelError, model: str) -> list[object]:
    """The tries an error stands for: those its raiser listed, else itself."""
    return error.facts.get("attempts") or [Attempt(model, error.code, error.message).to_json()]
