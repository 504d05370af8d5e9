"""Trying a call again.

Law: only errors are tried again. A failure a tool returned in its own words, a cancel, and an attempt that
still runs are not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from causeline.policy import After, RetryPolicy, error_names

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


async def with_retries(attempt: Callable[[int], Awaitable[T]], retries: int, *, sleep: Sleep = asyncio.sleep) -> T:
    """`attempt(n)` for n = 1 and, after errors, up to `retries` times more. Raises the last attempt's error.

    Waits a quarter of a second, then twice as long each time, at most ten seconds, or what the error's `retry_after` says.
    An error with `retryable = False` is final.
    """
    policy = RetryPolicy(max_attempts=retries + 1, base_delay=0.25, max_delay=10.0)
    number = 1
    while True:
        try:
            return await attempt(number)
        except Exception as error:
            retryable, after = getattr(error, "retryable", None), getattr(error, "retry_after", None)
            seconds = after if isinstance(after, int | float) else None
            decision = policy.decide(error_names(error), number, retryable=retryable, retry_after=seconds)
            if not isinstance(decision, After):
                raise
        await sleep(decision.seconds)
        number += 1
